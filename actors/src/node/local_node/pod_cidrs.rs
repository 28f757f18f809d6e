//! Pod CIDRs of a node, as its Node or CiliumNode gives them. Addresses are allocated from them
//! elsewhere.

use std::{collections::BTreeSet, fmt};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::endpoints::ipam::Pools;

/// Annotations that name prefixes, of each family the newer name first.
const ANNOTATIONS: [[&str; 2]; 2] = [
    ["network.cilium.io/ipv4-pod-cidr", "io.cilium.network.ipv4-pod-cidr"],
    ["network.cilium.io/ipv6-pod-cidr", "io.cilium.network.ipv6-pod-cidr"],
];
/// A node has one prefix of each family.
const PREFIXES_MAX: usize = 2;

/// Who in the cluster says which addresses the pods of a node have, by Cilium's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IpamMode {
    /// Kubernetes, in the spec of the node's Node.
    Kubernetes,
    /// Cilium's operator, in the spec of the node's CiliumNode.
    ClusterPool,
    /// The same of several pools, as many as the node asks for.
    MultiPool,
}

impl fmt::Display for IpamMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kubernetes => "kubernetes",
            Self::ClusterPool => "cluster-pool",
            Self::MultiPool => "multi-pool",
        })
    }
}

/// Prefixes of a node's pods, as an object of the cluster says them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCidrs {
    /// The prefixes.
    pub pools: Pools,
    /// What was left out, and why.
    pub problems: Vec<PodCidrError>,
}

/// Why a prefix of a node's pods is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodCidrError {
    /// It is none.
    #[error("{place} says {text:?}, which is no prefix: correct it, as in 10.1.0.0/24")]
    NoPrefix {
        /// Where it stands.
        place: &'static str,
        /// What stands there.
        text: String,
    },
    /// There is one of its family already.
    #[error("{place} says {surplus} besides {taken}: a node has one prefix of each family")]
    Surplus {
        /// Where it stands.
        place: &'static str,
        /// What is left out.
        surplus: IpNet,
        /// What is taken.
        taken: IpNet,
    },
    /// There are more than two.
    #[error("{place} has {count} prefixes: only the first two are looked at")]
    Many {
        /// Where they stand.
        place: &'static str,
        /// How many.
        count: usize,
    },
}

impl PodCidrs {
    /// What a Node says: `podCIDRs` before `podCIDR`, and where these say nothing of a family, its
    /// annotation, if annotations are heeded.
    pub fn of_node(node: &Node, annotations: bool) -> Self {
        let mut said = Self::default();
        let spec = node.spec.as_ref();
        let list = spec.and_then(|spec| spec.pod_cidrs.as_ref()).into_iter().flatten();
        let list: Vec<&str> = list.map(String::as_str).collect();
        match (list.is_empty(), spec.and_then(|spec| spec.pod_cidr.as_deref())) {
            (false, _) => said.take_all("spec.podCIDRs", &list),
            (true, Some(one)) if !one.is_empty() => said.take("spec.podCIDR", one),
            (true, _) => {}
        }
        let all = node.metadata.annotations.as_ref();
        for (names, ipv4) in ANNOTATIONS.into_iter().zip([true, false]).filter(|_| annotations) {
            let known = if ipv4 { said.pools.ipv4.is_some() } else { said.pools.ipv6.is_some() };
            let named = names.into_iter().find_map(|name| Some((name, all?.get(name)?)));
            if let Some((name, text)) = named.filter(|_| !known) {
                said.take(name, text);
            }
        }
        said
    }

    /// What a CiliumNode says.
    pub fn of_cilium_node(node: &Value) -> Self {
        let mut said = Self::default();
        said.take_all("spec.ipam.podCIDRs", &texts(&node["spec"]["ipam"]["podCIDRs"]));
        said
    }

    /// All that a CiliumNode says: one prefix of each family, which of several pools is the first one, and
    /// the others.
    pub fn all_of_cilium_node(node: &Value) -> (Pools, BTreeSet<IpNet>) {
        let mut first = Self::of_cilium_node(node).pools;
        let mut more: BTreeSet<IpNet> = Self::of_pools(node).map(|(_, prefix)| prefix).collect();
        let (ipv4, ipv6) = (
            more.iter().find_map(|it| if let IpNet::V4(it) = it { Some(*it) } else { None }),
            more.iter().find_map(|it| if let IpNet::V6(it) = it { Some(*it) } else { None }),
        );
        (first.ipv4, first.ipv6) = (first.ipv4.or(ipv4), first.ipv6.or(ipv6));
        let firsts = [first.ipv4.map(IpNet::from), first.ipv6.map(IpNet::from)];
        more.retain(|it| !firsts.contains(&Some(*it)));
        (first, more)
    }

