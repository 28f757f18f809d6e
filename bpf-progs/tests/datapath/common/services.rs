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

    /// A backend with an id. Services that list it use it so from then on.
    pub fn backend(&mut self, id: u32, at: SocketAddr, protocol: u8, state: BackendState) {
        self.backends.insert((id, at.is_ipv4()), (at, protocol, state));
        let all =
            self.members.iter().filter(|(_, of, is_ipv4)| (*of, *is_ipv4) == (id, at.is_ipv4()));
        for (service, ..) in all.copied().collect::<Vec<_>>() {
            self.member(service, id, state, at.ip());
        }
        match at {
            SocketAddr::V4(at) => {
                self.put("cilium_lb4_backends_v3", id, Backend4Row::new(id, at, protocol, state))
            }
            SocketAddr::V6(at) => {
                self.put("cilium_lb6_backends_v3", id, Backend6Row::new(id, at, protocol, state))
            }
        }
    }

    /// A service lists a backend that there is, in this state.
    pub fn member(&mut self, service: u16, id: u32, state: BackendState, like: IpAddr) {
        let key = MemberKey::new(id, service);
        self.members.insert((service, id, like.is_ipv4()));
        let Some(&(at, protocol, _)) = self.backends.get(&(id, like.is_ipv4())) else { return };
        match at {
            SocketAddr::V4(at) => {
                self.put("volvox_lb4_members", key, Member4Row::new(key, at, protocol, state))
            }
            SocketAddr::V6(at) => {
                self.put("volvox_lb6_members", key, Member6Row::new(key, at, protocol, state))
            }
        }
    }

    /// A service lists a backend no more, which it did.
    pub fn no_member(&mut self, service: u16, id: u32, like: IpAddr) {
        let key = MemberKey::new(id, service);
        self.members.remove(&(service, id, like.is_ipv4()));
        match like {
            IpAddr::V4(_) => self.remove::<_, Member4Row>("volvox_lb4_members", key),
            IpAddr::V6(_) => self.remove::<_, Member6Row>("volvox_lb6_members", key),
        }
    }

    /// Removes a backend, which must exist, from all services.
    pub fn no_backend(&mut self, id: u32, like: IpAddr) {
        let is_ipv4 = like.is_ipv4();
        self.backends.remove(&(id, is_ipv4));
        let all = self.members.iter().filter(|(_, of, four)| (*of, *four) == (id, is_ipv4));
        for (service, ..) in all.copied().collect::<Vec<_>>() {
            self.no_member(service, id, like);
        }
        match like {
            IpAddr::V4(_) => self.remove::<_, Backend4Row>("cilium_lb4_backends_v3", id),
            IpAddr::V6(_) => self.remove::<_, Backend6Row>("cilium_lb6_backends_v3", id),
        }
    }

    /// The slots of a service, then what says how many they are. `row` has all but the counts. Who had a
    /// slot and has none is listed still.
    pub fn slots(&mut self, key: LbKey, row: LbRow, backends: &[u32], quarantined: &[u32]) {
        let like = key.frontend().ip();
        for id in backends.iter().chain(quarantined) {
            let state = self.backends.get(&(*id, like.is_ipv4())).map(|(.., state)| *state);
            self.member(row.rev_nat.get(), *id, state.unwrap_or_default(), like);
        }
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
