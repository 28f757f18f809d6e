//! What an earlier run left, and nobody names.

use std::{collections::BTreeSet, net::IpAddr};

use crate::{
    model::{Frontend, Transport},
    mutants::{Mutant, mutated},
    ports::service_flags,
    services::service_cache::{
        ServiceSource,
        shape::Shape,
        state::{Apart, Pruned, ServiceCacheState},
    },
};

impl ServiceCacheState {
    /// What an earlier run left and nobody named goes, once everyone has said what it knows. Other clusters
    /// name backends only: those stay to whom something leads that waits for them, and no frontend does.
    pub(super) fn prune(&mut self) {
        if self.reported.take_let_go() {
            self.pruned = Pruned::default();
        }
        let Some(apart) = self.heard() else { return };
        if self.pruned.frontends.as_ref() != Some(&apart) {
            let (addresses, refusals) = (&self.surroundings.addresses, self.reported.refusals());
            let pruned = self.table.prune(|at, shape| {
                let source = may_be_of(at, shape, addresses);
                source.is_none_or(|source| !apart.contains(&source))
                    && !refusals.may_mean(at, shape.flags)
            });
            self.pruned.frontends = Some(apart.clone());
            tracing::info!(pruned, "services of the life before that are no more");
            self.claims.retry(&mut self.changed);
        }
        if self.changed.is_empty() && self.pruned.backends.as_ref() != Some(&apart) {
            let unowned = self.table.unowned().flat_map(|(_, shape)| shape.members());
            let unowned = unowned.map(|(id, _)| id).collect();
            let pruned = self.backends.prune(&unowned, &self.table.led_to());
            self.pruned.backends = Some(apart);
            if pruned > 0 {
                tracing::info!(pruned, "backends of the life before that are no more");
            }
            self.claims.retry(&mut self.changed);
        }
    }

    /// Whose frontends may not go yet, if everyone else has been heard who may name some.
    fn heard(&self) -> Option<Apart> {
        let (mut apart, rest): (Apart, Apart) =
            self.awaited.iter().partition(|source| source.is_apart());
        if mutated(Mutant::IngressesPrunedEarly) {
            apart.clear();
        }
        let is_due = rest.iter().all(|source| *source == ServiceSource::Mesh);
        let is_due = is_due && self.undecided.is_empty();
        (is_due || mutated(Mutant::ServicesPrunedEarly)).then_some(apart)
    }
}

/// Whose a frontend of an earlier run may be of those that are told apart: an Ingress's are at the
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
