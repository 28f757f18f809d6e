//! Who is listed for a frontend, how, and which of them come first.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    annotations::Affinity,
    backends::Backends,
    object::ServicePort,
    slice::{EndpointCondition, Member},
};
use crate::{
    model::{L4Address, Transport},
    mutants::{Mutant, mutated},
    ports::BackendState,
};

/// How somebody is listed.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) serving: EndpointCondition,
    pub(super) local: bool,
    pub(super) zones: Option<&'a [Arc<str>]>,
    pub(super) here: Option<bool>,
    pub(super) quarantined: bool,
    /// Another cluster shares it.
    pub(super) far: bool,
}

impl<'a> Listed<'a> {
    pub(super) fn of(member: &'a Member) -> Self {
        let &Member { serving, local, here, .. } = member;
        let zones = member.zones.as_deref();
        Self { serving, local, zones, here, quarantined: false, far: false }
    }

    /// What another cluster shares.
    pub(super) fn elsewhere() -> Self {
        let serving = EndpointCondition::Ready;
        Self { serving, local: false, zones: None, here: None, quarantined: false, far: true }
    }

    /// How it is listed as a backend.
    pub(super) fn state(&self) -> BackendState {
        match self.serving {
            EndpointCondition::Ready => BackendState::Active,
            EndpointCondition::Ending | EndpointCondition::Leaving => BackendState::Terminating,
            EndpointCondition::Unready => BackendState::Maintenance,
        }
    }

    /// Whether it is for clients of a zone, if it is said for which it is.
    pub(super) fn is_for(&self, zone: &Arc<str>) -> Option<bool> {
        self.zones.filter(|zones| !zones.is_empty()).map(|zones| zones.contains(zone))
    }
}

/// Of which clusters only those are used who are listed: of others or of this one. Of all if none come
/// first, or none of those are ready.
pub(super) fn first<'a, 'b: 'a>(
    mut all: impl Iterator<Item = &'a (L4Address, Listed<'b>)>,
    affinity: Affinity,
) -> Option<bool> {
    let far = match affinity {
        Affinity::None => return None,
        Affinity::Local => false,
        Affinity::Remote => true,
    };
    all.any(|(_, it)| it.serving == EndpointCondition::Ready && it.far == far).then_some(far)
}

/// Whether somebody is of a frontend's family and protocol.
pub(super) fn can_serve(at: L4Address, to: &L4Address) -> bool {
    to.address.is_ipv4() == at.address.is_ipv4() && to.transport == at.transport
}

/// Who is listed for a frontend and not used there: clients who have one stay with it, or those only
/// whose connections would break.
pub(super) fn retained(
    at: L4Address,
    members: &[(L4Address, Listed<'_>)],
    used: &[L4Address],
) -> Vec<(L4Address, BackendState)> {
    let all = members.iter().filter(|(to, _)| can_serve(at, to));
    if all.clone().count() == used.len() || mutated(Mutant::UnreadyCutOff) {
        return Vec::new();
    }
    let used: BTreeSet<_> = used.iter().collect();
    let rest = all.filter(|(to, _)| !used.contains(to));
    let state = |it: &Listed<'_>| match it.serving {
        EndpointCondition::Ready | EndpointCondition::Ending => BackendState::Terminating,
        EndpointCondition::Leaving | EndpointCondition::Unready => BackendState::Maintenance,
    };
    rest.map(|(to, it)| (*to, state(it))).collect()
}

/// Those who are near, if each says whether it is, and there are any.
pub(super) fn near<'a, 'b>(
    all: &[&'a (L4Address, Listed<'b>)],
    is_near: impl Fn(&Listed<'b>) -> Option<bool>,
) -> Option<Vec<&'a (L4Address, Listed<'b>)>> {
    let reported: Option<Vec<_>> = all.iter().map(|(_, it)| is_near(it)).collect();
    let near: Vec<_> =
        all.iter().zip(reported?).filter(|(_, is_near)| *is_near).map(|(it, _)| *it).collect();
    (!near.is_empty() || mutated(Mutant::HintsStarve)).then_some(near)
}

pub(super) fn alike(one: Transport, other: Transport) -> bool {
    one == other || one == Transport::ANY || other == Transport::ANY
}

/// Those who are listed for a port, once for each protocol that is meant, with what is known of each
/// as a backend.
pub(super) fn known<'a>(
    members: Vec<(L4Address, Listed<'a>)>,
    port: &ServicePort,
    backends: &Backends,
) -> impl Iterator<Item = (L4Address, Listed<'a>)> {
    members.into_iter().flat_map(move |(at, it)| {
        each(at, port.transport)
            .map(move |at| (at, Listed { quarantined: backends.is_quarantined(&at), ..it }))
    })
}

/// A place once for each protocol that is meant.
pub(super) fn each(at: L4Address, transport: Transport) -> impl Iterator<Item = L4Address> {
    let any = [Transport::TCP, Transport::UDP, Transport::SCTP];
    let all = if transport == Transport::ANY { any.to_vec() } else { vec![transport] };
    all.into_iter().map(move |transport| L4Address { transport, ..at })
}
