//! Opens the datapath's maps: pinned ones are taken over, missing ones are made, and those of
//! another size are replaced with their rows kept. A map of another layout is refused.

use std::{io, os::fd::AsFd, sync::Arc};

use volvox_actors::ports::KernelError;
use volvox_bpf_progs::{
    Features,
    layouts::{
        ConfigRow, Ct4Key, Ct6Key, CtRow, DeviceRow, EndpointRow, IpcacheKey, IpcacheRow, LxcKey,
        LxcRow, Nat4Key, Nat4Row, Nat6Key, Nat6Row, NodeRow, Prefix4Key, Prefix6Key,
    },
    maps::{self, MAPS, MapSpec, MapType, MapUse, OLD_CONNECTIONS},
};
use volvox_maps::{
    cpus,
    error::{DatapathError, not_made, refused},
    pins::{Pins, bpffs, rename, unpin},
    resizing::{Resizing, Slot},
    sys::{Map, MapInfo, NewMap},
    table::{Table, scan},
};

use super::{
    maglev::TableMaps,
    services::{Digests, ServiceMaps},
    socket_notes::SocketNotes,
    takeover::is_shared_with_cilium,
    writes::Writes,
};

/// Rows that the maps have room for, where that is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapSizes {
    /// Connections of TCP, each family: `--bpf-ct-global-tcp-max`.
    pub ct_tcp: u32,
    /// Connections of other protocols, each family: `--bpf-ct-global-any-max`.
    pub ct_any: u32,
    /// Rows of one endpoint's policy: `--bpf-policy-map-max`.
    pub policy: u32,
    /// Rows of each map of load balancing, but that of what sockets asked: `--bpf-lb-map-max`.
    pub lb: u32,
    /// Rows of each map of translations, two for each flow: `--bpf-nat-global-max`.
    pub nat: u32,
    /// Backends in a service's Maglev table, a prime: `--bpf-lb-maglev-table-size`. The programs
    /// are loaded with it.
    pub maglev: u32,
}

impl Default for MapSizes {
    fn default() -> Self {
        Self {
            ct_tcp: 524_288,
            ct_any: 262_144,
            policy: 16_384,
            lb: 65_536,
            nat: 524_288,
            maglev: maps::MAGLEV_SIZE,
        }
    }
}

impl MapSizes {
    fn entries(self, spec: &MapSpec) -> Result<u32, DatapathError> {
        Ok(match spec.name {
            "cilium_ct4_global" | "cilium_ct6_global" => self.ct_tcp,
            "cilium_ct_any4_global" | "cilium_ct_any6_global" => self.ct_any,
            name if name.starts_with("cilium_lb") || name.ends_with("_members") => self.lb,
            "cilium_snat_v4_external" | "cilium_snat_v6_external" => self.nat,
            _ if spec.map_type == MapType::PerfEventArray => {
                let cpus = cpus::possible().map_err(|e| refused("count", "possible CPUs", &e))?;
                u32::try_from(cpus).expect("the kernel numbers CPUs in u32")
            }
            _ => spec.max_entries,
        })
    }
}

/// The datapath's maps, open.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) lxc: Table<LxcKey, LxcRow>,
    pub(super) ipcache: Table<IpcacheKey, IpcacheRow>,
    pub(super) ct4: [Table<Ct4Key, CtRow>; 2],
    pub(super) ct6: [Table<Ct6Key, CtRow>; 2],
    pub(super) config: Table<u32, ConfigRow>,
    pub(super) endpoint: Table<u32, EndpointRow>,
    pub(super) node: Table<u32, NodeRow>,
    pub(super) services: ServiceMaps,
    pub(super) device: Table<u32, DeviceRow>,
    pub(super) nat4: Table<Nat4Key, Nat4Row>,
    pub(super) nat6: Table<Nat6Key, Nat6Row>,
    pub(super) unmasqueraded4: Table<Prefix4Key, u8>,
    pub(super) unmasqueraded6: Table<Prefix6Key, u8>,
    /// `volvox_policy`: slot to policy map. Written with descriptors, read with numbers.
    pub(super) slots: Map,
    /// Stands in an empty slot: replacing goes by batches, deleting one by one.
    pub(super) empty: Map,
    /// Maps of connections that are being replaced by ones of another size.
    pub(super) resizing: Resizing,
    /// Whether a map is not of the size desired because an earlier change has to be finished first.
    pub(super) is_behind: bool,
    /// Each map's name and number, in the order of [`MAPS`].
    pub(super) ids: Vec<(&'static str, u32)>,
}

