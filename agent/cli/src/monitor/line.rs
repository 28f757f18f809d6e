//! Turns a record of the datapath into what `volvox monitor` shows, and joins a drop with the
//! verdict before it.

use std::collections::BTreeMap;

use serde::Serialize;
use volvox_bpf_progs::{
    DropReason, TracePoint, TraceReason,
    layouts::{DropRecord, EventHeader, Record, TraceRecord, VerdictRecord},
};
use volvox_hubble::why::{self, is_by_policy};

use super::packet::Packet;

/// One record, for people and programs.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Line {
    #[serde(flatten)]
    pub(super) record: Kind,
    /// Endpoint whose program wrote it.
    pub(super) endpoint: u16,
    /// CPU that wrote it.
    pub(super) cpu: u32,
    /// Hash of the packet's flow.
    pub(super) flow: u32,
    /// Length of the packet, bytes.
    pub(super) length: u32,
    /// The packet, as far as it was captured.
    pub(super) packet: Packet,
    /// Where the rules are written that decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) origins: Vec<String>,
    /// The command that says why policy dropped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

/// What a record is about.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(super) enum Kind {
    Drop {
        reason: u8,
        reason_text: String,
        source_identity: u32,
        destination_identity: u32,
        destination_endpoint: u32,
        interface: u32,
        line: u16,
        file: u8,
        /// Names the rules that denied it, 0 if none did.
        cookie: u32,
    },
    Trace {
        point: String,
        state: String,
        source_identity: u32,
        destination_identity: u32,
        destination_endpoint: u16,
        interface: u32,
    },
    PolicyVerdict {
        action: &'static str,
        direction: &'static str,
        remote_identity: u32,
        protocol: u8,
        port: u16,
        matched: &'static str,
        /// Names the rules that decided, 0 if none did.
        cookie: u32,
    },
}

/// The last verdict of each CPU: a drop by policy follows the verdict that led to it.
#[derive(Debug, Default)]
pub(super) struct Verdicts(BTreeMap<u32, (u32, u32)>);

impl Verdicts {
    pub(super) fn line(&mut self, cpu: u32, record: &Record<'_>) -> Line {
        match record {
            Record::Drop(drop, packet) => {
                let cookie = match self.0.remove(&cpu) {
                    Some((flow, cookie)) if flow == drop.header.hash => cookie,
                    _ => 0,
                };
                line(cpu, &drop.header, packet, dropped(drop, cookie))
            }
            Record::Trace(trace, packet) => {
                self.0.remove(&cpu);
                line(cpu, &trace.header, packet, traced(trace))
            }
            Record::Verdict(verdict, packet) => {
                self.0.insert(cpu, (verdict.header.hash, verdict.cookie));
                line(cpu, &verdict.header, packet, judged(verdict))
            }
        }
    }
}

impl Line {
    /// The rules that decided, 0 if none did.
    pub(super) fn cookie(&self) -> u32 {
        match self.record {
            Kind::Drop { cookie, .. } | Kind::PolicyVerdict { cookie, .. } => cookie,
            Kind::Trace { .. } => 0,
        }
    }

    /// Whether that endpoint sent, received or judged the packet.
    pub(super) fn concerns(&self, endpoint: u16) -> bool {
        let to = match self.record {
            Kind::Drop { destination_endpoint, .. } => destination_endpoint,
            Kind::Trace { destination_endpoint, .. } => destination_endpoint.into(),
            Kind::PolicyVerdict { .. } => 0,
        };
        self.endpoint == endpoint || to == u32::from(endpoint)
    }
}

fn line(cpu: u32, header: &EventHeader, packet: &[u8], record: Kind) -> Line {
    let packet = Packet::parse(packet);
    Line {
        why: why(&record, &packet),
        record,
        endpoint: header.source,
        cpu,
        flow: header.hash,
        length: header.len_orig,
        packet,
        origins: Vec::new(),
    }
}

/// The command that says why, if policy dropped it.
fn why(record: &Kind, packet: &Packet) -> Option<String> {
    let Kind::Drop { reason, .. } = record else { return None };
    let (source, destination) =
        packet.source.zip(packet.destination).filter(|_| is_by_policy(*reason))?;
    let port = packet.destination_port.or(packet.icmp_type.map(u16::from))?;
    why::command(&source.to_string(), &destination.to_string(), packet.protocol?, port)
}

fn dropped(record: &DropRecord, cookie: u32) -> Kind {
    let reason = record.header.subtype;
    Kind::Drop {
        reason,
        reason_text: reason_text(reason),
        source_identity: record.src_identity,
        destination_identity: record.dst_identity,
        destination_endpoint: record.dst_ep,
        interface: record.ifindex,
        line: record.line,
        file: record.file,
        cookie,
    }
}

fn traced(record: &TraceRecord) -> Kind {
    let number = record.header.subtype;
    let point = TracePoint::from_number(number);
    // The top bit says that the packet is encrypted.
    let state = TraceReason::from_number(record.reason & 0x7f);
    Kind::Trace {
        point: point.map_or_else(|| number.to_string(), |point| point.text().to_owned()),
        state: state.map_or_else(|| record.reason.to_string(), |state| state.text().to_owned()),
        source_identity: record.src_identity,
        destination_identity: record.dst_identity,
        destination_endpoint: record.dst_ep,
        interface: record.ifindex,
    }
}

fn judged(record: &VerdictRecord) -> Kind {
    Kind::PolicyVerdict {
        action: match record.verdict {
            0 => "allow",
            1.. => "redirect",
            _ => "deny",
        },
        direction: if record.is_egress() { "egress" } else { "ingress" },
        remote_identity: record.remote_identity,
        protocol: record.protocol,
        port: record.dport,
        matched: match record.match_kind() {
            0 => "none",
            1 => "peer",
            2 => "peer-and-port",
            3 => "port",
            4 => "everything",
            5 => "peer-and-protocol",
            6 => "protocol",
            _ => "unknown",
        },
        cookie: record.cookie,
    }
}

fn reason_text(reason: u8) -> String {
    DropReason::from_number(reason)
        .map_or_else(|| format!("reason {reason}"), |reason| reason.text().to_owned())
}
