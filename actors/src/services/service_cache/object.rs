//! What a Kubernetes Service says.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use k8s_openapi::api::core::v1 as api;

use super::annotations::{self, Annotated, GlobalServiceOptions};
use crate::model::{Transport, field::Fault, place::Place};

/// Label of a Service that another proxy serves.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";
/// Label of one that no proxy serves, although it may have an address: its name leads to its pods.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// How long a client stays with its backend unless the Service says otherwise, seconds.
const AFFINITY_SECONDS: u32 = 10_800;
/// Longest such time, seconds: 24 hours, as Kubernetes has it.
const AFFINITY_SECONDS_MAX: u32 = 86_400;
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
pub(super) fn service(service: &api::Service) -> Result<Option<Spec>, Fault> {
    let metadata = &service.metadata;
    let is_labelled = |label: &str| metadata.labels.iter().any(|all| all.contains_key(label));
    if [PROXY_NAME, HEADLESS].into_iter().any(is_labelled) {
        return Ok(None);
    }
    let Some(spec) = &service.spec else { return Ok(None) };
    let at = Place::ROOT.key("spec");
    let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
    if kind == "ExternalName" {
        return Ok(None);
    }
    let is_balanced = kind == "LoadBalancer";
    let (sharing, annotated) = annotations::read(metadata.annotations.as_ref())?;
    let local = |key, said: &Option<String>| is_local(&at.key(key), said.as_deref());
    let external_local = local("externalTrafficPolicy", &spec.external_traffic_policy)?;
    Ok(Some(Spec {
        cluster: cluster_addresses(&at, spec)?,
        external: addresses(&at.key("externalIPs"), spec.external_ips.as_ref())?,
        balancers: if is_balanced { balancers(service)? } else { Box::default() },
        ports: ports(&at, spec, is_balanced || kind == "NodePort")?,
        hosts: Box::default(),
        ranges: if is_balanced { ranges(&at, spec)? } else { Box::default() },
        affinity: affinity(&at, spec)?,
        health_port: match spec.health_check_node_port {
            Some(port) if port != 0 && is_balanced && external_local => {
                number(&at.key("healthCheckNodePort"), port)?
            }
            // Load balancers ask nowhere for it.
            _ => 0,
        },
        external_local,
        internal_local: local("internalTrafficPolicy", &spec.internal_traffic_policy)?,
        sharing,
        annotated,
    }))
}

/// One or two addresses of the cluster; older servers tell only the first.
fn cluster_addresses(at: &Place<'_>, spec: &api::ServiceSpec) -> Result<Box<[IpAddr]>, Fault> {
    let is_one = |text: &str| text != "None" && !text.is_empty();
    let (all, one) = (at.key("clusterIPs"), at.key("clusterIP"));
    match &spec.cluster_ips {
        Some(said) if !said.is_empty() => {
            let said = all.each(Some(said)).filter(|(_, text)| is_one(text));
            said.map(|(at, text)| at.address(text)).collect()
        }
        _ => {
            let said = spec.cluster_ip.as_deref().filter(|text| is_one(text));
            said.map(|text| one.address(text)).into_iter().collect()
        }
    }
}

fn addresses(at: &Place<'_>, said: Option<&Vec<String>>) -> Result<Box<[IpAddr]>, Fault> {
    at.each(said).map(|(at, text)| at.address(text)).collect()
}

/// The addresses that a load balancer was given; one may have a name instead.
fn balancers(service: &api::Service) -> Result<Box<[IpAddr]>, Fault> {
    let at = Place::ROOT.key("status");
    let at = at.key("loadBalancer");
    let at = at.key("ingress");
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let all = at.each(balancer.and_then(|balancer| balancer.ingress.as_ref()));
    // One that takes its packets in itself wants none of ours.
    let all = all.filter(|(_, ingress)| ingress.ip_mode.as_deref() != Some("Proxy"));
    let said = all.filter_map(|(at, ingress)| Some(at.key("ip").address(ingress.ip.as_ref()?)));
    said.collect()
}