/// Pin of the policy map that stands in an empty slot.
pub(super) const EMPTY_POLICY: &str = "volvox_policy_empty";

impl Maps {
    /// Opens every map of what is switched on, and makes those that are not there. `orphans` are maps
    /// that loaded programs use: one whose pin was lost is pinned again, not replaced.
    pub(super) fn open(
        pins: &Pins,
        (sizes, features): (MapSizes, Features),
        writes: &Writes,
        orphans: impl Fn() -> Vec<Map>,
    ) -> Result<Self, DatapathError> {
        let policy = policy_spec(sizes);
        let empty = match open_pinned(pins, EMPTY_POLICY)? {
            // Its size may be an older setting's: it holds nothing.
            Some(map) if same_layout(map.info(), &policy) => map,
            Some(found) => return Err(other_layout(pins, EMPTY_POLICY, &found, &policy)),
            None => create_pinned(pins, EMPTY_POLICY, &NewMap { name: "volvox_empty", ..policy })?,
        };
        let keep = is_shared_with_cilium(pins);
        let tables = TableMaps::of(pins, sizes)?;
        let opening = Opening { pins, sizes, orphans, tables: &tables, keep };
        let [ct4, ct6] = &OLD_CONNECTIONS;
        let is_on = |spec: &MapSpec| features.uses(spec.of);
        let outer = |spec| is_on(spec).then(|| opening.open(spec, None)).transpose();
        let resizing = Resizing { outers: [outer(ct4)?, outer(ct6)?] };
        let (mut opened, mut is_behind) = (Vec::with_capacity(MAPS.len()), false);
        for spec in MAPS.iter().filter(|spec| is_on(spec) && !OLD_CONNECTIONS.contains(spec)) {
            let map = opening.open(spec, Some(&resizing))?;
            is_behind |= !keep && !same_size(map.info(), &desired(spec, sizes)?);
            opened.push((spec.name, map));
        }
        if features.uses(MapUse::Maglev) {
            tables.settle(pins)?;
        }
        Ok(Self { is_behind, ..Self::assemble(opened, resizing, empty, tables.table(), writes) })
    }

