//! What is probed, as one word: `udp://10.0.0.1:8080?size=512&wait=1000&times=3`.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// A connection, over which something is sent there and back.
    Tcp,
    /// Requests over one connection that stays.
    Stream,
    /// A connection to whomever, over which nothing is sent.
    Connect,
    /// A datagram and its echo.
    Udp,
    /// A request by HTTP.
    Http,
    /// An echo request.
    Icmp,
    /// The addresses of a name.
    Name,
}

impl Protocol {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Tcp, "tcp"),
        (Self::Stream, "stream"),
        (Self::Connect, "connect"),
        (Self::Udp, "udp"),
        (Self::Http, "http"),
        (Self::Icmp, "icmp"),
        (Self::Name, "name"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(it, _)| *it == self).map_or("", |(_, name)| name)
    }
}

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// So many bytes.
    Bytes(usize),
    /// As much as fits into one packet on that route, which must not be cut up.
    Mtu,
}

/// The most that is sent at once.
pub(crate) const MOST: usize = 4 << 20;
/// How long an answer may take, unless it is said.
const WAIT: Duration = Duration::from_secs(2);
/// How much is sent, unless it is said.
const SIZE: usize = 32;

/// What is probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    /// How.
    pub protocol: Protocol,
    /// An address, or a name where that is allowed.
    pub host: String,
    /// The port; zero for protocols without.
    pub port: u16,
    /// How much is sent.
    pub size: Size,
    /// How long an answer may take.
    pub wait: Duration,
    /// How often, one after the other.
    pub times: u32,
}

/// A text that names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no target ({cause}): write it like tcp://10.0.0.1:80?size=512&wait=1000&times=3"
)]
pub struct TargetError {
    text: String,
    cause: &'static str,
}

impl Target {
    /// A port at an address.
    pub fn at(protocol: Protocol, address: IpAddr, port: u16) -> Self {
        Self::named(protocol, &address.to_string(), port)
    }

    /// A port at a host.
    pub fn named(protocol: Protocol, host: &str, port: u16) -> Self {
        Self {
            protocol,
            host: host.to_owned(),
            port,
            size: Size::Bytes(SIZE),
            wait: WAIT,
            times: 1,
        }
    }

    /// Its address and port, if the host is an address.
    pub fn address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.parse().ok()?, self.port))
    }

    /// Without how it is asked: whom, in words.
    pub fn place(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.protocol {
            Protocol::Icmp | Protocol::Name => host,
            _ => format!("{host}:{}", self.port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}://{}?size=", self.protocol.name(), self.place())?;
        match self.size {
            Size::Mtu => write!(to, "mtu")?,
            Size::Bytes(bytes) => write!(to, "{bytes}")?,
        }
        write!(to, "&wait={}&times={}", self.wait.as_millis(), self.times)
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

impl TryFrom<String> for Target {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let bad = |cause| TargetError { text: text.to_owned(), cause };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("no protocol"))?;
        let known = Protocol::ALL.iter().find(|(_, name)| *name == scheme);
        let (protocol, _) = *known.ok_or_else(|| bad("an unknown protocol"))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = match protocol {
            Protocol::Icmp | Protocol::Name => (place, 0),
            _ => {
                let (host, port) = place.rsplit_once(':').ok_or_else(|| bad("no port"))?;
                (host, port.parse().ok().filter(|it| *it > 0).ok_or_else(|| bad("no port"))?)
            }
        };
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let named = matches!(protocol, Protocol::Connect | Protocol::Name);
        if host.is_empty() || !named && host.parse::<IpAddr>().is_err() {
            return Err(bad("no address"));
        }
        let mut target = Self::named(protocol, host, port);
        for option in options.split('&').filter(|it| !it.is_empty()) {
            let (name, value) =
                option.split_once('=').ok_or_else(|| bad("an option without value"))?;
            let number = |most: usize| {
                value
                    .parse()
                    .ok()
                    .filter(|it| *it <= most)
                    .ok_or_else(|| bad("a number is out of range"))
            };
            match name {
                "size" if value == "mtu" => target.size = Size::Mtu,
                "size" => target.size = Size::Bytes(number(MOST)?),
                "wait" => target.wait = Duration::from_millis(number(60_000)? as u64),
                "times" => target.times = number(1_000)? as u32,
                _ => return Err(bad("an unknown option")),
            }
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_written_as_it_is_read() {
        for (text, written) in [
            ("tcp://10.0.0.1:80", "tcp://10.0.0.1:80?size=32&wait=2000&times=1"),
            ("udp://[fd00::1]:53?size=mtu", "udp://[fd00::1]:53?size=mtu&wait=2000&times=1"),
            ("icmp://fd00::1?wait=5", "icmp://[fd00::1]?size=32&wait=5&times=1"),
            ("name://a.b.svc", "name://a.b.svc?size=32&wait=2000&times=1"),
            (
                "connect://example.org:443?times=3",
                "connect://example.org:443?size=32&wait=2000&times=3",
            ),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), written);
            assert_eq!(written.parse::<Target>().unwrap(), target);
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for text in [
            "",
            "10.0.0.1:80",
            "ftp://10.0.0.1:80",
            "tcp://10.0.0.1",
            "tcp://10.0.0.1:0",
            "tcp://a:80",
            "tcp://:80",
            "icmp://",
            "tcp://10.0.0.1:80?size=99999999",
            "tcp://10.0.0.1:80?speed=1",
            "tcp://10.0.0.1:80?size",
            "udp://10.0.0.1:80?wait=-1",
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("write it like"), "{error}");
        }
    }
}
