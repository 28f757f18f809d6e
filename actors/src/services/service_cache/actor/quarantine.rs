//! Quarantine of backends on request: whoever asks is answered when the kernel has it.

use crate::{
    model::L4Address,
    services::service_cache::{
        UnknownBackend,
        state::{ServiceCacheState, Services, WrittenReply},
    },
};

impl Services {
    pub(super) fn quarantine(&mut self, at: L4Address, desired: bool, reply: WrittenReply) {
        if self.state.quarantine(at, desired) {
            self.askers.push(reply);
        } else {
            reply.send(Err(UnknownBackend(at)));
        }
    }
}

impl ServiceCacheState {
    /// False if there is no such backend. What no source has named yet is changed as well.
    fn quarantine(&mut self, at: L4Address, desired: bool) -> bool {
        let was = self.backends.is_quarantined(&at);
        let Some(id) = self.backends.quarantine(at, desired) else { return false };
        if was != desired {
            let what = if desired { "quarantined" } else { "released" };
            tracing::info!(backend = %at, "{what}: asked for by the API");
        }
        // Also where nothing is new: what an earlier run left half done is mended.
        self.table.quarantine(id, self.backends.quarantined());
        let listing = self.claims.listing(&at).chain(self.reported.listing(&at.address));
        self.changed.extend(listing.cloned());
        true
    }
}
