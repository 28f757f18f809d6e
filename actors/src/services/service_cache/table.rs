//! Frontends: their numbers, whose they are, and what the kernel has of each.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use super::{
    backends::Quarantine,
    dense::Dense,
    shape::{FrontendRows, RealisedShape, Shape, Traces},
    source_object::Name,
    weight::Weight,
    wildcards::Wildcards,
};
use crate::{
    model::{BackendId, Frontend, ServiceId},
    ports::BackendState,
};

/// The highest number of a service.
const LAST: u32 = u16::MAX as u32;

/// What a sweep saw of a frontend that was written meanwhile says nothing.
pub(super) const SKIPPED: u32 = u32::MAX;

/// A frontend.
#[derive(Debug)]
pub(super) struct FrontendEntry {
    pub(super) id: ServiceId,
    /// The service that it is of; nobody's is one of an earlier run.
    pub(super) owner: Option<Name>,
    /// What it is to be; nothing if it is to go.
    desired: Option<Shape>,
    kernel: RealisedShape,
    /// Whether the batch under way writes it; what that writes, if something else is desired by now.
    flying: Flying,
    due: bool,
    /// How many of its rows a sweep saw in the map that it reads, or [`SKIPPED`].
    pub(super) seen: u32,
}

#[derive(Debug)]
enum Flying {
    No,
    Desired,
    Other(Option<Box<Shape>>),
}

impl FrontendEntry {
    /// What it is to be.
    pub(super) fn desired(&self) -> Option<&Shape> {
        self.desired.as_ref()
    }

    /// Whether the kernel has just what is desired.
    pub(super) fn is_realised(&self) -> bool {
        matches!((&self.flying, &self.kernel), (Flying::No, RealisedShape::Same))
    }

    /// What the kernel is to have of it, if what a sweep sees of it says something.
    pub(super) fn judged(&self) -> Option<&Shape> {
        self.desired.as_ref().filter(|_| self.seen != SKIPPED && self.is_realised())
    }

    /// Who may have connections by it, and how each serves it: as the kernel has it, or may have it by now.
    pub(super) fn members(&self) -> BTreeMap<BackendId, BackendState> {
        let flying = match &self.flying {
            Flying::No => None,
            Flying::Desired => self.desired.as_ref(),
            Flying::Other(shape) => shape.as_deref(),
        };
        let mut all: BTreeMap<_, _> = flying.into_iter().flat_map(Shape::members).collect();
        all.extend(self.there().into_iter().flat_map(Shape::members));
        if let RealisedShape::Unsure(traces) = &self.kernel {
            traces.members.iter().for_each(|id| {
                all.entry(*id).or_insert(BackendState::Terminating);
            });
        }
        all
    }

    /// What the kernel has of it, for slots to be kept.
    pub(super) fn there(&self) -> Option<&Shape> {
        match &self.kernel {
            RealisedShape::Same => self.desired.as_ref(),
            RealisedShape::Shape(shape) => Some(shape),
            RealisedShape::Nothing | RealisedShape::Unsure(_) => self.desired.as_ref(),
        }
    }
}

/// Why a frontend has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// All frontends of the node.
#[derive(Debug, Default)]
pub(super) struct FrontendTable {
    pub(super) entries: Dense<Frontend, FrontendEntry>,
    /// Services that want frontends which others have.
    rivals: BTreeMap<Frontend, BTreeSet<Name>>,
    due: Vec<Frontend>,
    flying: Vec<Frontend>,
    /// The lowest number that none ever had.
    unused: u32,
    /// Numbers that came free, first come first.
    free: VecDeque<ServiceId>,
    /// Numbers that are had again: what connections remember of them is to be forgotten first.
    reused: Vec<ServiceId>,
    /// What all of them take in the kernel's maps, at most.
    weight: Weight,
    /// Their addresses, at all other ports.
    pub(super) wildcards: Wildcards,
    /// Whether the kernel's rows are being compared, and which frontends went meanwhile.
    pub(super) sweeping: bool,
    pub(super) left: Vec<(Frontend, ServiceId)>,
}

impl FrontendTable {
    /// The lowest number that none ever had; more than there are if all were.
    pub(super) fn unused(&self) -> u32 {
        self.unused.max(1)
    }

    /// Numbers below were had once: those of them that are nobody's are free.
    pub(super) fn reserve_below(&mut self, unused: u32) {
        self.unused = self.unused.max(unused).min(LAST + 1);
    }

