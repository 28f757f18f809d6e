//! The command line of `volvox why`.

use std::net::IpAddr;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Question {
    /// Begin at this endpoint, or with --to at this address; all waits if none is named
    #[arg(value_name = "ENDPOINT")]
    pub(crate) id: Option<String>,
    /// What its last regeneration came from; works without the agent
    #[arg(long, requires = "id", conflicts_with = "dropped")]
    pub(crate) regenerated: bool,
    /// What its policy in the kernel makes of a packet, and by which rule
    #[arg(long, requires = "id")]
    pub(crate) dropped: bool,
    /// Whom the packet comes from
    #[arg(long, value_name = "ADDRESS", requires = "dropped", conflicts_with = "to")]
    pub(crate) from: Option<IpAddr>,
    /// Whether packets pass to there, and by which rule: NAMESPACE/POD:PORT, svc/NAMESPACE/NAME:PORT,
    /// ADDRESS:PORT, each with /PROTOCOL behind it if it is not TCP; with --dropped an address
    #[arg(long, value_name = "WHOM", requires = "id", conflicts_with = "regenerated")]
    pub(crate) to: Option<String>,
    /// Port that it goes to; of ICMP its type
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "dropped")]
    pub(crate) port: u16,
    /// Its protocol [default: tcp]
    #[arg(long, value_enum, requires = "id", conflicts_with = "regenerated")]
    pub(crate) protocol: Option<Protocol>,
}

/// Protocols that policies know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say all")]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
}

impl Protocol {
    /// Its name, as the agent knows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmpv6 => "icmpv6",
            Self::Sctp => "sctp",
        }
    }

    /// Its number in a packet.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Icmp => 1,
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Icmpv6 => 58,
            Self::Sctp => 132,
        }
    }
}
