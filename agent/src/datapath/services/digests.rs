//! Tables of Maglev are long, and take long to compute: what they are is remembered by a checksum.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use volvox_actors::{
    model::{BackendId, L4Address, ServiceId},
    ports::{KernelError, MaglevTable},
    services::service_cache::maglev,
};
use volvox_bpf_progs::layouts as raw;
use volvox_maps::{error::refused, sys::Map};
use zerocopy::IntoBytes;

use super::ServiceMaps;

/// A service, and whether it is IPv4.
type Key = (ServiceId, bool);

/// What tables are: whom each is computed of, and its rows, as checksums.
#[derive(Debug, Default)]
pub(in crate::datapath) struct Digests(Mutex<BTreeMap<Key, (u64, u32)>>);

impl Digests {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, (u64, u32)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table is this.
    pub(super) fn note(&self, key: Key, backends: &[(BackendId, L4Address)], rows: &[u8]) {
        self.all().insert(key, (of_backends(backends), crc32fast::hash(rows)));
    }

    /// These are no more.
    pub(super) fn forget(&self, keys: &[Key]) {
        let mut all = self.all();
        for key in keys {
            all.remove(key);
        }
    }

    /// What a table of these backends is; computed if it never was.
    fn desired(&self, key: Key, backends: &[(BackendId, L4Address)], size: usize) -> u32 {
        let of = of_backends(backends);
        if let Some((_, rows)) = self.all().get(&key).filter(|(known, _)| *known == of) {
            return *rows;
        }
        let rows = maglev::table(backends, size);
        self.note(key, backends, rows.as_bytes());
        crc32fast::hash(rows.as_bytes())
    }
}

fn of_backends(backends: &[(BackendId, L4Address)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    backends.hash(&mut hasher);
    hasher.finish()
}

impl ServiceMaps {
    /// Those of the tables that are not there, or are others.
    pub(in crate::datapath) fn differing_tables(
        &self,
        tables: &[MaglevTable],
    ) -> Result<Vec<Key>, KernelError> {
        let mut rows = vec![0; self.table.value_size as usize];
        let mut differing = Vec::new();
        for (id, is_ipv4, backends) in tables {
            let key = (*id, *is_ipv4);
            let failed = |error: io::Error| {
                refused("read", format!("the Maglev table of service {id}"), &error)
            };
            let found = self.maglev[usize::from(*is_ipv4)].get(&raw::Be16::new(id.0))?;
            let found = found.map(|number| read(number, &mut rows)).transpose().map_err(failed)?;
            let size = rows.len() / size_of::<u32>();
            let is_right = found == Some(true)
                && crc32fast::hash(&rows) == self.digests.desired(key, backends, size);
            if !is_right {
                differing.push(key);
            }
        }
        Ok(differing)
    }
}

/// Reads the table of that number; false if it is none of this size, or was replaced meanwhile.
fn read(number: u32, rows: &mut [u8]) -> io::Result<bool> {
    let map = match Map::by_id(number) {
        Ok(map) => map,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(false),
        Err(error) => return Err(error),
    };
    if (map.key_bytes(), map.value_bytes()) != (size_of::<u32>(), rows.len()) {
        return Ok(false);
    }
    map.lookup(0u32.as_bytes(), rows)
}
