//! A flow as the page shows it: names first, and what each end is filtered by.

use serde::Serialize;

use crate::{
    filter::Words,
    messages::{Flow, FlowEndpoint, FlowPolicy, FlowService, Protocol, direction, lost},
    observer::Observer,
    ring::{Content, Stored},
    schema::{DROP_REASONS, name_of},
    shown::{APPS, action, kind},
    why,
};

/// Microseconds since 1970: what a number of JavaScript holds.
pub(super) fn moment(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000
}

/// A row of the page.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    /// Number of its record.
    number: u64,
    /// When it was read, microseconds since 1970.
    at: u64,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
enum What {
    Flow(Box<ShownFlow>),
    /// Records that are not there.
    Lost {
        /// How many; 0 if nobody can know.
        count: u64,
        why: &'static str,
    },
}

#[derive(Debug, Serialize)]
struct ShownFlow {
    from: End,
    to: End,
    verdict: &'static str,
    /// Which record it was.
    kind: String,
    /// Name of the reason of a drop.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
    summary: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    denied_by: Vec<String>,
    /// The command that says why it was dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// An end of a flow. Terms are filters without `from-` and `to-`.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct End {
    /// Its pod, service or address.
    pub(super) name: String,
    /// What selects it.
    pub(super) term: String,
    /// Its workload within its namespace, or what it is that is no pod.
    pub(super) group: String,
    /// What selects that; several terms are apart by blanks.
    pub(super) group_term: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u32>,
    /// Its number on this node, 0 if it is elsewhere.
    pub(super) endpoint: u32,
    pub(super) identity: u32,
}

impl Shown {
    /// A record, if it is asked for. What is lost always is.
    pub(super) fn of(observer: &Observer, stored: &Stored, words: &Words) -> Option<Self> {
        let what = match &stored.content {
            Content::Lost { source, count, .. } => lost_records(*source as i32, *count),
            Content::Record { .. } => {
                let decoded = observer.decode(stored)?;
                let flow = Some(&decoded.flow).filter(|flow| words.pass(flow))?;
                What::Flow(Box::new(ShownFlow::of(flow)))
            }
        };
        Some(Self { number: stored.number, at: moment(stored.time), what })
    }
}

fn lost_records(source: i32, count: u64) -> What {
    let why = match (source, count) {
        (lost::KERNEL, 0) => "no agent ran",
        (lost::KERNEL, _) => "they came faster than the kernel's ring was read",
        _ => "they came faster than they were kept",
    };
    What::Lost { count, why }
}

impl ShownFlow {
    fn of(flow: &Flow) -> Self {
        let ip = flow.ip.as_ref();
        let ports = flow.protocol().and_then(Protocol::ports);
        let address = |of: fn(&crate::messages::Ip) -> &String| ip.map_or("", |ip| of(ip));
        let from = address(|ip| &ip.source);
        let to = address(|ip| &ip.destination);
        let mut allowed_by = policies(&flow.egress_allowed_by);
        allowed_by.extend(policies(&flow.ingress_allowed_by));
        let mut denied_by = policies(&flow.egress_denied_by);
        denied_by.extend(policies(&flow.ingress_denied_by));
        Self {
            from: end(&flow.source, &flow.source_service, from, ports.map(|(from, _)| from)),
            to: end(&flow.destination, &flow.destination_service, to, ports.map(|(_, to)| to)),
            verdict: action(flow),
            kind: kind(flow),
            reason: name_of(DROP_REASONS, flow.drop_reason_desc)
                .filter(|_| flow.drop_reason_desc != 0),
            direction: match flow.traffic_direction {
                direction::INGRESS => Some("ingress"),
                direction::EGRESS => Some("egress"),
                _ => None,
            },
            reply: flow.is_reply,
            protocol: flow.protocol().map(protocol),
            summary: flow.summary.clone(),
            allowed_by,
            denied_by,
            why: why::of_flow(flow),
        }
    }
}

fn protocol(protocol: &Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp(_) => "TCP",
        Protocol::Udp(_) => "UDP",
        Protocol::IcmpV4(_) => "ICMPv4",
        Protocol::IcmpV6(_) => "ICMPv6",
        Protocol::Sctp(_) => "SCTP",
        Protocol::Vrrp(_) => "VRRP",
        Protocol::Igmp(_) => "IGMP",
    }
}

fn policies(all: &[FlowPolicy]) -> Vec<String> {
    let name = |it: &FlowPolicy| format!("{} {}", it.kind, within(&it.namespace, &it.name));
    all.iter().map(name).collect()
}

fn within(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// Who an end is.
pub(super) fn end(
    endpoint: &Option<FlowEndpoint>,
    service: &Option<FlowService>,
    address: &str,
    port: Option<u32>,
) -> End {
    let unknown = FlowEndpoint::default();
    let it = endpoint.as_ref().unwrap_or(&unknown);
    let service = service.as_ref().filter(|it| !it.name.is_empty());
    let reserved = it.labels.iter().find_map(|label| label.strip_prefix("reserved:"));
    let reserved = reserved.filter(|_| it.identity < 256 && it.pod_name.is_empty());
    let (name, term) = match (it.pod_name.is_empty(), service) {
        (false, _) => {
            let pod = within(&it.namespace, &it.pod_name);
            (pod.clone(), format!("pod:{pod}"))
        }
        (_, Some(service)) => {
            let name = within(&service.namespace, &service.name);
            (name.clone(), format!("service:{name}"))
        }
        _ if !address.is_empty() => (address.to_owned(), format!("ip:{address}")),
        _ => (format!("identity {}", it.identity), format!("identity:{}", it.identity)),
    };
    let (group, group_term) = group(it, reserved, service, (&name, &term));
    End {
        name,
        term,
        group,
        group_term,
        namespace: it.namespace.clone(),
        address: address.to_owned(),
        port,
        endpoint: it.id,
        identity: it.identity,
    }
}

/// What an end is a part of.
fn group(
    it: &FlowEndpoint,
    reserved: Option<&str>,
    service: Option<&FlowService>,
    (name, term): (&str, &str),
) -> (String, String) {
    let app = APPS.iter().find_map(|key| {
        let mut labels = it.labels.iter();
        labels.find_map(|label| Some((label.as_str(), label.strip_prefix(key)?)))
    });
    let of_namespace = match it.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" namespace:{namespace}"),
    };
    match (it.workloads.first(), app, reserved) {
        (Some(workload), _, _) if !it.namespace.is_empty() => {
            let group = within(&it.namespace, &workload.name);
            let prefix = format!("pod:{group}");
            (group, prefix)
        }
        (_, Some((label, app)), _) => {
            (within(&it.namespace, app), format!("label:{label}{of_namespace}"))
        }
        (_, _, Some(reserved)) => (reserved.to_owned(), format!("identity:{}", it.identity)),
        _ if it.pod_name.is_empty() && service.is_none() && !it.namespace.is_empty() => {
            let all = within(&it.namespace, "other pods");
            (all, format!("namespace:{}", it.namespace))
        }
        _ => (name.to_owned(), term.to_owned()),
    }
}
