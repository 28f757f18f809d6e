//! What may happen to a store, the node's or another cluster's.

use volvox_actors_simulated::testing::{KvLink, MemoryKvStore};

use crate::history::events::StoreEvent;

/// Something happens to a store.
pub(super) fn affect(store: &MemoryKvStore, what: StoreEvent) {
    match what {
        StoreEvent::Down => store.set_link(KvLink::Down),
        StoreEvent::Silent => store.set_link(KvLink::Silent),
        StoreEvent::Up => store.set_link(KvLink::Up),
        StoreEvent::Compacted => store.compact(),
        StoreEvent::Expired => store.expire(),
        StoreEvent::HungUp => store.hang_up(),
        StoreEvent::Lost => store.lose_answers(),
        StoreEvent::Restored => store.rewind(),
    }
}
