//! Errors of netlink: each names the request, the kernel's reason and what an operator can do.

use std::io;

use rustix::io::Errno;

/// Why a netlink call failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused the request.
    #[error("{op} {about}: {source}{words}; {remedy}")]
    Refused {
        /// What was asked, as a verb.
        op: &'static str,
        /// The interface, address or route that it was about.
        about: String,
        /// The kernel's error number.
        source: Errno,
        /// The kernel's own explanation in brackets; empty if it gave none.
        words: String,
        /// What an operator can do.
        remedy: &'static str,
    },
    /// The socket itself failed.
    #[error(
        "{op} {about}: netlink socket: {source}; see that the process may open AF_NETLINK sockets"
    )]
    Socket {
        /// What was asked, as a verb.
        op: &'static str,
        /// The interface, address or route that it was about.
        about: String,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel's answer could not be read.
    #[error(
        "{op} {about}: the kernel's answer cannot be read: {cause}; report it with the kernel's version"
    )]
    Garbled {
        /// What was asked, as a verb.
        op: &'static str,
        /// The interface, address or route that it was about.
        about: String,
        /// What is wrong with it.
        cause: String,
    },
}

impl NetlinkError {
    /// The kernel's error number, if it was the kernel that refused.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { source, .. } => Some(*source),
            Self::Socket { source, .. } => Errno::from_io_error(source),
            Self::Garbled { .. } => None,
        }
    }

    /// Whether the interface or the route is not there.
    pub fn is_absent(&self) -> bool {
        matches!(
            self.errno(),
            Some(Errno::NODEV | Errno::NOENT | Errno::SRCH | Errno::ADDRNOTAVAIL)
        )
    }

    /// Whether there is one already.
    pub fn is_taken(&self) -> bool {
        self.errno() == Some(Errno::EXIST)
    }

    pub(super) fn refused(op: &'static str, about: String, source: Errno, words: &str) -> Self {
        let words = if words.is_empty() { String::new() } else { format!(" ({words})") };
        Self::Refused { op, about, source, words, remedy: remedy(source) }
    }
}

/// What usually helps against an error number.
fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM | Errno::ACCESS => "run it with CAP_NET_ADMIN in this network namespace",
        Errno::NODEV => "the interface is gone: create the endpoint anew",
        Errno::NOENT | Errno::SRCH | Errno::ADDRNOTAVAIL => {
            "there is none such: nothing is left to do"
        }
        Errno::EXIST => "remove or rename the one that is there",
        Errno::NETDOWN => "bring the interface up first",
        Errno::NETUNREACH | Errno::HOSTUNREACH => "add the route to the gateway first",
        Errno::OPNOTSUPP | Errno::AFNOSUPPORT => {
            "the kernel lacks it: it needs CONFIG_VETH, CONFIG_NET_CLS_BPF and, for IPv6, CONFIG_IPV6"
        }
        Errno::NOMEM | Errno::NOBUFS => "free memory and try again",
        Errno::BUSY => "something else holds it: stop that or try again",
        _ => "see `ip -d link`, `ip route` and the kernel's log",
    }
}
