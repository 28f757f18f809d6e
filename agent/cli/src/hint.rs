//! The command that says why packets are dropped by policy: what shows a drop prints it.

use std::net::IpAddr;

use volvox_bpf_progs::DropReason;

/// Whether policy dropped it, so that `volvox why` knows more.
pub(super) fn is_by_policy(reason: u8) -> bool {
    let by = [DropReason::PolicyDenied, DropReason::PolicyDeny];
    DropReason::from_number(reason).is_some_and(|reason| by.contains(&reason))
}

/// Asks for packets from somebody to a port; of ICMP the port is its type. Protocols that policies do not
/// know have no command.
pub(super) fn why(from: &str, to: &str, protocol: u8, port: u16) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Arguments;

    #[test]
    fn a_command_is_one_that_the_client_takes() {
        for (from, to, protocol, port, command) in [
            ("a/b", "c/d", 6, 80, "volvox why a/b --to c/d:80"),
            ("10.0.0.1", "fd00::1", 17, 53, "volvox why 10.0.0.1 --to [fd00::1]:53/udp"),
            ("a/b", "10.0.0.3", 1, 8, "volvox why a/b --to 10.0.0.3:8/icmp"),
        ] {
            assert_eq!(why(from, to, protocol, port).as_deref(), Some(command));
            Arguments::try_parse_from(command.split(' ')).unwrap();
        }
        assert_eq!(why("a", "b", 47, 0), None);
        assert!(is_by_policy(133) && is_by_policy(181) && !is_by_policy(132));
    }
}
