//! What the plugin does behind another one, which has made the interface and has the addresses.
//!
//! The interface is looked up in the kernel: what `prevResult` says of it must be so. Nothing of it is
//! changed, here or by DEL; only the agent makes it an endpoint.

use std::{net::IpAddr, os::fd::AsFd};

use serde_json::Value;
use volvox_actors::{endpoints::endpoint::chained_datapath, model::Addresses, ports::Link};
use volvox_rest::models::{AddressPair, Configuration, Endpoint};

use super::{
    CniError, ErrorCode,
    add::{check_datapath, put_endpoint, request},
    attachment,
    cancel::Cancel,
    interface::Namespaces,
    result::PreviousResult,
    run::Call,
    undo::Undo,
};

/// The kind of interface that has a side on the node.
const VETH: &str = "veth";

/// Makes the interface of the plugin before an endpoint, and hands that plugin's result on.
pub(super) async fn add(
    call: &Call,
    undo: &mut Undo,
    cancel: &mut Cancel,
) -> Result<Value, CniError> {
    let invocation = &call.invocation;
    let Some(previous) = &call.config.previous else {
        let why = "the plugin before volvox-cni in the list is to answer one";
        return Err(CniError::new(ErrorCode::InvalidConfig, "prevResult is missing", why));
    };
    let agent: Configuration = cancel.race(call.client.get("/config")).await??;
    check_datapath(&agent.status)?;
    let path = invocation.netns.clone().unwrap_or_default();
    let mut namespaces = Namespaces::open(&path)?;
    attachment::take_turn_to_add(&namespaces.netns, cancel).await?;
    let (host, container) = find(&invocation.ifname, &mut namespaces)?;
    let addresses = addresses(&container, previous)?;
    tracing::debug!(host = host.name, ifindex = host.ifindex, ?addresses, "interface found");
    attachment::make_room_behind(call, &host).await?;
    cancel.check()?;

    let Addresses { ipv4, ipv6 } = addresses;
    let addressing = AddressPair { ipv4, ipv6, ..AddressPair::default() };
    let mut request = request(call, &host, &container, addressing, namespaces.cookie);
    request.datapath_configuration = chained_datapath();
    put_endpoint(call, &request, undo, cancel).await?;
    Ok(previous.hand_on(call.config.version))
}

/// Sees that the endpoint still is at the interface that the container has.
pub(super) fn check(
    call: &Call,
    namespaces: &mut Namespaces,
    endpoint: &Endpoint,
) -> Result<(), CniError> {
    let (host, container) = find(&call.invocation.ifname, namespaces)?;
    let networking = &endpoint.status.networking;
    if networking.interface_index == host.ifindex && networking.mac == container.mac {
        return Ok(());
    }
    let msg = format!("endpoint {} is at another interface", endpoint.id);
    let details = format!(
        "the container has {} behind {} (number {}), the endpoint {} (number {}): create the pod anew",
        container.name,
        host.name,
        host.ifindex,
        networking.interface_name,
        networking.interface_index
    );
    Err(CniError::new(ErrorCode::Mismatch, msg, details))
}

/// Both sides of the container's interface, the node's first. Each is to name the other, and the
/// node's side this very container: numbers alone are the same in many namespaces.
fn find(ifname: &str, namespaces: &mut Namespaces) -> Result<(Link, Link), CniError> {
    let all = namespaces.container.links()?;
    let container = all.into_values().find(|link| link.name == ifname).ok_or_else(|| {
        let msg = format!("the container has no interface {ifname}");
        let why = "the plugin before volvox-cni said that it made one: see that plugin's log";
        CniError::new(ErrorCode::Mismatch, msg, why)
    })?;
    if container.kind.as_deref() != Some(VETH) {
        let kind = container.kind.as_deref().unwrap_or("an unknown kind");
        let msg = format!("{ifname} is of kind {kind}");
        let why =
            "policy is enforced at the node's side of a veth pair: use a plugin that makes one";
        return Err(CniError::new(ErrorCode::UnsupportedField, msg, why));
    }
    let socket = &mut namespaces.node;
    let host = socket.link_by_index(container.peer_ifindex)?;
    let here = socket.netns_id(namespaces.netns.as_fd())?;
    let is_peer = |host: &Link| {
        host.kind.as_deref() == Some(VETH)
            && host.peer_ifindex == container.ifindex
            && host.peer_netns.is_some()
            && host.peer_netns == here
    };
    match host.filter(is_peer) {
        Some(host) => Ok((host, container)),
        None => {
            let msg = format!("the other side of {ifname} is not on this node");
            let why =
                "volvox-cni serves pairs whose one side is in the node's own network namespace";
            Err(CniError::new(ErrorCode::Mismatch, msg, why))
        }
    }
}

/// The addresses by which the pod is known: of those that the plugin before answered the first of
/// each family, if the interface has them; if it answered none, what the interface has.
fn addresses(container: &Link, previous: &PreviousResult) -> Result<Addresses, CniError> {
    let is_known = |ifname: &str| previous.interfaces.iter().any(|(name, _)| name == ifname);
    if !previous.interfaces.is_empty() && !is_known(&container.name) {
        let msg = format!("prevResult does not name {}", container.name);
        let why = "it is about another container or interface: the runtime is to hand on what the plugin \
                   before volvox-cni answered";
        return Err(CniError::new(ErrorCode::InvalidConfig, msg, why));
    }
    let has = |address: IpAddr| container.addresses.iter().any(|own| own.addr() == address);
    let said: Vec<IpAddr> =
        previous.addresses_of(&container.name).map(ipnet::IpNet::addr).collect();
    if let Some(missing) = said.iter().find(|address| !has(**address)) {
        let msg = format!("{} has not the address {missing}", container.name);
        let why = "the plugin before volvox-cni answered it: see that plugin's log";
        return Err(CniError::new(ErrorCode::Mismatch, msg, why));
    }
    let own = container.addresses.iter().map(ipnet::IpNet::addr).filter(is_global);
    let all: Vec<IpAddr> = if said.is_empty() { own.collect() } else { said };
    let mut addresses = Addresses::default();
    for address in all {
        match address {
            IpAddr::V4(address) => addresses.ipv4 = addresses.ipv4.or(Some(address)),
            IpAddr::V6(address) => addresses.ipv6 = addresses.ipv6.or(Some(address)),
        }
    }
    if addresses == Addresses::default() {
        let msg = format!("{} has no address", container.name);
        let why =
            "an endpoint is known by its addresses: the plugin before volvox-cni needs an ipam";
        return Err(CniError::new(ErrorCode::Mismatch, msg, why));
    }
    Ok(addresses)
}

fn is_global(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_link_local() && !address.is_loopback(),
        IpAddr::V6(address) => !address.is_unicast_link_local() && !address.is_loopback(),
    }
}
