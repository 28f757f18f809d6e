//! The waiting line for permits: its order, and that no endpoint stands in it twice.

use std::collections::BTreeMap;

use super::{Class, Permit};
use crate::{host::Reply, model::EndpointId};

/// Who waits: by class, then by arrival; each endpoint at most once.
#[derive(Debug, Default)]
pub(super) struct PermitQueue {
    places: BTreeMap<(Class, u64), (EndpointId, Reply<Permit>)>,
    place_of: BTreeMap<EndpointId, (Class, u64)>,
    arrivals: u64,
}

impl PermitQueue {
    /// Lines up. Who waits already keeps its place or gets a better one; its earlier question is
    /// let go.
    pub(super) fn join(&mut self, endpoint: EndpointId, class: Class, reply: Reply<Permit>) {
        self.arrivals += 1;
        let fresh = (class, self.arrivals);
        let place = self.place_of.get(&endpoint).map_or(fresh, |&before| before.min(fresh));
        if let Some(before) = self.place_of.insert(endpoint, place) {
            self.places.remove(&before);
        }
        self.places.insert(place, (endpoint, reply));
    }

    /// The next one that still waits for its answer leaves the line.
    pub(super) fn next(&mut self) -> Option<(EndpointId, Reply<Permit>)> {
        while let Some((_, (endpoint, reply))) = self.places.pop_first() {
            self.place_of.remove(&endpoint);
            if !reply.is_closed() {
                return Some((endpoint, reply));
            }
        }
        None
    }

    /// Who still waits, first to last.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (EndpointId, Class)> {
        self.places
            .iter()
            .filter(|(_, (_, reply))| !reply.is_closed())
            .map(|(&(class, _), &(endpoint, _))| (endpoint, class))
    }
}
