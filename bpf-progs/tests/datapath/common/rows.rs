//! All rows of the maps that a node shares by pins, as bytes: to take one away, and to have all back.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use volvox_bpf_progs::maps::{self, MapType};

const GET: i32 = 1;
const PUT: i32 = 2;
const DELETE: i32 = 3;
const NEXT: i32 = 4;
const OPEN: i32 = 7;

/// What `bpf(2)` takes for an element of a map.
#[repr(C)]
struct Element {
    map: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The same for what is pinned.
#[repr(C)]
struct Pinned {
    path: u64,
    fd: u32,
    flags: u32,
}

fn bpf<T>(command: i32, argument: &mut T) -> io::Result<i32> {
    let size = size_of::<T>();
    // SAFETY: the argument is of the command's layout, and what it points to outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, argument as *mut T, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// A map whose rows may go at any time, or be lost.
pub struct Rows {
    pub name: &'static str,
    file: File,
    key: usize,
    value: usize,
}

/// A row: which map of a list it is of, its key, its value.
pub type Row = (usize, Vec<u8>, Vec<u8>);

impl Rows {
    /// Those in a directory of pins that hold rows one by one, and no other maps.
    pub fn all(pins: &str) -> Vec<Self> {
        let specs = maps::MAPS.iter().filter(|map| {
            matches!(map.map_type, MapType::Hash | MapType::LruHash | MapType::LpmTrie)
        });
        specs.filter_map(|map| Self::open(pins, map)).collect()
    }

    fn open(pins: &str, map: &'static maps::MapSpec) -> Option<Self> {
        let path = std::ffi::CString::new(format!("{pins}/{}", map.name)).unwrap();
        let fd = bpf(OPEN, &mut Pinned { path: path.as_ptr() as u64, fd: 0, flags: 0 }).ok()?;
        // SAFETY: the descriptor is new, and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        let (key, value) = (map.key_size as usize, map.value_size as usize);
        Some(Self { name: map.name, file, key, value })
    }

    fn element(&self, key: &[u8], value: *const u8) -> Element {
        let (map, key) = (self.file.as_raw_fd() as u32, key.as_ptr() as u64);
        Element { map, key, value: value as u64, flags: 0 }
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0; self.key];
            let mut element = self.element(&[], next.as_mut_ptr());
            element.key = keys.last().map_or(0, |key| key.as_ptr() as u64);
            if bpf(NEXT, &mut element).is_err() {
                return keys;
            }
            keys.push(next);
        }
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = vec![0; self.value];
        let mut element = self.element(key, value.as_mut_ptr());
        bpf(GET, &mut element).ok().map(|_| value)
    }

    pub fn put(&self, key: &[u8], value: &[u8]) {
        bpf(PUT, &mut self.element(key, value.as_ptr())).unwrap();
    }

    pub fn delete(&self, key: &[u8]) {
        bpf(DELETE, &mut self.element(key, std::ptr::null())).unwrap();
    }
}

/// What is in all of these maps now.
pub fn rows_of(maps: &[Rows]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, map) in maps.iter().enumerate() {
        rows.extend(map.keys().into_iter().filter_map(|key| {
            let value = map.get(&key)?;
            Some((at, key, value))
        }));
    }
    rows
}

/// Has all be as it was.
pub fn bring_back(maps: &[Rows], rows: &[Row]) {
    for (at, key, _) in rows_of(maps) {
        if !rows.iter().any(|row| row.0 == at && row.1 == key) {
            maps[at].delete(&key);
        }
    }
    for (at, key, value) in rows {
        maps[*at].put(key, value);
    }
}
