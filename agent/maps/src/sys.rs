//! The few `bpf(2)` commands that aya lacks: batches, map information, comparing and swapping the
//! program of a link.
//!
//! The only unsafe code of this crate that speaks to the kernel about BPF.

mod cursor;
mod pass;

use std::{
    ffi::CString,
    io,
    mem::size_of,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

pub use self::cursor::Cursor;
pub use self::pass::{load_pass, load_pass_as};
pub use super::attr::MapInfo;
use super::attr::{
    Batch, ById, Command, Detach, Element, Info, LinkCreate, LinkUpdate, MapCreate, Object,
    ProgInfo, Query, RawLinkInfo, short_name,
};

/// `BPF_TCX_INGRESS`: what the interface receives.
pub const TCX_INGRESS: u32 = 46;
/// `BPF_TCX_EGRESS`: what the interface sends.
pub const TCX_EGRESS: u32 = 47;
/// `BPF_LINK_TYPE_CGROUP`.
const LINK_TYPE_CGROUP: u32 = 3;
/// `BPF_LINK_TYPE_TCX`.
const LINK_TYPE_TCX: u32 = 11;
/// `BPF_F_BEFORE`, with nobody named: a link runs before all others.
const FIRST: u32 = 8;
/// `BPF_F_REPLACE`: an update names the program that it replaces.
const REPLACE: u32 = 4;
/// Map types whose lookups answer with one value per possible CPU.
const PER_CPU_TYPES: [u32; 3] = [5, 6, 10];
/// Programs that one query of a hook may answer with; the kernel allows 64.
const MAX_PROGRAMS: usize = 64;

/// What the kernel says of a TCX link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// Number of the link in the kernel.
    pub id: u32,
    /// The program that it runs.
    pub prog_id: u32,
    /// The interface; 0 once that is gone.
    pub ifindex: u32,
}

/// What runs at a TCX hook, in its place among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The program.
    pub program: u32,
    /// The link that has it run; 0 if it was attached without one.
    pub link: u32,
}

/// What the kernel says of a link of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupLink {
    /// The program that it runs.
    pub prog_id: u32,
    /// The cgroup's number, 0 if it is gone.
    pub cgroup: u64,
    /// At which of its hooks.
    pub attach_type: u32,
}

/// What the kernel says of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Number of the program in the kernel.
    pub id: u32,
    /// The name that it was loaded with, zeros behind it.
    pub name: [u8; 16],
    /// Maps that it uses.
    pub map_ids: Vec<u32>,
}

impl Program {
    /// Its name as text.
    pub fn text(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }
}

/// How a map is made.
#[derive(Clone, Copy, Debug)]
pub struct NewMap<'a> {
    /// Its name.
    pub name: &'a str,
    /// `enum bpf_map_type`.
    pub map_type: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Rows at most.
    pub max_entries: u32,
    /// Flags of creation.
    pub flags: u32,
    /// A map like those that an outer map is to hold.
    pub inner: Option<BorrowedFd<'a>>,
}

/// Runs one command.
///
/// # Safety
/// Every address in `attr` must be valid for what the command reads and writes through it.
unsafe fn bpf<A>(command: Command, attr: &mut A) -> io::Result<RawFd> {
    if command.leaves_a_trace() {
        super::crash::step();
    }
    // SAFETY: the kernel reads, and for some commands writes, `size_of::<A>()` bytes of `attr`,
    // which is exclusively borrowed; the caller vouches for the addresses inside.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as u32, std::ptr::from_mut(attr), size_of::<A>())
    };
    match result {
        ..0 => Err(io::Error::last_os_error()),
        fd => RawFd::try_from(fd).map_err(io::Error::other),
    }
}

/// Runs a command that answers with a new descriptor.
///
/// # Safety
/// As [`bpf`], and the command must be one that answers with a descriptor.
unsafe fn bpf_fd<A>(command: Command, attr: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the addresses.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: the command made this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: &impl AsFd) -> u32 {
    u32::try_from(fd.as_fd().as_raw_fd()).expect("an open descriptor is not negative")
}

fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as u64
}

fn address_mut<T>(slice: &mut [T]) -> u64 {
    slice.as_mut_ptr() as u64
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path contains a NUL"))
}