    fn assemble(
        mut opened: Vec<(&'static str, Map)>,
        resizing: Resizing,
        empty: Map,
        maglev: NewMap<'static>,
        writes: &Writes,
    ) -> Self {
        let outers = OLD_CONNECTIONS.iter().map(|spec| spec.name).zip(&resizing.outers);
        let outers = outers.filter_map(|(name, map)| Some((name, map.as_ref()?)));
        let maps = outers.chain(opened.iter().map(|(name, map)| (*name, map)));
        let ids = maps.map(|(name, map)| (name, map.info().id)).collect();
        let mut take = |name: &str| {
            let at = opened.iter().position(|(found, _)| *found == name);
            at.map(|at| opened.swap_remove(at).1)
        };
        macro_rules! table {
            ($name:literal, $writes:ident) => {{
                let (writes, tally) = (Arc::clone(&writes.$writes), writes.tallies.of($name));
                match take($name) {
                    Some(map) => Table::new(map, $name, writes, tally),
                    None => Table::absent($name, writes, tally),
                }
            }};
        }
        Self {
            lxc: table!("cilium_lxc", endpoint_maps),
            ipcache: table!("cilium_ipcache_v2", ipcache),
            ct4: [
                table!("cilium_ct4_global", conntrack),
                table!("cilium_ct_any4_global", conntrack),
            ],
            ct6: [
                table!("cilium_ct6_global", conntrack),
                table!("cilium_ct_any6_global", conntrack),
            ],
            config: table!("volvox_config", endpoint_maps),
            endpoint: table!("volvox_endpoint", endpoint_maps),
            node: table!("volvox_node", node),
            services: ServiceMaps {
                slots4: table!("cilium_lb4_services_v2", services),
                slots6: table!("cilium_lb6_services_v2", services),
                backends4: table!("cilium_lb4_backends_v3", services),
                backends6: table!("cilium_lb6_backends_v3", services),
                members4: table!("volvox_lb4_members", services),
                members6: table!("volvox_lb6_members", services),
                reverse4: table!("cilium_lb4_reverse_nat", services),
                reverse6: table!("cilium_lb6_reverse_nat", services),
                matches: table!("cilium_lb_affinity_match", services),
                ranges4: table!("cilium_lb4_source_range", services),
                ranges6: table!("cilium_lb6_source_range", services),
                sockets4: table!("cilium_lb4_reverse_sk", services),
                sockets6: table!("cilium_lb6_reverse_sk", services),
                notes: SocketNotes::new(take("volvox_sockets")),
                numbers: table!("volvox_lb", services),
                maglev: [
                    table!("cilium_lb6_maglev", services),
                    table!("cilium_lb4_maglev", services),
                ],
                table: maglev,
                digests: Digests::default(),
            },
            device: table!("volvox_device", devices),
            nat4: table!("cilium_snat_v4_external", translations),
            nat6: table!("cilium_snat_v6_external", translations),
            unmasqueraded4: table!("cilium_ipmasq_v4", devices),
            unmasqueraded6: table!("cilium_ipmasq_v6", devices),
            slots: take("volvox_policy").expect("it is always switched on"),
            empty,
            resizing,
            is_behind: false,
            ids,
        }
    }
}

impl Maps {
    /// Whether one of them has the same name as this one, of which the kernel keeps 15 bytes.
    pub(super) fn has_named_like(&self, map: &Map) -> bool {
        self.ids.iter().any(|(name, _)| is_named(map.info(), name))
    }

    /// Lets go of maps of connections that were replaced, once every hook runs a program that uses
    /// the current ones.
    pub(super) fn finish_resizing(&self) -> Result<(), KernelError> {
        self.resizing.finish(&self.ids)
    }
}

/// Whether a map has that name, of which the kernel keeps 15 bytes.
pub(super) fn is_named(info: &MapInfo, name: &str) -> bool {
    let end = info.name.iter().position(|byte| *byte == 0).unwrap_or(info.name.len());
    info.name[..end] == name.as_bytes()[..name.len().min(15)]
}

/// How an endpoint's policy map is made.
pub(super) fn policy_spec(sizes: MapSizes) -> NewMap<'static> {
    new_map(&maps::POLICY, sizes.policy)
}

pub(super) fn desired(spec: &MapSpec, sizes: MapSizes) -> Result<NewMap<'static>, DatapathError> {
    Ok(new_map(spec, sizes.entries(spec)?))
}

pub(super) fn new_map(spec: &MapSpec, max_entries: u32) -> NewMap<'static> {
    NewMap {
        name: spec.name,
        map_type: spec.map_type as u32,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries,
        flags: spec.flags,
        inner: None,
    }
}

pub(super) fn open_pinned(pins: &Pins, name: &str) -> Result<Option<Map>, DatapathError> {
    let path = pins.map(name);
    match Map::pinned(&path) {
        Ok(map) => Ok(Some(map)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(bpffs("open", path, error)),
    }
}

pub(super) fn create_pinned(
    pins: &Pins,
    name: &str,
    new: &NewMap<'_>,
) -> Result<Map, DatapathError> {
    let map = Map::create(new).map_err(|e| not_made(name, &e))?;
    pin(&map, pins.map(name))?;
    Ok(map)
}

fn pin(map: &Map, path: std::path::PathBuf) -> Result<(), DatapathError> {
    volvox_maps::sys::pin(map, &path).map_err(|cause| bpffs("pin a map at", path, cause))
}

/// What opening a map takes.
struct Opening<'a, F> {
    pins: &'a Pins,
    sizes: MapSizes,
    orphans: F,
    tables: &'a TableMaps,
    /// Cilium's programs use the maps, or may again: a map that is as good stays as it is. What they
    /// write into one that was replaced would be lost, and they would not see what we write.
    keep: bool,
}

