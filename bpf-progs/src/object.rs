//! The compiled programs.

/// Program at the ingress of the host-side interface: what an endpoint sends.
pub const FROM_CONTAINER: &str = "cil_from_container";
/// Program at the egress of the host-side interface: what the stack sends to an endpoint.
pub const TO_CONTAINER: &str = "cil_to_container";

/// The ELF object with the programs of an interface, their maps and BTF, aligned for the loader.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/endpoint.o"));

/// Program at the ingress of a node's device: what comes from the wire.
pub const FROM_NETDEV: &str = "cil_from_netdev";
/// Program at the egress of a node's device: what goes to the wire.
pub const TO_NETDEV: &str = "cil_to_netdev";
/// Program at the ingress of the overlay's device: what other nodes send through it.
pub const FROM_OVERLAY: &str = "cil_from_overlay";
/// Program at the egress of the overlay's device: what the stack sends through it: whom it
/// is from, and the node's own policy.
pub const TO_OVERLAY: &str = "cil_to_overlay";

/// The ELF object with the programs of a node's device, over the maps of [`OBJECT`] and with the same
/// globals, aligned for the loader. They are for devices with Ethernet headers.
pub static DEVICE_OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/device.o"));

/// The ELF object with the programs of the overlay's device, over the maps of [`OBJECT`] and with the
/// same globals, aligned for the loader.
pub static OVERLAY_OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/overlay.o"));

/// The ELF object with the programs that balance load by socket, and the maps of load balancing that
/// they share with [`OBJECT`], aligned for the loader.
pub static SOCKET_OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/socket.o"));

/// The global of [`SOCKET_OBJECT`] with the cookie of the node's network namespace, a `u64`; 0 stands
/// for the machine's first one.
pub const HOST_NETNS: &str = "HOST_NETNS";

/// Where a program of [`SOCKET_OBJECT`] runs, for the sockets of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the kernel's names")]
pub enum SocketHook {
    Connect4,
    Connect6,
    SendMsg4,
    SendMsg6,
    RecvMsg4,
    RecvMsg6,
    GetPeerName4,
    GetPeerName6,
    Bind4,
    Bind6,
    PostBind4,
    PostBind6,
    SockRelease,
}

impl SocketHook {
    /// Every hook. The way back comes before the way there, in which order they are to be attached:
    /// a socket that is given a backend must be able to hear the service.
    pub const ALL: [Self; 13] = [
        Self::RecvMsg4,
        Self::RecvMsg6,
        Self::GetPeerName4,
        Self::GetPeerName6,
        Self::Bind4,
        Self::Bind6,
        Self::PostBind4,
        Self::PostBind6,
        Self::SockRelease,
        Self::SendMsg4,
        Self::SendMsg6,
        Self::Connect4,
        Self::Connect6,
    ];

    /// The program's name.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Connect4 => "cil_sock4_connect",
            Self::Connect6 => "cil_sock6_connect",
            Self::SendMsg4 => "cil_sock4_sendmsg",
            Self::SendMsg6 => "cil_sock6_sendmsg",
            Self::RecvMsg4 => "cil_sock4_recvmsg",
            Self::RecvMsg6 => "cil_sock6_recvmsg",
            Self::GetPeerName4 => "cil_sock4_getpeername",
            Self::GetPeerName6 => "cil_sock6_getpeername",
            Self::Bind4 => "cil_sock4_bind",
            Self::Bind6 => "cil_sock6_bind",
            Self::PostBind4 => "cil_sock4_post_bind",
            Self::PostBind6 => "cil_sock6_post_bind",
            Self::SockRelease => "cil_sock_release",
        }
    }
}

/// SHA-256 of all objects: names a build of the programs. Computed when the crate was built.
pub const fn build_hash() -> [u8; 32] {
    include!(concat!(env!("OUT_DIR"), "/hash.rs"))
}

/// The first 16 hexadecimal digits of [`build_hash`], the folder that holds the programs' pins.
pub fn build_name() -> String {
    build_hash()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
