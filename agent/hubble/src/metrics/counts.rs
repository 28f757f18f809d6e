//! The metrics: which flows each counts, and by which labels.

use volvox_bpf_progs::TracePoint;

use super::Labels;
use crate::{
    messages::{Flow, Protocol, direction, event, verdict},
    schema,
};

/// Dropped by policy, and no row allows it.
const POLICY_DENIED: i32 = 133;
/// The identity of the node itself, which reaches its pods in any case.
const HOST: u32 = 1;

/// A metric, with its own options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flow,
    Drop,
    Tcp,
    Icmp,
    Ports,
    ToWorld { any_drop: bool, port: bool, syn_only: bool },
    Policy,
    Dns,
    Http,
    HttpV2,
}

const ALL: [Kind; 10] = [
    Kind::Flow,
    Kind::Drop,
    Kind::Tcp,
    Kind::Icmp,
    Kind::Ports,
    Kind::ToWorld { any_drop: false, port: false, syn_only: false },
    Kind::Policy,
    Kind::Dns,
    Kind::Http,
    Kind::HttpV2,
];

impl Kind {
    pub(super) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(super) fn names() -> String {
        ALL.map(Self::name).join(", ")
    }

    /// The word of `--hubble-metrics`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Drop => "drop",
            Self::Tcp => "tcp",
            Self::Icmp => "icmp",
            Self::Ports => "port-distribution",
            Self::ToWorld { .. } => "flows-to-world",
            Self::Policy => "policy",
            Self::Dns => "dns",
            Self::Http => "http",
            Self::HttpV2 => "httpV2",
        }
    }

    /// Whether it counts requests of layer 7.
    pub(super) const fn is_layer7(self) -> bool {
        matches!(self, Self::Dns | Self::Http | Self::HttpV2)
    }

    /// Its name without `_total`, and its help.
    pub(super) const fn metric(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Flow => ("hubble_flows_processed", "Flows."),
            Self::Drop => ("hubble_drop", "Flows that were dropped, by reason."),
            Self::Tcp => ("hubble_tcp_flags", "Flows of TCP that went on, by flag."),
            Self::Icmp => ("hubble_icmp", "Flows of ICMP that went on, by type."),
            Self::Ports => {
                ("hubble_port_distribution", "Flows that went on and are no replies, by port.")
            }
            Self::ToWorld { .. } => {
                ("hubble_flows_to_world", "Flows to addresses outside of the cluster.")
            }
            Self::Policy => ("hubble_policy_verdicts", "Verdicts of policy."),
            Self::Dns | Self::Http | Self::HttpV2 => return None,
        })
    }

    /// Options of its own.
    pub(super) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::ToWorld { .. } => &["any-drop", "port", "syn-only"],
            Self::Dns => &["query", "ignoreAAAA"],
            Self::HttpV2 => &["exemplars"],
            _ => &[],
        }
    }

    /// Takes an option of its own; false if it has none of that name.
    pub(super) fn set(&mut self, key: &str) -> bool {
        if let Self::ToWorld { any_drop, port, syn_only } = self {
            match key {
                "any-drop" => *any_drop = true,
                "port" => *port = true,
                "syn-only" => *syn_only = true,
                _ => return false,
            }
            return true;
        }
        self.options().contains(&key)
    }

    /// The labels under which a flow counts: none if it does not.
    pub(super) fn count(self, flow: &Flow) -> Vec<Labels> {
        let goes_on = matches!(flow.verdict, verdict::FORWARDED | verdict::REDIRECTED);
        match self {
            Self::Flow => vec![flow_labels(flow)],
            Self::Drop if flow.verdict == verdict::DROPPED => {
                let reason = schema::name_of(schema::DROP_REASONS, flow.drop_reason_desc);
                let reason = reason.unwrap_or("DROP_REASON_UNKNOWN").to_owned();
                vec![vec![("reason", reason), ("protocol", protocol(flow).to_owned())]]
            }
            Self::Tcp if goes_on => tcp_labels(flow),
            Self::Icmp if goes_on => icmp_labels(flow).into_iter().collect(),
            Self::Ports if goes_on && flow.is_reply == Some(false) => {
                let port = port(flow).map(|port| ("port", port.to_string()));
                port.map(|port| vec![("protocol", protocol(flow).to_owned()), port])
                    .into_iter()
                    .collect()
            }
            Self::ToWorld { any_drop, port, syn_only } => {
                to_world_labels(flow, any_drop, port, syn_only).into_iter().collect()
            }
            Self::Policy => policy_labels(flow).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

fn flow_labels(flow: &Flow) -> Labels {
    let (kind, sub) = flow.event_type.map_or((0, 0), |it| (it.kind, it.sub_type));
    let (kind, sub) = match kind {
        event::DROP => ("Drop", ""),
        event::TRACE => {
            let point = u8::try_from(sub).ok().and_then(TracePoint::from_number);
            ("Trace", point.map_or("", TracePoint::text))
        }
        event::POLICY_VERDICT => ("PolicyVerdict", ""),
        event::L7 => ("L7", ""),
        _ => ("Unknown", ""),
    };
    vec![
        ("protocol", protocol(flow).to_owned()),
        ("type", kind.to_owned()),
        ("subtype", sub.to_owned()),
        ("verdict", verdict_name(flow).to_owned()),
    ]
}

fn tcp_labels(flow: &Flow) -> Vec<Labels> {
    let Some(Protocol::Tcp(tcp)) = flow.protocol() else { return Vec::new() };
    let Some(flags) = tcp.flags else { return Vec::new() };
    let flags = [
        (flags.fin, "FIN"),
        (flags.syn && !flags.ack, "SYN"),
        (flags.syn && flags.ack, "SYN-ACK"),
        (flags.rst, "RST"),
    ];
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, flag)| vec![("flag", flag.to_owned()), ("family", family(flow).to_owned())])
        .collect()
}

