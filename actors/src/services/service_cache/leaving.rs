//! Backends that left a service while TCP connections by it may go on: the service keeps their rows, which
//! take no new connections. They go on proof that no connection names them any more, or that nobody answers
//! at their address; the oldest go first where a map fills up.
//!
//! ```text
//!   listed ──► left: no new connections ──► no connection has it, by a whole sweep ──┐
//!     ▲             │            │                                                   ├──► gone
//!     └─────────────┘            ├──► its endpoint ends ─────────────────────────────┤
//!     listed again               └──► rows of others want the room ──────────────────┘
//! ```
//!
//! A restart need not be told: whoever has rows of a service that lists him no more has left it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    backends::{Backend, Backends},
    claims::RowsByFamily,
    departures::{BackendDeparture, Leaving},
    messages::LeavingBackend,
    shape::Shape,
    state::ServiceCacheState,
    table::{FrontendEntry, FrontendTable},
};
use crate::{
    endpoints::supervisor::EndpointAddresses,
    model::{BackendId, Frontend, L4Address, Transport},
    ports::BackendState,
};

/// From how full a map on the oldest go, percent: what is listed always has room.
const FULL_AT: usize = 90;

impl Backends {
    /// Who has connections by a frontend that it leads to no more, `had` before: with room for so many, the
    /// last that left.
    pub(super) fn left(
        &self,
        frontend: &Frontend,
        had: impl Iterator<Item = BackendId>,
        room: usize,
    ) -> BTreeSet<BackendId> {
        // Datagrams go to somebody who is listed.
        if frontend.at.transport != Transport::TCP || self.leaving.is_off {
            return BTreeSet::new();
        }
        let may_answer = |id: &BackendId| {
            self.place(*id).is_some_and(|at| !self.leaving.silent.contains(&at.address))
        };
        let mut left: Vec<_> = had.filter(may_answer).collect();
        if left.len() > room {
            let nth = |id: &BackendId| self.leaving.by_id.get(id).map_or(u64::MAX, |it| it.nth);
            left.sort_by_key(|id| std::cmp::Reverse(nth(id)));
            left.truncate(room);
        }
        left.into_iter().collect()
    }

    /// How many nobody lists any more.
    pub(super) fn only_leaving(&self) -> usize {
        let all = self.leaving.by_id.values().filter_map(|it| self.by_place.get(&it.at));
        all.filter(|backend| backend.is_gone()).count()
    }

    /// A frontend has rows of these, who left it, and of no others who did.
    pub(super) fn leave(&mut self, frontend: Frontend, left: BTreeSet<BackendId>) {
        let before = self.leaving.by_frontend.remove(&frontend).unwrap_or_default();
        for id in before.difference(&left) {
            self.return_to(&frontend, *id);
        }
        for id in &left {
            let Some(at) = self.place(*id) else { continue };
            let Leaving { by_id, departures, .. } = &mut self.leaving;
            let new = BackendDeparture { at, nth: 0, from: BTreeSet::new() };
            let departure = by_id.entry(*id).or_insert(new);
            if departure.from.insert(frontend) {
                *departures += 1;
                departure.nth = *departures;
            }
            self.mark(at, true);
        }
        if !left.is_empty() {
            self.leaving.by_frontend.insert(frontend, left);
        }
    }

    /// One is listed by a frontend again, or connections by it need it no more.
    fn return_to(&mut self, frontend: &Frontend, id: BackendId) {
        let Some(departure) = self.leaving.by_id.get_mut(&id) else { return };
        departure.from.remove(frontend);
        if departure.from.is_empty() {
            let at = departure.at;
            self.leaving.by_id.remove(&id);
            self.mark(at, false);
        }
    }

    fn mark(&mut self, at: L4Address, leaves: bool) {
        let Some(backend) = self.by_place.get_mut(&at) else { return };
        backend.leaves = leaves;
        Self::touch(&mut self.due, &self.quarantine, at, backend);
    }

    /// Somebody answers at these addresses, or nobody any more; who has left and was there.
    fn hear(
        &mut self,
        EndpointAddresses { addresses, answers }: EndpointAddresses,
    ) -> BTreeSet<BackendId> {
        let mut gone = BTreeSet::new();
        for address in addresses.iter() {
            gone.extend(self.at(address).filter(|it| it.leaves).map(|it| it.id));
            if answers {
                self.leaving.silent.remove(&address);
            } else if self.at(address).any(|it| !it.is_gone()) {
                // The cluster says later that it left, and no connection goes on then.
                self.leaving.silent.insert(address);
            }
        }
        gone
    }

    /// A place was removed: once nobody lists its address, whoever has that next may answer.
    pub(super) fn removed(&mut self, at: &L4Address) {
        if self.leaving.silent.contains(&at.address) && self.at(at.address).next().is_none() {
            self.leaving.silent.remove(&at.address);
        }
    }