impl<F: Fn() -> Vec<Map>> Opening<'_, F> {
    /// Opens a map, takes over one of another size, or makes one.
    fn open(&self, spec: &MapSpec, resizing: Option<&Resizing>) -> Result<Map, DatapathError> {
        let (pins, name, desired) = (self.pins, spec.name, desired(spec, self.sizes)?);
        let found = match open_pinned(pins, name)? {
            Some(found) => found,
            None => match self.orphan(&desired) {
                Some(orphan) => {
                    tracing::warn!(
                        map = name,
                        "the pin was lost; the map that programs use is pinned again"
                    );
                    pin(&orphan, pins.map(name))?;
                    orphan
                }
                None => return create(pins, spec, &desired, self.tables),
            },
        };
        if !same_layout(found.info(), &desired) {
            return Err(other_layout(pins, name, &found, &desired));
        }
        let is_tables = spec.map_type == MapType::HashOfMaps;
        let keep = self.keep && name.starts_with("cilium_");
        if keep && (!is_tables || self.tables.are_those_of(&found)?) {
            return Ok(found);
        }
        if same_size(found.info(), &desired) && (!is_tables || self.tables.are_kept()) {
            return Ok(found);
        }
        if is_tables {
            let new = made(spec, &desired, self.tables)?;
            put_in_place(pins, &new, &found, &desired)?;
            return Ok(new);
        }
        if spec.inner.is_some() {
            return Err(other_layout(pins, name, &found, &desired));
        }
        // A slot takes maps of the same flags only.
        let slot = resizing.and_then(|resizing| resizing.slot(name));
        match slot.filter(|_| found.info().flags == desired.flags) {
            Some(slot) => replace_behind(pins, slot, found, &desired),
            None => resize(pins, &found, &desired),
        }
    }

    /// A map of that name that has no pin and that programs use, of the size desired if there is
    /// one.
    fn orphan(&self, desired: &NewMap<'_>) -> Option<Map> {
        let mut orphans = (self.orphans)();
        orphans
            .retain(|map| same_layout(map.info(), desired) && is_named(map.info(), desired.name));
        orphans.sort_by_key(|map| !same_size(map.info(), desired));
        orphans.into_iter().next()
    }
}

/// Makes a map and pins it.
fn create(
    pins: &Pins,
    spec: &MapSpec,
    new: &NewMap<'_>,
    tables: &TableMaps,
) -> Result<Map, DatapathError> {
    let map = made(spec, new, tables)?;
    pin(&map, pins.map(spec.name))?;
    Ok(map)
}

/// Makes a map; an outer one after a map like those that it is to hold.
fn made(spec: &MapSpec, new: &NewMap<'_>, tables: &TableMaps) -> Result<Map, DatapathError> {
    let make = |inner: &MapSpec| {
        let like = new_map(inner, inner.max_entries);
        Map::create(&if spec.map_type == MapType::HashOfMaps { tables.table() } else { like })
    };
    let inner = spec.inner.map(make).transpose().map_err(|e| not_made(spec.name, &e))?;
    let new = NewMap { inner: inner.as_ref().map(AsFd::as_fd), ..*new };
    Ok(Map::create(&new).map_err(|e| not_made(spec.name, &e))?)
}

fn other_layout(pins: &Pins, name: &str, found: &Map, desired: &NewMap<'_>) -> DatapathError {
    DatapathError::Layout {
        name: name.to_owned(),
        path: pins.map(name),
        found: describe(&as_new(found.info())),
        desired: describe(desired),
    }
}

