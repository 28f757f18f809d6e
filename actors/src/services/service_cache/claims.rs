//! What each service has been given, and giving it something else.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use super::{
    backends::Backends,
    dense::Dense,
    expand::{DesiredFrontend, DesiredService},
    shape::Shape,
    source_object::Name,
    table::{FrontendEntry, FrontendTable},
    weight::Weight,
};
use crate::{
    model::{BackendId, Frontend, L4Address},
    ports::BackendState,
};

/// What a service was given.
#[derive(Debug, Default)]
pub(super) struct ServiceClaim {
    frontends: Box<[Frontend]>,
    backends: Box<[(L4Address, BackendState)]>,
}

/// What a service was not given.
#[derive(Debug, Default)]
struct Denial {
    /// Frontends that another service has.
    frontends: Vec<Frontend>,
    /// Why, in words.
    problems: Vec<String>,
}

/// What all were given.
#[derive(Debug, Default)]
pub(super) struct ServiceClaims {
    by_service: Dense<Name, ServiceClaim>,
    denials: BTreeMap<Name, Denial>,
    /// Those that want more than there is room for.
    starving: BTreeSet<Name>,
}

/// Where it is given from.
pub(super) struct Stores<'a> {
    pub(super) table: &'a mut FrontendTable,
    pub(super) backends: &'a mut Backends,
    /// How many rows each map has room for; 0 is no limit.
    pub(super) room: usize,
    /// Whether who serves the service by what an earlier run left, and whom nobody named, may be named yet.
    pub(super) keeps: bool,
    /// What there was no room for.
    pub(super) wanted: RowsByFamily,
}

/// Rows of services and of backends, those of IPv6 first.
pub(super) type RowsByFamily = [[usize; 2]; 2];

impl ServiceClaims {
    /// Takes no more memory than is needed.
    pub(super) fn pack(&mut self) {
        self.by_service.pack();
    }

    /// What services cannot have, and why.
    pub(super) fn problems(&self) -> impl Iterator<Item = (&Name, &String)> {
        let all = self.denials.iter();
        all.flat_map(|(name, denial)| denial.problems.iter().map(move |problem| (name, problem)))
    }

    /// Gives a service what it wishes; it keeps what it has if there is no room for that. Those who
    /// may have more by it are added to `changed`.
    pub(super) fn give(
        &mut self,
        name: &Name,
        wish: DesiredService,
        stores: &mut Stores<'_>,
        changed: &mut BTreeSet<Name>,
    ) {
        let before = self.by_service.remove(name).unwrap_or_default();
        let Denial { frontends: denied, problems: known } =
            self.denials.remove(name).unwrap_or_default();
        self.starving.remove(name);
        let (claim, denial) = match shortage(&wish, stores) {
            Some(shortage) => {
                stores.wanted = excess(&wish, stores);
                self.starving.insert(Rc::clone(name));
                let denial = Denial { frontends: denied, problems: vec![shortage] };
                (adopt(name, &wish, before, stores), denial)
            }
            None => exchange(name, wish, (before, denied), stores, changed),
        };
        for problem in denial.problems.iter().filter(|it| !known.contains(it)) {
            tracing::error!(service = %name, "{problem}");
        }
        if !denial.problems.is_empty() {
            self.denials.insert(Rc::clone(name), denial);
        }
        if !claim.frontends.is_empty() || !claim.backends.is_empty() {
            self.by_service.insert(Rc::clone(name), claim);
        }
    }

    /// Whether a service has any frontend.
    pub(super) fn serves(&self, name: &Name) -> bool {
        self.by_service.get(name).is_some_and(|claim| !claim.frontends.is_empty())
    }

    /// Services that have a backend, used or not.
    pub(super) fn listing(&self, backend: &L4Address) -> impl Iterator<Item = &Name> {
        let lists = move |claim: &ServiceClaim| claim.backends.iter().any(|(at, _)| at == backend);
        self.by_service.iter().filter(move |(_, claim)| lists(claim)).map(|(name, _)| name)
    }

    /// There may be room again.
    pub(super) fn retry(&mut self, changed: &mut BTreeSet<Name>) {
        changed.append(&mut self.starving);
    }
}

