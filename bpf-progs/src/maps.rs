//! Every map of the datapath: what the agent creates, and what a pinned map must equal.

use crate::layouts::*;
use std::mem::size_of;

/// Types of map, with the kernel's numbers (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "the kernel's names")]
pub enum MapType {
    Hash = 1,
    Array = 2,
    PerfEventArray = 4,
    PercpuHash = 5,
    LruHash = 9,
    LruPercpuHash = 10,
    LpmTrie = 11,
    ArrayOfMaps = 12,
    HashOfMaps = 13,
}

/// Flag `BPF_F_NO_PREALLOC`: memory grows with the rows.
pub const NO_PREALLOC: u32 = 1;
/// Flag `BPF_F_NO_COMMON_LRU`: one eviction list per CPU.
pub const NO_COMMON_LRU: u32 = 2;
/// Flag `BPF_F_RDONLY_PROG`: programs may only read.
pub const RDONLY_PROG: u32 = 128;

/// Flag `BPF_F_MMAPABLE`: the agent can share its memory with programs.
pub const MMAPABLE: u32 = 1024;

/// What a map is there for: [`Features::uses`](crate::Features::uses) says whether that is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of features")]
pub enum MapUse {
    Always,
    Ipv4,
    Ipv6,
    Nat4,
    Nat6,
    Masquerade4,
    Masquerade6,
    SourceRanges4,
    SourceRanges6,
    Maglev,
    Maglev4,
    Maglev6,
    Sockets,
    Sockets4,
    Sockets6,
}

/// What a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapSpec {
    /// Name in the object, and of the pin.
    pub name: &'static str,
    /// Type.
    pub map_type: MapType,
    /// Size of a key in bytes.
    pub key_size: u32,
    /// Size of a value in bytes.
    pub value_size: u32,
    /// Rows unless configured otherwise; 0 for one per possible CPU.
    pub max_entries: u32,
    /// Flags of creation.
    pub flags: u32,
    /// What the maps are like that an outer map holds; they may be of another size.
    pub inner: Option<&'static MapSpec>,
    /// What it is there for. Where that is switched off there is no such map.
    pub of: MapUse,
}

impl MapSpec {
    const fn of(self, of: MapUse) -> Self {
        Self { of, ..self }
    }
}

const fn spec<K, V>(
    name: &'static str,
    map_type: MapType,
    max_entries: u32,
    flags: u32,
) -> MapSpec {
    MapSpec {
        name,
        map_type,
        key_size: size_of::<K>() as u32,
        value_size: size_of::<V>() as u32,
        max_entries,
        flags,
        inner: None,
        of: MapUse::Always,
    }
}

const fn hash<K, V>(name: &'static str) -> MapSpec {
    spec::<K, V>(name, MapType::Hash, LB_ENTRIES, NO_PREALLOC)
}

const fn lru<K, V>(name: &'static str) -> MapSpec {
    spec::<K, V>(name, MapType::LruHash, LB_ENTRIES, 0)
}

const fn outer(name: &'static str, max_entries: u32, inner: &'static MapSpec) -> MapSpec {
    MapSpec { inner: Some(inner), ..spec::<u32, u32>(name, MapType::ArrayOfMaps, max_entries, 0) }
}

/// Every endpoint's policy: an inner map of `volvox_policy`, pinned as `cilium_policy_v2_NNNNN`.
pub const POLICY: MapSpec = spec::<PolicyKey, PolicyRow>(
    "cilium_policy_v2",
    MapType::LpmTrie,
    16384,
    NO_PREALLOC | RDONLY_PROG,
);

const OLD_CT4: MapSpec = spec::<Ct4Key, CtRow>("cilium_ct4_old", MapType::LruHash, 1, 0);
const OLD_CT6: MapSpec = spec::<Ct6Key, CtRow>("cilium_ct6_old", MapType::LruHash, 1, 0);

/// Rows of each map of load balancing.
const LB_ENTRIES: u32 = 65536;

