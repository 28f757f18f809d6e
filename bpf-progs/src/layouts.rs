//! Keys, values and records, byte for byte as the programs in `c/` have them.
//!
//! Every type asserts its size and the offsets that matter; a test compares all of them with the
//! BTF of the compiled object.

mod affinity;
mod backend;
mod config;
mod conntrack;
mod device;
mod endpoint;
mod event;
mod fragment;
mod ipcache;
mod lxc;
mod member;
mod metrics;
mod nat;
mod node;
mod policy;
mod prefix;
mod reverse_nat;
mod service;
mod signal;
mod socket;

pub use affinity::{
    Affinity4Key, Affinity6Key, AffinityMatchKey, AffinityRow, SourceRange4Key, SourceRange6Key,
};
pub use backend::{Backend4Row, Backend6Row, BackendState, backend_tag};
pub use config::{ConfigFlags, ConfigRow, HOST_IFINDEX};
pub use conntrack::{Ct4Key, Ct6Key, CtFlags, CtRow, TupleFlags};
pub use device::{DeviceFlags, DeviceRow};
pub use endpoint::EndpointRow;
pub use event::{DropRecord, EventHeader, Record, TraceRecord, VerdictRecord};
pub use fragment::{Fragment4Key, Fragment6Key, FragmentRow};
pub use ipcache::{IpcacheFlags, IpcacheKey, IpcacheRow};
pub use lxc::{LxcFlags, LxcKey, LxcRow};
pub use member::{Member4Row, Member6Row, MemberKey};
pub use metrics::{MetricsDirection, MetricsKey, MetricsRow};
pub use nat::{Nat4Key, Nat4Row, Nat6Key, Nat6Row};
pub use node::NodeRow;
pub use policy::{Direction, PolicyKey, PolicyRow, PolicyStatsKey, PolicyStatsRow, policy_slot};
pub use prefix::{Prefix4Key, Prefix6Key};
pub use reverse_nat::{ReverseNat4Row, ReverseNat6Row};
pub use service::{
    Lb4Key, Lb6Key, LbAlgorithm, LbFlags, LbFlags2, LbKey, LbNumbersRow, LbRow, LbScope,
};
pub use signal::SignalRecord;
pub use socket::{
    NOTE_CLAIMED, ReverseSk4Key, ReverseSk4Row, ReverseSk6Key, ReverseSk6Row, SOCKET_NOTES,
    SocketNote, SocketSet,
};

use std::net::IpAddr;

/// A 16-bit integer in network order.
pub type Be16 = zerocopy::byteorder::network_endian::U16;

/// Address family 1 in the keys of Cilium's maps.
pub const FAMILY_IPV4: u8 = 1;
/// Address family 2 in the keys of Cilium's maps.
pub const FAMILY_IPV6: u8 = 2;

/// An address as the 16 bytes and family that map keys hold: IPv4 stands in the first four.
pub(crate) fn address_bytes(address: IpAddr) -> ([u8; 16], u8) {
    match address {
        IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            (bytes, FAMILY_IPV4)
        }
        IpAddr::V6(v6) => (v6.octets(), FAMILY_IPV6),
    }
}

/// The address that 16 bytes and a family stand for; `None` if the family is neither.
pub(crate) fn address_from(bytes: [u8; 16], family: u8) -> Option<IpAddr> {
    match family {
        FAMILY_IPV4 => Some(IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]])),
        FAMILY_IPV6 => Some(IpAddr::from(bytes)),
        _ => None,
    }
}
