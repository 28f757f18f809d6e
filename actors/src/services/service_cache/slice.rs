//! What an EndpointSlice, or older Endpoints, says of who serves.

use std::{net::IpAddr, sync::Arc};

use super::object::{name, number, transport};
use crate::{
    model::{
        Transport,
        field::{Fault, Field, Mapping},
    },
    mutants::{Mutant, mutated},
};

/// Label of an EndpointSlice that says whose it is.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

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
pub(super) fn owner<'a>(root: &Mapping<'a>) -> Result<&'a str, Fault> {
    let metadata = root.need("metadata")?;
    let labels = metadata.any_mapping()?.get("labels");
    let labels = labels.map(|field| field.any_mapping()).transpose()?;
    let name = labels.and_then(|labels| labels.get(SERVICE_LABEL)).ok_or_else(|| {
        metadata
            .fault("it is of no service", format!("add the label {SERVICE_LABEL}, or remove it"))
    });
    name?.text()
}

/// The service that owns a slice, if that is another one than it is of.
fn stranger(root: &Mapping<'_>) -> Result<Option<Box<str>>, Fault> {
    let of = owner(root)?;
    for field in root.need("metadata")?.any_mapping()?.list("ownerReferences")?.unwrap_or_default()
    {
        let reference = field.any_mapping()?;
        let text = |name| reference.get(name).map(|field| field.text()).transpose();
        if let (Some("Service"), Some(name)) = (text("kind")?, text("name")?)
            && name != of
        {
            return Ok(Some(name.into()));
        }
    }
    Ok(None)
}

/// Reads an EndpointSlice; names of something outside serve nobody here. `node` is this one.
pub(super) fn slice(root: &Mapping<'_>, node: &str) -> Result<Slice, Fault> {
    let kind = root.need("addressType")?;
    let is_ipv4 = match kind.text()? {
        "IPv4" => Some(true),
        "IPv6" => Some(false),
        // Of version v1beta1, where it is either.
        "IP" => None,
        "FQDN" => return Ok(Slice::default()),
        other => {
            let problem = format!("unknown type of addresses {other:?}");
            return Err(kind.fault(problem, "write IPv4 or IPv6"));
        }
    };
    let ports = root.list("ports")?.unwrap_or_default();
    let ports = ports.iter().filter_map(|field| port(field).transpose());
    let mut members = Vec::new();
    for endpoint in root.list("endpoints")?.unwrap_or_default() {
        let endpoint = endpoint.any_mapping()?;
        let serving = serving(&endpoint)?;
        let at = endpoint.get("nodeName").or_else(|| hostname(&endpoint));
        let local = at.map(|field| field.text()).transpose()? == Some(node);
        let zones = hints(&endpoint, "forZones")?;
        let nodes = hints(&endpoint, "forNodes")?.filter(|nodes| !nodes.is_empty());
        let here = nodes.map(|nodes| nodes.iter().any(|it| &**it == node));
        for field in endpoint.list("addresses")?.unwrap_or_default() {
            let address = field.address()?;
            if is_ipv4.is_some_and(|is_ipv4| is_ipv4 != address.is_ipv4()) {
                let problem = format!("{address} is of another family than the slice");
                return Err(field.fault(problem, "put it into a slice of its own"));
            }
            members.push(Member { address, serving, local, zones: zones.clone(), here });
        }
    }
    let owner = stranger(root)?;
    Ok(Slice { owner, ports: ports.collect::<Result<_, _>>()?, members: members.into() })
}

/// Where older slices name the node.
fn hostname<'a>(endpoint: &Mapping<'a>) -> Option<Field<'a>> {
    endpoint.get("topology")?.any_mapping().ok()?.get("kubernetes.io/hostname")
}

/// A port of a slice; one without a number means all ports, and leads nowhere.
fn port(field: &Field<'_>) -> Result<Option<SlicePort>, Fault> {
    let mapping = field.any_mapping()?;
    let Some(port) = mapping.get("port") else { return Ok(None) };
    let (port, transport) = (number(&port)?, transport(&mapping)?);
    Ok(Some(SlicePort { name: name(&mapping)?, port, transport }))
}

/// How an endpoint serves. What is not said counts as ready.
fn serving(endpoint: &Mapping<'_>) -> Result<EndpointCondition, Fault> {
    let Some(conditions) = endpoint.get("conditions") else { return Ok(EndpointCondition::Ready) };
    let conditions = conditions.any_mapping()?;
    let is = |name| conditions.get(name).map(|field| field.truth()).transpose();
    let ready = is("ready")?.unwrap_or(true);
    let terminating = is("terminating")?.unwrap_or(false);
    let serves = is("serving")?.unwrap_or(ready);
    Ok(match (ready, terminating, serves) {
        (true, ..) => EndpointCondition::Ready,
        (false, true, true) => EndpointCondition::Ending,
        (false, true, false) => EndpointCondition::Leaving,
        (false, false, _) if mutated(Mutant::UnreadyServe) => EndpointCondition::Ready,
        (false, false, _) => EndpointCondition::Unready,
    })
}

/// For clients of which zones, or nodes, somebody is listed.
fn hints(endpoint: &Mapping<'_>, kind: &str) -> Result<Option<Box<[Arc<str>]>>, Fault> {
    let Some(hints) = endpoint.get("hints") else { return Ok(None) };
    let Some(all) = hints.any_mapping()?.list(kind)? else { return Ok(None) };
    let name = |field: &Field<'_>| Ok(field.any_mapping()?.need("name")?.text()?.into());
    all.iter().map(name).collect::<Result<_, _>>().map(Some)
}

/// Reads Endpoints, each subset as a slice.
pub(super) fn endpoints(root: &Mapping<'_>, node: &str) -> Result<Vec<Slice>, Fault> {
    let subset = |field: &Field<'_>| {
        let subset = field.any_mapping()?;
        let ports = subset.list("ports")?.unwrap_or_default();
        let ports = ports.iter().filter_map(|field| port(field).transpose());
        let member = |field: &Field<'_>| {
            let listed = field.any_mapping()?;
            let at = listed.get("nodeName").map(|field| field.text()).transpose()?;
            let (address, serving) = (listed.need("ip")?.address()?, EndpointCondition::Ready);
            Ok(Member { address, serving, local: at == Some(node), zones: None, here: None })
        };
        let members = subset.list("addresses")?.unwrap_or_default();
        Ok(Slice {
            owner: None,
            ports: ports.collect::<Result<_, _>>()?,
            members: members.iter().map(member).collect::<Result<_, _>>()?,
        })
    };
    root.list("subsets")?.unwrap_or_default().iter().map(subset).collect()
}
