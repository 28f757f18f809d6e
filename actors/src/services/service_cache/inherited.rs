//! What an earlier run left in the kernel's maps: evidence, which is verified.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use ipnet::IpNet;

use super::{
    backends::Backends,
    shape::{RealisedShape, Shape, Traces},
    table::FrontendTable,
    wildcards,
};
use crate::{
    model::{BackendId, Frontend, L4Address, ServiceId},
    ports::{
        BackendRow, BackendState, MemberKey, ServiceKeys, ServiceTables, SlotKey, SlotRow,
        service_flags,
    },
};

/// Why a row cannot be trusted, and rows that are nobody's.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// In words, for people.
    pub(super) problems: Vec<String>,
    /// Rows that mean nothing, in words.
    pub(super) foreign: Vec<String>,
    /// Rows that belong to no frontend: they go when every source has said what it knows.
    pub(super) orphans: Vec<ServiceKeys>,
}

/// Takes over what the kernel has. What is whole is left untouched; of a frontend that is not, what
/// is right of it is written anew; what is nobody's is told.
pub(super) fn inherit(
    found: ServiceTables,
    table: &mut FrontendTable,
    backends: &mut Backends,
) -> Findings {
    table.reserve_below(found.unused.service);
    backends.remember(found.unused.backend);
    let mut findings = Findings { foreign: found.foreign, ..Findings::default() };
    for (id, at) in found.mistaken {
        findings
            .problems
            .push(format!("backend {at} has the number {id}, and another one's tag: it goes"));
        backends.inherit_stray(id, at.address.is_ipv4());
    }
    let places = take_backends(found.backends, &found.slots, backends, &mut findings);
    let mut beside = Beside {
        reverse: found.reverse_nat.iter().map(|(id, at)| ((*id, at.is_ipv4()), *at)).collect(),
        tables: found.maglev.into_iter().collect(),
        members: Members::of(found.members),
        ..Beside::default()
    };
    for (backend, id) in found.affinity {
        beside.matches.entry(id).or_default().insert(backend);
    }
    for (id, range) in found.ranges {
        beside.ranges.entry(id).or_default().insert(range);
    }
    let mut groups = Vec::<Group>::new();
    for ((frontend, slot), row) in found.slots {
        if wildcards::is_one(&(frontend, slot)) {
            table.wildcards.inherit(frontend.at.address);
            continue;
        }
        match groups.last_mut() {
            Some(group) if group.frontend == frontend => group.rows.push((slot, row)),
            _ => groups.push(Group { frontend, rows: vec![(slot, row)] }),
        }
    }
    let ids = numbers(&groups, &beside, table, &mut findings);
    beside.numbers().for_each(|id| table.reserve_below(u32::from(id.0) + 1));
    table.free_gaps(&beside.numbers().chain(ids.values().copied()).collect());
    for group in groups {
        take_frontend(&group, &ids, (&places, backends), &mut beside, table, &mut findings);
    }
    table.wildcards.inherited();
    orphans(beside, &mut findings);
    findings
}

/// Rows of a frontend, by slot.
struct Group {
    frontend: Frontend,
    rows: Vec<(u16, SlotRow)>,
}

impl Group {
    /// The frontend's own row.
    fn first(&self) -> Option<&SlotRow> {
        self.rows.iter().find(|(slot, _)| *slot == 0).map(|(_, row)| row)
    }

    fn is_ipv4(&self) -> bool {
        self.frontend.at.address.is_ipv4()
    }
}

/// The number that a row says, whether it is IPv4, and the number that its backend keeps.
type InheritedBackendIds = BTreeMap<(BackendId, bool), BackendId>;

/// Backends that are taken over.
type InheritedBackends<'a> = (&'a InheritedBackendIds, &'a Backends);

/// The rows of the maps beside the frontends'.
#[derive(Default)]
struct Beside {
    reverse: BTreeMap<(ServiceId, bool), SocketAddr>,
    matches: BTreeMap<ServiceId, BTreeSet<BackendId>>,
    ranges: BTreeMap<ServiceId, BTreeSet<IpNet>>,
    tables: BTreeSet<(ServiceId, bool)>,
    members: Members,
}

