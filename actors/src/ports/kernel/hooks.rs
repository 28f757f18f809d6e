//! What runs at hooks, as the kernel says when it is asked.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use super::Link;

/// A program of somebody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intruder {
    /// Its number.
    pub program: u32,
    /// The name that it was loaded with, zeros behind it.
    pub name: [u8; 16],
}

impl fmt::Display for Intruder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.name);
        match name.trim_end_matches('\0') {
            "" => write!(f, "program {}", self.program),
            name => write!(f, "program {} ({})", self.program, name.escape_debug()),
        }
    }
}

/// What runs at a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookState {
    /// Nothing of ours.
    #[default]
    Empty,
    /// The current program generation as a clsact filter.
    Filter,
    /// The current program generation through a pinned link.
    Link,
    /// A program of ours that is not of the current generation, not pinned, or not the only one.
    Stale,
    /// A program of somebody else runs first.
    Behind(Intruder),
    /// A program of another agent runs by the link that is to run ours.
    Foreign(Intruder),
}

impl HookState {
    /// Whether the current generation runs, first and once.
    pub const fn serves(self) -> bool {
        matches!(self, Self::Filter | Self::Link)
    }

    /// What is wrong, if anything is.
    fn trouble(self) -> Option<String> {
        match self {
            Self::Filter | Self::Link => None,
            Self::Empty => Some("no program runs".to_owned()),
            Self::Stale => {
                Some("a program of an earlier life runs, or one without a pin, or two".to_owned())
            }
            Self::Behind(who) => Some(format!("{who} of somebody else runs first")),
            Self::Foreign(who) => Some(format!(
                "{who} of another agent runs (Cilium's are taken over by --take-over=cilium: see \
                 `volvox migrate check`)"
            )),
        }
    }
}

/// What runs at both hooks of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// At [`Hook::FromContainer`](super::Hook::FromContainer).
    pub from_container: HookState,
    /// At [`Hook::ToContainer`](super::Hook::ToContainer).
    pub to_container: HookState,
}

impl Attachment {
    /// Whether both hooks run the current programs, first and once.
    pub const fn serves(self) -> bool {
        self.from_container.serves() && self.to_container.serves()
    }

    /// What is wrong, if anything is.
    pub fn trouble(self) -> Option<String> {
        let at = |hook: HookState, what| Some(format!("{} {what}", hook.trouble()?));
        at(self.from_container, "for what its container sends")
            .or_else(|| at(self.to_container, "for what its container gets"))
    }
}

/// What is at an endpoint's interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probe {
    /// The interface of that number, without its addresses, if there is one.
    pub link: Option<Link>,
    /// What runs at its hooks.
    pub attachment: Attachment,
    /// Addresses that are routed to it.
    pub routes: BTreeSet<IpAddr>,
}
