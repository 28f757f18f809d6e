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
mod families;
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
    AffinityMatchKey, AffinityRow,
    v4::{AffinityKey as Affinity4Key, SourceRangeKey as SourceRange4Key},
    v6::{AffinityKey as Affinity6Key, SourceRangeKey as SourceRange6Key},
};
pub use backend::{
    BackendState, backend_tag, v4::BackendRow as Backend4Row, v6::BackendRow as Backend6Row,
};
pub use config::{ConfigFlags, ConfigRow, HOST_IFINDEX};
pub use conntrack::{CtFlags, CtRow, TupleFlags, v4::CtKey as Ct4Key, v6::CtKey as Ct6Key};
pub use device::{DeviceFlags, DeviceRow};
pub use endpoint::EndpointRow;
pub use event::{DropRecord, EventHeader, Record, TraceRecord, VerdictRecord};
pub use fragment::{Fragment4Key, Fragment6Key, FragmentRow};
pub use ipcache::{IpcacheFlags, IpcacheKey, IpcacheRow};
pub use lxc::{LxcFlags, LxcKey, LxcRow};
pub use member::{MemberKey, v4::MemberRow as Member4Row, v6::MemberRow as Member6Row};
pub use metrics::{MetricsDirection, MetricsKey, MetricsRow};
pub use nat::{
    v4::{NatKey as Nat4Key, NatRow as Nat4Row},
    v6::{NatKey as Nat6Key, NatRow as Nat6Row},
};
pub use node::NodeRow;
pub use policy::{Direction, PolicyKey, PolicyRow, PolicyStatsKey, PolicyStatsRow, policy_slot};
pub use prefix::{v4::PrefixKey as Prefix4Key, v6::PrefixKey as Prefix6Key};
pub use reverse_nat::{v4::ReverseNatRow as ReverseNat4Row, v6::ReverseNatRow as ReverseNat6Row};
pub use service::{
    LbAlgorithm, LbFlags, LbFlags2, LbKey, LbNumbersRow, LbRow, LbScope, v4::SlotKey as Lb4Key,
    v6::SlotKey as Lb6Key,
};
pub use signal::SignalRecord;
pub use socket::{
    NOTE_CLAIMED, SOCKET_NOTES, SocketNote, SocketSet,
    v4::{ReverseSkKey as ReverseSk4Key, ReverseSkRow as ReverseSk4Row},
    v6::{ReverseSkKey as ReverseSk6Key, ReverseSkRow as ReverseSk6Row},
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