/// Same type, key and value: rows of the one can be copied to the other.
pub(super) fn same_layout(info: &MapInfo, desired: &NewMap<'_>) -> bool {
    (info.map_type, info.key_size, info.value_size)
        == (desired.map_type, desired.key_size, desired.value_size)
}

pub(super) fn same_size(info: &MapInfo, desired: &NewMap<'_>) -> bool {
    (info.max_entries, info.flags) == (desired.max_entries, desired.flags)
}

fn as_new(info: &MapInfo) -> NewMap<'static> {
    NewMap {
        name: "",
        map_type: info.map_type,
        key_size: info.key_size,
        value_size: info.value_size,
        max_entries: info.max_entries,
        flags: info.flags,
        inner: None,
    }
}

/// Type and sizes of a map, for people.
pub(super) fn describe_map(map: &Map) -> String {
    describe(&as_new(map.info()))
}

fn describe(map: &NewMap<'_>) -> String {
    format!(
        "type {}, key {} bytes, value {} bytes, {} entries, flags {:#x}",
        map.map_type, map.key_size, map.value_size, map.max_entries, map.flags
    )
}

/// Makes a map of the size desired, copies the rows and puts it in the pinned one's place. Programs
/// that are loaded go on with the old one until the next generation replaces them.
fn resize(pins: &Pins, found: &Map, desired: &NewMap<'_>) -> Result<Map, DatapathError> {
    let new = Map::create(desired).map_err(|e| not_made(desired.name, &e))?;
    if desired.map_type != MapType::PerfEventArray as u32 {
        copy(found, &new).map_err(|cause| not_copied(found, desired, cause))?;
    }
    put_in_place(pins, &new, found, desired)?;
    Ok(new)
}

/// Only a map that is full is too small; all else is said as it is.
fn not_copied(found: &Map, desired: &NewMap<'_>, cause: io::Error) -> DatapathError {
    match cause.raw_os_error() {
        Some(libc::E2BIG | libc::ENOSPC) => DatapathError::TooSmall {
            name: desired.name.to_owned(),
            found: found.info().max_entries,
            desired: desired.max_entries,
            cause,
        },
        _ => refused("copy the rows of", desired.name, &cause).into(),
    }
}

/// Puts a new map of connections in the pinned one's place, which from then on stands in the slot:
/// rows follow when every hook is switched. A change that was cut off is to be finished before the
/// next: until then the size stays.
fn replace_behind(
    pins: &Pins,
    slot: Slot<'_>,
    found: Map,
    desired: &NewMap<'_>,
) -> Result<Map, DatapathError> {
    let before = slot.map()?.map(|map| map.info().id);
    if before.is_some_and(|before| before != found.info().id) {
        return Ok(found);
    }
    let new = Map::create(desired).map_err(|e| not_made(desired.name, &e))?;
    if before.is_none() {
        slot.put(&found)?;
    }
    put_in_place(pins, &new, &found, desired)?;
    Ok(new)
}

fn put_in_place(
    pins: &Pins,
    new: &Map,
    found: &Map,
    desired: &NewMap<'_>,
) -> Result<(), DatapathError> {
    let (incoming, place) = (pins.incoming_map(desired.name), pins.map(desired.name));
    unpin(&incoming).map_err(|e| bpffs("remove", incoming.clone(), e))?;
    pin(new, incoming.clone())?;
    rename(&incoming, &place).map_err(|e| bpffs("replace", place, e))?;
    let (from, to) = (found.info().max_entries, desired.max_entries);
    match from == to {
        false => tracing::info!(map = desired.name, from, to, "map resized"),
        true => {
            let (from, to) = (describe(&as_new(found.info())), describe(desired));
            tracing::info!(
                map = desired.name,
                from,
                to,
                "map replaced by one of other flags or type"
            );
        }
    }
    Ok(())
}

/// Copies every row.
fn copy(from: &Map, to: &Map) -> io::Result<()> {
    let mut result = Ok(());
    scan(from, |keys, values| {
        result = to.update_batch(keys, values).1;
        result.is_ok()
    })?;
    result
}
