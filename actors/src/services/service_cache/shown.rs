//! Frontends and backends, for people and for REST.

use std::collections::BTreeMap;

use super::{
    BackendView, ServiceView,
    backends::Backends,
    table::{FrontendEntry, FrontendTable},
};
use crate::{model::Frontend, ports::BackendState};

/// All frontends.
pub(super) fn services(table: &FrontendTable, backends: &Backends) -> Vec<ServiceView> {
    let places: BTreeMap<_, _> = backends.iter().map(|(at, id, state)| (id, (at, state))).collect();
    let view = |(frontend, entry): (&Frontend, &FrontendEntry)| {
        let shape = entry.desired()?;
        let backends = shape.backends.iter().map(|id| match places.get(id) {
            Some((at, state)) => (*id, Some(*at), *state),
            None => (*id, None, BackendState::Active),
        });
        Some(ServiceView {
            id: entry.id,
            frontend: *frontend,
            service: entry.owner.as_ref().map(ToString::to_string),
            flags: shape.flags,
            affinity: shape.word & 0xff_ffff,
            backends: backends.collect(),
            realised: entry.is_realised(),
        })
    };
    table.iter().filter_map(view).collect()
}

/// All backends.
pub(super) fn backends(table: &FrontendTable, backends: &Backends) -> Vec<BackendView> {
    let owner = |frontend| table.get(frontend).and_then(|entry| entry.owner.as_ref());
    let left = |id| backends.leaving.from(id).filter_map(owner).map(ToString::to_string).collect();
    let all = backends.iter();
    all.map(|(at, id, state)| BackendView { id, at, state, left: left(id) }).collect()
}