    /// Numbers below the unused ones are free, but for those that rows have.
    pub(super) fn free_gaps(&mut self, had: &BTreeSet<ServiceId>) {
        let all = (1..self.unused()).filter_map(|id| u16::try_from(id).ok().map(ServiceId));
        self.free = all.filter(|id| !had.contains(id)).collect();
    }

    /// A frontend of an earlier run. What of it is not whole is `desired` to be.
    pub(super) fn inherit(
        &mut self,
        frontend: Frontend,
        id: ServiceId,
        desired: Option<Shape>,
        kernel: RealisedShape,
    ) {
        self.reserve_below(u32::from(id.0) + 1);
        self.wildcards.change(&frontend, None, desired.as_ref());
        let (flying, due, seen) = (Flying::No, false, SKIPPED);
        let entry = FrontendEntry { id, owner: None, desired, kernel, flying, due, seen };
        self.weight.exchange(Weight::default(), weight(&frontend, &entry));
        self.entries.insert(frontend, entry);
        self.touch(frontend);
    }

    pub(super) fn get(&self, frontend: &Frontend) -> Option<&FrontendEntry> {
        self.entries.get(frontend)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Frontend, &FrontendEntry)> {
        self.entries.iter().filter(|(_, entry)| entry.desired.is_some())
    }

