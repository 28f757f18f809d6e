//! Backends: their numbers, and who uses them.

use std::collections::BTreeSet;

use super::{dense::Dense, departures::Leaving};
use crate::{
    model::{BackendId, L4Address},
    mutants::{Mutant, mutated},
    ports::{BackendRow, BackendState},
};

/// A backend, whatever services it serves: they share its number.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) id: BackendId,
    /// How many services list it, how many of them for new connections, and how many of the others
    /// for all that it has.
    listed: u32,
    active: u32,
    ending: u32,
    /// An earlier run used it, and it is not sure yet that nobody lists it.
    inherited: Option<BackendState>,
    pub(super) kernel: RealisedBackend,
    /// What the batch under way writes; `Some(None)` removes it.
    flying: Option<Option<BackendState>>,
    due: bool,
    /// It left a service whose connections may have it still.
    pub(super) leaves: bool,
    pub(super) seen: SeenBackend,
}

/// Whether a sweep saw its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeenBackend {
    No,
    Yes,
    /// It is written meanwhile: what is seen of it says nothing.
    Skipped,
}

/// Rows to be written, and places of rows to be removed, with whether they are IPv4.
pub(super) type DueBackendRows = (Vec<(BackendId, BackendRow)>, Vec<(BackendId, bool)>);

/// What the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RealisedBackend {
    Nothing,
    Row(BackendState),
    /// Nobody knows: a write was not answered.
    Unsure,
}

impl Backend {
    /// Whether nothing of it is being written, or is to be.
    pub(super) fn is_at_rest(&self) -> bool {
        self.flying.is_none() && !self.due
    }

    /// Whether no source lists it, and none may be about to.
    pub(super) fn is_gone(&self) -> bool {
        self.listed == 0 && self.inherited.is_none()
    }

    fn desired(&self, quarantine: &Quarantine) -> Option<BackendState> {
        match (self.active, self.ending, self.listed) {
            _ if quarantine.contains(&self.id) => Some(BackendState::Quarantined),
            (1.., ..) => Some(BackendState::Active),
            (0, 1.., _) => Some(BackendState::Terminating),
            (0, 0, 1..) => Some(BackendState::Maintenance),
            (0, 0, 0) if self.leaves => Some(BackendState::Terminating),
            (0, 0, 0) => self.inherited,
        }
    }

    /// Counts those who list it in that state.
    fn count(&mut self, state: BackendState, change: impl Fn(u32) -> u32) {
        self.listed = change(self.listed);
        match state {
            BackendState::Active => self.active = change(self.active),
            BackendState::Terminating => self.ending = change(self.ending),
            BackendState::Quarantined | BackendState::Maintenance => {}
        }
    }
}

/// Backends that somebody keeps from new connections; the kernel's rows remember them.
pub(super) type Quarantine = BTreeSet<BackendId>;

/// All backends of the node.
#[derive(Debug, Default)]
pub(super) struct Backends {
    pub(super) by_place: Dense<L4Address, Backend>,
    places: Dense<BackendId, L4Address>,
    pub(super) due: Vec<L4Address>,
    flying: Vec<L4Address>,
    pub(super) quarantine: Quarantine,
    /// Of them: some whom nobody lists at the moment.
    unlisted: BTreeSet<L4Address>,
    /// Those of an earlier run whom nobody listed in this one.
    unheard: BTreeSet<BackendId>,
    /// Some of an earlier run may be there only because they were.
    has_heirs: bool,
    /// The lowest number that none ever had, but for those `taken`.
    unused: u32,
    /// Numbers from it on that are had all the same.
    taken: BTreeSet<u32>,
    /// An earlier run told which numbers it had.
    remembers: bool,
    /// Places of numbers that a row should not have: they go when nobody can mean them any more.
    strays: BTreeSet<(BackendId, bool)>,
    /// How many have an IPv6 and an IPv4 address.
    of_family: [usize; 2],
    /// Whether the kernel's rows are being compared, and which backends went meanwhile.
    pub(super) sweeping: bool,
    pub(super) left: BTreeSet<BackendId>,
    /// Those that services keep for connections that go on.
    pub(super) leaving: Leaving,
}

