//! A map with typed keys and rows: single reads and writes, batches, pages and whole scans. Every
//! write and every full read is counted.

use std::{
    collections::BTreeMap,
    io,
    marker::PhantomData,
    mem::size_of,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use volvox_actors::ports::KernelError;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{
    error::refused,
    sys::{Cursor, Map},
    tally::MapTally,
};

/// Bytes that one batch may take in memory.
const BATCH_BYTES: usize = 64 * 1024;
/// Rows of a batch, at least and at most.
const BATCH_ROWS: (usize, usize) = (64, 4096);

/// Rows of a page.
const PAGE_ROWS: usize = 1024;

/// Plain bytes, as the kernel keeps them.
pub trait Plain: FromBytes + IntoBytes + Immutable {}

impl<T: FromBytes + IntoBytes + Immutable> Plain for T {}

/// Rows, and where the next ones begin.
pub type Page<K, V> = (Vec<(K, V)>, Option<Box<[u8]>>);

/// A map with typed rows, which counts what is written to it. One of what is switched off has no map, and
/// no rows.
#[derive(Debug)]
pub struct Table<K, V> {
    map: Option<Map>,
    name: String,
    writes: Arc<AtomicU64>,
    tally: Arc<MapTally>,
    rows: PhantomData<fn() -> (K, V)>,
}

impl<K: Plain, V: Plain> Table<K, V> {
    /// A map whose layout was compared; its sizes are the types'.
    pub fn new(map: Map, name: &str, writes: Arc<AtomicU64>, tally: Arc<MapTally>) -> Self {
        assert_eq!(map.key_bytes(), size_of::<K>(), "{name}: its key was compared");
        assert_eq!(map.value_bytes(), size_of::<V>(), "{name}: its value was compared");
        tally.has_room(map.info().max_entries);
        Self { map: Some(map), ..Self::absent(name, writes, tally) }
    }

    /// The rows of a map that is not there because what needs it is switched off: none, and none can be
    /// written.
    pub fn absent(name: &str, writes: Arc<AtomicU64>, tally: Arc<MapTally>) -> Self {
        Self { map: None, name: name.to_owned(), writes, tally, rows: PhantomData }
    }

    /// How many rows it has room for.
    pub fn room(&self) -> u32 {
        self.map.as_ref().map_or(0, |map| map.info().max_entries)
    }

    fn to_write(&self) -> Result<&Map, KernelError> {
        let off = || {
            let off = io::Error::other("what it belongs to is switched off; restart the agent");
            self.refused("write")(off)
        };
        self.map.as_ref().ok_or_else(off)
    }

    fn updated(&self, rows: usize, result: &io::Result<()>) {
        self.writes.fetch_add(rows as u64, Ordering::Relaxed);
        self.tally.updated(rows, result);
    }

    fn deleted(&self, rows: usize, result: &io::Result<()>) {
        self.writes.fetch_add(rows as u64, Ordering::Relaxed);
        self.tally.deleted(rows, result);
    }

    fn refused(&self, op: &'static str) -> impl Fn(io::Error) -> KernelError {
        move |error| refused(op, format!("map {}", self.name), &error)
    }

    /// Reads a row.
    pub fn get(&self, key: &K) -> Result<Option<V>, KernelError> {
        let mut value = V::new_zeroed();
        let Some(map) = &self.map else { return Ok(None) };
        let found = map.lookup(key.as_bytes(), bytes_of(&mut value));
        Ok(found.map_err(self.refused("read"))?.then_some(value))
    }

    /// Writes a row.
    pub fn put(&self, key: &K, value: &V) -> Result<(), KernelError> {
        let result = self.to_write()?.update(key.as_bytes(), value.as_bytes());
        self.updated(result.is_ok().into(), &result);
        result.map_err(self.refused("write"))
    }

    /// Removes a row; false if there was none.
    pub fn delete(&self, key: &K) -> Result<bool, KernelError> {
        let Some(map) = &self.map else { return Ok(false) };
        let (deleted, result) = match map.delete(key.as_bytes()) {
            Ok(deleted) => (deleted, Ok(())),
            Err(error) => (false, Err(error)),
        };
        self.deleted(deleted.into(), &result);
        result.map_err(self.refused("delete from")).map(|()| deleted)
    }

    /// Writes rows by batches, in order, up to the first that is refused.
    pub fn put_all(&self, keys: &[K], values: &[V]) -> Result<(), KernelError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (done, result) = self.to_write()?.update_batch(keys.as_bytes(), values.as_bytes());
        self.updated(done, &result);
        result.map_err(self.refused("write"))
    }

    /// Removes rows by batches; those that do not exist are passed over. Answers how many were.
    pub fn delete_all(&self, mut keys: &[K]) -> Result<usize, KernelError> {
        let Some(map) = &self.map else { return Ok(0) };
        let mut deleted = 0;
        let mut outcome = Ok(());
        while !keys.is_empty() {
            let (done, result) = map.delete_batch(keys.as_bytes());
            deleted += done;
            match result {
                Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                    outcome = Err(error);
                    break;
                }
                // One that is gone already stopped the batch: go on behind it.
                Err(_) => keys = keys.get(done + 1..).unwrap_or_default(),
                Ok(()) => break,
            }
        }
        self.deleted(deleted, &outcome);
        outcome.map_err(self.refused("delete from")).map(|()| deleted)
    }

    /// Reads all rows, in the map's order. A row written meanwhile may be missing or come twice.
    pub fn for_each(&self, mut row: impl FnMut(K, V)) -> Result<(), KernelError> {
        self.for_each_batch(|rows| {
            rows.for_each(|(key, value)| row(key, value));
            Ok(())
        })
    }

    /// Reads some rows, from a place on; and where the next ones begin.
    pub fn page(&self, from: Option<&[u8]>) -> Result<Page<K, V>, KernelError> {
        let Some(map) = &self.map else { return Ok((Vec::new(), None)) };
        let (key, value) = (size_of::<K>(), size_of::<V>());
        let mut room = PAGE_ROWS;
        loop {
            let mut cursor = from.map_or_else(Cursor::default, Cursor::at);
            let (mut keys, mut values) = (vec![0; room * key], vec![0; room * value]);
            match map.lookup_batch(&mut cursor, &mut keys, &mut values) {
                Ok((count, more)) => {
                    let keys = keys.chunks_exact(key).take(count);
                    let rows = keys.zip(values.chunks_exact(value)).filter_map(|(key, value)| {
                        Some((K::read_from_bytes(key).ok()?, V::read_from_bytes(value).ok()?))
                    });
                    return Ok((rows.collect(), cursor.place().filter(|_| more)));
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => room *= 2,
                // Rows went while they were read: the kernel wants the same asked for again.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.refused("read")(error)),
            }
        }
    }

    /// Reads all rows; `read` makes keys and values of them, or nothing of one to be left out.
    pub fn collect<A: Ord, B>(
        &self,
        read: impl Fn(K, V) -> Option<(A, B)>,
    ) -> Result<BTreeMap<A, B>, KernelError> {
        let mut rows = BTreeMap::new();
        self.for_each(|key, row| rows.extend(read(key, row)))?;
        Ok(rows)
    }

    /// Reads all rows, a batch at a time.
    pub fn for_each_batch(
        &self,
        mut batch: impl FnMut(&mut dyn Iterator<Item = (K, V)>) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let Some(map) = &self.map else { return Ok(()) };
        let mut inner = Ok(());
        let mut seen = 0;
        let scanned = scan(map, |keys, values| {
            seen += (keys.len() / size_of::<K>()) as u64;
            let mut rows = keys
                .chunks_exact(size_of::<K>())
                .zip(values.chunks_exact(size_of::<V>()))
                .filter_map(|(key, value)| {
                    Some((K::read_from_bytes(key).ok()?, V::read_from_bytes(value).ok()?))
                });
            inner = batch(&mut rows);
            inner.is_ok()
        });
        scanned.map_err(self.refused("read"))?;
        if inner.is_ok() {
            self.tally.read(seen);
        }
        inner
    }
}

