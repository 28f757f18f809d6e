//! How it stands with several pools of addresses, where there are several.

use volvox_actors::{cluster::own_prefixes::OwnPrefixesMsg, endpoints::ipam::IpamMsg};
use volvox_rest::models::PodPools;

use super::{Api, troubles::Trouble};
use crate::gateway::GatewayError;

/// What IPAM and the owner of this node's prefixes say; nothing where there is one pool.
pub(super) async fn gather(
    api: &Api,
    what: &'static str,
) -> Result<Option<PodPools>, GatewayError> {
    let view = api.gateway.ask_if(what, |node| node.own_prefixes.as_ref(), OwnPrefixesMsg::Show);
    let Some(view) = view.await? else { return Ok(None) };
    let demand = api.gateway.ask(what, |node| &node.ipam, IpamMsg::Demand).await?;
    Ok(Some(PodPools::new(&view, &demand)))
}

/// What is wrong with prefixes.
pub(super) fn trouble(pools: &PodPools) -> Option<Trouble> {
    let text = format!("prefixes of pools: {}", pools.trouble);
    (!pools.trouble.is_empty()).then(|| Trouble::new("pod-ip-pools", 1, text))
}

/// One line for people: how much of each pool is used.
pub(super) fn line(pools: &PodPools) -> String {
    let one = |it: &volvox_rest::models::PodPool| {
        let family = if it.family == "ipv4" { "IPv4" } else { "IPv6" };
        format!("{family}: {}/{} allocated from pool {}, ", it.used, it.capacity, it.pool)
    };
    pools.pools.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use volvox_rest::models::PodPool;

    use super::*;

    #[test]
    fn pools_are_shown_in_words() {
        let blue = PodPool {
            pool: "blue".to_owned(),
            family: "ipv4".to_owned(),
            capacity: 14,
            used: 3,
            ..PodPool::default()
        };
        let mut pools = PodPools { pools: vec![blue], ..PodPools::default() };
        assert_eq!(line(&pools), "IPv4: 3/14 allocated from pool blue, ");
        assert!(trouble(&pools).is_none());
        pools.trouble = "used up".to_owned();
        assert_eq!(trouble(&pools).unwrap().text, "prefixes of pools: used up");
    }
}
