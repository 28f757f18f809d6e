//! What a node must hear from its cluster before its first start can go on: the prefixes of its
//! pods, where the cluster gives them. Later starts know them from the state directory and ask
//! nobody.
//!
//! Whoever is to say them is waited for as long as it takes: no pod can start here without.

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::time::sleep;
use volvox_actors::{
    cluster::{Feed, further},
    ipam::Pools,
    node::{IpamMode, PodCidrs},
    ports::ClusterError,
    publish::{PublishSettings, new_cilium_node},
};

use crate::{
    config::{Config, Range},
    ports::cluster::{Access, Connection},
};

/// The first pause between two looks; the next ones are twice as long each.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Which prefixes the cluster is to say, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    mode: IpamMode,
    ipv4: bool,
    ipv6: bool,
}

impl Wanted {
    /// What neither flags nor the life before say; `None` if that is all.
    fn of(config: &Config, known: Pools) -> Option<Self> {
        let given = config.ipam.map(IpamMode::from);
        let is_asked = |required| given.is_some() || required;
        let ipv4 = config.enable_ipv4
            && is_asked(config.k8s_require_ipv4_pod_cidr)
            && config.ipv4_range == Range::Auto
            && known.ipv4.is_none();
        let ipv6 = config.enable_ipv6
            && is_asked(config.k8s_require_ipv6_pod_cidr)
            && config.ipv6_range == Range::Auto
            && known.ipv6.is_none();
        let mode = given.unwrap_or(IpamMode::Kubernetes);
        (ipv4 || ipv6).then_some(Self { mode, ipv4, ipv6 })
    }

    /// What is missing, in words that say what to do.
    fn lacks(self, said: Pools) -> Option<&'static str> {
        if self.ipv4 && said.ipv4.is_none() {
            Some(
                "no IPv4 prefix yet: have it allocated, or say --ipv4-range or --enable-ipv4=false",
            )
        } else if self.ipv6 && said.ipv6.is_none() {
            Some(
                "no IPv6 prefix yet: have it allocated, or say --ipv6-range or --enable-ipv6=false",
            )
        } else {
            None
        }
    }
}

/// The prefixes that the cluster gives this node, as far as it is to be asked; `known` are those of
/// the life before.
pub fn wait(config: &Config, known: Pools, publish: &PublishSettings) -> anyhow::Result<Pools> {
    let Some(wanted) = Wanted::of(config, known) else { return Ok(Pools::default()) };
    let access = Access::of(config).with_context(|| {
        format!(
            "pods' prefixes are to come from a cluster ({}), but none is named: say \
             --k8s-kubeconfig-path, or choose them by --ipv4-range and --ipv6-range",
            wanted.mode
        )
    })?;
    let connection = Connection::new(access);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let (mut pause, mut tries) = (PAUSE, 0_u32);
        loop {
            let why = match ask(&connection, wanted.mode, config, publish).await {
                Ok(PodCidrs { pools, problems }) => match wanted.lacks(pools) {
                    None => return pools,
                    Some(lacks) => {
                        let problems = problems.iter().map(|problem| format!("; {problem}"));
                        format!("there is {lacks}{}", problems.collect::<String>())
                    }
                },
                Err(error) => error.to_string(),
            };
            tries += 1;
            if tries.is_power_of_two() {
                let (node, mode) = (&publish.node_name, wanted.mode);
                tracing::warn!(%node, %mode, why, tries, "waiting for the prefixes of pods");
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }))
}

async fn ask(
    connection: &Connection,
    mode: IpamMode,
    config: &Config,
    publish: &PublishSettings,
) -> Result<PodCidrs, ClusterError> {
    let node = own(connection, Feed::Node, publish).await?;
    let missing = || ClusterError::NotFound(format!("Node {}", publish.node_name));
    match mode {
        IpamMode::Kubernetes => {
            Ok(PodCidrs::of_node(&node.ok_or_else(missing)?, config.annotate_k8s_node))
        }
        IpamMode::ClusterPool => match own(connection, Feed::CiliumNode, publish).await? {
            Some(cilium_node) => Ok(PodCidrs::of_cilium_node(&cilium_node)),
            None if publish.cilium_node => {
                // Its operator gives prefixes to CiliumNodes that are there.
                let new = new_cilium_node(publish, &node.ok_or_else(missing)?);
                connection.write(&new).await?;
                Ok(PodCidrs::default())
            }
            None => Err(ClusterError::NotFound(format!("CiliumNode {}", publish.node_name))),
        },
    }
}

/// This node's own object, if there is one.
async fn own(
    connection: &Connection,
    feed: Feed,
    publish: &PublishSettings,
) -> Result<Option<Value>, ClusterError> {
    let all = further(&publish.node_name).into_iter().filter(|(other, _)| *other == feed);
    let mut own = None;
    for resource in all.flat_map(|(_, forms)| forms) {
        let page = connection.list(&resource, None).await?;
        own = page.objects.into_iter().find(|object| object.key.name == publish.node_name);
    }
    Ok(own.map(|object| object.value))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn wanted(flags: &[&str], known: Pools) -> Option<Wanted> {
        let all = ["volvox-agent"].iter().chain(flags).map(|flag| OsString::from(*flag));
        Wanted::of(&crate::config::load(all, |_| None).unwrap().config, known)
    }

    #[test]
    fn the_cluster_is_asked_for_what_neither_flags_nor_an_earlier_life_say() {
        let nothing = Pools::default();
        assert_eq!(wanted(&[], nothing), None);
        let both = Some(Wanted { mode: IpamMode::ClusterPool, ipv4: true, ipv6: true });
        assert_eq!(wanted(&["--ipam=cluster-pool"], nothing), both);
        let ipv4 = Some(Wanted { mode: IpamMode::Kubernetes, ipv4: true, ipv6: false });
        assert_eq!(wanted(&["--k8s-require-ipv4-pod-cidr"], nothing), ipv4);
        assert_eq!(wanted(&["--ipam=kubernetes", "--enable-ipv6=false"], nothing), ipv4);
        assert_eq!(wanted(&["--ipam=kubernetes", "--ipv6-range=fd00::/96"], nothing), ipv4);
        let known = Pools { ipv4: None, ipv6: "fd00::/96".parse().ok() };
        assert_eq!(wanted(&["--ipam=kubernetes"], known), ipv4);
        let known = Pools { ipv4: "10.1.0.0/24".parse().ok(), ..known };
        assert_eq!(wanted(&["--ipam=kubernetes"], known), None);
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let wanted = Wanted { mode: IpamMode::Kubernetes, ipv4: true, ipv6: true };
        assert!(wanted.lacks(Pools::default()).unwrap().contains("--ipv4-range"));
        let ipv4 = Pools { ipv4: "10.1.0.0/24".parse().ok(), ipv6: None };
        assert!(wanted.lacks(ipv4).unwrap().contains("--enable-ipv6=false"));
        assert_eq!(Wanted { ipv6: false, ..wanted }.lacks(ipv4), None);
    }

    #[test]
    fn without_a_cluster_it_is_said_where_prefixes_can_come_from() {
        let config = Config { ipam: Some(crate::config::Ipam::Kubernetes), ..Config::defaults() };
        let config = Config { enable_k8s: false, ..config };
        let publish = crate::settings::publish(&config, &Default::default());
        let error = wait(&config, Pools::default(), &publish).unwrap_err().to_string();
        assert!(
            error.contains("--k8s-kubeconfig-path") && error.contains("--ipv4-range"),
            "{error}"
        );
    }
}