/// The bytes of a value that is about to be filled.
fn bytes_of<V: Plain>(value: &mut V) -> &mut [u8] {
    value.as_mut_bytes()
}

/// Reads a map by batches until its end, or until `batch` says false.
pub fn scan(map: &Map, batch: impl FnMut(&[u8], &[u8]) -> bool) -> io::Result<()> {
    let rows = BATCH_BYTES / (map.key_bytes() + map.value_bytes());
    scan_by(map, rows.clamp(BATCH_ROWS.0, BATCH_ROWS.1), batch)
}

/// The same by so many rows at a time.
pub fn scan_by(
    map: &Map,
    mut rows: usize,
    mut batch: impl FnMut(&[u8], &[u8]) -> bool,
) -> io::Result<()> {
    let (key, value) = (map.key_bytes(), map.value_bytes());
    let (mut keys, mut values) = (vec![0; rows * key], vec![0; rows * value]);
    let mut cursor = Cursor::default();
    loop {
        match map.lookup_batch(&mut cursor, &mut keys, &mut values) {
            Ok((count, more)) => {
                if !batch(&keys[..count * key], &values[..count * value]) || !more {
                    return Ok(());
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                rows *= 2;
                keys.resize(rows * key, 0);
                values.resize(rows * value, 0);
            }
            // Rows went while they were read: the kernel wants the same batch asked for again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
