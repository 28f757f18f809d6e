//! What a Kubernetes Service says.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;

use super::annotations::{self, Annotated, GlobalServiceOptions};
use crate::model::{
    Transport,
    field::{Fault, Field, Mapping},
};

/// Label of a Service that another proxy serves.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";
/// Label of one that no proxy serves, although it may have an address: its name leads to its pods.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// How long a client stays with its backend unless the Service says otherwise, seconds.
const AFFINITY_SECONDS: u32 = 10_800;
/// Longest such time, seconds: 24 hours, as Kubernetes has it.
const AFFINITY_SECONDS_MAX: u64 = 86_400;
/// More ports than a node has numbers for services.
const PORTS_MAX: usize = 65_535;

/// A Service, as far as its packets are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spec {
    /// Its addresses inside the cluster; none if it has no head.
    pub(super) cluster: Box<[IpAddr]>,
    /// Addresses outside the cluster that lead to the cluster's nodes.
    pub(super) external: Box<[IpAddr]>,
    /// Those of load balancers.
    pub(super) balancers: Box<[IpAddr]>,
    pub(super) ports: Box<[ServicePort]>,
    /// At which address of the node each of the ports is reached, and no other, if they are a pod's;
    /// `None` means all.
    pub(super) hosts: Box<[Option<IpAddr>]>,
    /// Who may use the load balancers' and the external addresses; nobody named is everyone.
    pub(super) ranges: Box<[IpNet]>,
    /// For how many seconds a client stays with its backend; 0 if it need not.
    pub(super) affinity: u32,
    /// Where load balancers ask whether this node has pods of it; 0 is nowhere.
    pub(super) health_port: u16,
    /// From outside only backends of this node are used,
    pub(super) external_local: bool,
    /// or from inside.
    pub(super) internal_local: bool,
    pub(super) sharing: GlobalServiceOptions,
    /// What most Services say nothing of.
    pub(super) annotated: Option<Box<Annotated>>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServicePort {
    pub(super) name: Box<str>,
    pub(super) port: u16,
    /// The port of every node that leads there; 0 is none.
    pub(super) node_port: u16,
    pub(super) transport: Transport,
}

/// Reads a Service; `None` if it is not for a node's proxy: another one serves it, or it is a name
/// of something outside.
pub(super) fn service(root: &Mapping<'_>) -> Result<Option<Spec>, Fault> {
    let metadata = root.need("metadata")?.any_mapping()?;
    let inside = |name| metadata.get(name).map(|field| field.any_mapping()).transpose();
    let is_labelled =
        |labels: Mapping<'_>| [PROXY_NAME, HEADLESS].iter().any(|it| labels.get(it).is_some());
    if inside("labels")?.is_some_and(is_labelled) {
        return Ok(None);
    }
    let Some(field) = root.get("spec") else { return Ok(None) };
    let spec = field.any_mapping()?;
    let kind = spec.get("type").map(|field| field.text()).transpose()?.unwrap_or("ClusterIP");
    if kind == "ExternalName" {
        return Ok(None);
    }
    let is_balanced = kind == "LoadBalancer";
    let annotations = inside("annotations")?;
    let (sharing, annotated) = annotations::read(annotations.as_ref())?;
    let external_local = is_local(&spec, "externalTrafficPolicy")?;
    Ok(Some(Spec {
        cluster: cluster_addresses(&spec)?,
        external: addresses(&spec, "externalIPs")?,
        balancers: if is_balanced { balancers(root)? } else { Box::default() },
        ports: ports(&spec, is_balanced || kind == "NodePort")?,
        hosts: Box::default(),
        ranges: if is_balanced { ranges(&spec)? } else { Box::default() },
        affinity: affinity(&spec)?,
        health_port: if is_balanced && external_local { health_port(&spec)? } else { 0 },
        external_local,
        internal_local: is_local(&spec, "internalTrafficPolicy")?,
        sharing,
        annotated,
    }))
}

/// Where load balancers ask for it; 0 is nowhere.
fn health_port(spec: &Mapping<'_>) -> Result<u16, Fault> {
    let field = spec.get("healthCheckNodePort").filter(|field| field.value.as_u64() != Some(0));
    field.as_ref().map(number).transpose().map(Option::unwrap_or_default)
}

/// One or two addresses of the cluster; older servers tell only the first.
fn cluster_addresses(spec: &Mapping<'_>) -> Result<Box<[IpAddr]>, Fault> {
    let is_one =
        |field: &Field<'_>| matches!(field.text(), Ok(text) if text != "None" && !text.is_empty());
    match spec.list("clusterIPs")? {
        Some(all) if !all.is_empty() => {
            all.iter().filter(|it| is_one(it)).map(Field::address).collect()
        }
        _ => spec.get("clusterIP").iter().filter(|it| is_one(it)).map(Field::address).collect(),
    }
}

fn addresses(spec: &Mapping<'_>, name: &str) -> Result<Box<[IpAddr]>, Fault> {
    spec.list(name)?.unwrap_or_default().iter().map(Field::address).collect()
}