/// Sets of notes, of [`SOCKET_NOTES`] each, about what sockets asked for; [`socket_set`] says which is
/// a socket's. If that changes the map needs another name: its rows cannot be copied.
pub const SOCKET_SETS: u32 = 8192;
/// Sockets with cookies next to each other that have one set.
const SOCKET_NEIGHBOURS: u64 = 4;
// Many that stay open leave half of the places to others.
const _: () = assert!(SOCKET_NEIGHBOURS as usize * 2 <= SOCKET_NOTES);

/// The set that has the notes of the socket of that cookie: a key of `volvox_sockets`.
pub const fn socket_set(cookie: u64) -> u32 {
    (cookie / SOCKET_NEIGHBOURS % SOCKET_SETS as u64) as u32
}

/// Rows of each map of address translation, two for each flow.
const NAT_ENTRIES: u32 = 524_288;

/// Backends in a Maglev table, unless configured otherwise: a prime that is well above their number.
pub const MAGLEV_SIZE: u32 = 16381;

/// A service's Maglev table: an inner map of `cilium_lb4_maglev` and `cilium_lb6_maglev`. Its one
/// value is as many backend ids as a table has, of [`MAGLEV_SIZE`] unless configured otherwise.
pub const MAGLEV_TABLE: MapSpec =
    spec::<u32, [u32; MAGLEV_SIZE as usize]>("cilium_maglev", MapType::Array, 1, 0);

const fn maglev(name: &'static str) -> MapSpec {
    MapSpec {
        inner: Some(&MAGLEV_TABLE),
        ..spec::<Be16, u32>(name, MapType::HashOfMaps, LB_ENTRIES, NO_PREALLOC)
    }
}

/// Name of the pin that follows an endpoint's row of the outer map.
pub fn policy_pin_name(ep_id: u16) -> String {
    format!("{}_{ep_id:05}", POLICY.name)
}

/// The maps of connections that are being replaced by ones of another size, for each family. A slot
/// is empty unless such a change is under way.
pub const OLD_CONNECTIONS: [MapSpec; 2] = [
    outer("volvox_ct4_old", 2, &OLD_CT4).of(MapUse::Ipv4),
    outer("volvox_ct6_old", 2, &OLD_CT6).of(MapUse::Ipv6),
];

/// Each map of connections: its name, and where its predecessor stands, as the place of a map in
/// [`OLD_CONNECTIONS`] and the slot there.
pub const CONNECTIONS: [(&str, usize, u32); 4] = [
    ("cilium_ct4_global", 0, 0),
    ("cilium_ct_any4_global", 0, 1),
    ("cilium_ct6_global", 1, 0),
    ("cilium_ct_any6_global", 1, 1),
];

