use axum::extract::State;
use volvox_actors::node::{NodeMsg, NodeStatus};

use super::{Answer, ok};
use crate::{
    api::{
        Api, ApiError,
        models::{ClusterNode, ClusterNodes, NodeId, SecondaryAddress},
    },
    rest_model::{NodeAddressing, NodeAddressingElement},
};

/// This node; others are not known yet.
pub(crate) async fn cluster(State(api): State<Api>) -> Answer {
    let node = status(&api).await?;
    let first = |v4: bool| node.addresses.iter().find(|address| address.is_ipv4() == v4).copied();
    let mut primary_address = addressing(&api).await?;
    if let Some(ipv4) = &mut primary_address.ipv4 {
        ipv4.ip = first(true);
    }
    if let Some(ipv6) = &mut primary_address.ipv6 {
        ipv6.ip = first(false);
    }
    let routers = node.router.iter().map(|ip| SecondaryAddress { ip: ip.to_string() });
    let own = ClusterNode {
        name: api.facts.node_name.clone(),
        primary_address,
        secondary_addresses: routers.collect(),
        source: "local".to_owned(),
    };
    ok(&ClusterNodes { own: own.name.clone(), nodes_added: vec![own], nodes_removed: None })
}

/// Numbers of nodes: this one is 0, as it is in the datapath.
pub(crate) async fn ids(State(api): State<Api>) -> Answer {
    let node = status(&api).await?;
    let mut ips: Vec<_> = node.router.iter().chain(node.addresses.iter().copied()).collect();
    ips.sort();
    ips.dedup();
    ok(&[NodeId { id: 0, ips: ips.iter().map(ToString::to_string).collect() }])
}

/// The pools, and the addresses that pods route through.
pub(super) async fn addressing(api: &Api) -> Result<NodeAddressing, ApiError> {
    let router = status(api).await?.router;
    let element = |range: Option<String>, ip| {
        range.map(|alloc_range| NodeAddressingElement { enabled: true, ip, alloc_range })
    };
    let (range4, range6) = (api.facts.ipv4_range, api.facts.ipv6_range);
    Ok(NodeAddressing {
        ipv4: element(range4.map(|range| range.to_string()), router.ipv4.map(Into::into)),
        ipv6: element(range6.map(|range| range.to_string()), router.ipv6.map(Into::into)),
    })
}

/// What is known of this node.
pub(super) async fn status(api: &Api) -> Result<NodeStatus, ApiError> {
    Ok(api.gateway.ask("GET node", |colony| &colony.node, NodeMsg::Show).await?)
}
