//! From what people write, by the flags of Hubble's client, to the filters of a request. A flag that means
//! either end is two alternatives; several such flags are all of their combinations, so that each of them
//! holds.

use std::collections::BTreeMap;

use crate::{
    messages::{EventTypeFilter, FlowFilter, TcpFlagSet},
    schema::{DROP_REASONS, number_of},
};

/// A filter as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagFilter {
    /// The flag, one of [`FLAGS`].
    pub flag: &'static str,
    /// What it says.
    pub value: String,
    /// Whether none of what it selects is wanted.
    pub not: bool,
}

/// A value that a flag does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag}={value}: {known} is expected")]
pub struct FlagError {
    flag: &'static str,
    value: String,
    known: &'static str,
}

/// Flags of filters, what their values are, and what they select.
pub const FLAGS: &[(&str, &str, &str)] = &[
    ("pod", "[NAMESPACE/]PREFIX", "Of or to a pod; without a namespace of `default`"),
    ("from-pod", "[NAMESPACE/]PREFIX", "Of a pod"),
    ("to-pod", "[NAMESPACE/]PREFIX", "To a pod"),
    ("namespace", "NAME", "Of or to pods of a namespace"),
    ("from-namespace", "NAME", "Of pods of a namespace"),
    ("to-namespace", "NAME", "To pods of a namespace"),
    ("service", "[NAMESPACE/]PREFIX", "Of or to a service"),
    ("from-service", "[NAMESPACE/]PREFIX", "Of a service"),
    ("to-service", "[NAMESPACE/]PREFIX", "To a service"),
    ("label", "SELECTOR", "Of or to who has these labels, `app=web` or `k8s:app in (a, b)`"),
    ("from-label", "SELECTOR", "Of who has these labels"),
    ("to-label", "SELECTOR", "To who has these labels"),
    ("identity", "NUMBER", "Of or to an identity; reserved ones also by name, `world`"),
    ("from-identity", "NUMBER", "Of an identity"),
    ("to-identity", "NUMBER", "To an identity"),
    ("ip", "ADDRESS", "Of or to an address or prefix"),
    ("from-ip", "ADDRESS", "Of an address or prefix"),
    ("to-ip", "ADDRESS", "To an address or prefix"),
    ("port", "NUMBER", "Of or to a port"),
    ("from-port", "NUMBER", "Of a port"),
    ("to-port", "NUMBER", "To a port"),
    ("verdict", "NAME", "What became of it: forwarded, dropped, redirected, audit"),
    ("type", "NAME", "Records: trace, drop, policy-verdict, or trace:to-endpoint"),
    ("protocol", "NAME", "tcp, udp, sctp, icmpv4, icmpv6, icmp, vrrp, igmp"),
    ("tcp-flags", "FLAGS", "With these flags of TCP: syn,ack"),
    ("traffic-direction", "NAME", "ingress or egress"),
    ("drop-reason-desc", "NAME", "Why it was dropped: policy_denied"),
    ("node-name", "PATTERN", "Seen by a node: [CLUSTER/]NODE, with * for any part"),
    ("uuid", "UUID", "That one"),
];

/// Flags that mean either end: with `from-` and `to-` before them they mean one.
const ENDS: [&str; 7] = ["pod", "namespace", "service", "label", "identity", "ip", "port"];
/// Identities that have names.
const RESERVED: [(&str, u32); 10] = [
    ("host", 1),
    ("world", 2),
    ("unmanaged", 3),
    ("health", 4),
    ("init", 5),
    ("remote-node", 6),
    ("kube-apiserver", 7),
    ("ingress", 8),
    ("world-ipv4", 9),
    ("world-ipv6", 10),
];
/// Points at which packets are traced.
const POINTS: [(&str, i32); 14] = [
    ("to-endpoint", 0),
    ("to-proxy", 1),
    ("to-host", 2),
    ("to-stack", 3),
    ("to-overlay", 4),
    ("from-endpoint", 5),
    ("from-proxy", 6),
    ("from-host", 7),
    ("from-stack", 8),
    ("from-overlay", 9),
    ("from-network", 10),
    ("to-network", 11),
    ("from-crypto", 12),
    ("to-crypto", 13),
];

/// One of these, if there are any, and none of those.
pub fn flag_filters(
    written: &[FlagFilter],
) -> Result<(Vec<FlowFilter>, Vec<FlowFilter>), FlagError> {
    let (not, wanted): (Vec<_>, Vec<_>) = written.iter().partition(|it| it.not);
    let allow = if wanted.is_empty() { Vec::new() } else { combined(&wanted)? };
    let mut deny = Vec::new();
    for filter in not {
        deny.extend(combined(&[filter])?);
    }
    Ok((allow, deny))
}

