//! From the members of a filter to tests of a flow.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{
    FilterError, Test, VALUE_BYTES_MAX,
    labels::Selector,
    patterns::{Expression, NodePattern, fqdn},
};
use crate::messages::{
    Flow, FlowEndpoint, FlowFilter, FlowService, Icmp, Protocol, TcpFlagSet, Workload, event,
    verdict,
};

/// Kinds of a pair of members: what the sender is, or the receiver.
type Side = fn(&Flow) -> Option<&FlowEndpoint>;

fn source(flow: &Flow) -> Option<&FlowEndpoint> {
    flow.source.as_ref()
}

fn destination(flow: &Flow) -> Option<&FlowEndpoint> {
    flow.destination.as_ref()
}

/// Refuses a value.
pub(super) fn refused(field: &'static str, value: &str, problem: impl Into<String>) -> FilterError {
    let value = value.chars().take(64).collect();
    FilterError::Value { field, value, problem: problem.into() }
}

/// The tests of one filter: all must hold. `room` is how many values may come yet.
pub(super) fn tests(filter: &FlowFilter, room: &mut usize) -> Result<Vec<Test>, FilterError> {
    bound(filter, room)?;
    if filter.experimental.as_ref().is_some_and(|it| !it.cel_expression.is_empty()) {
        return Err(FilterError::Cel);
    }
    let mut tests = Vec::new();
    addresses(filter, &mut tests)?;
    ends(filter, &mut tests)?;
    numbers(filter, &mut tests)?;
    layer4(filter, &mut tests)?;
    texts(filter, &mut tests)?;
    layer7(filter, &mut tests)?;
    Ok(tests)
}

/// Refuses more, and longer, than anybody needs.
fn bound(filter: &FlowFilter, room: &mut usize) -> Result<(), FilterError> {
    let bytes = prost::Message::encode_to_vec(filter);
    let mut values = 0;
    for (number, wire, _) in crate::wire::members(&bytes) {
        values += 1;
        let crate::wire::Wire::Bytes(value) = wire else { continue };
        let field = crate::schema::FLOW_FILTER.numbered(number);
        let packed = field.is_some_and(|it| {
            !matches!(it.kind, crate::schema::Kind::Text | crate::schema::Kind::Message(_))
        });
        if packed {
            values += value.len();
        } else if value.len() > VALUE_BYTES_MAX {
            let name = field.map_or("?", |field| field.name);
            let start = String::from_utf8_lossy(&value[..64]);
            let problem = format!("is longer than {VALUE_BYTES_MAX} bytes: shorten it");
            return Err(refused(name, &start, problem));
        }
    }
    *room = room.checked_sub(values).ok_or(FilterError::TooMany)?;
    Ok(())
}

fn push(tests: &mut Vec<Test>, test: impl Fn(&Flow) -> bool + Send + Sync + 'static) {
    tests.push(Box::new(test));
}

