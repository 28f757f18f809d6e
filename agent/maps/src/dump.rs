//! What the pinned maps hold, read without an agent: endpoints, ipcache, policies, connections,
//! metrics. It only reads, but for `flush`; services and translations have files of their own below.

mod flush;
mod services;
mod snapshot;
mod translations;

use std::{collections::BTreeMap, fs, io, mem::size_of, net::IpAddr, path::Path};

use ipnet::IpNet;
use serde::Serialize;
use volvox_actors::{
    model::{EndpointId, IdentityId, PolicyRows},
    ports::{ConfigRow, EndpointRow, IpcacheRow, LxcRow},
};
use volvox_bpf_progs::{
    layouts::{Ct4Key, Ct6Key, CtRow, MetricsKey, MetricsRow, TupleFlags},
    maps::{self, CONNECTIONS, MAPS, MapSpec, MapUse, OLD_CONNECTIONS, POLICY},
};
use zerocopy::FromBytes;

pub use self::{
    services::{Client, MaglevShares, ServedClient},
    translations::Translation,
};
use super::{
    error::{DatapathError, refused},
    pins::{Pins, bpffs},
    policies,
    resizing::Slot,
    rows::{config_row, endpoint_from_raw, ipcache_row, lxc_row},
    sys::Map,
    table::{Plain, Table, scan},
};

/// Reads pinned maps; works without an agent.
#[derive(Clone, Debug)]
pub struct Dump {
    pins: Pins,
}

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its port; for ICMP echo the identifier at the side that asked, else 0.
    pub port: u16,
}

/// A row of connection tracking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Connection {
    /// Who opened it.
    pub from: Peer,
    /// To whom.
    pub to: Peer,
    /// IP protocol number.
    pub protocol: u8,
    /// `out` as the opener's endpoint sees it, `in` as the other one does, or `service`.
    pub direction: &'static str,
    /// Identity of who opened it.
    pub identity: IdentityId,
    /// Second of the monotonic clock after which the row may be removed.
    pub lifetime: u32,
    /// Bits of [`volvox_bpf_progs::layouts::CtFlags`].
    pub flags: u16,
    /// TCP flags that the opener's side sent.
    pub tx_flags: u8,
    /// TCP flags that came back.
    pub rx_flags: u8,
}

impl Dump {
    /// Of the maps below this `--bpf-root`.
    pub fn at(bpf_root: &Path) -> Self {
        Self { pins: Pins::at(bpf_root) }
    }

    fn map(&self, name: &str) -> Result<Map, DatapathError> {
        let path = self.pins.map(name);
        Map::pinned(&path).map_err(|cause| bpffs("open", path, cause))
    }