/// The addresses that a load balancer was given; one may have a name instead.
fn balancers(root: &Mapping<'_>) -> Result<Box<[IpAddr]>, Fault> {
    let Some(status) = root.get("status") else { return Ok(Box::default()) };
    let Some(balancer) = status.any_mapping()?.get("loadBalancer") else {
        return Ok(Box::default());
    };
    let all = balancer.any_mapping()?.list("ingress")?.unwrap_or_default();
    let of = |field: &Field<'_>| {
        let ingress = field.any_mapping()?;
        // One that takes its packets in itself wants none of ours.
        let mode = ingress.get("ipMode").map(|field| field.text()).transpose()?;
        let ip = ingress.get("ip").filter(|_| mode != Some("Proxy"));
        ip.map(|ip| ip.address()).transpose()
    };
    all.iter().filter_map(|field| of(field).transpose()).collect()
}

fn ports(spec: &Mapping<'_>, has_node_ports: bool) -> Result<Box<[ServicePort]>, Fault> {
    let Some(field) = spec.get("ports") else { return Ok(Box::default()) };
    let all = field.elements()?;
    if all.len() > PORTS_MAX {
        return Err(field.fault(
            format!("{} ports, more than a node has numbers for", all.len()),
            "spread them over several services",
        ));
    }
    let mut seen = BTreeSet::new();
    let port = |field: &Field<'_>| {
        let mapping = field.any_mapping()?;
        let port = number(&mapping.need("port")?)?;
        let transport = transport(&mapping)?;
        if !seen.insert((port, transport)) {
            return Err(field
                .fault(format!("port {port}/{transport} is there twice"), "write each port once"));
        }
        let node_port = mapping
            .get("nodePort")
            .filter(|field| has_node_ports && field.value.as_u64() != Some(0));
        Ok(ServicePort {
            name: name(&mapping)?,
            port,
            node_port: node_port.as_ref().map(number).transpose()?.unwrap_or(0),
            transport,
        })
    };
    all.iter().map(port).collect()
}

/// The name of a port; the only one may have none.
pub(super) fn name(port: &Mapping<'_>) -> Result<Box<str>, Fault> {
    Ok(port.get("name").map(|field| field.text()).transpose()?.unwrap_or_default().into())
}

/// A port's protocol.
pub(super) fn transport(port: &Mapping<'_>) -> Result<Transport, Fault> {
    let Some(field) = port.get("protocol") else { return Ok(Transport::TCP) };
    let text = field.text()?;
    Transport::named(text)
        .ok_or_else(|| field.fault(format!("unknown protocol {text:?}"), "write TCP, UDP or SCTP"))
}

/// The number of a port.
pub(super) fn number(field: &Field<'_>) -> Result<u16, Fault> {
    let number = field.value.as_u64().and_then(|number| u16::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or_else(|| {
        field.fault(format!("{} is no port", field.value), "write a number from 1 to 65535")
    })
}

fn ranges(spec: &Mapping<'_>) -> Result<Box<[IpNet]>, Fault> {
    let all = spec.list("loadBalancerSourceRanges")?.unwrap_or_default();
    let range = |field: &Field<'_>| {
        let text = field.text()?.trim();
        let net: Result<IpNet, _> = text.parse();
        net.map(|net| net.trunc()).map_err(|_| {
            field.fault(format!("{text:?} is no prefix"), "write a prefix, as in 192.0.2.0/24")
        })
    };
    all.iter().map(range).collect()
}

fn affinity<'a>(spec: &Mapping<'a>) -> Result<u32, Fault> {
    match spec.get("sessionAffinity") {
        None => return Ok(0),
        Some(field) => match field.text()? {
            "None" | "" => return Ok(0),
            "ClientIP" => {}
            other => {
                let problem = format!("unknown session affinity {other:?}");
                return Err(field.fault(problem, "write None or ClientIP"));
            }
        },
    }
    let inside = |of: Option<Field<'a>>, name: &str| match of {
        Some(field) => Ok(field.any_mapping()?.get(name)),
        None => Ok(None),
    };
    let client = inside(spec.get("sessionAffinityConfig"), "clientIP")?;
    let Some(field) = inside(client, "timeoutSeconds")? else { return Ok(AFFINITY_SECONDS) };
    match field.value.as_u64() {
        Some(seconds @ 1..=AFFINITY_SECONDS_MAX) => Ok(u32::try_from(seconds).unwrap_or(0)),
        _ => Err(field.fault(
            format!("{} is no time", field.value),
            format!("write seconds, from 1 to {AFFINITY_SECONDS_MAX}"),
        )),
    }
}

fn is_local(spec: &Mapping<'_>, name: &str) -> Result<bool, Fault> {
    match spec.get(name) {
        None => Ok(false),
        Some(field) => match field.text()? {
            "Cluster" | "" => Ok(false),
            "Local" => Ok(true),
            other => {
                Err(field.fault(format!("unknown policy {other:?}"), "write Cluster or Local"))
            }
        },
    }
}
