//! Reads one port or range of ports, by number or by name. Protocols are read by the caller.

use serde_json::Value;

use crate::model::field::{Fault, Field};
use crate::policy::rules::{ports::PortRange, rule::PortMatch};

/// Longest name of a port, as IANA's rules for service names have it.
const NAME_BYTES_MAX: usize = 15;

/// A port as it is written, without its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Numbers, both ends included.
    Numbers(u16, u16),
    /// A name, lower case.
    Name(String),
}

impl Given {
    /// Port 0 stands for every port.
    pub(super) const ALL: Self = Self::Numbers(0, u16::MAX);

    /// This port of a protocol.
    pub(super) fn of(self, protocol: u8) -> PortMatch {
        match self {
            Self::Numbers(first, last) => PortMatch::Range(PortRange { protocol, first, last }),
            Self::Name(name) => PortMatch::Named { name, protocol },
        }
    }
}

/// Reads a port: a number, its text, or a name; with `end` a range.
pub(super) fn given(port: &Field<'_>, end: Option<&Field<'_>>) -> Result<Given, Fault> {
    let first = match port.value {
        Value::String(text) if is_name(text) => {
            return match end.filter(|end| end.value.as_u64() != Some(0)) {
                None => Ok(Given::Name(text.to_ascii_lowercase())),
                Some(end) => Err(end.fault(
                    format!("endPort beside the name {text:?}"),
                    "write the first port as a number, or remove endPort",
                )),
            };
        }
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    let first = first.and_then(|first| u16::try_from(first).ok()).ok_or_else(|| {
        port.fault(format!("{} is no port", port.value), "write 0 to 65535, or a port's name")
    })?;
    let last = end.map(|end| end_port(end, first)).transpose()?.unwrap_or(0);
    Ok(match (first, last) {
        (0, 0) => Given::ALL,
        (port, 0) => Given::Numbers(port, port),
        (first, last) => Given::Numbers(first, last),
    })
}

/// Reads the end of a range; 0 is none.
fn end_port(end: &Field<'_>, first: u16) -> Result<u16, Fault> {
    let last = end.value.as_u64().and_then(|last| u16::try_from(last).ok());
    let last =
        last.ok_or_else(|| end.fault(format!("{} is no port", end.value), "write 1 to 65535"))?;
    if last != 0 && last < first {
        return Err(end.fault(
            format!("endPort {last} comes before port {first}"),
            "write the lower one as port; only Cilium 1.19 takes it as it is",
        ));
    }
    Ok(last)
}

/// Whether a text is a port's name: letters, digits and single inner hyphens, at least one letter.
fn is_name(text: &str) -> bool {
    let inner = !text.starts_with('-') && !text.ends_with('-') && !text.contains("--");
    let known = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let letter = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    inner && known && letter && text.len() <= NAME_BYTES_MAX
}
