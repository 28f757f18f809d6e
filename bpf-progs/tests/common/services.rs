//! Services and backends, as an agent writes them.

use super::Node;
use aya::maps::{HashMap, MapData};
use std::net::{IpAddr, SocketAddr};
use volvox_bpf_progs::layouts::*;

/// Id of the service of most tests; its bytes differ, as those in network order must.
pub const SERVICE: u16 = 0x0107;

impl Node {
    /// A row of the services' map.
    pub fn lb_row(&mut self, key: LbKey, row: LbRow) {
        match key {
            LbKey::V4(key) => self.put("cilium_lb4_services_v2", key, row),
            LbKey::V6(key) => self.put("cilium_lb6_services_v2", key, row),
        }
    }

    /// Removes a row of the services' map, which must exist.
    pub fn no_lb_row(&mut self, key: LbKey) {
        match key {
            LbKey::V4(key) => self.remove::<_, LbRow>("cilium_lb4_services_v2", key),
            LbKey::V6(key) => self.remove::<_, LbRow>("cilium_lb6_services_v2", key),
        }
    }

    /// A backend with an id.
    pub fn backend(&mut self, id: u32, at: SocketAddr, protocol: u8, state: BackendState) {
        match at {
            SocketAddr::V4(at) => {
                self.put("cilium_lb4_backends_v3", id, Backend4Row::new(id, at, protocol, state))
            }
            SocketAddr::V6(at) => {
                self.put("cilium_lb6_backends_v3", id, Backend6Row::new(id, at, protocol, state))
            }
        }
    }

    /// Removes a backend, which must exist.
    pub fn no_backend(&mut self, id: u32, like: IpAddr) {
        match like {
            IpAddr::V4(_) => self.remove::<_, Backend4Row>("cilium_lb4_backends_v3", id),
            IpAddr::V6(_) => self.remove::<_, Backend6Row>("cilium_lb6_backends_v3", id),
        }
    }

    /// The slots of a service, then what says how many they are. `row` has all but the counts.
    pub fn slots(&mut self, key: LbKey, row: LbRow, backends: &[u32], quarantined: &[u32]) {
        for (slot, id) in (1..).zip(backends.iter().chain(quarantined)) {
            let row = LbRow { backend: *id, rev_nat: row.rev_nat, ..LbRow::default() };
            self.lb_row(key.slot(slot), row);
        }
        let (count, qcount) = (backends.len() as u16, quarantined.len() as u16);
        self.lb_row(key, LbRow { count, qcount, ..row });
    }

    /// A service with these backends, its address and the row for ports that are not served.
    pub fn service(&mut self, frontend: SocketAddr, protocol: u8, row: LbRow, backends: &[u32]) {
        self.slots(LbKey::new(frontend, protocol, LbScope::External), row, backends, &[]);
        self.lb_row(LbKey::wildcard(frontend.ip()), LbRow::default());
        match frontend {
            SocketAddr::V4(at) => {
                self.put("cilium_lb4_reverse_nat", row.rev_nat.to_bytes(), ReverseNat4Row::new(at))
            }
            SocketAddr::V6(at) => {
                self.put("cilium_lb6_reverse_nat", row.rev_nat.to_bytes(), ReverseNat6Row::new(at))
            }
        }
    }

    /// Inserts into a hash table.
    pub fn put<K: aya::Pod, V: aya::Pod>(&mut self, map: &str, key: K, value: V) {
        self.map::<HashMap<&mut MapData, K, V>>(map, |mut map| map.insert(key, value, 0).unwrap());
    }

    /// Reads from a hash table.
    pub fn read<K: aya::Pod, V: aya::Pod>(&mut self, map: &str, key: K) -> Option<V> {
        let mut value = None;
        self.map::<HashMap<&mut MapData, K, V>>(map, |map| value = map.get(&key, 0).ok());
        value
    }

    /// Removes from a hash table what is there.
    pub fn remove<K: aya::Pod, V: aya::Pod>(&mut self, map: &str, key: K) {
        self.map::<HashMap<&mut MapData, K, V>>(map, |mut map| map.remove(&key).unwrap());
    }
}

/// Slot 0 of a service that chooses at random, without its counts.
pub fn random_service(id: u16) -> LbRow {
    let backend = LbRow::choice(LbAlgorithm::Random, 0);
    LbRow { backend, rev_nat: Be16::new(id), ..LbRow::default() }
}

/// The service address of most tests, of the family that `like` has.
pub fn service_address(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { IpAddr::from([10, 96, 0, 10]) } else { "fd00:96::10".parse().unwrap() }
}

/// The id of the backend that a connection to a service has.
pub fn backend_of(row: &CtRow) -> u32 {
    u32::from_ne_bytes(row.nat_addr[8..12].try_into().unwrap())
}