fn icmp_labels(flow: &Flow) -> Option<Labels> {
    if !matches!(flow.protocol()?, Protocol::IcmpV4(_) | Protocol::IcmpV6(_)) {
        return None;
    }
    let (_, kind) = flow.summary.split_once(' ')?;
    Some(vec![("family", family(flow).to_owned()), ("type", kind.to_owned())])
}

fn to_world_labels(flow: &Flow, any_drop: bool, with_port: bool, syn_only: bool) -> Option<Labels> {
    let labels = &flow.destination.as_ref()?.labels;
    let is_world = |label: &String| {
        matches!(label.as_str(), "reserved:world" | "reserved:world-ipv4" | "reserved:world-ipv6")
    };
    // What may be a reply would tell of ports that nobody chose.
    let is_counted = labels.iter().any(is_world)
        && (flow.verdict != verdict::FORWARDED || flow.is_reply == Some(false))
        && (any_drop || flow.verdict != verdict::DROPPED || flow.drop_reason_desc == POLICY_DENIED)
        && (!syn_only || is_syn(flow));
    if !is_counted {
        return None;
    }
    let mut labels =
        vec![("protocol", protocol(flow).to_owned()), ("verdict", verdict_name(flow).to_owned())];
    if with_port {
        labels.push(("port", port(flow).unwrap_or_default().to_string()));
    }
    Some(labels)
}

fn policy_labels(flow: &Flow) -> Option<Labels> {
    flow.event_type.filter(|it| it.kind == event::POLICY_VERDICT)?;
    if flow.source.as_ref().is_some_and(|source| source.identity == HOST) {
        return None;
    }
    let way = match flow.traffic_direction {
        direction::INGRESS => "ingress",
        direction::EGRESS => "egress",
        _ => "traffic_direction_unknown",
    };
    Some(vec![
        ("direction", way.to_owned()),
        ("match", flow.policy_match().unwrap_or("unknown").to_ascii_lowercase()),
        ("action", verdict_name(flow).to_ascii_lowercase()),
    ])
}

fn is_syn(flow: &Flow) -> bool {
    let Some(Protocol::Tcp(tcp)) = flow.protocol() else { return true };
    tcp.flags.is_some_and(|flags| flags.syn && !flags.ack)
}

fn protocol(flow: &Flow) -> &'static str {
    match flow.protocol() {
        Some(Protocol::Tcp(_)) => "TCP",
        Some(Protocol::Udp(_)) => "UDP",
        Some(Protocol::IcmpV4(_)) => "ICMPv4",
        Some(Protocol::IcmpV6(_)) => "ICMPv6",
        Some(Protocol::Sctp(_)) => "SCTP",
        Some(Protocol::Vrrp(_)) => "VRRP",
        Some(Protocol::Igmp(_)) => "IGMP",
        None => "Unknown L4",
    }
}

/// The receiver's port; 0 where the protocol has none.
fn port(flow: &Flow) -> Option<u32> {
    Some(flow.protocol()?.ports().map_or(0, |(_, to)| to))
}

fn family(flow: &Flow) -> &'static str {
    match flow.ip.as_ref().map(|ip| ip.ip_version) {
        Some(1) => "IPv4",
        Some(2) => "IPv6",
        _ => "IP_NOT_USED",
    }
}

fn verdict_name(flow: &Flow) -> &'static str {
    schema::name_of(schema::VERDICTS, flow.verdict).unwrap_or("VERDICT_UNKNOWN")
}
