//! Reads one port or range of ports, by number or by name. Protocols are read by the caller.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::model::{
    field::{Fault, Field},
    place::Place,
};
use crate::policy::rules::{ports::PortRange, rule::PortMatch};

/// Longest name of a port, as IANA's rules for service names have it.
const NAME_BYTES_MAX: usize = 15;
/// What to write in place of what is no port,
const PORT: &str = "write 0 to 65535, or a port's name";
/// or no end of a range.
const END_PORT: &str = "write 1 to 65535";

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
    let no_port = |field: &Field<'_>, remedy: &str| {
        field.fault(format!("{} is no port", field.value), remedy)
    };
    let last = match end {
        None => 0,
        Some(end) => {
            let last = end.value.as_u64().and_then(|last| u16::try_from(last).ok());
            last.ok_or_else(|| no_port(end, END_PORT))?
        }
    };
    let number = match port.value {
        Value::String(text) if is_name(text) => {
            return named(text, last)
                .map_err(|(problem, remedy)| end.unwrap_or(port).fault(problem, remedy));
        }
        Value::String(text) => text.parse().ok(),
        value => value.as_u64().and_then(|number| u16::try_from(number).ok()),
    };
    let first = number.ok_or_else(|| no_port(port, PORT))?;
    numbers(first, last).map_err(|(problem, remedy)| end.unwrap_or(port).fault(problem, remedy))
}

/// Reads the same of a NetworkPolicy: `port` and `endPort` of what is at that place.
pub(super) fn typed(at: &Place<'_>, port: &IntOrString, end: Option<i32>) -> Result<Given, Fault> {
    let (place, end_place) = (at.key("port"), at.key("endPort"));
    let end = end.unwrap_or(0);
    let last =
        u16::try_from(end).map_err(|_| end_place.fault(format!("{end} is no port"), END_PORT))?;
    let (number, said) = match port {
        IntOrString::String(text) if is_name(text) => {
            return named(text, last).map_err(|(problem, remedy)| end_place.fault(problem, remedy));
        }
        IntOrString::String(text) => (text.parse().ok(), format!("{text:?}")),
        IntOrString::Int(number) => (u16::try_from(*number).ok(), number.to_string()),
    };
    let first = number.ok_or_else(|| place.fault(format!("{said} is no port"), PORT))?;
    numbers(first, last).map_err(|(problem, remedy)| end_place.fault(problem, remedy))
}

/// The port of that name, which has no end; or what is wrong and what to do about it.
fn named(name: &str, last: u16) -> Result<Given, (String, &'static str)> {
    match last {
        0 => Ok(Given::Name(name.to_ascii_lowercase())),
        _ => Err((
            format!("endPort beside the name {name:?}"),
            "write the first port as a number, or remove endPort",
        )),
    }
}

/// The ports from the first to the last one, 0 being none.
fn numbers(first: u16, last: u16) -> Result<Given, (String, &'static str)> {
    match (first, last) {
        (0, 0) => Ok(Given::ALL),
        (port, 0) => Ok(Given::Numbers(port, port)),
        (first, last) if last < first => Err((
            format!("endPort {last} comes before port {first}"),
            "write the lower one as port; only Cilium 1.19 takes it as it is",
        )),
        (first, last) => Ok(Given::Numbers(first, last)),
    }
}

/// Whether a text is a port's name: letters, digits and single inner hyphens, at least one letter.
fn is_name(text: &str) -> bool {
    let inner = !text.starts_with('-') && !text.ends_with('-') && !text.contains("--");
    let known = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let letter = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    inner && known && letter && text.len() <= NAME_BYTES_MAX
}
