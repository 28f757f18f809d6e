//! How people say where packets go: a pod, a service or an address, with a port and a protocol.
//!
//! `default/db:5432`, `db:dns/udp`, `svc/default/web:80`, `web.default.svc:80`, `10.96.0.7:80`,
//! `[fd00::7]:80`, `10.0.0.3/icmp`.

use std::net::IpAddr;

use volvox_actors::policy::rules::protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// Beginnings of names of endpoints, after which a colon is no port's.
const PREFIXES: [&str; 8] = [
    "cilium-local:",
    "container-id:",
    "container-name:",
    "cni-attachment-id:",
    "cep-name:",
    "pod-name:",
    "ipv4:",
    "ipv6:",
];
/// Beginnings of names of services.
const SERVICES: [&str; 3] = ["svc/", "service/", "services/"];
const PROTOCOLS: [(&str, u8); 5] =
    [("tcp", TCP), ("udp", UDP), ("sctp", SCTP), ("icmp", ICMP), ("icmpv6", ICMPV6)];

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// To whom.
    pub(super) place: Place,
    /// To which port.
    pub(super) port: Option<Port>,
    /// By which protocol, if that is said.
    pub(super) protocol: Option<u8>,
}

/// To whom packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To an address: of a pod, of a service, or of somebody else.
    Address(IpAddr),
    /// To a service by name, and by namespace if that is said.
    Service {
        /// Its namespace.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// To an endpoint, however that is called, or else a service of that name.
    Named(String),
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// By number.
    Number(u16),
    /// By the name that the receiver gives it.
    Name(String),
}

/// The number of a protocol.
pub(super) fn protocol_number(name: &str) -> Result<u8, String> {
    let found = PROTOCOLS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
    found.map(|(_, number)| *number).ok_or_else(|| {
        format!("unknown protocol {name:?}: tcp, udp, sctp, icmp and icmpv6 are known")
    })
}

impl Destination {
    /// Reads one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (rest, protocol) = match text.rsplit_once('/') {
            // Without a port `default/tcp` is a pod.
            Some((rest, last)) if has_port(rest) || rest.parse::<IpAddr>().is_ok() => {
                (rest, Some(protocol_number(last)?))
            }
            _ => (text, None),
        };
        let (place, port) = split_port(rest)?;
        Ok(Self { place: parse_place(place)?, port, protocol })
    }
}

/// Whether a text ends with a port.
fn has_port(text: &str) -> bool {
    !matches!(split_port(text), Ok((_, None)))
}

fn split_port(text: &str) -> Result<(&str, Option<Port>), String> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok((text, None));
    }
    if let Some((address, after)) = text.strip_prefix('[').and_then(|it| it.split_once(']')) {
        return match after.strip_prefix(':') {
            Some(port) => Ok((address, Some(parse_port(port)?))),
            None if after.is_empty() => Ok((address, None)),
            None => {
                Err(format!("{text:?}: after an address in brackets a colon and a port follow"))
            }
        };
    }
    let begins = PREFIXES.iter().find(|prefix| text.starts_with(**prefix));
    let skipped = begins.map_or(0, |prefix| prefix.len());
    match text[skipped..].rsplit_once(':') {
        // An attachment has a colon of its own, before its interface.
        Some(_) if begins == Some(&"cni-attachment-id:") => Ok((text, None)),
        Some(_) if begins == Some(&"ipv6:") => Ok((text, None)),
        Some((before, port)) => Ok((&text[..skipped + before.len()], Some(parse_port(port)?))),
        None => Ok((text, None)),
    }
}

fn parse_port(text: &str) -> Result<Port, String> {
    if let Ok(number) = text.parse() {
        return Ok(Port::Number(number));
    }
    let is_name = text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
        && text.bytes().any(|it| it.is_ascii_alphabetic())
        && text.len() <= 15;
    match is_name {
        true => Ok(Port::Name(text.to_ascii_lowercase())),
        false => Err(format!("{text:?} is no port: a number up to 65535 or a name is expected")),
    }
}

fn parse_place(text: &str) -> Result<Place, String> {
    if let Ok(address) = text.parse() {
        return Ok(Place::Address(address));
    }
    let service = SERVICES.iter().find_map(|prefix| text.strip_prefix(prefix));
    if let Some(name) = service {
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, name),
        };
        if name.is_empty() || name.contains('/') || namespace.as_deref() == Some("") {
            return Err(format!("{text:?} is no service: write svc/NAMESPACE/NAME or svc/NAME"));
        }
        return Ok(Place::Service { namespace, name: name.to_owned() });
    }
    // As pods call it: name, namespace, svc, and the cluster's domain.
    let parts: Vec<_> = text.split('.').collect();
    if let [name, namespace, "svc", ..] = parts.as_slice()
        && !text.contains('/')
    {
        let (namespace, name) = (Some((*namespace).to_owned()), (*name).to_owned());
        return Ok(Place::Service { namespace, name });
    }
    match text {
        "" => {
            Err("to whom? Say NAMESPACE/POD:PORT, svc/NAMESPACE/NAME:PORT or ADDRESS:PORT".into())
        }
        text => Ok(Place::Named(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Place, Option<Port>, Option<u8>) {
        let Destination { place, port, protocol } = Destination::parse(text).unwrap();
        (place, port, protocol)
    }

    fn named(text: &str) -> Place {
        Place::Named(text.to_owned())
    }

    fn service(namespace: Option<&str>, name: &str) -> Place {
        Place::Service { namespace: namespace.map(str::to_owned), name: name.to_owned() }
    }

    #[test]
    fn whom_port_and_protocol_are_told_apart() {
        let number = |port| Some(Port::Number(port));
        let address = |text: &str| Place::Address(text.parse().unwrap());
        for (text, place, port, protocol) in [
            ("default/db:5432", named("default/db"), number(5432), None),
            ("db:5432/udp", named("db"), number(5432), Some(17)),
            ("db:DNS/UDP", named("db"), Some(Port::Name("dns".into())), Some(17)),
            ("default/tcp", named("default/tcp"), None, None),
            ("42:80", named("42"), number(80), None),
            ("pod-name:shop/web", named("pod-name:shop/web"), None, None),
            ("pod-name:shop/web:80", named("pod-name:shop/web"), number(80), None),
            ("ipv6:fd00::1", named("ipv6:fd00::1"), None, None),
            ("ipv4:10.0.0.1:80", named("ipv4:10.0.0.1"), number(80), None),
            ("cni-attachment-id:ab:eth0", named("cni-attachment-id:ab:eth0"), None, None),
            ("10.0.0.1:80", address("10.0.0.1"), number(80), None),
            ("10.0.0.1/icmp", address("10.0.0.1"), None, Some(1)),
            ("fd00::1", address("fd00::1"), None, None),
            ("fd00::1/icmpv6", address("fd00::1"), None, Some(58)),
            ("[fd00::1]:53/udp", address("fd00::1"), number(53), Some(17)),
            ("svc/default/web:80", service(Some("default"), "web"), number(80), None),
            ("service/web", service(None, "web"), None, None),
            ("web.default.svc:80", service(Some("default"), "web"), number(80), None),
            ("web.default.svc.cluster.local:80", service(Some("default"), "web"), number(80), None),
        ] {
            assert_eq!(read(text), (place, port, protocol), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("", "to whom?"),
            ("db:99999", "no port"),
            ("db:", "no port"),
            ("db:80/http", "unknown protocol"),
            ("svc/", "no service"),
            ("svc/a/b/c:80", "no service"),
            ("[fd00::1]80", "brackets"),
        ] {
            let error = Destination::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