impl Backends {
    /// The lowest number that none ever had.
    pub(super) fn unused(&self) -> u32 {
        self.unused.max(1)
    }

    /// Numbers below were had once; 0 if nobody remembers which were.
    pub(super) fn remember(&mut self, unused: u32) {
        self.unused = unused;
        self.remembers = unused > 0;
    }

    /// A number that the kernel's maps have. An agent remembers numbers before it uses them, so one that is not
    /// remembered is somebody else's, and says nothing of those between.
    fn reserve(&mut self, BackendId(id): BackendId) {
        if id == u32::MAX || (self.remembers && id >= self.unused) {
            self.taken.insert(id);
        } else if !self.remembers {
            self.unused = self.unused.max(id + 1);
        }
    }

    /// A number that nobody has. Once all were had they begin anew.
    fn number(&mut self) -> BackendId {
        loop {
            let id = self.unused();
            if id == u32::MAX {
                tracing::warn!("all numbers of backends were had once: they begin anew");
                self.taken = self.by_place.values().map(|it| it.id.0).collect();
                self.taken.extend(self.strays.iter().map(|(stray, _)| stray.0));
                self.unused = 1;
                continue;
            }
            self.unused = id + 1;
            if !self.taken.remove(&id) {
                return BackendId(id);
            }
        }
    }

    /// The kernel has this one from an earlier run.
    pub(super) fn inherit(&mut self, id: BackendId, row: &BackendRow) {
        self.reserve(id);
        self.unheard.insert(id);
        self.has_heirs = true;
        let backend = Backend {
            id,
            listed: 0,
            active: 0,
            ending: 0,
            inherited: Some(row.state),
            kernel: RealisedBackend::Row(row.state),
            flying: None,
            due: false,
            leaves: false,
            seen: SeenBackend::Skipped,
        };
        self.by_place.insert(row.at, backend);
        self.places.insert(id, row.at);
        if row.state == BackendState::Quarantined && !mutated(Mutant::QuarantineForgotten) {
            self.quarantine.insert(id);
        }
        self.of_family[usize::from(row.at.address.is_ipv4())] += 1;
    }

    /// A row of the kernel that no frontend may lead to goes in the end.
    pub(super) fn inherit_stray(&mut self, id: BackendId, is_ipv4: bool) {
        self.reserve(id);
        self.strays.insert((id, is_ipv4));
    }

    /// Somebody else put a row there: it goes when no frontend may lead there. Whether that is news.
    pub(super) fn inherit_foreign(&mut self, id: BackendId, is_ipv4: bool) -> bool {
        if id.0 >= self.unused {
            self.taken.insert(id.0);
        }
        self.strays.insert((id, is_ipv4))
    }

    /// Those whom nobody listed in this life: somebody may be about to.
    pub(super) fn unheard(&self) -> &BTreeSet<BackendId> {
        &self.unheard
    }

    /// Whether it may be that some are there only because they were.
    pub(super) fn has_heirs(&self) -> bool {
        self.has_heirs
    }

    /// Those go that no source lists any more, and that are there only because they were; but for
    /// those to whom a frontend leads still: one of an earlier run, or any. How many go.
    pub(super) fn prune(
        &mut self,
        by_unowned: &BTreeSet<BackendId>,
        by_any: &BTreeSet<BackendId>,
    ) -> usize {
        let mut pruned = 0;
        let mut all = std::mem::take(&mut self.by_place);
        self.has_heirs = false;
        for (at, backend) in all.iter_mut().filter(|(_, backend)| backend.inherited.is_some()) {
            let is_used = backend.listed == 0 && !backend.leaves && by_any.contains(&backend.id);
            if is_used || by_unowned.contains(&backend.id) {
                self.has_heirs = true;
                continue;
            }
            let gone = backend.inherited.take().is_some() && backend.listed == 0;
            self.unheard.remove(&backend.id);
            pruned += usize::from(gone && !backend.leaves);
            if gone && self.quarantine.contains(&backend.id) {
                self.unlisted.insert(*at);
            }
            Self::touch(&mut self.due, &self.quarantine, *at, backend);
        }
        self.by_place = all;
        pruned
    }