    /// All at an address.
    fn at(&self, address: IpAddr) -> impl Iterator<Item = &Backend> {
        let first = L4Address { address, port: 0, transport: Transport::ANY };
        let from = self.by_place.range(first..);
        from.take_while(move |(at, _)| at.address == address).map(|(_, backend)| backend)
    }
}

impl FrontendTable {
    /// A frontend has no rows any more of these, who left it.
    fn let_go(&mut self, frontend: Frontend, gone: &BTreeSet<BackendId>) {
        let desired = self.get(&frontend).and_then(FrontendEntry::desired);
        let Some(mut shape) = desired.cloned() else { return };
        let retained = shape.retained.iter().filter(|(id, _)| !gone.contains(id));
        shape.retained = retained.copied().collect();
        self.want(frontend, Some(shape));
    }
}

impl Shape {
    /// Has it keep these, who left it, besides.
    pub(super) fn keep(&mut self, left: &BTreeSet<BackendId>) {
        let left = left.iter().map(|id| (*id, BackendState::Terminating));
        let mut retained: BTreeMap<_, _> = self.retained.iter().copied().collect();
        retained.extend(left);
        self.retained = retained.into_iter().collect();
    }
}

impl ServiceCacheState {
    /// Who left and is known to the kernel as such, with whether it is of IPv4: a sweep that begins from now
    /// on sees all connections that they have.
    pub(super) fn leaving(&self) -> Vec<LeavingBackend> {
        let is_realised =
            |at: &Frontend| self.table.get(at).is_some_and(FrontendEntry::is_realised);
        let all = self.backends.leaving.by_id.iter();
        let all = all.filter(|(_, it)| it.from.iter().all(is_realised));
        let view = |(id, it): (&BackendId, &BackendDeparture)| LeavingBackend {
            id: *id,
            is_ipv4: it.at.address.is_ipv4(),
            nth: it.nth,
        };
        all.map(view).collect()
    }

    /// A sweep that began after these left saw no connection that has them.
    pub(super) fn unused(&mut self, all: &[LeavingBackend]) {
        let by_id = &self.backends.leaving.by_id;
        // Who came back meanwhile and left again may have others.
        let is_it = |it: &&LeavingBackend| by_id.get(&it.id).is_some_and(|own| own.nth == it.nth);
        let gone: Vec<_> = all.iter().filter(is_it).map(|it| it.id).collect();
        self.let_go(gone);
    }

    /// These are not needed any more.
    pub(super) fn let_go(&mut self, gone: impl IntoIterator<Item = BackendId>) {
        let mut by_frontend = BTreeMap::<Frontend, BTreeSet<BackendId>>::new();
        for id in gone {
            for frontend in self.backends.leaving.from(id) {
                by_frontend.entry(*frontend).or_default().insert(id);
            }
        }
        for (frontend, gone) in by_frontend {
            self.table.let_go(frontend, &gone);
            let left = self.backends.leaving.by_frontend.get(&frontend);
            let left = left.map(|left| left - &gone).unwrap_or_default();
            self.backends.leave(frontend, left);
        }
    }

    /// A local endpoint comes, or ends.
    pub(super) fn hear(&mut self, news: EndpointAddresses) {
        let gone = self.backends.hear(news);
        self.let_go(gone);
    }

    /// The kernel has all that was due: where a map is nearly full the oldest go.
    pub(super) fn make_room(&mut self) {
        let (_, open) = self.table.counts();
        if self.room == 0 || open > 0 || self.backends.leaving.by_id.is_empty() {
            return;
        }
        let limit = self.room * FULL_AT / 100;
        for is_ipv4 in [true, false] {
            let members = self.table.weight().members[usize::from(is_ipv4)];
            let backends = self.backends.rows(is_ipv4);
            let excess = [members, backends].map(|rows| rows.saturating_sub(limit));
            self.let_oldest_go(is_ipv4, excess);
        }
    }

    /// Those who wish so much more than there is room for have it where the oldest were.
    pub(super) fn make_way(&mut self, wanted: RowsByFamily) {
        for (is_ipv4, rows) in [false, true].into_iter().zip(wanted) {
            self.let_oldest_go(is_ipv4, rows);
        }
    }

    /// The oldest of a family go, until services have so many rows fewer, and backends so many.
    fn let_oldest_go(&mut self, is_ipv4: bool, [members, backends]: [usize; 2]) {
        let (mut rows, mut gone) = (0, Vec::new());
        for (id, of_services) in self.backends.leaving.oldest(is_ipv4) {
            if rows >= members && gone.len() >= backends {
                break;
            }
            rows += of_services;
            gone.push(id);
        }
        if !gone.is_empty() {
            tracing::info!(
                backends = gone.len(),
                "connections to backends that left services end for want of room: raise --bpf-lb-map-max"
            );
            self.let_go(gone);
        }
    }
}
