//! The command that says why packets are dropped by policy: what shows a drop prints it.

use std::net::IpAddr;

use volvox_bpf_progs::DropReason;

use crate::messages::{Flow, FlowEndpoint, Protocol, event};

/// Whether policy dropped it, so that `volvox why` knows more.
pub fn is_by_policy(reason: u8) -> bool {
    let by = [DropReason::PolicyDenied, DropReason::PolicyDeny];
    DropReason::from_number(reason).is_some_and(|reason| by.contains(&reason))
}

/// Asks for packets from somebody to a port; of ICMP the port is its type. Protocols that policies do not
/// know have no command.
pub fn command(from: &str, to: &str, protocol: u8, port: u16) -> Option<String> {
    let protocol = match protocol {
        6 => "",
        17 => "/udp",
        132 => "/sctp",
        1 => "/icmp",
        58 => "/icmpv6",
        _ => return None,
    };
    let to = match to.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => to.to_owned(),
    };
    Some(format!("volvox why {from} --to {to}:{port}{protocol}"))
}

/// The command that says why, of a drop by policy.
pub fn of_flow(flow: &Flow) -> Option<String> {
    let is_drop = flow.event_type.is_some_and(|it| it.kind == event::DROP);
    let reason = flow.event_type.and_then(|it| u8::try_from(it.sub_type).ok())?;
    let ip = flow.ip.as_ref().filter(|_| is_drop && is_by_policy(reason))?;
    let (protocol, port) = match flow.protocol()? {
        Protocol::Tcp(tcp) => (6, tcp.destination_port),
        Protocol::Udp(udp) => (17, udp.destination_port),
        Protocol::Sctp(sctp) => (132, sctp.destination_port),
        Protocol::IcmpV4(icmp) => (1, icmp.kind),
        Protocol::IcmpV6(icmp) => (58, icmp.kind),
        _ => return None,
    };
    let who = |endpoint: &Option<FlowEndpoint>, address: &str| match endpoint {
        Some(it) if !it.pod_name.is_empty() => format!("{}/{}", it.namespace, it.pod_name),
        _ => address.to_owned(),
    };
    let (from, to) = (who(&flow.source, &ip.source), who(&flow.destination, &ip.destination));
    command(&from, &to, protocol, u16::try_from(port).ok()?)
}
