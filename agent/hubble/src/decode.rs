//! From a record of the datapath to a flow: who, what, which way, and what became of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use volvox_bpf_progs::layouts::{DropRecord, EventHeader, Record, TraceRecord, VerdictRecord};

use crate::{
    messages::{
        Emitter, EventType, Flow, FlowEndpoint, Ip, NetworkInterface, SourceFile, Timestamp,
        direction, event, verdict,
    },
    names::Names,
    packet::Packet,
    ring::{Content, Ring, Stored},
};

/// Where a packet goes to a proxy: the receiver's identity is the proxy's port.
const TO_PROXY: u8 = 1;
/// Where it comes to the receiving endpoint: 0 in records, and not in flows, where that is nothing.
const TO_ENDPOINT: i32 = 101;
/// How connection tracking knows a packet.
const REASON_REPLY: u8 = 2;
const REASON_KNOWN_MAX: u8 = 4;
const REASON_UNKNOWN: u8 = 5;
/// The bit beside it: the packet is encrypted.
const REASON_ENCRYPTED: u8 = 0x80;
/// Bits of a verdict.
const VERDICT_AUDITED: u8 = 1 << 6;
const VERDICT_LAYER3: u8 = 1 << 7;
/// A row of a policy denies it.
const POLICY_DENY: i32 = 181;
const POLICY_DENIED: i32 = 133;

/// The flow of a record; none if it is no record of a packet.
pub fn flow(stored: &Stored, ring: &Ring, names: &Names) -> Option<Flow> {
    let Content::Record { cookie, bytes } = &stored.content else { return None };
    let record = Record::parse(bytes)?;
    let mut flow = match &record {
        Record::Drop(drop, packet) => dropped(drop, packet, stored.time, *cookie, names),
        Record::Trace(trace, packet) => traced(trace, packet, stored.time, names),
        Record::Verdict(verdict, packet) => judged(verdict, packet, stored.time, names),
    };
    flow.time = Some(Timestamp::from_nanoseconds(stored.time));
    flow.uuid = uuid(ring.marks(stored.number));
    flow.node_name = names.flow_name().to_owned();
    flow.node_labels = names.node().labels.clone();
    flow.emitter =
        Some(Emitter { name: "Hubble".to_owned(), version: names.node().version.clone() });
    flow.kind = 1;
    Some(flow)
}

/// Addresses of a record that no endpoint here has, though one here wrote it: names are behind.
pub fn strangers(stored: &Stored, names: &Names) -> bool {
    let Content::Record { bytes, .. } = &stored.content else { return false };
    let Some(record) = Record::parse(bytes) else { return false };
    let (header, packet) = match &record {
        Record::Drop(it, packet) => (it.header, packet),
        Record::Trace(it, packet) => (it.header, packet),
        Record::Verdict(it, packet) => (it.header, packet),
    };
    let Some((from, to)) = Packet::parse(packet, true).addresses else { return false };
    header.source != 0 && !names.has_endpoint(from) && !names.has_endpoint(to)
}

/// What all flows have of the packet itself.
fn of_packet(
    packet: &Packet,
    time: u64,
    (from, to): (u32, u32),
    original: Option<IpAddr>,
    names: &Names,
) -> Flow {
    let mut flow = Flow {
        ethernet: packet.ethernet.clone(),
        l4: packet.l4.clone(),
        summary: packet.summary.clone(),
        ..Flow::default()
    };
    let Some((source, destination)) = packet.addresses else {
        let of =
            |identity| (identity != 0).then(|| FlowEndpoint { identity, ..Default::default() });
        (flow.source, flow.destination) = (of(from), of(to));
        return flow;
    };
    let sender = original.unwrap_or(source);
    flow.ip = Some(Ip {
        source: sender.to_string(),
        destination: destination.to_string(),
        ip_version: if source.is_ipv4() { 1 } else { 2 },
        encrypted: false,
        source_xlated: original.map(|_| source.to_string()).unwrap_or_default(),
    });
    flow.source = Some(names.endpoint(sender, time, from));
    flow.destination = Some(names.endpoint(destination, time, to));
    if let Some((from, to)) = packet.ports() {
        flow.source_service = names.service(sender, from).cloned();
        flow.destination_service = names.service(destination, to).cloned();
    }
    flow
}

fn dropped(drop: &DropRecord, packet: &[u8], time: u64, cookie: u32, names: &Names) -> Flow {
    let packet = Packet::parse(packet, true);
    let identities = (drop.src_identity, drop.dst_identity);
    let reason = i32::from(drop.header.subtype);
    let mut flow = of_packet(&packet, time, identities, None, names);
    flow.verdict = verdict::DROPPED;
    flow.drop_reason = reason as u32;
    flow.drop_reason_desc = reason;
    flow.event_type = Some(EventType { kind: event::DROP, sub_type: reason });
    flow.file = Some(SourceFile { name: file_name(drop.file), line: drop.line.into() });
    if drop.header.source != 0 {
        let is_sender = is_source(&drop.header, &flow);
        flow.traffic_direction = if is_sender { direction::EGRESS } else { direction::INGRESS };
    }
    if [POLICY_DENY, POLICY_DENIED].contains(&reason) {
        name_policies(&mut flow, cookie, time, names, true);
    }
    flow
}

