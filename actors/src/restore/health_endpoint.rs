//! What becomes of an earlier life's health endpoint. It comes back with all that it had, if it is wanted and
//! its place is still there; it is never taken for a pod's. Else it goes, and the owner of the health endpoint
//! makes another one: that is no loss of anybody's.

use std::collections::BTreeSet;

use super::RestorePlan;
use crate::{
    model::{EndpointId, EndpointKind, IdentityId},
    ports::{FsOp, KernelSnapshot},
    state_directory::ScannedDirectory,
};

impl RestorePlan {
    /// Leaves health endpoints out that do not come back, or are not `wanted`: what is left of them is nobody's.
    pub(super) fn settle_health(
        &mut self,
        wanted: bool,
        disk: &mut ScannedDirectory,
        kernel: &KernelSnapshot,
    ) {
        let of_health = |it: &EndpointId| {
            kernel.endpoints.get(it).is_some_and(|row| row.identity == IdentityId::HEALTH)
        };
        let records = disk.records.iter().map(|found| &found.record);
        let recorded: BTreeSet<EndpointId> =
            records.filter(|it| it.kind() == EndpointKind::Health).map(|it| it.id).collect();
        self.candidates.retain(|_, it| wanted || !it.endpoint.spec.is_health());
        let Self { candidates, failed, disputed, refuted, .. } = self;
        failed.retain(|id, _| !recorded.contains(id) && !of_health(id));
        for id in recorded.into_iter().filter(|id| !candidates.contains_key(id)) {
            disputed.remove(&id);
            refuted.remove(&id);
            let dir = id.to_string();
            disk.tidying.entry(id).or_default().push(FsOp::Remove(dir.clone().into()));
            disk.health.push(dir);
        }
    }
}