    /// The number of a place, if it has one.
    pub(super) fn id(&self, at: &L4Address) -> Option<BackendId> {
        self.by_place.get(at).map(|backend| backend.id)
    }

    /// The place of a number, if that is somebody's.
    pub(super) fn place(&self, id: BackendId) -> Option<L4Address> {
        self.places.get(&id).copied()
    }

    /// Each place with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (L4Address, BackendId, BackendState)> {
        let all = self.by_place.iter();
        all.filter_map(|(at, backend)| Some((*at, backend.id, backend.desired(&self.quarantine)?)))
    }

    /// How many are there for services, and how many of all the kernel has otherwise.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.by_place.len() - self.only_leaving(), self.due.len() + self.flying.len())
    }

    /// How many of those places would need a new row.
    pub(super) fn missing<'a>(
        &self,
        places: impl Iterator<Item = &'a L4Address>,
        is_ipv4: bool,
    ) -> usize {
        let of_family = places.filter(|at| at.address.is_ipv4() == is_ipv4);
        of_family.filter(|at| !self.by_place.contains_key(at)).count()
    }

    /// How many rows a family has, or will have, at most.
    pub(super) fn rows(&self, is_ipv4: bool) -> usize {
        self.of_family[usize::from(is_ipv4)] + self.strays.len()
    }

    /// A service lists this one in that state.
    pub(super) fn list(&mut self, at: L4Address, state: BackendState) {
        if !self.by_place.contains_key(&at) {
            self.add(at);
        }
        let Some(backend) = self.by_place.get_mut(&at) else { return };
        backend.count(state, |count| count + 1);
        if !self.unheard.is_empty() {
            self.unheard.remove(&backend.id);
        }
        Self::touch(&mut self.due, &self.quarantine, at, backend);
    }

    /// A new one.
    fn add(&mut self, at: L4Address) {
        let id = self.number();
        self.of_family[usize::from(at.address.is_ipv4())] += 1;
        let backend = Backend {
            id,
            listed: 0,
            active: 0,
            ending: 0,
            inherited: None,
            kernel: RealisedBackend::Nothing,
            flying: None,
            due: false,
            leaves: false,
            seen: SeenBackend::Skipped,
        };
        self.by_place.insert(at, backend);
        self.places.insert(id, at);
    }

    /// A service that listed this one in that state does not any more.
    pub(super) fn unlist(&mut self, at: L4Address, state: BackendState) {
        let Some(backend) = self.by_place.get_mut(&at) else { return };
        backend.count(state, |count| count.saturating_sub(1));
        if backend.is_gone() && self.quarantine.contains(&backend.id) {
            self.unlisted.insert(at);
        }
        Self::touch(&mut self.due, &self.quarantine, at, backend);
    }

    /// All that was said is heeded: who is quarantined and listed by nobody is forgotten. Not before, as
    /// a service may have left it that is not the last.
    pub(super) fn forget_unlisted(&mut self) {
        for at in std::mem::take(&mut self.unlisted) {
            let Some(backend) = self.by_place.get_mut(&at) else { continue };
            if backend.is_gone() && self.quarantine.remove(&backend.id) {
                tracing::info!(backend = %at, "quarantined no longer: nobody lists it any more");
                Self::touch(&mut self.due, &self.quarantine, at, backend);
            }
        }
    }

    /// Keeps a backend from new connections, or does not any more; its number. None if there is no
    /// such backend.
    pub(super) fn quarantine(&mut self, at: L4Address, desired: bool) -> Option<BackendId> {
        let backend = self.by_place.get_mut(&at).filter(|it| !it.is_gone())?;
        let is_new = match desired {
            true => self.quarantine.insert(backend.id),
            false => self.quarantine.remove(&backend.id),
        };
        let state = if desired { BackendState::Quarantined } else { BackendState::Active };
        if let Some(inherited) = backend.inherited.as_mut().filter(|_| is_new) {
            *inherited = state;
        }
        Self::touch(&mut self.due, &self.quarantine, at, backend);
        Some(backend.id)
    }

    /// Those that somebody keeps from new connections.
    pub(super) fn quarantined(&self) -> &Quarantine {
        &self.quarantine
    }

    /// Whether somebody keeps that one from new connections.
    pub(super) fn is_quarantined(&self, at: &L4Address) -> bool {
        !self.quarantine.is_empty() && self.id(at).is_some_and(|id| self.quarantine.contains(&id))
    }

    pub(super) fn touch(
        due: &mut Vec<L4Address>,
        quarantine: &Quarantine,
        at: L4Address,
        backend: &mut Backend,
    ) {
        let there = match backend.kernel {
            RealisedBackend::Nothing => Some(None),
            RealisedBackend::Row(state) => Some(Some(state)),
            RealisedBackend::Unsure => None,
        };
        let will_be = backend.flying.or(there);
        if !backend.due && will_be != Some(backend.desired(quarantine)) {
            backend.due = true;
            due.push(at);
        }
    }

    /// Takes no more memory than is needed.
    pub(super) fn pack(&mut self) {
        self.by_place.pack();
        self.places.pack();
    }

    /// What is to be written, and what removed if nothing leads there any more.
    pub(super) fn begin(&mut self, removes: bool) -> DueBackendRows {
        let (mut puts, mut deletes, mut later) = (Vec::new(), Vec::new(), Vec::new());
        for at in std::mem::take(&mut self.due) {
            let Some(backend) = self.by_place.get_mut(&at) else { continue };
            match backend.desired(&self.quarantine) {
                // Of several services that list it the last one heard of has it so again.
                Some(state) if backend.kernel == RealisedBackend::Row(state) => {
                    backend.due = false;
                    continue;
                }
                Some(state) => puts.push((backend.id, BackendRow { at, state, zone: 0 })),
                None if removes => deletes.push((backend.id, at.address.is_ipv4())),
                None => {
                    later.push(at);
                    continue;
                }
            }
            backend.due = false;
            backend.seen = SeenBackend::Skipped;
            backend.flying = Some(backend.desired(&self.quarantine));
            self.flying.push(at);
        }
        self.due = later;
        if removes {
            deletes.extend(&self.strays);
        }
        (puts, deletes)
    }

    /// The batch under way ended: what was put is there or may be, and so is what was removed.
    pub(super) fn end(&mut self, put: bool, removed: bool) {
        for at in std::mem::take(&mut self.flying) {
            let Some(backend) = self.by_place.get_mut(&at) else { continue };
            backend.kernel = match backend.flying.take() {
                Some(Some(state)) if put => RealisedBackend::Row(state),
                Some(None) if removed => RealisedBackend::Nothing,
                _ => RealisedBackend::Unsure,
            };
            if backend.kernel == RealisedBackend::Nothing
                && backend.desired(&self.quarantine).is_none()
            {
                self.places.remove(&backend.id);
                if self.sweeping {
                    self.left.insert(backend.id);
                }
                self.by_place.remove(&at);
                self.of_family[usize::from(at.address.is_ipv4())] -= 1;
                self.removed(&at);
            } else {
                Self::touch(&mut self.due, &self.quarantine, at, backend);
            }
        }
        if removed {
            self.strays.clear();
        }
    }
}