/// Rows of backends by service, which are many.
#[derive(Default)]
struct Members {
    /// Sorted by service, family and backend.
    rows: Vec<(ServiceId, bool, BackendId, BackendRow)>,
    /// Whose rows a frontend has.
    taken: BTreeSet<(ServiceId, bool)>,
}

impl Members {
    fn of(found: Vec<(MemberKey, BackendRow)>) -> Self {
        let row = |((id, backend), row): (MemberKey, BackendRow)| {
            (id, row.at.address.is_ipv4(), backend, row)
        };
        let mut rows: Vec<_> = found.into_iter().map(row).collect();
        rows.sort_unstable_by_key(|(id, is_ipv4, backend, _)| (*id, *is_ipv4, *backend));
        Self { rows, taken: BTreeSet::new() }
    }

    /// Those of a number.
    fn of_number(
        &self,
        id: ServiceId,
        is_ipv4: bool,
    ) -> &[(ServiceId, bool, BackendId, BackendRow)] {
        let before = |limit| self.rows.partition_point(|(of, four, ..)| (*of, *four) < limit);
        let begin = before((id, is_ipv4));
        let len =
            self.rows[begin..].partition_point(|(of, four, ..)| (*of, *four) == (id, is_ipv4));
        &self.rows[begin..begin + len]
    }

    /// Takes out which backends those of a number are.
    fn take(&mut self, id: ServiceId, is_ipv4: bool) -> BTreeSet<BackendId> {
        self.taken.insert((id, is_ipv4));
        self.of_number(id, is_ipv4).iter().map(|(.., backend, _)| *backend).collect()
    }

    /// Those that no frontend has.
    fn left(self) -> Vec<(MemberKey, bool)> {
        let left = self.rows.iter().filter(|(id, four, ..)| !self.taken.contains(&(*id, *four)));
        left.map(|(id, is_ipv4, backend, _)| ((*id, *backend), *is_ipv4)).collect()
    }
}

impl Beside {
    /// Numbers that rows have.
    fn numbers(&self) -> impl Iterator<Item = ServiceId> {
        let by_family = self.reverse.keys().chain(&self.tables).map(|(id, _)| id);
        let members = self.members.rows.iter().map(|(id, ..)| id);
        by_family.chain(self.matches.keys()).chain(self.ranges.keys()).chain(members).copied()
    }

    fn matches(&self, id: ServiceId) -> BTreeSet<BackendId> {
        self.matches.get(&id).cloned().unwrap_or_default()
    }

    /// Takes out what is of a number, with so many slots up to the last: any of it may be there.
    fn traces(&mut self, id: ServiceId, is_ipv4: bool, (last, rows): (u16, u16)) -> RealisedShape {
        self.reverse.remove(&(id, is_ipv4));
        RealisedShape::Unsure(Box::new(Traces {
            slots: last,
            rows,
            matches: self.matches.remove(&id).unwrap_or_default(),
            members: self.members.take(id, is_ipv4),
            ranges: self.ranges.remove(&id).unwrap_or_default(),
            has_table: self.tables.remove(&(id, is_ipv4)),
        }))
    }
}