/// Opens what is pinned at a path.
pub fn get(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let mut attr = Object { pathname: path.as_ptr() as u64, ..Object::default() };
    // SAFETY: `path` is NUL-terminated and outlives the call.
    unsafe { bpf_fd(Command::Get, &mut attr) }
}

/// Pins a map, program or link. Names with dots are reserved by the kernel.
pub fn pin(object: impl AsFd, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let mut attr =
        Object { pathname: path.as_ptr() as u64, bpf_fd: number(&object), ..Object::default() };
    // SAFETY: `path` is NUL-terminated and outlives the call.
    unsafe { bpf(Command::Pin, &mut attr) }.map(drop)
}

/// Opens a program by its number.
pub fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attr = ById { id, ..ById::default() };
    // SAFETY: the attribute holds no address.
    unsafe { bpf_fd(Command::ProgFdById, &mut attr) }
}

/// Has the kernel fill `info`.
fn info<T: Default>(fd: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let mut attr = Info {
        bpf_fd: number(&fd),
        info_len: size_of::<T>() as u32,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes to `info`, whose types here are all
    // integers; a `ProgInfo` names its own array and how long it is.
    unsafe { bpf(Command::Info, &mut attr) }.map(drop)
}

/// Reads which program this is and which maps it uses.
pub fn program_info(fd: impl AsFd) -> io::Result<Program> {
    let mut map_ids = vec![0_u32; MAX_PROGRAMS];
    let mut raw = ProgInfo {
        map_count: MAX_PROGRAMS as u32,
        map_ids: address_mut(&mut map_ids),
        ..ProgInfo::default()
    };
    info(fd.as_fd(), &mut raw)?;
    map_ids.truncate(raw.map_count as usize);
    Ok(Program { id: raw.id, name: raw.name, map_ids })
}

/// Reads what a TCX link runs and where; another kind of object is an error.
pub fn link_info(fd: impl AsFd) -> io::Result<LinkInfo> {
    let mut raw = RawLinkInfo::default();
    info(fd.as_fd(), &mut raw)?;
    if raw.link_type != LINK_TYPE_TCX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a TCX link"));
    }
    Ok(LinkInfo { id: raw.id, prog_id: raw.prog_id, ifindex: raw.ifindex })
}

/// Reads what a link of a cgroup runs and where; another kind of object is an error.
pub fn link_cgroup(fd: impl AsFd) -> io::Result<CgroupLink> {
    let mut raw = RawLinkInfo::default();
    info(fd.as_fd(), &mut raw)?;
    if raw.link_type != LINK_TYPE_CGROUP {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no link of a cgroup"));
    }
    // The cgroup's number stands where a TCX link has two.
    let cgroup = u64::from(raw.ifindex) | u64::from(raw.attach_type) << 32;
    Ok(CgroupLink { prog_id: raw.prog_id, cgroup, attach_type: raw.cgroup_attach_type })
}

/// Opens a link by its number.
pub fn link_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attr = ById { id, ..ById::default() };
    // SAFETY: the attribute holds no address.
    unsafe { bpf_fd(Command::LinkFdById, &mut attr) }
}

/// The number of the next link of this machine; `None` behind the last one.
pub fn link_after(id: u32) -> io::Result<Option<u32>> {
    let mut attr = ById { id, ..ById::default() };
    // SAFETY: the attribute holds no address.
    Ok(found(unsafe { bpf(Command::LinkNextId, &mut attr) })?.then_some(attr.next_id))
}

/// Ends a link, whoever still holds it: its program does not run there any more.
pub fn link_detach(link: impl AsFd) -> io::Result<()> {
    let mut attr = Detach { link_fd: number(&link) };
    // SAFETY: the attribute holds no address.
    unsafe { bpf(Command::LinkDetach, &mut attr) }.map(drop)
}

/// Attaches a program to an interface, before all others, or to a cgroup by its descriptor; it runs until the link's last reference goes.
pub fn link_create(program: impl AsFd, ifindex: u32, hook: u32) -> io::Result<OwnedFd> {
    let mut attr = LinkCreate {
        prog_fd: number(&program),
        target_ifindex: ifindex,
        attach_type: hook,
        flags: if [TCX_INGRESS, TCX_EGRESS].contains(&hook) { FIRST } else { 0 },
        ..LinkCreate::default()
    };
    // SAFETY: the attribute holds no address.
    unsafe { bpf_fd(Command::LinkCreate, &mut attr) }
}