    /// How many there are, and how many of them the kernel has otherwise.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.entries.len(), self.due.len() + self.flying.len())
    }

    /// What all of them take in the kernel's maps, at most.
    pub(super) fn weight(&self) -> Weight {
        self.weight
    }

    /// What a frontend takes, at most.
    pub(super) fn weight_of(&self, frontend: &Frontend) -> Weight {
        self.entries.get(frontend).map(|entry| weight(frontend, entry)).unwrap_or_default()
    }

    /// How many numbers can still be had.
    pub(super) fn numbers_left(&self) -> usize {
        (LAST + 1).saturating_sub(self.unused()) as usize + self.free.len()
    }

    /// Whether a service may have a frontend; if not, it is told when the one who has it lets go.
    pub(super) fn claim(&mut self, frontend: Frontend, name: &Name) -> Result<(), Name> {
        let Some(entry) = self.entries.get_mut(&frontend) else { return Ok(()) };
        match &entry.owner {
            Some(owner) if owner != name => {
                let owner = Rc::clone(owner);
                self.rivals.entry(frontend).or_default().insert(Rc::clone(name));
                Err(owner)
            }
            _ => Ok(()),
        }
    }

    /// Whether an earlier run left a frontend that led to others than these, so that it may have been of
    /// another service.
    pub(super) fn is_left_by_another(&self, at: &Frontend, backends: &BTreeSet<BackendId>) -> bool {
        let entry = self.entries.get(at).filter(|entry| entry.owner.is_none());
        let shape = entry.and_then(|entry| entry.desired.as_ref());
        shape.is_some_and(|shape| {
            !shape.backends.is_empty() && !shape.backends.iter().any(|id| backends.contains(id))
        })
    }

    /// A service does not want a frontend of another any more.
    pub(super) fn resign(&mut self, frontend: &Frontend, name: &Name) {
        let Some(rivals) = self.rivals.get_mut(frontend) else { return };
        rivals.remove(name);
        if rivals.is_empty() {
            self.rivals.remove(frontend);
        }
    }

    /// A frontend of a service is to be this; it gets a number if it has none.
    pub(super) fn put(
        &mut self,
        frontend: Frontend,
        owner: &Name,
        shape: Shape,
    ) -> Result<(), Exhausted> {
        if !self.entries.contains_key(&frontend) {
            let id = self.number().ok_or(Exhausted)?;
            let entry = FrontendEntry {
                id,
                owner: None,
                desired: None,
                kernel: RealisedShape::Nothing,
                flying: Flying::No,
                due: false,
                seen: SKIPPED,
            };
            self.entries.insert(frontend, entry);
        }
        if let Some(entry) = self.entries.get_mut(&frontend) {
            entry.owner = Some(Rc::clone(owner));
        }
        self.want(frontend, Some(shape));
        Ok(())
    }

    /// A service gets a frontend of an earlier run as it is; nothing if there is no such.
    pub(super) fn adopt(&mut self, frontend: Frontend, owner: &Name) -> Option<&Shape> {
        let entry = self.entries.get_mut(&frontend).filter(|entry| entry.owner.is_none())?;
        let desired = entry.desired.as_ref()?;
        entry.owner = Some(Rc::clone(owner));
        Some(desired)
    }

    /// A service lets go of a frontend. Those who desired it too may have it.
    pub(super) fn release(&mut self, frontend: Frontend, owner: &Name) -> BTreeSet<Name> {
        let Some(entry) = self.entries.get_mut(&frontend) else { return BTreeSet::new() };
        if entry.owner.as_ref() != Some(owner) {
            return BTreeSet::new();
        }
        entry.owner = None;
        let rivals = self.rivals.remove(&frontend).unwrap_or_default();
        self.want(frontend, None);
        rivals
    }

    /// A backend is quarantined or released: every frontend that leads to it changes.
    pub(super) fn quarantine(&mut self, id: BackendId, all: &Quarantine) {
        let leads = |entry: &FrontendEntry| {
            entry.desired.as_ref().is_some_and(|it| it.backends.contains(&id))
        };
        let entries = self.entries.iter().filter(|(_, entry)| leads(entry));
        let frontends: Vec<_> = entries.map(|(frontend, _)| *frontend).collect();
        for frontend in frontends {
            let Some(entry) = self.entries.get(&frontend) else { continue };
            let mut shape = entry.desired.clone();
            if let Some(shape) = &mut shape {
                shape.lead_to(&shape.backends.iter().copied().collect(), all);
            }
            self.want(frontend, shape);
        }
    }

    /// Backends that any frontend leads to, or led to.
    pub(super) fn led_to(&self) -> BTreeSet<BackendId> {
        let shapes = self.entries.values().filter_map(|entry| entry.desired.as_ref());
        shapes.flat_map(Shape::members).map(|(id, _)| id).collect()
    }

    /// Frontends of an earlier run that nobody wants, with what they are.
    pub(super) fn unowned(&self) -> impl Iterator<Item = (&Frontend, &Shape)> {
        let unowned = self.entries.iter().filter(|(_, entry)| entry.owner.is_none());
        unowned.filter_map(|(frontend, entry)| Some((frontend, entry.desired.as_ref()?)))
    }

    /// Those of them go that may; how many those are.
    pub(super) fn prune(&mut self, may_go: impl Fn(&Frontend, &Shape) -> bool) -> usize {
        let unowned = self.unowned().filter(|(frontend, shape)| may_go(frontend, shape));
        let all: Vec<_> = unowned.map(|(frontend, _)| *frontend).collect();
        all.iter().for_each(|frontend| self.want(*frontend, None));
        all.len()
    }

    /// A number that nobody has.
    pub(super) fn number(&mut self) -> Option<ServiceId> {
        if let Ok(id) = u16::try_from(self.unused()) {
            self.unused = u32::from(id) + 1;
            return Some(ServiceId(id));
        }
        let id = self.free.pop_front()?;
        self.reused.push(id);
        Some(id)
    }

    pub(super) fn want(&mut self, frontend: Frontend, desired: Option<Shape>) {
        let Some(entry) = self.entries.get_mut(&frontend) else { return };
        if entry.desired == desired {
            return self.touch(frontend);
        }
        let took = weight(&frontend, entry);
        let before = std::mem::replace(&mut entry.desired, desired);
        self.wildcards.change(&frontend, before.as_ref(), entry.desired.as_ref());
        if matches!(entry.flying, Flying::Desired) {
            entry.flying = Flying::Other(before.map(Box::new));
        } else if entry.kernel == RealisedShape::Same {
            entry.kernel = match before {
                Some(shape) => RealisedShape::Shape(Box::new(shape)),
                None => RealisedShape::Nothing,
            };
        }
        if let RealisedShape::Shape(shape) = &entry.kernel
            && entry.desired.as_ref() == Some(&**shape)
            && !matches!(entry.flying, Flying::Other(_))
        {
            entry.kernel = RealisedShape::Same;
        }
        self.weight.exchange(took, weight(&frontend, entry));
        self.touch(frontend);
    }

    /// The kernel has this of a frontend.
    pub(super) fn becomes(&mut self, frontend: Frontend, kernel: RealisedShape) {
        let Some(entry) = self.entries.get_mut(&frontend) else { return };
        let took = weight(&frontend, entry);
        entry.kernel = kernel;
        self.weight.exchange(took, weight(&frontend, entry));
        self.touch(frontend);
    }

    fn touch(&mut self, frontend: Frontend) {
        let Some(entry) = self.entries.get_mut(&frontend) else { return };
        let is_right = match (&entry.flying, &entry.kernel) {
            (Flying::Desired, _) | (Flying::No, RealisedShape::Same) => true,
            (Flying::No, RealisedShape::Nothing) => entry.desired.is_none(),
            _ => false,
        };
        if !is_right && !std::mem::replace(&mut entry.due, true) {
            self.due.push(frontend);
        }
    }

    /// Takes no more memory than is needed.
    pub(super) fn pack(&mut self) {
        self.entries.pack();
        self.wildcards.pack();
    }

    /// Numbers that are had again since this was asked last.
    pub(super) fn take_reused(&mut self) -> Vec<ServiceId> {
        std::mem::take(&mut self.reused)
    }

    /// Of these connections may remember something still.
    pub(super) fn return_reused(&mut self, all: &[ServiceId]) {
        self.reused.extend(all);
    }

    /// What is to be written and removed next, of so many frontends; whether that is all.
    pub(super) fn begin(&mut self, most: usize) -> (FrontendRows, bool) {
        let mut rows = FrontendRows::default();
        let later = self.due.split_off(self.due.len().min(most));
        self.flying = std::mem::replace(&mut self.due, later);
        for frontend in &self.flying {
            let Some(entry) = self.entries.get_mut(frontend) else { continue };
            entry.due = false;
            entry.seen = SKIPPED;
            entry.flying = Flying::Desired;
            rows.add(*frontend, entry.id, &entry.kernel, entry.desired.as_ref());
        }
        (rows, self.due.is_empty())
    }

    /// The batch under way ended. If it failed nobody knows what the kernel has.
    pub(super) fn end(&mut self, done: bool) {
        self.wildcards.end(done);
        for frontend in std::mem::take(&mut self.flying) {
            let Some(entry) = self.entries.get_mut(&frontend) else { continue };
            let took = weight(&frontend, entry);
            let flown = match std::mem::replace(&mut entry.flying, Flying::No) {
                Flying::No => continue,
                Flying::Desired => entry.desired.clone(),
                Flying::Other(shape) => shape.map(|shape| *shape),
            };
            entry.kernel = match (done, flown) {
                (true, flown) if flown == entry.desired => RealisedShape::Same,
                (true, None) => RealisedShape::Nothing,
                (true, Some(flown)) => RealisedShape::Shape(Box::new(flown)),
                (false, flown) => {
                    let kernel = std::mem::replace(&mut entry.kernel, RealisedShape::Nothing);
                    RealisedShape::Unsure(Box::new(unsure(kernel, flown.as_ref())))
                }
            };
            if entry.desired.is_none()
                && matches!(entry.kernel, RealisedShape::Same | RealisedShape::Nothing)
            {
                self.free.push_back(entry.id);
                if self.sweeping {
                    self.left.push((frontend, entry.id));
                }
                self.weight.exchange(took, Weight::default());
                self.entries.remove(&frontend);
                continue;
            }
            self.weight.exchange(took, weight(&frontend, entry));
            self.touch(frontend);
        }
    }
}

