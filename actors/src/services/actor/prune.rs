//! What an earlier life left, and nobody names.

use std::{collections::BTreeSet, net::IpAddr, rc::Rc};

use super::{Kept, Pruned};
use crate::{
    model::{Frontend, Transport},
    mutants::{Mutant, mutated},
    ports::service_flags,
    services::{ServiceSource, shape::Shape},
};

impl Kept {
    /// What an earlier life left and nobody named goes, once everyone has said what it knows: first
    /// frontends, which only this cluster names, then backends, which others may.
    pub(super) fn prune(&mut self) {
        let frontends = match mutated(Mutant::ServicesPrunedEarly) {
            true => Some(Pruned::new()),
            false => self.heard_but(ServiceSource::Mesh),
        };
        if let Some(apart) = frontends.filter(|it| self.pruned.0.as_ref() != Some(it)) {
            let addresses = &self.surroundings.addresses;
            let pruned = self.table.prune(|at, shape| {
                may_be_of(at, shape, addresses).is_none_or(|source| !apart.contains(&source))
            });
            self.pruned.0 = Some(apart);
            tracing::info!(pruned, "services of the life before that are no more");
            self.claims.retry(&mut self.changed);
        }
        let backends = self.heard_but(ServiceSource::Ingresses);
        if backends.is_some() && backends != self.pruned.1 {
            self.pruned.1 = backends;
            let used = self.table.unowned().flat_map(|(_, shape)| &shape.backends);
            let used = used.copied().collect();
            let pruned = self.backends.prune(&used);
            tracing::info!(pruned, "backends of the life before that are no more");
            // Those of other clusters are known now.
            let global = self.book.services().filter(|(_, spec)| spec.is_global);
            self.changed.extend(global.map(|(name, _)| Rc::clone(name)));
            self.claims.retry(&mut self.changed);
        }
    }

    /// Whose may not go yet, if all have been heard whom nothing is told apart from, and `other` is not
    /// waited for.
    fn heard_but(&self, other: ServiceSource) -> Option<Pruned> {
        let (mut apart, rest): (Pruned, Pruned) =
            self.awaited.iter().partition(|source| source.is_apart());
        if mutated(Mutant::IngressesPrunedEarly) {
            apart.clear();
        }
        rest.iter().all(|source| *source == other).then_some(apart)
    }
}

/// Whose a frontend of an earlier life may be of those that are told apart: an Ingress's are at the
/// node's own addresses, by TCP.
fn may_be_of(at: &Frontend, shape: &Shape, addresses: &BTreeSet<IpAddr>) -> Option<ServiceSource> {
    let has = |flag| shape.flags & flag != 0;
    let is_own = addresses.contains(&at.at.address);
    if has(service_flags::HOST_PORT) {
        return Some(ServiceSource::Pods);
    }
    let is_entry = has(service_flags::EXTERNAL_IP) && at.at.transport == Transport::TCP && is_own;
    is_entry.then_some(ServiceSource::Ingresses)
}