/// Swaps a link's program, if `old` is still the one it runs; else `EPERM`.
pub fn link_update(link: impl AsFd, new: impl AsFd, old: impl AsFd) -> io::Result<()> {
    let mut attr = LinkUpdate {
        link_fd: number(&link),
        new_prog_fd: number(&new),
        flags: REPLACE,
        old_prog_fd: number(&old),
    };
    // SAFETY: the attribute holds no address.
    unsafe { bpf(Command::LinkUpdate, &mut attr) }.map(drop)
}

/// What runs at a TCX hook, in order. Before Linux 6.6 this is `EINVAL`.
pub fn running(ifindex: u32, hook: u32) -> io::Result<Vec<Running>> {
    let (mut ids, mut links) = ([0_u32; MAX_PROGRAMS], [0_u32; MAX_PROGRAMS]);
    let mut attr = Query {
        target_ifindex: ifindex,
        attach_type: hook,
        prog_ids: address_mut(&mut ids),
        link_ids: address_mut(&mut links),
        count: MAX_PROGRAMS as u32,
        ..Query::default()
    };
    // SAFETY: the kernel writes at most `count` numbers to `ids` and to `links`.
    unsafe { bpf(Command::ProgQuery, &mut attr) }?;
    let all = ids.into_iter().zip(links).take(attr.count as usize);
    Ok(all.map(|(program, link)| Running { program, link }).collect())
}