    fn table<K: Plain, V: Plain>(&self, name: &str) -> Result<Table<K, V>, DatapathError> {
        match self.map(name) {
            Ok(map) => self.read_as(name, map),
            Err(_) if self.is_off(name) => {
                Ok(Table::absent(name, Default::default(), Default::default()))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a map is not there because the agent whose maps these are has switched off what needs it.
    fn is_off(&self, name: &str) -> bool {
        let may_be = maps::by_name(name).is_some_and(|spec| spec.of != MapUse::Always);
        may_be && !self.pins.map(name).exists() && self.pins.map("volvox_node").exists()
    }

    fn read_as<K: Plain, V: Plain>(
        &self,
        name: &str,
        map: Map,
    ) -> Result<Table<K, V>, DatapathError> {
        let (key, value) = (size_of::<K>(), size_of::<V>());
        if (map.key_bytes(), map.value_bytes()) != (key, value) {
            let sizes = |key, value| format!("key {key} bytes, value {value} bytes");
            return Err(DatapathError::Layout {
                name: name.to_owned(),
                path: self.pins.map(name),
                found: sizes(map.key_bytes(), map.value_bytes()),
                desired: sizes(key, value),
            });
        }
        Ok(Table::new(map, name, Default::default(), Default::default()))
    }

    /// Names of the maps that are there, with the rows that each has room for; of the endpoints' policy
    /// maps one stands for all.
    pub fn sizes(&self) -> Vec<(String, u32)> {
        let of_policy = || {
            let pins = fs::read_dir(self.pins.maps()).ok()?;
            let mut names = pins.filter_map(|pin| pin.ok()?.file_name().into_string().ok());
            let of_endpoint = |name: &String| {
                let id = name.strip_prefix(POLICY.name).and_then(|rest| rest.strip_prefix('_'));
                id.is_some_and(|id| id.parse::<u16>().is_ok())
            };
            let pin = names.find(of_endpoint)?;
            Some((POLICY.name.to_owned(), self.map(&pin).ok()?.info().max_entries))
        };
        let found = |spec: &MapSpec| {
            Some((spec.name.to_owned(), self.map(spec.name).ok()?.info().max_entries))
        };
        MAPS.iter().filter_map(found).chain(of_policy()).collect()
    }

    /// `cilium_lxc`.
    pub fn lxc(&self) -> Result<BTreeMap<IpAddr, LxcRow>, DatapathError> {
        Ok(self.table("cilium_lxc")?.collect(lxc_row)?)
    }

    /// `cilium_ipcache_v2`.
    pub fn ipcache(&self) -> Result<BTreeMap<IpNet, IpcacheRow>, DatapathError> {
        Ok(self.table("cilium_ipcache_v2")?.collect(ipcache_row)?)
    }

    /// `volvox_config`, by interface.
    pub fn config(&self) -> Result<BTreeMap<u32, ConfigRow>, DatapathError> {
        Ok(self.table("volvox_config")?.collect(config_row)?)
    }

    /// `volvox_endpoint`; rows with a wrong checksum are left out.
    pub fn endpoints(&self) -> Result<BTreeMap<EndpointId, EndpointRow>, DatapathError> {
        let row = |id: u32, row| Some((EndpointId(id.try_into().ok()?), endpoint_from_raw(&row)?));
        Ok(self.table("volvox_endpoint")?.collect(row)?)
    }

    /// The policy in force at an endpoint; `None` if it has none.
    pub fn policy(&self, endpoint: EndpointId) -> Result<Option<PolicyRows>, DatapathError> {
        let slot = self
            .config()?
            .into_values()
            .find(|row| row.endpoint == endpoint)
            .map(|r| r.policy_slot);
        let Some(slot) = slot else { return Ok(None) };
        let mut id = [0; 4];
        let about = || format!("the policy of endpoint {endpoint}");
        let failed = |error| refused("read", about(), &error);
        let slots = self.map("volvox_policy")?;
        if !slots.lookup(&slot.to_ne_bytes(), &mut id).map_err(failed)? {
            return Ok(None);
        }
        let map = Map::by_id(u32::from_ne_bytes(id)).map_err(failed)?;
        Ok(Some(policies::rows(&map).map_err(failed)?))
    }

    /// A map of connections, and the one before while that is being replaced.
    fn tracked<K: Plain>(&self, name: &str) -> Result<Vec<Table<K, CtRow>>, DatapathError> {
        let mut tables = vec![self.table(name)?];
        let known = CONNECTIONS.iter().find(|(known, ..)| *known == name);
        let Some((name, outer, number)) = known else { return Ok(tables) };
        let path = self.pins.map(OLD_CONNECTIONS[*outer].name);
        match Map::pinned(&path) {
            Ok(outer) => {
                if let Some(old) = (Slot { name, outer: &outer, number: *number }).map()? {
                    tables.push(self.read_as(name, old)?);
                }
            }
            // Made by an agent that replaced a map at once.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(bpffs("open", path, error)),
        }
        Ok(tables)
    }

    /// Connections of both families, IPv4 first, in order of who opened them.
    pub fn connections(&self) -> Result<Vec<Connection>, DatapathError> {
        let mut found = self.connections_of::<Ct4Key>()?;
        found.extend(self.connections_of::<Ct6Key>()?);
        // The sort is stable: of one that is in both, the current map's comes first.
        let order = |c: &Connection| (c.from, c.to, c.protocol, c.direction);
        found.sort_by_key(order);
        found.dedup_by_key(|c| order(c));
        Ok(found)
    }

    fn connections_of<K: TupleKey>(&self) -> Result<Vec<Connection>, DatapathError> {
        let mut found = Vec::new();
        for name in K::MAPS {
            for table in self.tracked(name)? {
                table.for_each(|key: K, row| found.push(connection(key.tuple(), &row)))?;
            }
        }
        Ok(found)
    }

    /// `cilium_metrics`, all CPUs together.
    pub fn metrics(&self) -> Result<BTreeMap<MetricsKey, MetricsRow>, DatapathError> {
        let map = self.map("cilium_metrics")?;
        let mut rows = BTreeMap::<MetricsKey, MetricsRow>::new();
        let per_cpu = size_of::<MetricsRow>().next_multiple_of(8);
        let scanned = scan(&map, |keys, values| {
            let keys = keys.chunks_exact(map.key_bytes());
            for (key, values) in keys.zip(values.chunks_exact(map.value_bytes())) {
                let Ok(key) = MetricsKey::read_from_bytes(key) else { return false };
                let sum = rows.entry(key).or_default();
                for value in values.chunks_exact(per_cpu) {
                    let Ok((row, _)) = MetricsRow::read_from_prefix(value) else { return false };
                    sum.packets += row.packets;
                    sum.bytes += row.bytes;
                }
            }
            true
        });
        scanned.map_err(|error| refused("read", "map cilium_metrics", &error))?;
        Ok(rows)
    }
}

/// Who connects, to whom, by what protocol, and the key's flags.
type Tuple = (Peer, Peer, u8, u8);

/// Key of a family's maps of connections.
trait TupleKey: Plain {
    const MAPS: [&str; 2];

    fn tuple(&self) -> Tuple;
}

impl TupleKey for Ct4Key {
    const MAPS: [&str; 2] = ["cilium_ct4_global", "cilium_ct_any4_global"];

    fn tuple(&self) -> Tuple {
        let from = Peer { address: self.daddr.into(), port: self.sport.get() };
        let to = Peer { address: self.saddr.into(), port: self.dport.get() };
        (from, to, self.protocol, self.flags)
    }
}

impl TupleKey for Ct6Key {
    const MAPS: [&str; 2] = ["cilium_ct6_global", "cilium_ct_any6_global"];

    fn tuple(&self) -> Tuple {
        let from = Peer { address: self.daddr.into(), port: self.sport.get() };
        let to = Peer { address: self.saddr.into(), port: self.dport.get() };
        (from, to, self.protocol, self.flags)
    }
}

fn connection((from, to, protocol, flags): Tuple, row: &CtRow) -> Connection {
    let direction = match flags {
        flags if flags & TupleFlags::SERVICE != 0 => "service",
        flags if flags & TupleFlags::IN != 0 => "in",
        _ => "out",
    };
    Connection {
        from,
        to,
        protocol,
        direction,
        identity: IdentityId(row.src_sec_id),
        lifetime: row.lifetime,
        flags: row.flags,
        tx_flags: row.tx_flags_seen,
        rx_flags: row.rx_flags_seen,
    }
}
