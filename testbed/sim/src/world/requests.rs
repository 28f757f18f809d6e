//! What whoever is outside asked of the agent, and has no answer to.

use std::{collections::BTreeSet, sync::Arc};

use volvox_actors_simulated::{
    endpoints::{
        endpoint::{EndpointView, PatchError},
        supervisor::DeleteError,
    },
    host::Answer,
    model::EndpointId,
    services::service_cache::UnknownBackend,
};

/// What a deletion is answered.
pub(super) type Deleted = Result<u32, DeleteError>;
/// What a regeneration is answered.
pub(super) type Regenerated = Result<Arc<EndpointView>, PatchError>;
/// A backend, whether it is to be kept from new connections, and what that is answered.
pub(super) type QuarantineRequest = (u8, bool, Answer<Result<(), UnknownBackend>>);

/// Requests whose answers have not come.
#[derive(Default)]
pub(crate) struct Requests {
    /// Deletions that the next agent is asked for.
    pub(super) queued: BTreeSet<String>,
    pub(super) deletions: Vec<(String, Answer<Deleted>)>,
    /// Endpoint numbers that were given back in this life.
    pub(super) freed: BTreeSet<EndpointId>,
    /// With how often programs had been loaded before.
    pub(super) regenerations: Vec<(u64, Answer<Regenerated>)>,
    /// Oldest first.
    pub(super) quarantine: Vec<QuarantineRequest>,
}

impl Requests {
    /// Whether somebody still waits for an answer.
    pub(crate) fn are_open(&self) -> bool {
        let open = [
            self.deletions.len(),
            self.queued.len(),
            self.regenerations.len(),
            self.quarantine.len(),
        ];
        open.iter().any(|count| *count > 0)
    }
}