/// Takes in the backends. Of several with one place, or one number, one keeps it: one that a slot leads to.
fn take_backends(
    found: Vec<(BackendId, BackendRow)>,
    slots: &[(SlotKey, SlotRow)],
    backends: &mut Backends,
    findings: &mut Findings,
) -> InheritedBackendIds {
    let used = slots.iter().filter(|((_, slot), _)| *slot > 0);
    let used = used.map(|((at, _), row)| (BackendId(row.word), at.at.address.is_ipv4()));
    let used: BTreeSet<_> = used.collect();
    let mut found: Vec<_> =
        found.into_iter().map(|(id, row)| ((id, row.at.address.is_ipv4()), row)).collect();
    found.sort_by_key(|(key, row)| (!used.contains(key), key.0, row.at));
    let (mut places, mut by_place) =
        (InheritedBackendIds::new(), BTreeMap::<L4Address, BackendId>::new());
    let mut had = BTreeMap::<BackendId, L4Address>::new();
    for ((id, is_ipv4), row) in found {
        let at = row.at;
        let problem = match (by_place.get(&at), had.get(&id)) {
            _ if id == BackendId::default() => {
                Some(format!("backend {at} has number 0, which is nobody's: it goes"))
            }
            (Some(retained), _) => {
                places.insert((id, is_ipv4), *retained);
                Some(format!("backend {at} has the numbers {retained} and {id}: {id} goes"))
            }
            (None, Some(other)) => {
                Some(format!("backend {at} has the number {id}, which is that of {other}: it goes"))
            }
            (None, None) => None,
        };
        if let Some(problem) = problem {
            findings.problems.push(problem);
            backends.inherit_stray(id, is_ipv4);
            continue;
        }
        backends.inherit(id, &row);
        places.insert((id, is_ipv4), id);
        by_place.insert(at, id);
        had.insert(id, at);
    }
    places
}

/// Which frontends keep their numbers. If several have the same, it is that of whom replies are
/// translated back to; the others get new ones, and are told.
fn numbers(
    groups: &[Group],
    beside: &Beside,
    table: &mut FrontendTable,
    findings: &mut Findings,
) -> BTreeMap<Frontend, ServiceId> {
    let mut claims = BTreeMap::<ServiceId, Vec<&Group>>::new();
    for group in groups {
        let id = group.first().map_or(group.rows[0].1.id, |row| row.id);
        table.reserve_below(u32::from(id.0) + 1);
        claims.entry(id).or_default().push(group);
    }
    let mut ids = BTreeMap::new();
    for (id, mut all) in claims {
        let is_meant =
            |it: &Group| beside.reverse.get(&(id, it.is_ipv4())) == Some(&it.frontend.at.socket());
        all.sort_by_key(|it| (!is_meant(it), it.frontend));
        let mut all = all.into_iter();
        if id != ServiceId::default() {
            ids.extend(all.next().map(|winner| (winner.frontend, id)));
        }
        for Group { frontend, .. } in all {
            findings
                .problems
                .push(format!("service {frontend} has number {id}, which is not its own"));
        }
    }
    ids
}

fn take_frontend(
    group: &Group,
    ids: &BTreeMap<Frontend, ServiceId>,
    known: InheritedBackends<'_>,
    beside: &mut Beside,
    table: &mut FrontendTable,
    findings: &mut Findings,
) {
    let (frontend, is_ipv4) = (group.frontend, group.is_ipv4());
    let last = group.rows.last().map_or(0, |(slot, _)| *slot);
    let rows = u16::try_from(group.rows.len()).unwrap_or(u16::MAX);
    let own = ids.get(&frontend).copied();
    let Some(id) = own.or_else(|| table.number()) else {
        let keys = group.rows.iter().map(|(slot, _)| (frontend, *slot)).collect();
        return findings.orphans.push(ServiceKeys::Slots(keys));
    };
    let Some(first) = group.first() else {
        findings.problems.push(format!("service {frontend} has slots, but no first one: they go"));
        let kernel = beside.traces(id, is_ipv4, (last, rows));
        return table.inherit(frontend, id, None, kernel);
    };
    let (shape, is_whole) = shape(group, first, id, known, beside);
    let traces = beside.traces(id, is_ipv4, (last, rows));
    let kernel = match is_whole {
        true => RealisedShape::Same,
        false => {
            let what = "is not whole: what is right of it is written anew";
            findings.problems.push(format!("service {frontend} {what}"));
            traces
        }
    };
    table.inherit(frontend, id, Some(shape), kernel);
}