/// A map of the kernel. Keys and values are bytes, checked to be of the map's sizes.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    info: MapInfo,
    /// Bytes of a value as user space sees it.
    value_bytes: usize,
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Map {
    /// Makes a map.
    pub fn create(new: &NewMap<'_>) -> io::Result<Self> {
        let map_name = short_name(new.name);
        let mut attr = MapCreate {
            map_type: new.map_type,
            key_size: new.key_size,
            value_size: new.value_size,
            max_entries: new.max_entries,
            map_flags: new.flags,
            inner_map_fd: new.inner.map_or(0, |fd| number(&fd)),
            numa_node: 0,
            map_name,
        };
        // SAFETY: the attribute holds no address.
        Self::of(unsafe { bpf_fd(Command::MapCreate, &mut attr) }?)
    }

    /// Opens a map by its number.
    pub fn by_id(id: u32) -> io::Result<Self> {
        let mut attr = ById { id, ..ById::default() };
        // SAFETY: the attribute holds no address.
        Self::of(unsafe { bpf_fd(Command::MapFdById, &mut attr) }?)
    }

    /// Opens a pinned map; another kind of object at that path is an error.
    pub fn pinned(path: &Path) -> io::Result<Self> {
        let fd = get(path)?;
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if kind.as_os_str() != "anon_inode:bpf-map" {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what is pinned is no map"));
        }
        Self::of(fd)
    }

    fn of(fd: OwnedFd) -> io::Result<Self> {
        let mut map_info = MapInfo::default();
        info(fd.as_fd(), &mut map_info)?;
        let value_bytes = if PER_CPU_TYPES.contains(&map_info.map_type) {
            map_info.value_size.next_multiple_of(8) as usize * super::cpus::possible()?
        } else {
            map_info.value_size as usize
        };
        Ok(Self { fd, info: map_info, value_bytes })
    }

    /// What the kernel says of it.
    pub fn info(&self) -> &MapInfo {
        &self.info
    }

    /// Bytes of a key.
    pub fn key_bytes(&self) -> usize {
        self.info.key_size as usize
    }

    /// Bytes of a value as user space sees it: per-CPU maps have one for each possible CPU.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    fn element(&self, key: &[u8], value: u64, flags: u64) -> Element {
        assert_eq!(key.len(), self.key_bytes(), "a key is of the map's key size");
        Element { map_fd: number(self), pad: 0, key: address(key), value, flags }
    }

    /// Reads a row into `value`; false if there is none.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        assert_eq!(value.len(), self.value_bytes, "a value is of the map's value size");
        let mut attr = self.element(key, address_mut(value), 0);
        // SAFETY: the kernel reads a key and writes a value; both lengths were compared.
        found(unsafe { bpf(Command::MapLookup, &mut attr) })
    }

    /// Writes a row.
    pub fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value_bytes, "a value is of the map's value size");
        let mut attr = self.element(key, address(value), 0);
        // SAFETY: the kernel reads a key and a value; both lengths were compared.
        unsafe { bpf(Command::MapUpdate, &mut attr) }.map(drop)
    }

    /// Writes a row unless there is one; false if there is. Batches cannot do that: the kernel
    /// refuses such a flag there.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> io::Result<bool> {
        const NO_EXIST: u64 = 1;
        assert_eq!(value.len(), self.value_bytes, "a value is of the map's value size");
        let mut attr = self.element(key, address(value), NO_EXIST);
        // SAFETY: the kernel reads a key and a value; both lengths were compared.
        match unsafe { bpf(Command::MapUpdate, &mut attr) } {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a row; false if there was none.
    pub fn delete(&self, key: &[u8]) -> io::Result<bool> {
        let mut attr = self.element(key, 0, 0);
        // SAFETY: the kernel reads a key, whose length was compared.
        found(unsafe { bpf(Command::MapDelete, &mut attr) })
    }

    /// Rows that fit into the slices given.
    fn batch(&self, keys: usize, values: Option<usize>) -> u32 {
        let count = keys / self.key_bytes();
        assert_eq!(keys, count * self.key_bytes(), "keys are of the map's key size");
        if let Some(values) = values {
            assert_eq!(values, count * self.value_bytes, "there is one value for each key");
        }
        u32::try_from(count).expect("a batch is of fewer rows than 2^32")
    }

    /// Reads the next rows, as many as fit. Answers how many, and whether there may be more.
    /// `ENOSPC`: the next bucket has more rows than fit; come again with more room.
    pub fn lookup_batch(
        &self,
        cursor: &mut Cursor,
        keys: &mut [u8],
        values: &mut [u8],
    ) -> io::Result<(usize, bool)> {
        let count = self.batch(keys.len(), Some(values.len()));
        let mut out = vec![0_u8; self.key_bytes().max(8)];
        let mut attr = Batch {
            in_batch: cursor.0.as_deref().map_or(0, address),
            out_batch: address_mut(&mut out),
            keys: address_mut(keys),
            values: address_mut(values),
            count,
            map_fd: number(self),
            ..Batch::default()
        };
        // SAFETY: the kernel writes at most `count` keys and values, and a cursor of a key's size
        // or four bytes, which both cursors have room for.
        let more = found(unsafe { bpf(Command::MapLookupBatch, &mut attr) })?;
        cursor.0 = Some(out);
        Ok((attr.count as usize, more))
    }

    /// Writes rows in order. Answers how many were written, and why not all.
    pub fn update_batch(&self, keys: &[u8], values: &[u8]) -> (usize, io::Result<()>) {
        let count = self.batch(keys.len(), Some(values.len()));
        self.write_batch(Command::MapUpdateBatch, keys, address(values), count)
    }

    /// Removes rows in order. Answers how many were removed, and why not all: `ENOENT` for one
    /// that does not exist.
    pub fn delete_batch(&self, keys: &[u8]) -> (usize, io::Result<()>) {
        let count = self.batch(keys.len(), None);
        self.write_batch(Command::MapDeleteBatch, keys, 0, count)
    }

    fn write_batch(
        &self,
        command: Command,
        keys: &[u8],
        values: u64,
        count: u32,
    ) -> (usize, io::Result<()>) {
        if count == 0 {
            return (0, Ok(()));
        }
        let mut attr =
            Batch { keys: address(keys), values, count, map_fd: number(self), ..Batch::default() };
        // SAFETY: the kernel reads `count` keys and, for an update, values; both lengths were
        // compared with it.
        match unsafe { bpf(command, &mut attr) } {
            Ok(_) => (count as usize, Ok(())),
            // The kernel says how far it came unless it refused the command as such.
            Err(error) if attr.count < count => (attr.count as usize, Err(error)),
            Err(error) => (0, Err(error)),
        }
    }
}

/// Turns "no such row" into false.
fn found(result: io::Result<RawFd>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}