fn addresses(filter: &FlowFilter, tests: &mut Vec<Test>) -> Result<(), FilterError> {
    type Get = fn(&Flow) -> Option<&str>;
    let all: [(&'static str, &[String], Get); 3] = [
        ("source_ip", &filter.source_ip, |flow| Some(&flow.ip.as_ref()?.source)),
        ("destination_ip", &filter.destination_ip, |flow| Some(&flow.ip.as_ref()?.destination)),
        ("source_ip_xlated", &filter.source_ip_xlated, |flow| {
            Some(&flow.ip.as_ref()?.source_xlated)
        }),
    ];
    for (field, values, get) in all {
        let nets = values.iter().map(|value| {
            let net = value.parse::<IpNet>().or_else(|_| value.parse::<IpAddr>().map(IpNet::from));
            net.map_err(|_| refused(field, value, "is neither an address nor a prefix"))
        });
        let nets = nets.collect::<Result<Vec<_>, _>>()?;
        if nets.is_empty() {
            continue;
        }
        push(tests, move |flow| {
            let address = get(flow).and_then(|text| text.parse::<IpAddr>().ok());
            address.is_some_and(|address| nets.iter().any(|net| net.contains(&address)))
        });
    }
    Ok(())
}

/// A name as `[namespace/]prefix`.
#[derive(Debug)]
struct Named {
    namespace: Option<String>,
    prefix: String,
}

impl Named {
    fn parse(field: &'static str, value: &str) -> Result<Self, FilterError> {
        let (namespace, prefix) = match value.split_once('/') {
            Some((namespace, prefix)) => (namespace, prefix),
            None => ("default", value),
        };
        if prefix.is_empty() && (namespace.is_empty() || !value.contains('/')) {
            let problem = "names nobody: write NAMESPACE/NAME, NAMESPACE/ or NAME";
            return Err(refused(field, value, problem));
        }
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Ok(Self { namespace, prefix: prefix.to_owned() })
    }

    fn is(&self, namespace: &str, name: &str) -> bool {
        let is_there = self.namespace.as_ref().is_none_or(|it| it == namespace);
        is_there && name.starts_with(&self.prefix)
    }
}

fn ends(filter: &FlowFilter, tests: &mut Vec<Test>) -> Result<(), FilterError> {
    let pods: [(&'static str, &[String], Side); 2] = [
        ("source_pod", &filter.source_pod, source),
        ("destination_pod", &filter.destination_pod, destination),
    ];
    for (field, values, side) in pods {
        let named = values.iter().map(|value| Named::parse(field, value));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        if !named.is_empty() {
            push(tests, move |flow| {
                side(flow).is_some_and(|it| named.iter().any(|n| n.is(&it.namespace, &it.pod_name)))
            });
        }
    }
    type Service = fn(&Flow) -> Option<&FlowService>;
    let services: [(&'static str, &[String], Service); 2] = [
        ("source_service", &filter.source_service, |flow| flow.source_service.as_ref()),
        ("destination_service", &filter.destination_service, |flow| {
            flow.destination_service.as_ref()
        }),
    ];
    for (field, values, get) in services {
        let named = values.iter().map(|value| Named::parse(field, value));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        if !named.is_empty() {
            push(tests, move |flow| {
                get(flow).is_some_and(|it| named.iter().any(|n| n.is(&it.namespace, &it.name)))
            });
        }
    }
    let labels: [(&'static str, &[String], Side); 2] = [
        ("source_label", &filter.source_label, source),
        ("destination_label", &filter.destination_label, destination),
    ];
    for (field, values, side) in labels {
        let selectors = selectors(field, values)?;
        if !selectors.is_empty() {
            push(tests, move |flow| {
                side(flow).is_some_and(|it| selectors.iter().any(|s| s.selects(&it.labels)))
            });
        }
    }
    workloads(&filter.source_workload, source, tests);
    workloads(&filter.destination_workload, destination, tests);
    Ok(())
}

fn selectors(field: &'static str, values: &[String]) -> Result<Vec<Selector>, FilterError> {
    let parse =
        |value: &String| Selector::parse(value).map_err(|problem| refused(field, value, problem));
    values.iter().map(parse).collect()
}

fn workloads(wanted: &[Workload], side: Side, tests: &mut Vec<Test>) {
    if wanted.is_empty() {
        return;
    }
    let wanted = wanted.to_vec();
    let is = |wanted: &Workload, it: &Workload| {
        (wanted.name.is_empty() || wanted.name == it.name)
            && (wanted.kind.is_empty() || wanted.kind == it.kind)
    };
    push(tests, move |flow| {
        let Some(end) = side(flow) else { return false };
        end.workloads.iter().any(|it| wanted.iter().any(|wanted| is(wanted, it)))
    });
}

/// A test that a member is one of some values.
fn one_of<T: PartialEq + Clone + Send + Sync + 'static>(
    tests: &mut Vec<Test>,
    wanted: &[T],
    get: impl Fn(&Flow) -> Option<T> + Send + Sync + 'static,
) {
    if !wanted.is_empty() {
        let wanted = wanted.to_vec();
        push(tests, move |flow| get(flow).is_some_and(|it| wanted.contains(&it)));
    }
}

fn numbers(filter: &FlowFilter, tests: &mut Vec<Test>) -> Result<(), FilterError> {
    one_of(tests, &filter.verdict, |flow| Some(flow.verdict));
    one_of(tests, &filter.drop_reason_desc, |flow| Some(flow.drop_reason_desc));
    one_of(tests, &filter.traffic_direction, |flow| Some(flow.traffic_direction));
    one_of(tests, &filter.source_identity, |flow| Some(flow.source.as_ref()?.identity));
    one_of(tests, &filter.destination_identity, |flow| Some(flow.destination.as_ref()?.identity));
    one_of(tests, &filter.ip_version, |flow| Some(flow.ip.as_ref().map_or(0, |ip| ip.ip_version)));
    one_of(tests, &filter.encrypted, |flow| Some(flow.ip.as_ref().is_some_and(|ip| ip.encrypted)));
    // No packet here carries such a number, so each is 0.
    one_of(tests, &filter.ip_trace_id, |_| Some(0));
    // A dropped packet is never known for a reply.
    one_of(tests, &filter.reply, |flow| match flow.is_reply {
        None if flow.verdict == verdict::DROPPED => Some(false),
        known => known,
    });
    if !filter.event_type.is_empty() {
        let wanted = filter.event_type.clone();
        push(tests, move |flow| {
            let Some(it) = flow.event_type else { return false };
            wanted.iter().any(|wanted| {
                (wanted.kind == 0 || wanted.kind == it.kind)
                    && (!wanted.match_sub_type || wanted.sub_type == it.sub_type)
            })
        });
    }
    if !filter.interface.is_empty() {
        let wanted = filter.interface.clone();
        push(tests, move |flow| {
            let Some(it) = &flow.interface else { return false };
            wanted.iter().any(|wanted| {
                (wanted.index == 0 || wanted.index == it.index)
                    && (wanted.name.is_empty() || wanted.name == it.name)
            })
        });
    }
    Ok(())
}

fn layer4(filter: &FlowFilter, tests: &mut Vec<Test>) -> Result<(), FilterError> {
    const PROTOCOLS: [&str; 11] =
        ["icmp", "icmpv4", "icmpv6", "tcp", "udp", "sctp", "vrrp", "igmp", "dns", "http", "kafka"];
    let mut wanted = Vec::new();
    for value in &filter.protocol {
        let lower = value.to_lowercase();
        let known = PROTOCOLS.into_iter().find(|it| *it == lower);
        wanted.push(known.ok_or_else(|| {
            refused("protocol", value, format!("is none of {}", PROTOCOLS.join(", ")))
        })?);
    }
    if !wanted.is_empty() {
        push(tests, move |flow| {
            let is = |wanted: &&str| match flow.protocol() {
                Some(Protocol::IcmpV4(Icmp { .. })) => ["icmp", "icmpv4"].contains(wanted),
                Some(Protocol::IcmpV6(_)) => ["icmp", "icmpv6"].contains(wanted),
                Some(Protocol::Tcp(_)) => *wanted == "tcp",
                Some(Protocol::Udp(_)) => *wanted == "udp",
                Some(Protocol::Sctp(_)) => *wanted == "sctp",
                Some(Protocol::Vrrp(_)) => *wanted == "vrrp",
                Some(Protocol::Igmp(_)) => *wanted == "igmp",
                None => false,
            };
            wanted.iter().any(is)
        });
    }
    for (field, values, of_source) in [
        ("source_port", &filter.source_port, true),
        ("destination_port", &filter.destination_port, false),
    ] {
        let ports = values.iter().map(|value| {
            value.parse::<u16>().map_err(|_| refused(field, value, "is no port: 0 to 65535"))
        });
        let wanted = ports.collect::<Result<Vec<_>, _>>()?;
        one_of(tests, &wanted, move |flow| {
            let (from, to) = flow.protocol()?.ports()?;
            Some(if of_source { from } else { to } as u16)
        });
    }
    if !filter.tcp_flags.is_empty() {
        let wanted = filter.tcp_flags.clone();
        push(tests, move |flow| match flow.protocol() {
            Some(Protocol::Tcp(tcp)) => {
                let flags = tcp.flags.unwrap_or_default();
                wanted.iter().any(|wanted| has_flags(wanted, &flags))
            }
            _ => false,
        });
    }
    Ok(())
}

/// Whether all flags that are wanted are set.
fn has_flags(wanted: &TcpFlagSet, flags: &TcpFlagSet) -> bool {
    let pairs = [
        (wanted.fin, flags.fin),
        (wanted.syn, flags.syn),
        (wanted.rst, flags.rst),
        (wanted.psh, flags.psh),
        (wanted.ack, flags.ack),
        (wanted.urg, flags.urg),
        (wanted.ece, flags.ece),
        (wanted.cwr, flags.cwr),
        (wanted.ns, flags.ns),
    ];
    pairs.into_iter().all(|(wanted, is_set)| is_set || !wanted)
}

fn texts(filter: &FlowFilter, tests: &mut Vec<Test>) -> Result<(), FilterError> {
    one_of(tests, &filter.uuid, |flow| Some(flow.uuid.clone()));
    one_of(tests, &filter.source_cluster_name, |it| Some(it.source.as_ref()?.cluster_name.clone()));
    one_of(tests, &filter.destination_cluster_name, |it| {
        Some(it.destination.as_ref()?.cluster_name.clone())
    });
    let patterns = filter.node_name.iter().map(|value| {
        NodePattern::parse(value).map_err(|problem| refused("node_name", value, problem))
    });
    let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
    if !patterns.is_empty() {
        push(tests, move |flow| patterns.iter().any(|it| it.is(&flow.node_name)));
    }
    let selectors = selectors("node_labels", &filter.node_labels)?;
    if !selectors.is_empty() {
        push(tests, move |flow| selectors.iter().any(|it| it.selects(&flow.node_labels)));
    }
    type Get = fn(&Flow) -> &[String];
    let names: [(&'static str, &[String], Get); 2] = [
        ("source_fqdn", &filter.source_fqdn, |flow| &flow.source_names),
        ("destination_fqdn", &filter.destination_fqdn, |flow| &flow.destination_names),
    ];
    for (field, values, get) in names {
        let patterns =
            values.iter().map(|it| fqdn(it).map_err(|problem| refused(field, it, problem)));
        let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
        if !patterns.is_empty() {
            push(tests, move |flow| {
                get(flow).iter().any(|name| {
                    let name = name.trim_end_matches('.').to_lowercase();
                    patterns.iter().any(|pattern| pattern.is_match(&name))
                })
            });
        }
    }
    Ok(())
}

/// Filters of requests: no flow here has one, so those that are well-formed match nothing.
fn layer7(filter: &FlowFilter, tests: &mut Vec<Test>) -> Result<(), FilterError> {
    for (field, values) in [
        ("dns_query", &filter.dns_query),
        ("http_path", &filter.http_path),
        ("http_url", &filter.http_url),
    ] {
        for value in values {
            Expression::new(value).map_err(|problem| refused(field, value, problem))?;
        }
    }
    for value in &filter.http_status_code {
        let digits = value.strip_suffix('+').unwrap_or(value);
        let is_code = match value.ends_with('+') {
            true => (1..=2).contains(&digits.len()),
            false => digits.len() == 3,
        };
        if !is_code
            || !digits.starts_with(['1', '2', '3', '4', '5'])
            || digits.parse::<u16>().is_err()
        {
            let problem = "is no status: write 404, or 4+ for all that begin so";
            return Err(refused("http_status_code", value, problem));
        }
    }
    let of_http = [
        ("http_status_code", filter.http_status_code.len()),
        ("http_method", filter.http_method.len()),
        ("http_path", filter.http_path.len()),
        ("http_url", filter.http_url.len()),
        ("http_header", filter.http_header.len()),
    ];
    let http = of_http.into_iter().find(|(_, values)| *values > 0);
    let types = &filter.event_type;
    if let Some((field, _)) = http
        && !types.is_empty()
        && !types.iter().any(|it| it.kind == event::L7)
    {
        return Err(FilterError::HttpWithout(field));
    }
    if http.is_some() || !filter.dns_query.is_empty() || !filter.trace_id.is_empty() {
        push(tests, |_| false);
    }
    Ok(())
}
