//! What an EndpointSlice, or older Endpoints, says of who serves.

use std::{net::IpAddr, sync::Arc};

use k8s_openapi::api::{
    core::v1::{EndpointSubset, Endpoints},
    discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};

use super::object::{name, needed, number, transport};
use crate::{
    model::{Transport, field::Fault, place::Place},
    mutants::{Mutant, mutated},
};

/// Label of an EndpointSlice that says whose it is.
pub(super) const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Who serves, and at which ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    /// The service that owns it, if that is another one than its label says: the label counts.
    pub(super) owner: Option<Box<str>>,
    pub(super) ports: Box<[SlicePort]>,
    pub(super) members: Box<[Member]>,
}

/// A port at which all members of a slice serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlicePort {
    pub(super) name: Box<str>,
    pub(super) port: u16,
    pub(super) transport: Transport,
}

/// How somebody who is listed serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EndpointCondition {
    /// Whoever comes.
    Ready,
    /// It ends, and serves still.
    Ending,
    /// It ends, and serves those only that it began with.
    Leaving,
    /// It is not ready.
    Unready,
}

/// Somebody who serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) address: IpAddr,
    pub(super) serving: EndpointCondition,
    /// It is on this node.
    pub(super) local: bool,
    /// Clients of which zones are to use it; nobody says so if there is none.
    pub(super) zones: Option<Box<[Arc<str>]>>,
    /// Whether clients of this node are; nobody says of which nodes if there is none.
    pub(super) here: Option<bool>,
}

/// The service that a slice is of.
pub(super) fn owner(slice: &EndpointSlice) -> Result<&str, Fault> {
    let labels = slice.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(SERVICE_LABEL)).map(String::as_str).ok_or_else(|| {
        Place::ROOT
            .key("metadata")
            .fault("it is of no service", format!("add the label {SERVICE_LABEL}, or remove it"))
    })
}

/// The service that owns a slice, if that is another one than it is of.
fn stranger(slice: &EndpointSlice) -> Result<Option<Box<str>>, Fault> {
    let of = owner(slice)?;
    let mut owners = slice.metadata.owner_references.iter().flatten();
    let other = owners.find(|it| it.kind == "Service" && it.name != of);
    Ok(other.map(|it| it.name.as_str().into()))
}

/// Reads an EndpointSlice; names of something outside serve nobody here. `node` is this one.
pub(super) fn slice(slice: &EndpointSlice, node: &str) -> Result<Slice, Fault> {
    let is_ipv4 = match Place::ROOT.need("addressType", &slice.address_type)? {
        "IPv4" => Some(true),
        "IPv6" => Some(false),
        // Of version v1beta1, where it is either.
        "IP" => None,
        "FQDN" => return Ok(Slice::default()),
        other => {
            let problem = format!("unknown type of addresses {other:?}");
            return Err(Place::ROOT.key("addressType").fault(problem, "write IPv4 or IPv6"));
        }
    };
    let at = Place::ROOT.key("ports");
    let ports = at.each(slice.ports.as_ref()).filter_map(|(at, it)| port(&at, it).transpose());
    let ports = ports.collect::<Result<_, _>>()?;
    let mut members = Vec::new();
    let at = Place::ROOT.key("endpoints");
    for (at, endpoint) in at.each(Some(&slice.endpoints)) {
        let serving = serving(endpoint.conditions.as_ref());
        let local = endpoint.node_name.as_deref().or_else(|| hostname(endpoint)) == Some(node);
        let hints = endpoint.hints.as_ref();
        let zones = hints.and_then(|hints| hints.for_zones.as_ref());
        let zones: Option<Box<[Arc<str>]>> =
            zones.map(|all| all.iter().map(|it| it.name.as_str().into()).collect());
        let nodes = hints.and_then(|hints| hints.for_nodes.as_ref());
        let nodes = nodes.filter(|nodes| !nodes.is_empty());
        let here = nodes.map(|nodes| nodes.iter().any(|it| it.name == node));
        let at = at.key("addresses");
        for (at, text) in at.each(Some(&endpoint.addresses)) {
            let address = at.address(text)?;
            if is_ipv4.is_some_and(|is_ipv4| is_ipv4 != address.is_ipv4()) {
                let problem = format!("{address} is of another family than the slice");
                return Err(at.fault(problem, "put it into a slice of its own"));
            }
            members.push(Member { address, serving, local, zones: zones.clone(), here });
        }
    }
    Ok(Slice { owner: stranger(slice)?, ports, members: members.into() })
}

/// Where older slices name the node.
fn hostname(endpoint: &Endpoint) -> Option<&str> {
    endpoint.deprecated_topology.as_ref()?.get("kubernetes.io/hostname").map(String::as_str)
}

/// A port of a slice; one without a number means all ports, and leads nowhere.
fn port(at: &Place<'_>, said: &EndpointPort) -> Result<Option<SlicePort>, Fault> {
    let Some(port) = said.port else { return Ok(None) };
    let port = number(&at.key("port"), port)?;
    let transport = transport(at, said.protocol.as_deref())?;
    Ok(Some(SlicePort { name: name(said.name.as_deref()), port, transport }))
}

/// How an endpoint serves. What is not said counts as ready.
fn serving(conditions: Option<&EndpointConditions>) -> EndpointCondition {
    let Some(is) = conditions else { return EndpointCondition::Ready };
    let ready = is.ready.unwrap_or(true);
    let terminating = is.terminating.unwrap_or(false);
    let serves = is.serving.unwrap_or(ready);
    match (ready, terminating, serves) {
        (true, ..) => EndpointCondition::Ready,
        (false, true, true) => EndpointCondition::Ending,
        (false, true, false) => EndpointCondition::Leaving,
        (false, false, _) if mutated(Mutant::UnreadyServe) => EndpointCondition::Ready,
        (false, false, _) => EndpointCondition::Unready,
    }
}

/// Reads Endpoints, each subset as a slice.
pub(super) fn endpoints(endpoints: &Endpoints, node: &str) -> Result<Vec<Slice>, Fault> {
    let at = Place::ROOT.key("subsets");
    at.each(endpoints.subsets.as_ref()).map(|(at, it)| subset(&at, it, node)).collect()
}

fn subset(at: &Place<'_>, subset: &EndpointSubset, node: &str) -> Result<Slice, Fault> {
    let (at_ports, at_members) = (at.key("ports"), at.key("addresses"));
    let mut ports = Vec::new();
    for (at, said) in at_ports.each(subset.ports.as_ref()) {
        let port = needed(&at, "port", said.port)?;
        let transport = transport(&at, said.protocol.as_deref())?;
        ports.push(SlicePort { name: name(said.name.as_deref()), port, transport });
    }
    let mut members = Vec::new();
    for (at, listed) in at_members.each(subset.addresses.as_ref()) {
        let address = at.key("ip").address(at.need("ip", &listed.ip)?)?;
        let (serving, local) =
            (EndpointCondition::Ready, listed.node_name.as_deref() == Some(node));
        members.push(Member { address, serving, local, zones: None, here: None });
    }
    Ok(Slice { owner: None, ports: ports.into(), members: members.into() })
}
