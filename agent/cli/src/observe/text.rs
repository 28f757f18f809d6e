//! Flows for people, as Hubble's client writes them.

use serde_json::Value;
use volvox_hubble::{
    json::moment,
    messages::{
        Flow, FlowEndpoint, FlowPolicy, FlowService, FlowsResponse, GetFlowsResponse, LostEvent,
        Protocol, Timestamp,
    },
    shown::{action, kind},
    why::of_flow,
};

use crate::output::Format;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Widths of the columns of `-o tab`.
const COLUMNS: [usize; 5] = [22, 42, 42, 26, 12];

/// Writes flows.
pub(super) struct Writer {
    format: Format,
    policies: bool,
    /// Whether the headings, or a flow, are written.
    begun: bool,
}

impl Writer {
    pub(super) fn new(format: Format, policies: bool) -> Self {
        Self { format, policies, begun: false }
    }

    /// The lines of an answer.
    pub(super) fn lines(&mut self, response: &GetFlowsResponse) -> Vec<String> {
        let begun = std::mem::replace(&mut self.begun, true);
        match &response.response {
            Some(FlowsResponse::Flow(flow)) => self.flow(flow, begun),
            Some(FlowsResponse::LostEvents(event)) => vec![lost(event)],
            Some(FlowsResponse::NodeStatus(status)) => {
                vec![format!("{}: {}", status.node_names.join(", "), status.message)]
            }
            None => Vec::new(),
        }
    }

    fn flow(&self, flow: &Flow, begun: bool) -> Vec<String> {
        let time = flow.time.as_ref().map(stamp).unwrap_or_default();
        let (source, destination) = ends(flow);
        let (kind, action) = (kind(flow), action(flow));
        let mut summary = flow.summary.clone();
        if self.policies {
            summary += &policies(flow);
        }
        match self.format {
            Format::Tab => {
                let row = |cells: [&str; 6]| {
                    let padded =
                        cells.iter().zip(COLUMNS).map(|(it, width)| format!("{it:width$}"));
                    let mut all: Vec<_> = padded.collect();
                    all.push(cells[5].to_owned());
                    all.join(" ").trim_end().to_owned()
                };
                let heads = ["TIMESTAMP", "SOURCE", "DESTINATION", "TYPE", "VERDICT", "SUMMARY"];
                let heads = (!begun).then(|| row(heads));
                let row = row([&time, &source, &destination, &kind, action, &summary]);
                heads.into_iter().chain([row]).collect()
            }
            Format::Dict => {
                let rule = begun.then(|| "------------".to_owned());
                let members = [
                    ("TIMESTAMP", time.as_str()),
                    ("SOURCE", &source),
                    ("DESTINATION", &destination),
                    ("TYPE", &kind),
                    ("VERDICT", action),
                    ("SUMMARY", &summary),
                ];
                let why = of_flow(flow).map(|why| ("WHY", why));
                let why = why.iter().map(|(name, why)| (*name, why.as_str()));
                let members = members.into_iter().chain(why);
                let members = members.map(|(name, value)| format!("{name:>11}: {value}"));
                rule.into_iter().chain(members).collect()
            }
            _ => {
                let (left, arrow, right) = match flow.is_reply {
                    Some(true) => (destination, "<-", source),
                    Some(false) => (source, "->", destination),
                    None => (source, "<>", destination),
                };
                let line = format!("{time}: {left} {arrow} {right} {kind} {action} ({summary})");
                let why = of_flow(flow).map(|why| format!("  why: {why}"));
                [line].into_iter().chain(why).collect()
            }
        }
    }
}

/// Sender and receiver.
fn ends(flow: &Flow) -> (String, String) {
    let ip = flow.ip.clone().unwrap_or_default();
    let ports = flow.protocol().and_then(Protocol::ports);
    let mac = flow.ethernet.clone().unwrap_or_default();
    let of = |address: &str, mac: &str, port, endpoint: &Option<_>, service: &Option<_>| {
        end(if address.is_empty() { mac } else { address }, port, endpoint, service)
    };
    let from = ports.map(|(from, _)| from);
    let to = ports.map(|(_, to)| to);
    (
        of(&ip.source, &mac.source, from, &flow.source, &flow.source_service),
        of(&ip.destination, &mac.destination, to, &flow.destination, &flow.destination_service),
    )
}

