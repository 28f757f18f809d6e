//! How a probe went: one line of JSON.

use std::{io, net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Nobody answered in time.
    TimedOut,
    /// There is somebody, but nobody listens.
    Refused,
    /// The way there was said not to be.
    Unreachable,
    /// The connection was broken off.
    Reset,
    /// It does not fit into a packet.
    TooLarge,
    /// Somebody answered, but not that.
    WrongAnswer,
    /// The name has no address.
    NoName,
    /// The kernel does not let this pod ask so.
    NotAllowed,
    /// Anything else.
    Failed,
}

impl Fault {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::TimedOut => "timed out",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
            Self::TooLarge => "too large for a packet",
            Self::WrongAnswer => "wrong answer",
            Self::NoName => "name not resolved",
            Self::NotAllowed => "not allowed in this pod",
            Self::Failed => "failed",
        }
    }
}

/// An error with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) fault: Fault,
    pub(crate) detail: String,
}

impl Trouble {
    pub(crate) fn new(fault: Fault, detail: impl Into<String>) -> Self {
        Self { fault, detail: detail.into() }
    }

    pub(crate) fn timed_out(after: Duration) -> Self {
        Self::new(Fault::TimedOut, format!("after {} ms", after.as_millis()))
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let too_large = rustix::io::Errno::MSGSIZE.raw_os_error();
        let fault = match error.kind() {
            _ if error.raw_os_error() == Some(too_large) => Fault::TooLarge,
            Kind::ConnectionRefused => Fault::Refused,
            Kind::ConnectionReset
            | Kind::BrokenPipe
            | Kind::UnexpectedEof
            | Kind::ConnectionAborted => Fault::Reset,
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::NetworkDown => {
                Fault::Unreachable
            }
            Kind::TimedOut => Fault::TimedOut,
            Kind::PermissionDenied => Fault::NotAllowed,
            _ => Fault::Failed,
        };
        Self::new(fault, error.to_string())
    }
}

/// What a server says of itself and of who asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Said {
    /// Its name.
    pub(crate) by: String,
    /// The address that it was asked from.
    pub(crate) seen: Option<IpAddr>,
}

/// How a probe went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Which of the targets it was, counted from 0.
    pub number: usize,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// More about that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// How many TCP segments were lost on the way and sent again.
    pub resent: u32,
    /// How many bytes were sent.
    pub bytes: usize,
    /// Who answered, where they say that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The own address that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// The address that the other side saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<IpAddr>,
    /// The addresses of a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
}

impl Answer {
    /// Why there is none, in words.
    pub fn reason(&self) -> Option<String> {
        let fault = self.fault?;
        Some(match self.detail.as_str() {
            "" => fault.words().to_owned(),
            detail => format!("{} ({detail})", fault.words()),
        })
    }
}