/// What is right of a frontend, and whether just that is there.
fn shape(
    group: &Group,
    first: &SlotRow,
    id: ServiceId,
    known: InheritedBackends<'_>,
    beside: &Beside,
) -> (Shape, bool) {
    let (places, _) = known;
    let is_ipv4 = group.is_ipv4();
    let (mut used, mut quarantined, mut is_whole) = (Vec::new(), Vec::new(), first.id == id);
    let (count, all) = (first.count, u32::from(first.count) + u32::from(first.quarantined));
    let slots = group.rows.iter().filter(|(slot, _)| *slot > 0);
    is_whole &= slots.clone().map(|(slot, _)| u32::from(*slot)).eq(1..=all);
    for (slot, row) in slots.filter(|(slot, _)| u32::from(*slot) <= all) {
        let Some(retained) = places.get(&(BackendId(row.word), is_ipv4)) else {
            is_whole = false;
            continue;
        };
        let (to, flags) = match *slot <= count {
            true => (&mut used, 0),
            false => (&mut quarantined, service_flags::QUARANTINED),
        };
        is_whole &=
            retained.0 == row.word && row.id == id && row.flags == flags && !to.contains(retained);
        if !to.contains(retained) {
            to.push(*retained);
        }
    }
    is_whole &= beside.reverse.get(&(id, is_ipv4)) == Some(&group.frontend.at.socket());
    let count = u16::try_from(used.len()).unwrap_or(u16::MAX);
    used.extend(quarantined);
    let ranges = beside.ranges.get(&id).into_iter().flatten();
    let ranges: Box<[IpNet]> =
        ranges.filter(|range| range.addr().is_ipv4() == is_ipv4).copied().collect();
    let (word, flags) = (first.word, first.flags);
    let backends = used.into();
    let mut shape = Shape { word, flags, used: count, backends, ranges, retained: Box::default() };
    is_whole &= take_members(&mut shape, beside.members.of_number(id, is_ipv4), known);
    is_whole &= shape.matches() == beside.matches(id);
    is_whole &= shape.has_table() == beside.tables.contains(&(id, is_ipv4));
    (shape, is_whole)
}

/// Has a shape keep whom its rows name besides those in slots; whether the rows are just those that it
/// is to have.
fn take_members(
    shape: &mut Shape,
    rows: &[(ServiceId, bool, BackendId, BackendRow)],
    (places, backends): InheritedBackends<'_>,
) -> bool {
    let in_slots: BTreeMap<BackendId, BackendState> = shape.members().collect();
    let (mut retained, mut right) = (Vec::new(), 0);
    for (_, is_ipv4, backend, row) in rows {
        let is_known = places.get(&(*backend, *is_ipv4)) == Some(backend);
        let is_right = is_known && backends.place(*backend) == Some(row.at);
        let state = in_slots.get(backend).copied();
        let rests = [BackendState::Terminating, BackendState::Maintenance].contains(&row.state);
        if state.is_none() && is_known {
            // One that was about to have a slot again may have connections of before.
            retained.push((*backend, if rests { row.state } else { BackendState::Terminating }));
        }
        right += usize::from(is_right && state.map_or(rests, |state| state == row.state));
    }
    shape.retained = retained.into();
    right == rows.len() && right == shape.members_len()
}

/// What is left is nobody's.
fn orphans(beside: Beside, findings: &mut Findings) {
    let mut tell = |what: &str, keys: ServiceKeys| {
        if !keys.is_empty() {
            findings.problems.push(format!("{} rows of {what} are nobody's: they go", keys.len()));
            findings.orphans.push(keys);
        }
    };
    let ranges = beside.ranges.into_iter();
    let ranges = ranges.flat_map(|(id, all)| all.into_iter().map(move |it| (id, it)));
    tell("source ranges", ServiceKeys::SourceRanges(ranges.collect()));
    let matches = beside.matches.into_iter();
    let matches = matches.flat_map(|(id, all)| all.into_iter().map(move |it| (it, id)));
    tell("backends of services", ServiceKeys::Members(beside.members.left()));
    tell("affinity", ServiceKeys::AffinityMatches(matches.collect()));
    tell("Maglev", ServiceKeys::Maglev(beside.tables.into_iter().collect()));
    tell("reverse translation", ServiceKeys::ReverseNat(beside.reverse.into_keys().collect()));
}