fn traced(trace: &TraceRecord, packet: &[u8], time: u64, names: &Names) -> Flow {
    let packet = Packet::parse(packet, true);
    let is_ipv6 = trace.flags & 1 == 1;
    let header = packet.addresses.map(|(source, _)| source);
    let original = original(&trace.orig_ip, is_ipv6);
    let translated = original.filter(|it| Some(*it) != header);
    let is_to_proxy = trace.header.subtype == TO_PROXY;
    let receiver = if is_to_proxy { 0 } else { trace.dst_identity };
    let identities = (trace.src_identity, receiver);
    let mut flow = of_packet(&packet, time, identities, translated, names);
    if is_to_proxy {
        flow.proxy_port = trace.dst_identity;
    }
    let reason = trace.reason & !REASON_ENCRYPTED;
    if let Some(ip) = &mut flow.ip {
        ip.encrypted = trace.reason & REASON_ENCRYPTED != 0;
    }
    flow.verdict = verdict::FORWARDED;
    let sub_type = i32::from(trace.header.subtype);
    flow.event_type = Some(EventType { kind: event::TRACE, sub_type });
    flow.trace_observation_point = if sub_type == 0 { TO_ENDPOINT } else { sub_type };
    flow.trace_reason = match reason {
        0..=REASON_KNOWN_MAX => i32::from(reason) + 1,
        REASON_UNKNOWN => 0,
        more => more.into(),
    };
    if reason <= REASON_KNOWN_MAX {
        let is_reply = reason == REASON_REPLY;
        flow.is_reply = Some(is_reply);
        flow.reply = is_reply;
        let is_out = is_source(&trace.header, &flow) != is_reply || original.is_some();
        flow.traffic_direction = if is_out { direction::EGRESS } else { direction::INGRESS };
    }
    if trace.ifindex != 0 {
        let name = names.interface(trace.ifindex).unwrap_or_default().to_owned();
        flow.interface = Some(NetworkInterface { index: trace.ifindex, name });
    }
    flow
}

fn judged(record: &VerdictRecord, packet: &[u8], time: u64, names: &Names) -> Flow {
    let packet = Packet::parse(packet, record.bits & VERDICT_LAYER3 == 0);
    let is_egress = record.is_egress();
    let identities =
        if is_egress { (0, record.remote_identity) } else { (record.remote_identity, 0) };
    let mut flow = of_packet(&packet, time, identities, None, names);
    flow.event_type =
        Some(EventType { kind: event::POLICY_VERDICT, sub_type: record.header.subtype.into() });
    flow.traffic_direction = if is_egress { direction::EGRESS } else { direction::INGRESS };
    flow.policy_match_type = record.match_kind().into();
    flow.verdict = match record.verdict {
        ..0 => verdict::DROPPED,
        1.. => verdict::REDIRECTED,
        0 if record.bits & VERDICT_AUDITED != 0 => verdict::AUDIT,
        0 => verdict::FORWARDED,
    };
    if record.verdict < 0 {
        let reason = record.verdict.saturating_neg();
        flow.drop_reason = reason as u32;
        flow.drop_reason_desc = reason;
    } else {
        flow.is_reply = Some(false);
    }
    match flow.verdict {
        verdict::FORWARDED | verdict::REDIRECTED => {
            name_policies(&mut flow, record.cookie, time, names, false);
        }
        verdict::DROPPED => name_policies(&mut flow, record.cookie, time, names, true),
        _ => {}
    }
    flow
}

/// Says which policies decided, by the cookie of the row that did.
fn name_policies(flow: &mut Flow, cookie: u32, time: u64, names: &Names, denied: bool) {
    if cookie == 0 {
        return;
    }
    let policies = names.policies(cookie, time).to_vec();
    match (flow.traffic_direction, denied) {
        (direction::EGRESS, false) => flow.egress_allowed_by = policies,
        (direction::EGRESS, true) => flow.egress_denied_by = policies,
        (direction::INGRESS, false) => flow.ingress_allowed_by = policies,
        (direction::INGRESS, true) => flow.ingress_denied_by = policies,
        _ => {}
    }
}

/// Whether the endpoint that wrote the record sent the packet.
fn is_source(header: &EventHeader, flow: &Flow) -> bool {
    let source = flow.source.as_ref().map_or(0, |source| source.id);
    source == u32::from(header.source)
}

fn original(bytes: &[u8; 16], is_ipv6: bool) -> Option<IpAddr> {
    if bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    Some(match is_ipv6 {
        true => Ipv6Addr::from(*bytes).into(),
        false => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
    })
}

/// The datapath's source files by number.
fn file_name(number: u8) -> String {
    match volvox_bpf_progs::drop_reason::source_file(number) {
        Some(name) => name.to_owned(),
        None => format!("unknown({number})"),
    }
}

/// A random UUID, version 4, of two random numbers.
fn uuid((high, low): (u64, u64)) -> String {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests;