/// All maps of the object, in the order in which they are created.
pub const MAPS: &[MapSpec] = &[
    OLD_CONNECTIONS[0],
    OLD_CONNECTIONS[1],
    spec::<LxcKey, LxcRow>("cilium_lxc", MapType::Hash, 65535, 0),
    spec::<IpcacheKey, IpcacheRow>(
        "cilium_ipcache_v2",
        MapType::LpmTrie,
        512_000,
        NO_PREALLOC | RDONLY_PROG,
    ),
    spec::<Ct4Key, CtRow>("cilium_ct4_global", MapType::LruHash, 524_288, 0).of(MapUse::Ipv4),
    spec::<Ct4Key, CtRow>("cilium_ct_any4_global", MapType::LruHash, 262_144, 0).of(MapUse::Ipv4),
    spec::<Ct6Key, CtRow>("cilium_ct6_global", MapType::LruHash, 524_288, 0).of(MapUse::Ipv6),
    spec::<Ct6Key, CtRow>("cilium_ct_any6_global", MapType::LruHash, 262_144, 0).of(MapUse::Ipv6),
    spec::<MetricsKey, MetricsRow>("cilium_metrics", MapType::PercpuHash, 1024, 0),
    spec::<u32, u32>("cilium_events", MapType::PerfEventArray, 0, 0),
    spec::<u32, u32>("cilium_signals", MapType::PerfEventArray, 0, 0),
    spec::<PolicyStatsKey, PolicyStatsRow>(
        "cilium_policystats",
        MapType::LruPercpuHash,
        65536,
        NO_COMMON_LRU,
    ),
    spec::<u32, ConfigRow>("volvox_config", MapType::Hash, 65535, NO_PREALLOC),
    outer("volvox_policy", 131_072, &POLICY),
    spec::<u32, EndpointRow>("volvox_endpoint", MapType::Hash, 65535, NO_PREALLOC),
    spec::<u32, NodeRow>("volvox_node", MapType::Array, 1, 0),
    spec::<u32, DeviceRow>("volvox_device", MapType::Hash, 1024, NO_PREALLOC),
    spec::<Nat4Key, Nat4Row>("cilium_snat_v4_external", MapType::LruHash, NAT_ENTRIES, 0)
        .of(MapUse::Nat4),
    spec::<Nat6Key, Nat6Row>("cilium_snat_v6_external", MapType::LruHash, NAT_ENTRIES, 0)
        .of(MapUse::Nat6),
    spec::<Prefix4Key, u8>("cilium_ipmasq_v4", MapType::LpmTrie, 16384, NO_PREALLOC)
        .of(MapUse::Masquerade4),
    spec::<Prefix6Key, u8>("cilium_ipmasq_v6", MapType::LpmTrie, 16384, NO_PREALLOC)
        .of(MapUse::Masquerade6),
    spec::<Fragment4Key, FragmentRow>("cilium_ipv4_frag_datagrams", MapType::LruHash, 8192, 0)
        .of(MapUse::Ipv4),
    spec::<Fragment6Key, FragmentRow>("cilium_ipv6_frag_datagrams", MapType::LruHash, 8192, 0)
        .of(MapUse::Ipv6),
    hash::<Lb4Key, LbRow>("cilium_lb4_services_v2").of(MapUse::Ipv4),
    hash::<Lb6Key, LbRow>("cilium_lb6_services_v2").of(MapUse::Ipv6),
    hash::<u32, Backend4Row>("cilium_lb4_backends_v3").of(MapUse::Ipv4),
    hash::<u32, Backend6Row>("cilium_lb6_backends_v3").of(MapUse::Ipv6),
    hash::<MemberKey, Member4Row>("volvox_lb4_members").of(MapUse::Ipv4),
    hash::<MemberKey, Member6Row>("volvox_lb6_members").of(MapUse::Ipv6),
    hash::<Be16, ReverseNat4Row>("cilium_lb4_reverse_nat").of(MapUse::Ipv4),
    hash::<Be16, ReverseNat6Row>("cilium_lb6_reverse_nat").of(MapUse::Ipv6),
    lru::<Affinity4Key, AffinityRow>("cilium_lb4_affinity").of(MapUse::Ipv4),
    lru::<Affinity6Key, AffinityRow>("cilium_lb6_affinity").of(MapUse::Ipv6),
    hash::<AffinityMatchKey, u8>("cilium_lb_affinity_match"),
    spec::<SourceRange4Key, u8>(
        "cilium_lb4_source_range",
        MapType::LpmTrie,
        LB_ENTRIES,
        NO_PREALLOC,
    )
    .of(MapUse::SourceRanges4),
    spec::<SourceRange6Key, u8>(
        "cilium_lb6_source_range",
        MapType::LpmTrie,
        LB_ENTRIES,
        NO_PREALLOC,
    )
    .of(MapUse::SourceRanges6),
    maglev("cilium_lb4_maglev").of(MapUse::Maglev4),
    maglev("cilium_lb6_maglev").of(MapUse::Maglev6),
    lru::<ReverseSk4Key, ReverseSk4Row>("cilium_lb4_reverse_sk").of(MapUse::Sockets4),
    lru::<ReverseSk6Key, ReverseSk6Row>("cilium_lb6_reverse_sk").of(MapUse::Sockets6),
    spec::<u32, SocketSet>("volvox_sockets", MapType::Array, SOCKET_SETS, MMAPABLE)
        .of(MapUse::Sockets),
    spec::<u32, LbNumbersRow>("volvox_lb", MapType::Array, 1, 0),
];

/// Pins of maps that earlier versions made and no program uses any more.
pub const RETIRED: &[&str] = &["cilium_runtime_config", "volvox_socket"];

/// The map of a name.
pub fn by_name(name: &str) -> Option<&'static MapSpec> {
    MAPS.iter().find(|spec| spec.name == name)
}