/// Filters of which one holds when all flags do.
fn combined(flags: &[&FlagFilter]) -> Result<Vec<FlowFilter>, FlagError> {
    // A pod's namespace may be said apart.
    let namespace = |prefix: &str| {
        let name = format!("{prefix}namespace");
        flags.iter().find(|it| it.flag == name).map(|it| it.value.as_str())
    };
    let mut by_flag: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for filter in flags {
        let (prefix, end) = side(filter.flag);
        let value = match (end, namespace(prefix)) {
            ("pod", Some(namespace)) if !filter.value.contains('/') => {
                format!("{namespace}/{}", filter.value)
            }
            ("namespace", _) => {
                let pod = format!("{prefix}pod");
                if flags.iter().any(|it| it.flag == pod && !it.value.contains('/')) {
                    continue;
                }
                format!("{}/", filter.value)
            }
            _ => filter.value.clone(),
        };
        by_flag.entry(filter.flag).or_default().push(value);
    }
    let mut all = vec![FlowFilter::default()];
    for (flag, values) in by_flag {
        let (prefix, end) = side(flag);
        if !ENDS.contains(&end) {
            for filter in &mut all {
                set(filter, flag, &values)?;
            }
            continue;
        }
        let sides: &[bool] = match prefix {
            "from-" => &[true],
            "to-" => &[false],
            _ => &[true, false],
        };
        let mut next = Vec::with_capacity(all.len() * sides.len());
        for filter in &all {
            for of_source in sides {
                let mut filter = filter.clone();
                set_end(&mut filter, end, &values, *of_source)?;
                next.push(filter);
            }
        }
        all = next;
    }
    Ok(all)
}

fn side(flag: &str) -> (&str, &str) {
    for prefix in ["from-", "to-"] {
        if let Some(end) = flag.strip_prefix(prefix) {
            return (prefix, end);
        }
    }
    ("", flag)
}

fn set_end(
    filter: &mut FlowFilter,
    end: &str,
    values: &[String],
    of_source: bool,
) -> Result<(), FlagError> {
    if end == "identity" {
        let to = match of_source {
            true => &mut filter.source_identity,
            false => &mut filter.destination_identity,
        };
        for value in values {
            let named = RESERVED.iter().find(|(name, _)| name == value).map(|(_, id)| *id);
            let id = named.or_else(|| value.parse().ok());
            to.push(id.ok_or_else(|| wrong("identity", value, "a number, or a name as world"))?);
        }
        return Ok(());
    }
    let (source, destination) = match end {
        "pod" | "namespace" => (&mut filter.source_pod, &mut filter.destination_pod),
        "service" => (&mut filter.source_service, &mut filter.destination_service),
        "label" => (&mut filter.source_label, &mut filter.destination_label),
        "ip" => (&mut filter.source_ip, &mut filter.destination_ip),
        _ => (&mut filter.source_port, &mut filter.destination_port),
    };
    if of_source { source } else { destination }.extend(values.iter().cloned());
    Ok(())
}

fn set(filter: &mut FlowFilter, flag: &'static str, values: &[String]) -> Result<(), FlagError> {
    for value in values {
        let lower = value.to_lowercase();
        match flag {
            "verdict" => filter.verdict.push(match lower.as_str() {
                "forwarded" => 1,
                "dropped" => 2,
                "error" => 3,
                "audit" => 4,
                "redirected" => 5,
                "traced" => 6,
                "translated" => 7,
                _ => return Err(wrong(flag, value, "forwarded, dropped, redirected or audit")),
            }),
            "type" => filter.event_type.push(event_type(value, &lower)?),
            "protocol" => filter.protocol.push(lower),
            "tcp-flags" => filter.tcp_flags.push(tcp_flags(value, &lower)?),
            "traffic-direction" => filter.traffic_direction.push(match lower.as_str() {
                "ingress" => 1,
                "egress" => 2,
                _ => return Err(wrong(flag, value, "ingress or egress")),
            }),
            "drop-reason-desc" => {
                let reason = number_of(DROP_REASONS, &value.to_uppercase());
                let known = "a reason of Hubble's API, as policy_denied";
                filter.drop_reason_desc.push(reason.ok_or_else(|| wrong(flag, value, known))?);
            }
            "node-name" => filter.node_name.push(value.clone()),
            _ => filter.uuid.push(value.clone()),
        }
    }
    Ok(())
}

fn event_type(value: &str, lower: &str) -> Result<EventTypeFilter, FlagError> {
    let (kind, sub) = lower.split_once(':').map_or((lower, None), |(kind, sub)| (kind, Some(sub)));
    let number = match kind {
        "drop" => 1,
        "capture" => 3,
        "trace" => 4,
        "policy-verdict" => 5,
        "trace-sock" => 7,
        "l7" => 129,
        _ => return Err(wrong("type", value, "trace, drop or policy-verdict")),
    };
    let Some(sub) = sub else {
        return Ok(EventTypeFilter { kind: number, ..EventTypeFilter::default() });
    };
    let point = POINTS.iter().find(|(name, _)| *name == sub).map(|(_, number)| *number);
    let sub_type = point.filter(|_| number == 4).or_else(|| sub.parse().ok());
    let sub_type = sub_type.ok_or_else(|| wrong("type", value, "trace:to-endpoint or drop:133"))?;
    Ok(EventTypeFilter { kind: number, match_sub_type: true, sub_type })
}

fn tcp_flags(value: &str, lower: &str) -> Result<TcpFlagSet, FlagError> {
    let mut flags = TcpFlagSet::default();
    for name in lower.split(',').map(str::trim) {
        *match name {
            "fin" => &mut flags.fin,
            "syn" => &mut flags.syn,
            "rst" => &mut flags.rst,
            "psh" => &mut flags.psh,
            "ack" => &mut flags.ack,
            "urg" => &mut flags.urg,
            "ece" => &mut flags.ece,
            "cwr" => &mut flags.cwr,
            "ns" => &mut flags.ns,
            _ => {
                return Err(wrong("tcp-flags", value, "syn, ack, fin, rst, psh, urg, with commas"));
            }
        } = true;
    }
    Ok(flags)
}

fn wrong(flag: &'static str, value: &str, known: &'static str) -> FlagError {
    FlagError { flag, value: value.to_owned(), known }
}