fn ports(
    at: &Place<'_>,
    spec: &api::ServiceSpec,
    has_node_ports: bool,
) -> Result<Box<[ServicePort]>, Fault> {
    let place = at.key("ports");
    let count = spec.ports.as_ref().map_or(0, Vec::len);
    if count > PORTS_MAX {
        return Err(place.fault(
            format!("{count} ports, more than a node has numbers for"),
            "spread them over several services",
        ));
    }
    let mut seen = BTreeSet::new();
    let port = |(at, said): (Place<'_>, &api::ServicePort)| {
        let port = needed(&at, "port", said.port)?;
        let transport = transport(&at, said.protocol.as_deref())?;
        if !seen.insert((port, transport)) {
            return Err(
                at.fault(format!("port {port}/{transport} is there twice"), "write each port once")
            );
        }
        let node_port = said.node_port.filter(|number| has_node_ports && *number != 0);
        let node_port = node_port.map(|it| number(&at.key("nodePort"), it)).transpose()?;
        Ok(ServicePort {
            name: name(said.name.as_deref()),
            port,
            node_port: node_port.unwrap_or(0),
            transport,
        })
    };
    place.each(spec.ports.as_ref()).map(port).collect()
}

/// The name of a port; the only one may have none.
pub(super) fn name(said: Option<&str>) -> Box<str> {
    said.unwrap_or_default().into()
}

/// The protocol of the port at that place.
pub(super) fn transport(at: &Place<'_>, said: Option<&str>) -> Result<Transport, Fault> {
    let Some(text) = said else { return Ok(Transport::TCP) };
    Transport::named(text).ok_or_else(|| {
        let problem = format!("unknown protocol {text:?}");
        at.key("protocol").fault(problem, "write TCP, UDP or SCTP")
    })
}

/// The number of a port.
pub(super) fn number(at: &Place<'_>, said: i32) -> Result<u16, Fault> {
    let number = u16::try_from(said).ok().filter(|number| *number > 0);
    number.ok_or_else(|| at.fault(format!("{said} is no port"), "write a number from 1 to 65535"))
}

/// The same of a field that must be there; for that it is not, the type has 0.
pub(super) fn needed(at: &Place<'_>, key: &str, said: i32) -> Result<u16, Fault> {
    if said == 0 { Err(at.missing(key)) } else { number(&at.key(key), said) }
}

fn ranges(at: &Place<'_>, spec: &api::ServiceSpec) -> Result<Box<[IpNet]>, Fault> {
    let at = at.key("loadBalancerSourceRanges");
    let range = |(at, text): (Place<'_>, &String)| {
        let text = text.trim();
        let net: Result<IpNet, _> = text.parse();
        net.map(|net| net.trunc()).map_err(|_| {
            at.fault(format!("{text:?} is no prefix"), "write a prefix, as in 192.0.2.0/24")
        })
    };
    at.each(spec.load_balancer_source_ranges.as_ref()).map(range).collect()
}

fn affinity(at: &Place<'_>, spec: &api::ServiceSpec) -> Result<u32, Fault> {
    match spec.session_affinity.as_deref() {
        None | Some("None" | "") => return Ok(0),
        Some("ClientIP") => {}
        Some(other) => {
            let problem = format!("unknown session affinity {other:?}");
            return Err(at.key("sessionAffinity").fault(problem, "write None or ClientIP"));
        }
    }
    let client = spec.session_affinity_config.as_ref().and_then(|it| it.client_ip.as_ref());
    let Some(said) = client.and_then(|client| client.timeout_seconds) else {
        return Ok(AFFINITY_SECONDS);
    };
    let seconds = u32::try_from(said).ok();
    seconds.filter(|it| (1..=AFFINITY_SECONDS_MAX).contains(it)).ok_or_else(|| {
        let at = at.key("sessionAffinityConfig");
        let at = at.key("clientIP");
        at.key("timeoutSeconds").fault(
            format!("{said} is no time"),
            format!("write seconds, from 1 to {AFFINITY_SECONDS_MAX}"),
        )
    })
}

fn is_local(at: &Place<'_>, said: Option<&str>) -> Result<bool, Fault> {
    match said {
        None | Some("Cluster" | "") => Ok(false),
        Some("Local") => Ok(true),
        Some(other) => Err(at.fault(format!("unknown policy {other:?}"), "write Cluster or Local")),
    }
}
