//! For the fuzzer: what is to be changed of this node's objects, whatever they are.

use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use super::{InNode, PublishSettings, node};
use crate::{endpoints::ipam::Pools, model::Addresses, node::local_node::IpamMode};

/// Compares objects with what this node says of itself.
pub(crate) fn objects(own: &Node, object: &Value, cilium_node: &Value) {
    let pools = Pools { ipv4: "10.1.0.0/24".parse().ok(), ipv6: "fd00::/96".parse().ok() };
    let settings = PublishSettings {
        node_name: "node".to_owned(),
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        router: Addresses { ipv4: "10.1.0.1".parse().ok(), ipv6: None },
        health: Some(Addresses { ipv4: "10.1.0.2".parse().ok(), ipv6: None }),
        pools,
        followed: pools,
        ipam: Some(IpamMode::ClusterPool),
        boot_id: "boot".to_owned(),
        in_node: InNode {
            annotate: true,
            condition: true,
            taint: Some("node.cilium.io/agent-not-ready".to_owned()),
        },
        cilium_node: true,
        cilium_endpoints: true,
        seed: 0,
    };
    node::annotations(&settings, own);
    node::condition(own, "2026-01-01T00:00:00Z");
    node::taint(own, "node.cilium.io/agent-not-ready");
    for cilium_node in [object, cilium_node] {
        node::cilium_node(&settings, own, Some(cilium_node));
    }
    node::new_cilium_node(&settings, own);
}