/// What may be there of what was, and of what was being written.
fn unsure(kernel: RealisedShape, flown: Option<&Shape>) -> Traces {
    let mut traces = match kernel {
        RealisedShape::Unsure(traces) => *traces,
        RealisedShape::Shape(shape) => {
            let mut traces = Traces::default();
            traces.add(&shape);
            traces
        }
        RealisedShape::Same | RealisedShape::Nothing => Traces::default(),
    };
    if let Some(shape) = flown {
        traces.add(shape);
    }
    traces
}

/// What a frontend takes in the kernel's maps while it changes, at most.
fn weight(at: &Frontend, entry: &FrontendEntry) -> Weight {
    let family = usize::from(at.at.address.is_ipv4());
    let of = |shape: &Shape| {
        let (backends, ranges) = (shape.backends.len(), shape.ranges.len());
        let mut weight = Weight::of(at, backends, ranges, shape.stays());
        weight.tables[family] = shape.has_table().into();
        weight.members[family] = shape.members_len();
        weight
    };
    let desired = entry.desired.as_ref().map(of).unwrap_or_default();
    match &entry.kernel {
        RealisedShape::Shape(shape) => desired.most(of(shape)),
        RealisedShape::Unsure(traces) => {
            let Traces { rows, matches, members, ranges, has_table, .. } = &**traces;
            let mut there = Weight::of(at, usize::from(*rows), ranges.len(), matches.len());
            there.tables[family] = (*has_table).into();
            there.members[family] = members.len();
            desired.most(there)
        }
        RealisedShape::Same | RealisedShape::Nothing => desired,
    }
}
