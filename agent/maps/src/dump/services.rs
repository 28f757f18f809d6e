//! The maps that balance load, without an agent.

use std::{collections::BTreeMap, io, net::IpAddr};

use serde::Serialize;
use volvox_actors::{
    model::{BackendId, ServiceId},
    ports::ServiceTables,
};
use volvox_bpf_progs::layouts as raw;
use zerocopy::IntoBytes;

use super::Dump;
use crate::{
    error::{DatapathError, refused},
    services::{Taken, maglev_tables, sort, take_all},
    sys::Map,
    table::Plain,
};

/// A client that has been served by a backend and goes back to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServedClient {
    /// The service.
    pub service: ServiceId,
    /// Who it is.
    #[serde(flatten)]
    pub client: Client,
    /// The backend.
    pub backend: BackendId,
    /// Second of the monotonic clock in which the client used the service last.
    pub last_used: u64,
}

/// Who uses a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// Packets from an address.
    Address(IpAddr),
    /// Sockets of a network namespace, by the kernel's number for it.
    NetnsCookie(u64),
}

/// A service's table of Maglev: how many places each backend has in it.
pub type MaglevShares = BTreeMap<BackendId, usize>;

impl Dump {
    /// Rows of those maps that balance load and have these names: frontends with slots, backends,
    /// reverse translation, affinity's matches, source ranges, tables of Maglev. Names of other maps
    /// are passed over.
    pub fn services(&self, maps: &[&str]) -> Result<ServiceTables, DatapathError> {
        let mut tables = ServiceTables::default();
        for name in maps {
            self.take_services(name, &mut tables)?;
        }
        sort(&mut tables);
        Ok(tables)
    }

    fn take_services(&self, name: &str, into: &mut ServiceTables) -> Result<(), DatapathError> {
        match name {
            "cilium_lb4_services_v2" => self.take::<raw::Lb4Key, raw::LbRow>(name, into),
            "cilium_lb6_services_v2" => self.take::<raw::Lb6Key, raw::LbRow>(name, into),
            "cilium_lb4_backends_v3" => self.take::<u32, raw::Backend4Row>(name, into),
            "cilium_lb6_backends_v3" => self.take::<u32, raw::Backend6Row>(name, into),
            "volvox_lb4_members" => self.take::<raw::MemberKey, raw::Member4Row>(name, into),
            "volvox_lb6_members" => self.take::<raw::MemberKey, raw::Member6Row>(name, into),
            "cilium_lb4_reverse_nat" => self.take::<raw::Be16, raw::ReverseNat4Row>(name, into),
            "cilium_lb6_reverse_nat" => self.take::<raw::Be16, raw::ReverseNat6Row>(name, into),
            "cilium_lb_affinity_match" => self.take::<raw::AffinityMatchKey, u8>(name, into),
            "cilium_lb4_source_range" => self.take::<raw::SourceRange4Key, u8>(name, into),
            "cilium_lb6_source_range" => self.take::<raw::SourceRange6Key, u8>(name, into),
            "cilium_lb4_maglev" | "cilium_lb6_maglev" => {
                let is_ipv4 = name == "cilium_lb4_maglev";
                let found = maglev_tables(&self.table(name)?)?;
                into.maglev.extend(found.into_iter().map(|(id, _)| (id, is_ipv4)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take<K: Taken<V>, V: Plain>(
        &self,
        name: &str,
        into: &mut ServiceTables,
    ) -> Result<(), DatapathError> {
        Ok(take_all(&self.table::<K, V>(name)?, into)?)
    }

    /// Clients of a family that go back to the backend that they had.
    pub fn served_clients(&self, is_ipv4: bool) -> Result<Vec<ServedClient>, DatapathError> {
        let mut found = Vec::new();
        let mut add = |id: raw::Be16, client, row: raw::AffinityRow| {
            let (service, backend) = (ServiceId(id.get()), BackendId(row.backend));
            found.push(ServedClient { service, client, backend, last_used: row.last_used });
        };
        if is_ipv4 {
            let table = self.table::<raw::Affinity4Key, _>("cilium_lb4_affinity")?;
            table.for_each(|key, row| {
                let [a, b, c, d, ..] = key.client;
                let address = [a, b, c, d].into();
                add(key.rev_nat, client(key.netns_cookie, address, key.client), row);
            })?;
        } else {
            let table = self.table::<raw::Affinity6Key, _>("cilium_lb6_affinity")?;
            table.for_each(|key, row| {
                let [a, b, c, d, e, f, g, h, ..] = key.client;
                let cookie = [a, b, c, d, e, f, g, h];
                add(key.rev_nat, client(key.netns_cookie, key.client.into(), cookie), row);
            })?;
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The tables of Maglev of a family's services. One that was replaced while they were read is
    /// left out.
    pub fn maglev(
        &self,
        is_ipv4: bool,
    ) -> Result<BTreeMap<ServiceId, MaglevShares>, DatapathError> {
        let name = if is_ipv4 { "cilium_lb4_maglev" } else { "cilium_lb6_maglev" };
        let mut tables = BTreeMap::new();
        for (service, map) in maglev_tables(&self.table(name)?)? {
            let failed = |e| refused("read", format!("the Maglev table of service {service}"), &e);
            let map = match Map::by_id(map) {
                Ok(map) => map,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error).into()),
            };
            let mut row = vec![0; map.value_bytes()];
            let mut shares = MaglevShares::new();
            if map.lookup(0u32.as_bytes(), &mut row).map_err(failed)? {
                for id in row.chunks_exact(4) {
                    let id = u32::from_ne_bytes([id[0], id[1], id[2], id[3]]);
                    *shares.entry(BackendId(id)).or_default() += 1;
                }
            }
            tables.insert(service, shares);
        }
        Ok(tables)
    }
}

/// Bit 0 of the flag says what the client's bytes are.
fn client(flag: u8, address: IpAddr, cookie: [u8; 8]) -> Client {
    match flag & 1 {
        0 => Client::Address(address),
        _ => Client::NetnsCookie(u64::from_ne_bytes(cookie)),
    }
}
