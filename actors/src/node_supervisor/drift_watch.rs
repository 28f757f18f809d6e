//! Who hears of rows that drifted.

use std::time::Duration;

use crate::{
    host::{Late, Ref},
    model::drift::DriftWatch,
    node::auditor::AuditorMsg,
};

/// Owners compare the kernel with what they wrote every so often, and the auditor counts what they find.
pub(super) fn watch(every: Duration) -> (Late<Ref<AuditorMsg>>, DriftWatch) {
    let auditor = Late::<Ref<AuditorMsg>>::default();
    let late = auditor.clone();
    let watch = DriftWatch::new(every, move |found| {
        if let Err(refused) = late.get().tell(AuditorMsg::Drifted(found)) {
            tracing::warn!(%refused, "rows that drifted are not counted");
        }
    });
    (auditor, watch)
}
