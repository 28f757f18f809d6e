//! Notes of what sockets asked for, in memory that the programs share with the agent: they write and
//! free notes at any time, and the agent frees some.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use volvox_actors::ports::KernelError;
use volvox_bpf_progs::{
    layouts::{Be16, NOTE_CLAIMED, SOCKET_NOTES, SocketNote, SocketSet},
    maps::{SOCKET_SETS, socket_set},
};
use volvox_maps::{error::refused, sys::Map};
use volvox_system::mapping::Mapping;
use zerocopy::{FromBytes, IntoBytes};

/// Words of a set,
const SET_WORDS: usize = size_of::<SocketSet>() / size_of::<u64>();
/// and of one of its notes, which follow the sockets that they are of.
const NOTE_WORDS: usize = size_of::<SocketNote>() / size_of::<u64>();

/// The map of notes, open; none while load is not balanced by socket.
#[derive(Debug)]
pub(super) struct SocketNotes {
    map: Option<Map>,
}

impl SocketNotes {
    /// A map whose layout was compared.
    pub(super) fn new(map: Option<Map>) -> Self {
        Self { map }
    }

    fn memory(&self) -> Result<Option<Mapping>, KernelError> {
        let Some(map) = &self.map else { return Ok(None) };
        let bytes = SOCKET_SETS as usize * size_of::<SocketSet>();
        let mapping = Mapping::of_file(map, bytes, true).map(Some);
        mapping.map_err(|error| refused("share the memory of", "map volvox_sockets", &error))
    }

    /// Sockets, each with the backend that it was led to, and by which service.
    pub(super) fn all(&self) -> Result<Vec<(u64, SocketAddr, Be16)>, KernelError> {
        let Some(memory) = self.memory()? else { return Ok(Vec::new()) };
        let sets = memory.words().chunks_exact(SET_WORDS);
        Ok(sets.flat_map(|set| (0..SOCKET_NOTES).filter_map(|at| read(set, at))).collect())
    }

    /// Frees what is noted of sockets, each with a backend.
    pub(super) fn forget(&self, all: &[(u64, SocketAddr)]) -> Result<(), KernelError> {
        if all.is_empty() {
            return Ok(());
        }
        let Some(memory) = self.memory()? else { return Ok(()) };
        all.iter().for_each(|noted| forget(memory.words(), *noted));
        Ok(())
    }

    /// Writes a set.
    #[cfg(test)]
    pub(super) fn put(&self, index: u32, set: &SocketSet) {
        self.map.as_ref().unwrap().update(index.as_bytes(), set.as_bytes()).unwrap();
    }
}

/// Frees what is noted of a socket and a backend.
fn forget(words: &[AtomicU64], noted: (u64, SocketAddr)) {
    let (socket, _) = noted;
    let at = socket_set(socket) as usize;
    let set = words.chunks_exact(SET_WORDS).nth(at).unwrap_or_default();
    let is_it = |(socket, backend, _)| (socket, backend) == noted;
    for at in (0..SOCKET_NOTES).filter(|at| read(set, *at).is_some_and(is_it)) {
        // Unless it was closed meanwhile, and another socket has the note.
        let _ = set[at].compare_exchange(socket, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Socket, backend and service of a note; nothing if it is free or is being written. The backend may be that of
/// the socket before, which this one is not connected to.
pub(super) fn read(set: &[AtomicU64], at: usize) -> Option<(u64, SocketAddr, Be16)> {
    let (sockets, notes) = set.split_at(SOCKET_NOTES);
    let socket = sockets[at].load(Ordering::Acquire);
    if [0, NOTE_CLAIMED].contains(&socket) {
        return None;
    }
    let mut words = [0; NOTE_WORDS];
    for (word, from) in words.iter_mut().zip(&notes[at * NOTE_WORDS..]) {
        *word = from.load(Ordering::Acquire);
    }
    let note = SocketNote::read_from_bytes(words.as_bytes()).ok()?;
    (sockets[at].load(Ordering::Acquire) == socket).then_some((
        socket,
        note.backend()?,
        note.rev_nat,
    ))
}
