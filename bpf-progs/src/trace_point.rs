//! Where a packet was seen, and how connection tracking knew it. Numbers and names are Cilium's.

/// Observation point of a trace record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say what there is to say; `text` spells them out")]
pub enum TracePoint {
    ToLxc = 0,
    ToProxy = 1,
    ToHost = 2,
    ToStack = 3,
    ToOverlay = 4,
    FromLxc = 5,
    FromProxy = 6,
    FromHost = 7,
    FromStack = 8,
    FromOverlay = 9,
    FromNetwork = 10,
    ToNetwork = 11,
    FromCrypto = 12,
    ToCrypto = 13,
}

impl TracePoint {
    /// Every point, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::ToLxc,
        Self::ToProxy,
        Self::ToHost,
        Self::ToStack,
        Self::ToOverlay,
        Self::FromLxc,
        Self::FromProxy,
        Self::FromHost,
        Self::FromStack,
        Self::FromOverlay,
        Self::FromNetwork,
        Self::ToNetwork,
        Self::FromCrypto,
        Self::ToCrypto,
    ];

    /// The point of a number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The text that Cilium's monitor prints.
    pub const fn text(self) -> &'static str {
        match self {
            Self::ToLxc => "to-endpoint",
            Self::ToProxy => "to-proxy",
            Self::ToHost => "to-host",
            Self::ToStack => "to-stack",
            Self::ToOverlay => "to-overlay",
            Self::FromLxc => "from-endpoint",
            Self::FromProxy => "from-proxy",
            Self::FromHost => "from-host",
            Self::FromStack => "from-stack",
            Self::FromOverlay => "from-overlay",
            Self::FromNetwork => "from-network",
            Self::ToNetwork => "to-network",
            Self::FromCrypto => "from-crypto",
            Self::ToCrypto => "to-crypto",
        }
    }
}

/// State of the connection that a traced packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TraceReason {
    /// The first packet: policy decided.
    New = 0,
    /// A later packet in the direction of the opener.
    Established = 1,
    /// A packet of the side that was connected to.
    Reply = 2,
    /// An ICMP error about a known connection.
    Related = 3,
    /// Connection tracking was not asked.
    Unknown = 5,
}

impl TraceReason {
    /// The reason of a number, if there is one.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::New),
            1 => Some(Self::Established),
            2 => Some(Self::Reply),
            3 => Some(Self::Related),
            5 => Some(Self::Unknown),
            _ => None,
        }
    }

    /// The text that Cilium's monitor prints.
    pub const fn text(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Established => "established",
            Self::Reply => "reply",
            Self::Related => "related",
            Self::Unknown => "unknown",
        }
    }
}