/// Why a wish cannot be granted as a whole. What is had stays until what is new is written, so both
/// want room.
fn shortage(wish: &DesiredService, stores: &Stores<'_>) -> Option<String> {
    let Stores { table, backends, room, .. } = stores;
    if *room == 0 {
        return None;
    }
    let new = wish.frontends.iter().filter(|(at, _)| table.get(at).is_none()).count();
    let left = table.numbers_left();
    if new > left {
        return Some(format!(
            "it needs {new} numbers of services, and {left} are left of 65535: what was before stays"
        ));
    }
    let more = |map: &str, rows: usize, needed: usize| {
        (rows + needed > *room).then(|| {
            format!(
                "it needs {needed} more rows of {map}, which has {} left of {room}: what was before \
                 stays; raise --bpf-lb-map-max",
                room.saturating_sub(rows)
            )
        })
    };
    for is_ipv4 in [true, false] {
        let version = if is_ipv4 { 4 } else { 6 };
        let missing = backends.missing(wish.backends.keys(), is_ipv4);
        let map = format!("cilium_lb{version}_backends_v3");
        let short = more(&map, backends.rows(is_ipv4), missing);
        if short.is_some() {
            return short;
        }
    }
    let needed = growth(wish, table);
    let Weight { slots, ranges, matches, members, .. } = table.weight();
    more("cilium_lb4_services_v2", slots[1], needed.slots[1])
        .or_else(|| more("cilium_lb6_services_v2", slots[0], needed.slots[0]))
        .or_else(|| more("cilium_lb4_source_range", ranges[1], needed.ranges[1]))
        .or_else(|| more("cilium_lb6_source_range", ranges[0], needed.ranges[0]))
        .or_else(|| more("cilium_lb_affinity_match", matches, needed.matches))
        .or_else(|| more("volvox_lb4_members", members[1], needed.members[1]))
        .or_else(|| more("volvox_lb6_members", members[0], needed.members[0]))
}

/// How many rows there is no room for.
fn excess(wish: &DesiredService, stores: &Stores<'_>) -> RowsByFamily {
    let Stores { table, backends, room, .. } = stores;
    let needed = growth(wish, table).members;
    [false, true].map(|is_ipv4| {
        let family = usize::from(is_ipv4);
        let members = table.weight().members[family] + needed[family];
        let missing = backends.missing(wish.backends.keys(), is_ipv4);
        [members, backends.rows(is_ipv4) + missing].map(|rows| rows.saturating_sub(*room))
    })
}

/// What a wish takes more than its frontends do.
fn growth(wish: &DesiredService, table: &FrontendTable) -> Weight {
    let mut needed = Weight::default();
    for (at, desired) in &wish.frontends {
        needed.add_growth(desired.weight(at), table.weight_of(at));
    }
    needed
}

impl DesiredFrontend {
    fn weight(&self, at: &Frontend) -> Weight {
        let backends = self.backends.len();
        let matches = if self.has_affinity() { backends } else { 0 };
        Weight::of(at, backends, self.ranges.len(), matches)
    }
}

/// Has a service keep what it had in an earlier run of that which it wishes.
fn adopt(
    name: &Name,
    wish: &DesiredService,
    before: ServiceClaim,
    stores: &mut Stores<'_>,
) -> ServiceClaim {
    let (mut frontends, mut backends) = (before.frontends.into_vec(), before.backends.into_vec());
    let mut used = BTreeMap::new();
    for (frontend, _) in &wish.frontends {
        if let Some(shape) = stores.table.adopt(*frontend, name) {
            used.extend(shape.members());
            frontends.push(*frontend);
        }
    }
    if !used.is_empty() {
        let all = used.iter().filter_map(|(id, state)| Some((stores.backends.place(*id)?, *state)));
        let places: Vec<_> = all.collect();
        places.iter().for_each(|(at, state)| stores.backends.list(*at, *state));
        backends.extend(places);
    }
    ServiceClaim { frontends: frontends.into(), backends: backends.into() }
}