    /// Each prefix that a CiliumNode says of a pool, with the pool.
    pub fn of_pools(node: &Value) -> impl Iterator<Item = (&str, IpNet)> {
        let pools = node["spec"]["ipam"]["pools"]["allocated"].as_array().into_iter().flatten();
        pools.flat_map(|it| {
            let pool = it["pool"].as_str().unwrap_or_default();
            let prefix = |text: &str| text.parse::<IpNet>().ok().map(|it| it.trunc());
            texts(&it["cidrs"]).into_iter().filter_map(move |text| Some((pool, prefix(text)?)))
        })
    }

    fn take_all(&mut self, place: &'static str, texts: &[&str]) {
        if texts.len() > PREFIXES_MAX {
            self.problems.push(PodCidrError::Many { place, count: texts.len() });
        }
        texts.iter().take(PREFIXES_MAX).for_each(|text| self.take(place, text));
    }

    fn take(&mut self, place: &'static str, text: &str) {
        let Ok(prefix) = text.parse::<IpNet>().map(|prefix| prefix.trunc()) else {
            let text = text.to_owned();
            return self.problems.push(PodCidrError::NoPrefix { place, text });
        };
        let taken = match prefix {
            IpNet::V4(_) => self.pools.ipv4.map(IpNet::from),
            IpNet::V6(_) => self.pools.ipv6.map(IpNet::from),
        };
        match (taken, prefix) {
            (Some(taken), surplus) => {
                self.problems.push(PodCidrError::Surplus { place, surplus, taken });
            }
            (None, IpNet::V4(prefix)) => self.pools.ipv4 = Some(prefix),
            (None, IpNet::V6(prefix)) => self.pools.ipv6 = Some(prefix),
        }
    }
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(node: &Value) -> Node {
        serde_json::from_value(node.clone()).unwrap()
    }

    fn said(node: &Value) -> (Option<String>, Option<String>) {
        let Pools { ipv4, ipv6 } = PodCidrs::of_node(&typed(node), true).pools;
        (ipv4.map(|prefix| prefix.to_string()), ipv6.map(|prefix| prefix.to_string()))
    }

    fn ipv4(text: &str) -> (Option<String>, Option<String>) {
        (Some(text.to_owned()), None)
    }

    #[test]
    fn the_list_counts_before_the_single_one_and_that_before_annotations() {
        let mut node = json!({
            "metadata": { "annotations": {
                "io.cilium.network.ipv4-pod-cidr": "10.5.0.0/24",
                "network.cilium.io/ipv4-pod-cidr": "10.4.0.0/24",
            } },
            "spec": { "podCIDR": "10.2.0.0/24", "podCIDRs": ["10.1.0.7/24", "fd00::/64"] },
        });
        assert_eq!(said(&node), (Some("10.1.0.0/24".into()), Some("fd00::/64".into())));
        node["spec"]["podCIDRs"] = json!([]);
        assert_eq!(said(&node), ipv4("10.2.0.0/24"));
        node["spec"]["podCIDR"] = json!("");
        assert_eq!(said(&node), ipv4("10.4.0.0/24"));
        let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove("network.cilium.io/ipv4-pod-cidr");
        assert_eq!(said(&node), ipv4("10.5.0.0/24"));
        assert_eq!(PodCidrs::of_node(&typed(&node), false), PodCidrs::default());
        assert_eq!(said(&json!({})), (None, None));
    }

    #[test]
    fn an_annotation_fills_in_the_family_of_which_the_spec_says_nothing_usable() {
        let node = json!({
            "metadata": { "annotations": {
                "network.cilium.io/ipv4-pod-cidr": "10.4.0.0/24",
                "network.cilium.io/ipv6-pod-cidr": "fd04::/64",
            } },
            "spec": { "podCIDRs": ["10.1.0.0/24", "rubbish"] },
        });
        let cidrs = PodCidrs::of_node(&typed(&node), true);
        assert_eq!(said(&node), (Some("10.1.0.0/24".into()), Some("fd04::/64".into())));
        let text = cidrs.problems[0].to_string();
        assert!(text.contains("spec.podCIDRs says \"rubbish\""), "{text}");
    }

    #[test]
    fn a_second_prefix_of_a_family_is_left_out_and_said() {
        let node = json!({ "spec": { "ipam": { "podCIDRs": [
            "10.1.0.0/24", "10.2.0.0/24", "fd00::/64",
        ] } } });
        let cidrs = PodCidrs::of_cilium_node(&node);
        assert_eq!(cidrs.pools.ipv4, "10.1.0.0/24".parse().ok());
        let texts: Vec<String> = cidrs.problems.iter().map(ToString::to_string).collect();
        assert!(texts[0].contains("has 3 prefixes"), "{texts:?}");
        assert!(texts[1].contains("10.2.0.0/24 besides 10.1.0.0/24"), "{texts:?}");
    }
}
