//! Flags of several pools of addresses, and of who has to say prefixes.

use std::collections::BTreeMap;

use clap::{ArgAction, Args};
use serde::Serialize;

/// The pool of which addresses are retained ahead if nobody says anything, and how many.
const AHEAD: u32 = 8;

/// Flags of `--ipam=multi-pool`, and what a Node has to say.
#[derive(Clone, Debug, Args, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PoolOptions {
    /// With --ipam=multi-pool, the pool of pods that name none, and of the node itself
    #[arg(long, value_name = "POOL", default_value = "default")]
    #[serde(rename = "IPAMDefaultIPPool")]
    pub ipam_default_ip_pool: String,

    /// With --ipam=multi-pool, how many addresses of each pool are to be free at least, as
    /// default=8,blue=16; if not given, 8 of the default one
    #[arg(long, value_name = "LIST", default_value = "", value_parser = parse_pre_allocation)]
    #[serde(rename = "IPAMMultiPoolPreAllocation")]
    pub ipam_multi_pool_pre_allocation: PreAllocation,

    /// Whether the IPv4 prefix is to come from this node's Node, whatever --ipam says
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "K8sRequireIPv4PodCIDR")]
    pub k8s_require_ipv4_pod_cidr: bool,

    /// The same for the IPv6 prefix
    #[arg(long, action = ArgAction::Set, default_value = "false", value_name = "BOOL")]
    #[serde(rename = "K8sRequireIPv6PodCIDR")]
    pub k8s_require_ipv6_pod_cidr: bool,
}

/// How many addresses are to be free, by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PreAllocation(pub BTreeMap<String, u32>);

impl PoolOptions {
    /// How many addresses are to be free, by pool.
    pub fn pre_allocation(&self) -> BTreeMap<String, u32> {
        let said = &self.ipam_multi_pool_pre_allocation.0;
        match said.is_empty() {
            true => BTreeMap::from([(self.ipam_default_ip_pool.clone(), AHEAD)]),
            false => said.clone(),
        }
    }
}

/// Reads `default=8,blue=16`; a colon does as well, and JSON.
fn parse_pre_allocation(text: &str) -> Result<PreAllocation, String> {
    let text = text.trim().trim_start_matches('{').trim_end_matches('}');
    let mut all = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let wrong = || format!("{part:?} says of no pool how many: write for example default=8");
        let (pool, count) = part.split_once(['=', ':']).ok_or_else(wrong)?;
        let clean = |text: &str| text.trim().trim_matches('"').trim().to_owned();
        let (pool, count) = (clean(pool), clean(count));
        let count = count.parse().map_err(|_| wrong())?;
        if pool.is_empty() {
            return Err(wrong());
        }
        all.insert(pool, count);
    }
    Ok(PreAllocation(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_retained_ahead_is_read_in_each_way_in_which_it_is_written() {
        let read = |text: &str| parse_pre_allocation(text).map(|it| Vec::from_iter(it.0));
        let both = vec![("blue".to_owned(), 16), ("default".to_owned(), 8)];
        for text in ["default=8,blue=16", "default:8, blue:16", r#"{"default":"8","blue":"16"}"#] {
            assert_eq!(read(text), Ok(both.clone()), "{text}");
        }
        assert_eq!(read(""), Ok(Vec::new()));
        for text in ["default", "default=many", "=8", "default=-1"] {
            assert!(read(text).unwrap_err().contains("write for example default=8"), "{text}");
        }
    }
}
