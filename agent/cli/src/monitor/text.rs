//! Records of packets as text: one line each. JSON for programs is made elsewhere.

use std::net::{IpAddr, SocketAddr};

use volvox_rest::models::protocol_name;

use super::{
    line::{Kind, Line},
    packet::Packet,
};

/// One record as a line for people.
pub(super) fn text(line: &Line) -> String {
    let (endpoint, packet) = (line.endpoint, packet(&line.packet));
    let mut text = match &line.record {
        Kind::Drop { reason_text, source_identity, destination_identity, .. } => format!(
            "xx drop ({reason_text}) at endpoint {endpoint}, \
             identity {source_identity}->{destination_identity}: {packet}"
        ),
        Kind::Trace { point, state, source_identity, destination_identity, .. } => format!(
            "-> {point} at endpoint {endpoint}, {state}, \
             identity {source_identity}->{destination_identity}: {packet}"
        ),
        Kind::PolicyVerdict { action, direction, remote_identity, matched, .. } => format!(
            "== policy {action} {direction} at endpoint {endpoint}, \
             peer {remote_identity}, matched {matched}: {packet}"
        ),
    };
    if !line.origins.is_empty() {
        text += &format!(" [{}]", line.origins.join("; "));
    }
    if let Some(why) = &line.why {
        text += &format!("\n   why: {why}");
    }
    text
}

fn packet(packet: &Packet) -> String {
    let (Some(source), Some(destination)) = (packet.source, packet.destination) else {
        return match packet.ethertype {
            Some(ethertype) => format!("ethertype {ethertype:#06x}"),
            None => "no packet".to_owned(),
        };
    };
    let (from, to) = (side(source, packet.source_port), side(destination, packet.destination_port));
    let mut text = format!("{from} -> {to}");
    match packet.protocol {
        Some(protocol) => text += &format!(" {}", protocol_name(protocol)),
        None => text += " ARP",
    }
    if !packet.tcp_flags.is_empty() {
        text += &format!(" {}", packet.tcp_flags.join(","));
    }
    if let (Some(kind), Some(code)) = (packet.icmp_type, packet.icmp_code) {
        text += &format!(" type {kind} code {code}");
    }
    text
}

fn side(address: IpAddr, port: Option<u16>) -> String {
    port.map_or_else(|| address.to_string(), |port| SocketAddr::new(address, port).to_string())
}
