//! Why a packet was dropped. Numbers and texts are Cilium's.

/// Reason of a drop, in drop records and in `cilium_metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The source address is not the endpoint's.
    InvalidSourceIp = 132,
    /// No policy row allows it.
    PolicyDenied = 133,
    /// Shorter than its headers say.
    InvalidPacket = 134,
    /// The layer-4 header is cut off.
    InvalidL4Header = 135,
    /// A layer-4 protocol that connection tracking does not know.
    UnknownL4 = 137,
    /// Amid a connection that is not known, or not any more.
    CtCannotCreate = 138,
    /// Neither IPv4 nor IPv6, or the family is switched off.
    UnsupportedL3 = 139,
    /// The packet could not be changed.
    WriteError = 141,
    /// Neighbour discovery for an address that nobody here has.
    UnknownTarget = 150,
    /// The checksum could not be corrected: SCTP's, when a port changes.
    L4Checksum = 154,
    /// The connection could not be recorded.
    CtCreateFailed = 155,
    /// Too many or broken IPv6 extension headers.
    InvalidExtensionHeader = 156,
    /// A later fragment where the port would decide.
    FragmentNotSupported = 157,
    /// A service without a backend, or without that port.
    NoService = 158,
    /// The receiver's node is not known any more.
    NoTunnel = 160,
    /// Not Ethernet with IP.
    UnsupportedL2 = 166,
    /// No port is free to stand for the sender's, or the table is full.
    NatNoMapping = 167,
    /// A protocol without ports, or whose ports cannot be changed, behind another address.
    NatUnsupported = 168,
    /// The node's routes lead nowhere.
    NoFib = 169,
    /// An endpoint sends what only nodes may, a packet of the overlay's.
    EncapProhibited = 170,
    /// From outside to an address of a service that is for the cluster only.
    IsClusterIp = 174,
    /// From outside, and not from where the service's clients may be.
    NotInSourceRange = 177,
    /// A policy row asks for a proxy, and there is none.
    ProxyNotSupported = 180,
    /// A policy row denies it.
    PolicyDeny = 181,
    /// A policy row asks for authentication, and there is none.
    AuthRequired = 189,
    /// This was the packet's last hop.
    TtlExceeded = 196,
    /// The endpoint has no configuration or policy yet.
    EndpointNotReady = 203,
}

impl DropReason {
    /// Every reason that the programs give.
    pub const ALL: [Self; 27] = [
        Self::InvalidSourceIp,
        Self::PolicyDenied,
        Self::InvalidPacket,
        Self::InvalidL4Header,
        Self::UnknownL4,
        Self::CtCannotCreate,
        Self::UnsupportedL3,
        Self::WriteError,
        Self::UnknownTarget,
        Self::L4Checksum,
        Self::CtCreateFailed,
        Self::InvalidExtensionHeader,
        Self::FragmentNotSupported,
        Self::NoService,
        Self::NoTunnel,
        Self::UnsupportedL2,
        Self::NatNoMapping,
        Self::NatUnsupported,
        Self::NoFib,
        Self::EncapProhibited,
        Self::IsClusterIp,
        Self::NotInSourceRange,
        Self::ProxyNotSupported,
        Self::PolicyDeny,
        Self::AuthRequired,
        Self::TtlExceeded,
        Self::EndpointNotReady,
    ];

    /// The reason of a number, if the programs give it.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == number)
    }

    /// The text that Cilium's tools print.
    pub const fn text(self) -> &'static str {
        match self {
            Self::InvalidSourceIp => "Invalid source ip",
            Self::PolicyDenied => "Policy denied",
            Self::InvalidPacket => "Invalid packet",
            Self::InvalidL4Header => "CT: Truncated or invalid header",
            Self::UnknownL4 => "CT: Unknown L4 protocol",
            Self::CtCannotCreate => "CT: Can't create entry from packet",
            Self::UnsupportedL3 => "Unsupported L3 protocol",
            Self::WriteError => "Error writing to packet",
            Self::UnknownTarget => "Unknown L3 target address",
            Self::L4Checksum => "Error while correcting L4 checksum",
            Self::CtCreateFailed => "CT: Map insertion failed",
            Self::InvalidExtensionHeader => "Invalid IPv6 extension header",
            Self::FragmentNotSupported => "IP fragmentation not supported",
            Self::NoService => "Service backend not found",
            Self::NoTunnel => "No tunnel/encapsulation endpoint (datapath BUG!)",
            Self::UnsupportedL2 => "Unsupported L2 protocol",
            Self::NatNoMapping => "No mapping for NAT masquerade",
            Self::NatUnsupported => "Unsupported protocol for NAT masquerade",
            Self::NoFib => "FIB lookup failed",
            Self::EncapProhibited => "Encapsulation traffic is prohibited",
            Self::IsClusterIp => "Is a ClusterIP",
            Self::NotInSourceRange => "Not in src range",
            Self::ProxyNotSupported => "Proxy redirection not supported for protocol",
            Self::PolicyDeny => "Policy denied by denylist",
            Self::AuthRequired => "Authentication required",
            Self::TtlExceeded => "TTL exceeded",
            Self::EndpointNotReady => "Endpoint policy program not available",
        }
    }
}

/// The source file behind the number in drop records and metrics.
pub const fn source_file(number: u8) -> Option<&'static str> {
    match number {
        64 => Some("endpoint.c"),
        65 => Some("parse.h"),
        66 => Some("neighbour.h"),
        67 => Some("conntrack.h"),
        68 => Some("policy.h"),
        69 => Some("deliver.h"),
        70 => Some("admit.h"),
        71 => Some("lb.h"),
        72 => Some("nat.h"),
        73 => Some("backend.h"),
        74 => Some("lb_reverse.h"),
        75 => Some("device.c"),
        76 => Some("overlay.c"),
        77 => Some("snat.h"),
        78 => Some("node_port.h"),
        79 => Some("route.h"),
        80 => Some("masquerade.h"),
        81 => Some("arrive.h"),
        82 => Some("overlay.h"),
        83 => Some("dsr_send.h"),
        84 => Some("dsr_learn.h"),
        85 => Some("dsr_port.h"),
        86 => Some("refuse.h"),
        _ => None,
    }
}
