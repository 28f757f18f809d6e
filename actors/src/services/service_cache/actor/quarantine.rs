//! Quarantine of backends on request: whoever asks is answered when the kernel has it.

use super::{Kept, Services};
use crate::{host::Reply, model::L4Address, services::service_cache::messages::UnknownBackend};

/// Who wait for the kernel to keep backends from new connections, or not any more.
#[derive(Default)]
pub(in crate::services::service_cache) struct Asked {
    /// The batch under way does not hold what they asked for,
    before: Vec<Answer>,
    /// or does.
    under_way: Vec<Answer>,
}

type Answer = Reply<Result<(), UnknownBackend>>;

impl Asked {
    /// Somebody waits for all that is due now.
    pub(in crate::services::service_cache) fn when_written(&mut self, answer: Answer) {
        self.before.push(answer);
    }

    /// A batch begins that holds all that was due, or some of it.
    pub(super) fn begin(&mut self, is_all: bool) {
        if is_all {
            self.under_way.append(&mut self.before);
        }
    }

    /// The batch ended.
    pub(super) fn end(&mut self, is_done: bool) {
        match is_done {
            true => self.answer(),
            false => self.before.append(&mut self.under_way),
        }
    }

    /// Nothing is to be written.
    pub(super) fn rest(&mut self) {
        self.under_way.append(&mut self.before);
        self.answer();
    }

    fn answer(&mut self) {
        self.under_way.drain(..).for_each(|reply| reply.send(Ok(())));
    }
}

impl Services {
    pub(super) fn quarantine(&mut self, at: L4Address, wanted: bool, reply: Answer) {
        if self.kept.quarantine(at, wanted) {
            self.asked.before.push(reply);
        } else {
            reply.send(Err(UnknownBackend(at)));
        }
    }
}

impl Kept {
    /// False if there is no such backend. What no source has named yet is changed as well.
    fn quarantine(&mut self, at: L4Address, wanted: bool) -> bool {
        let was = self.backends.is_quarantined(&at);
        let Some(id) = self.backends.quarantine(at, wanted) else { return false };
        if was != wanted {
            let what = if wanted { "quarantined" } else { "released" };
            tracing::info!(backend = %at, "{what}: asked for by the API");
        }
        // Also where nothing is new: what an earlier life left half done is mended.
        self.table.quarantine(id, self.backends.quarantined());
        let listing = self.claims.listing(&at).chain(self.book.listing(&at.address));
        self.changed.extend(listing.cloned());
        true
    }
}
