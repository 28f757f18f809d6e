//! `/cluster/nodes` and `/node/ids`: this node, the other nodes that are known, and their
//! addresses.

use std::net::IpAddr;

use axum::extract::State;
use ipnet::IpNet;
use volvox_actors::{
    cluster::{
        own_prefixes::OwnPrefixesMsg,
        remote_nodes::{NodeEntry, RemoteNodesMsg, RemoteNodesSource},
    },
    model::{Addresses, NodeKey},
    node::local_node::{NodeMsg, NodeStatus},
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{
    ClusterNode, ClusterNodes, NodeAddressing, NodeAddressingElement, NodeId, SecondaryAddress,
};

use crate::api::{Api, node_health};

/// This node, and all others that are known.
pub(crate) async fn cluster(State(api): State<Api>) -> Answer {
    let others = api
        .gateway
        .ask_if("GET /cluster/nodes", |node| node.nodes.as_ref(), RemoteNodesMsg::List)
        .await?;
    let own = own(&api).await?;
    let mut all =
        ClusterNodes { own: own.name.clone(), nodes_added: vec![own], nodes_removed: None };
    if let Some(list) = others {
        let source = |key: &NodeKey| match list.source {
            _ if key.cluster != api.facts.cluster => "clustermesh",
            RemoteNodesSource::Store => "kvstore",
            RemoteNodesSource::Objects => "custom-resource",
        };
        let cluster = |(key, entry): (&NodeKey, &NodeEntry)| other(key, entry, source(key));
        all.nodes_added.extend(list.nodes.iter().map(cluster));
    }
    ok(&all)
}

async fn own(api: &Api) -> Result<ClusterNode, ApiError> {
    let node = status(api).await?;
    let first = |v4: bool| node.addresses.iter().find(|address| address.is_ipv4() == v4).copied();
    let mut primary_address = addressing(api, &node);
    if let Some(ipv4) = &mut primary_address.ipv4 {
        ipv4.ip = first(true);
    }
    if let Some(ipv6) = &mut primary_address.ipv6 {
        ipv6.ip = first(false);
    }
    let own = [(true, &mut primary_address.ipv4), (false, &mut primary_address.ipv6)];
    let own = own.into_iter().filter_map(|(v4, it)| Some((v4, it.as_mut()?)));
    let show = OwnPrefixesMsg::Show;
    let what = "GET /cluster/nodes";
    let pools = api.gateway.ask_if(what, |node| node.own_prefixes.as_ref(), show).await?;
    for (v4, element) in own {
        let all = pools.iter().flat_map(|pools| pools.prefixes.keys());
        element.secondary_alloc_ranges = further(all, v4);
        element.secondary_alloc_ranges.retain(|it| *it != element.alloc_range);
    }
    let secondary = |ip: IpAddr| SecondaryAddress {
        ip: ip.to_string(),
        address_type: "CiliumInternalIP".to_owned(),
    };
    let health = node_health::gather(api, what).await?.addresses();
    Ok(ClusterNode {
        name: full_name(&api.facts.cluster, &api.facts.node_name),
        primary_address,
        secondary_addresses: node.router.iter().map(secondary).collect(),
        health_endpoint_address: both(health),
        ingress_address: None,
        source: "local".to_owned(),
    })
}

fn other(key: &NodeKey, entry: &NodeEntry, source: &str) -> ClusterNode {
    // As Cilium: the first internal address of a family, or the first that there is.
    let of = |v4: bool| entry.addresses.iter().filter(move |it| it.ip.is_ipv4() == v4);
    let primary = |v4: bool| {
        let internal = of(v4).find(|it| it.kind == "InternalIP").or_else(|| of(v4).next());
        internal.map(|it| it.ip)
    };
    let more = |v4: bool| further(entry.more_prefixes.iter(), v4);
    let (ipv4, ipv6) = (primary(true), primary(false));
    let (range4, range6) = (entry.pools.ipv4, entry.pools.ipv6);
    let others = entry.addresses.iter().filter(|it| ![ipv4, ipv6].contains(&Some(it.ip)));
    let others =
        others.map(|it| SecondaryAddress { ip: it.ip.to_string(), address_type: it.kind.clone() });
    ClusterNode {
        name: full_name(&key.cluster, &key.name),
        primary_address: NodeAddressing {
            ipv4: element(ipv4, range4.map(|range| range.to_string()))
                .map(|it| NodeAddressingElement { secondary_alloc_ranges: more(true), ..it }),
            ipv6: element(ipv6, range6.map(|range| range.to_string()))
                .map(|it| NodeAddressingElement { secondary_alloc_ranges: more(false), ..it }),
        },
        secondary_addresses: others.collect(),
        health_endpoint_address: both(entry.health),
        ingress_address: both(entry.ingress),
        source: source.to_owned(),
    }
}

fn element(ip: Option<IpAddr>, range: Option<String>) -> Option<NodeAddressingElement> {
    (ip.is_some() || range.is_some()).then(|| NodeAddressingElement {
        enabled: true,
        ip,
        alloc_range: range.unwrap_or_default(),
        secondary_alloc_ranges: Vec::new(),
    })
}

/// Addresses of something that a node has; nothing if there are none.
fn both(all: Addresses) -> Option<NodeAddressing> {
    let [ipv4, ipv6] = [all.ipv4.map(IpAddr::V4), all.ipv6.map(IpAddr::V6)];
    let addressing = NodeAddressing { ipv4: element(ipv4, None), ipv6: element(ipv6, None) };
    (addressing != NodeAddressing::default()).then_some(addressing)
}

/// Prefixes of one family.
fn further<'a>(all: impl Iterator<Item = &'a IpNet>, v4: bool) -> Vec<String> {
    all.filter(|it| it.addr().is_ipv4() == v4).map(ToString::to_string).collect()
}

/// A node's name where there may be several clusters: in the one that was not named it stands alone.
fn full_name(cluster: &str, name: &str) -> String {
    match cluster {
        "default" => name.to_owned(),
        cluster => format!("{cluster}/{name}"),
    }
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
pub(super) fn addressing(api: &Api, node: &NodeStatus) -> NodeAddressing {
    let router = node.router;
    let element = |range: Option<String>, ip| {
        range.map(|alloc_range| NodeAddressingElement {
            enabled: true,
            ip,
            alloc_range,
            ..NodeAddressingElement::default()
        })
    };
    let (range4, range6) = (api.facts.ipv4_range, api.facts.ipv6_range);
    NodeAddressing {
        ipv4: element(range4.map(|range| range.to_string()), router.ipv4.map(Into::into)),
        ipv6: element(range6.map(|range| range.to_string()), router.ipv6.map(Into::into)),
    }
}

/// What is known of this node.
pub(super) async fn status(api: &Api) -> Result<NodeStatus, ApiError> {
    Ok(api.gateway.ask("GET node", |node| &node.node, NodeMsg::Show).await?)
}