/// Gives a service what it wishes in place of what it has.
fn exchange(
    name: &Name,
    wish: DesiredService,
    (before, denied_before): (ServiceClaim, Vec<Frontend>),
    stores: &mut Stores<'_>,
    changed: &mut BTreeSet<Name>,
) -> (ServiceClaim, Denial) {
    let taken = growth(&wish, stores.table).members;
    let DesiredService { frontends, backends, ingresses, mut problems, .. } = wish;
    // First all that is new, so that what stays never goes in between.
    for (at, state) in &backends {
        stores.backends.list(*at, *state);
    }
    let mut spare = spare(&taken, stores);
    let (mut given, mut denied) = (BTreeSet::new(), Vec::new());
    for (frontend, desired) in frontends {
        if given.contains(&frontend) {
            problems.push(format!("{frontend} is said twice of it: the first counts"));
            continue;
        }
        if let Err(owner) = stores.table.claim(frontend, name) {
            let why = ingresses.get(&frontend).map(|it| format!(", which Ingress {it} wants,"));
            problems.push(format!(
                "{frontend}{} is {owner}'s: give one of the two another address or port",
                why.unwrap_or_default()
            ));
            denied.push(frontend);
            continue;
        }
        let (shape, left) = shape(frontend, desired, stores, &mut spare);
        if shape.used == 0 && !shape.backends.is_empty() {
            problems.push(format!(
                "all who serve {frontend} are quarantined, and serve as if they were not: release \
                 one, or see that there are others"
            ));
        }
        match stores.table.put(frontend, name, shape) {
            Ok(()) => {
                stores.backends.leave(frontend, left);
                given.insert(frontend);
            }
            Err(_) => problems.push(format!("{frontend} has no number: all 65535 are taken")),
        }
    }
    for frontend in before.frontends.iter().filter(|it| !given.contains(it)) {
        changed.append(&mut stores.table.release(*frontend, name));
        stores.backends.leave(*frontend, BTreeSet::new());
    }
    for frontend in denied_before.iter().filter(|it| !denied.contains(it)) {
        stores.table.resign(frontend, name);
    }
    for (at, state) in &before.backends {
        stores.backends.unlist(*at, *state);
    }
    let (frontends, backends) = (given.into_iter().collect(), backends.into_iter().collect());
    (ServiceClaim { frontends, backends }, Denial { frontends: denied, problems })
}

/// Room for rows that connections need and no service wants, those of IPv6 first.
fn spare(taken: &[usize; 2], stores: &Stores<'_>) -> [usize; 2] {
    let members = stores.table.weight().members;
    [0, 1].map(|family| match stores.room {
        0 => usize::MAX,
        room => room.saturating_sub(members[family] + taken[family]),
    })
}

/// The rows of a frontend, with slots kept; and who of them left and has connections by it.
fn shape(
    frontend: Frontend,
    desired: DesiredFrontend,
    stores: &Stores<'_>,
    spare: &mut [usize; 2],
) -> (Shape, BTreeSet<BackendId>) {
    let entry = stores.table.get(&frontend);
    let there = entry.and_then(|entry| entry.there());
    let before = there.map(|shape| shape.backends.clone()).unwrap_or_default();
    let ids = desired.backends.iter().filter_map(|at| stores.backends.id(at));
    let mut ids: BTreeSet<_> = ids.collect();
    // Who was let go before may be in the kernel still: he is none of these.
    let members = || entry.and_then(FrontendEntry::desired).into_iter().flat_map(Shape::members);
    let matters =
        !desired.retained.is_empty() || stores.keeps || members().any(|(id, _)| !ids.contains(&id));
    let had = entry.filter(|_| matters).map(|entry| entry.members()).unwrap_or_default();
    if stores.keeps {
        ids.extend(before.iter().filter(|id| stores.backends.unheard().contains(id)));
    }
    // Who never served it has nothing to keep.
    let retained = desired.retained.iter().filter_map(|(at, state)| {
        let id = stores.backends.id(at)?;
        (had.contains_key(&id) && !ids.contains(&id)).then_some((id, *state))
    });
    let mut retained: BTreeMap<_, _> = retained.collect();
    if stores.keeps {
        let unheard = had.iter().filter(|(id, _)| stores.backends.unheard().contains(id));
        retained.extend(unheard.filter(|(id, _)| !ids.contains(id)));
    }
    let members = members()
        .map(|(id, _)| id)
        .filter(|id| had.contains_key(id) && !ids.contains(id) && !retained.contains_key(id));
    let family = usize::from(frontend.at.address.is_ipv4());
    let listed = ids.len() + retained.len();
    let own = stores.table.weight_of(&frontend).members[family].max(listed) - listed;
    let left = stores.backends.left(&frontend, members, spare[family].saturating_add(own));
    spare[family] -= left.len().saturating_sub(own).min(spare[family]);
    let retained = retained.into_iter().collect();
    let DesiredFrontend { word, flags, ranges, .. } = desired;
    let mut shape = Shape { word, flags, ranges, backends: before, used: 0, retained };
    shape.lead_to(&ids, stores.backends.quarantined());
    shape.keep(&left);
    (shape, left)
}