fn end(
    address: &str,
    port: Option<u32>,
    endpoint: &Option<FlowEndpoint>,
    service: &Option<FlowService>,
) -> String {
    let pod = endpoint.as_ref().filter(|it| !it.pod_name.is_empty());
    let mut text = match (pod, service) {
        (Some(pod), _) => format!("{}/{}", pod.namespace, pod.pod_name),
        (None, Some(service)) if !service.name.is_empty() => {
            format!("{}/{}", service.namespace, service.name)
        }
        _ if address.contains(':') && port.is_some() => format!("[{address}]"),
        _ => address.to_owned(),
    };
    if let Some(port) = port {
        text += &format!(":{port}");
    }
    let Some(endpoint) = endpoint.as_ref().filter(|it| it.identity != 0) else { return text };
    let reserved = endpoint.labels.iter().find_map(|label| label.strip_prefix("reserved:"));
    text + &match reserved.filter(|_| endpoint.identity < 256) {
        Some(name) => format!(" ({name})"),
        None => format!(" (ID:{})", endpoint.identity),
    }
}

/// The policies that decided.
fn policies(flow: &Flow) -> String {
    let named = |what: &str, all: &[FlowPolicy]| {
        let name = |it: &FlowPolicy| match it.namespace.as_str() {
            "" => format!("{} {}", it.kind, it.name),
            namespace => format!("{} {namespace}/{}", it.kind, it.name),
        };
        let names: Vec<_> = all.iter().map(name).collect();
        if names.is_empty() { String::new() } else { format!("; {what} by {}", names.join(", ")) }
    };
    named("egress allowed", &flow.egress_allowed_by)
        + &named("ingress allowed", &flow.ingress_allowed_by)
        + &named("egress denied", &flow.egress_denied_by)
        + &named("ingress denied", &flow.ingress_denied_by)
}

/// `Nov 28 09:30:00.123`, in UTC.
fn stamp(time: &Timestamp) -> String {
    let text = moment(&Timestamp { nanos: 0, ..*time });
    let month = text[5..7].parse::<usize>().ok().and_then(|month| MONTHS.get(month - 1));
    let millis = time.nanos.clamp(0, 999_999_999) / 1_000_000;
    format!("{} {} {}.{millis:03}", month.unwrap_or(&"???"), &text[8..10], &text[11..19])
}

fn lost(event: &LostEvent) -> String {
    let source = match event.source {
        1 => "PERF_EVENT_RING_BUFFER",
        2 => "OBSERVER_EVENTS_QUEUE",
        3 => "HUBBLE_RING_BUFFER",
        _ => "UNKNOWN",
    };
    let cpu = event.cpu.map(|cpu| format!(" CPU({cpu})")).unwrap_or_default();
    if event.num_events_lost > 0 {
        return format!("EVENTS LOST: {source}{cpu} {}", event.num_events_lost);
    }
    let span = event.first.as_ref().zip(event.last.as_ref());
    let span = span.map(|(first, last)| format!(" from {} to {}", stamp(first), stamp(last)));
    format!(
        "EVENTS LOST: {source}{cpu} nobody knows how many, no agent ran{}",
        span.unwrap_or_default()
    )
}

/// An event of the agent on a line.
pub(super) fn agent_event(event: &Value) -> String {
    let time = event["time"].as_str().and_then(volvox_hubble::json::parse_moment);
    let time = time.as_ref().map(stamp).unwrap_or_default();
    let of = &event["agent_event"];
    let details = of.as_object().into_iter().flatten().find(|(name, _)| *name != "type");
    let details = details.map(|(_, value)| value.to_string()).unwrap_or_default();
    let kind = of["type"].as_str().unwrap_or("AGENT_EVENT_UNKNOWN");
    format!("{time}: {kind} {details}").trim_end().to_owned()
}
