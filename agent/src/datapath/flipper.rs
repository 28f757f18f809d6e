//! Puts built policy maps into their slots, and returns as soon as all are in force. Threads of its
//! own wait for the kernel's grace periods; the maps themselves are built elsewhere.

use std::{io, sync::Arc, thread};

use crossbeam_channel as queue;
use volvox_actors::ports::KernelError;

use super::{
    Datapath,
    policies::{SlotChange, absent, refused_slot},
};
use crate::ports::WorkersError;

/// Batches that may wait for their grace periods at once.
const WAITING: usize = 4;

/// Puts policy maps into slots, without waiting for what the kernel waits for.
///
/// A map that is put into a slot is in force at once, but the call returns only after a grace
/// period, 8 to 16 ms later, when no program can still use the map that was there before. Here
/// nobody needs that: a slot is written while no configuration row names it. So the call is left
/// to a thread of its own, and the slot read until it shows the new map.
pub(super) struct Flipper {
    datapath: Arc<Datapath>,
    batches: queue::Sender<Batch>,
}

/// Slots to be written, and where to say what came of it.
struct Batch {
    changes: Vec<SlotChange>,
    done: queue::Sender<Vec<(SlotChange, Result<(), KernelError>)>>,
}

impl Flipper {
    /// Starts the threads that wait; they end with this.
    pub(super) fn start(datapath: &Arc<Datapath>) -> Result<Self, WorkersError> {
        // No room: who hands over waits until a thread is free, and more gathers meanwhile.
        let (batches, handed_over) = queue::bounded::<Batch>(0);
        for number in 0..WAITING {
            let (datapath, handed_over) = (Arc::clone(datapath), handed_over.clone());
            let name = format!("kernel-slots-{number}");
            let work = move || {
                while let Ok(Batch { changes, done }) = handed_over.recv() {
                    // Nobody listens once the slots showed what they were to show.
                    let _ = done.send(datapath.policies().write_slots(changes));
                }
            };
            volvox_system::threads::spawn(&name, work)
                .map_err(|cause| WorkersError { name, cause })?;
        }
        Ok(Self { datapath: Arc::clone(datapath), batches })
    }

    /// Puts the maps that were built for these slots into them; all are in force on return.
    pub(super) fn flip(&self, slots: &[u32]) -> Vec<Result<(), KernelError>> {
        let policies = self.datapath.policies();
        let mut results: Vec<_> = slots.iter().map(|_| Ok(())).collect();
        let mut changes = Vec::with_capacity(slots.len());
        let mut places = Vec::with_capacity(slots.len());
        for (place, slot) in slots.iter().enumerate() {
            match policies.take_built(*slot) {
                Some(map) => {
                    places.push(place);
                    changes.push((*slot, Some(map)));
                }
                None => results[place] = Err(absent("find the policy built for", *slot)),
            }
        }
        for (place, (change, result)) in places.into_iter().zip(self.write(changes)) {
            if result.is_err() {
                // What was refused may be tried again.
                policies.keep_built(change);
            }
            results[place] = result;
        }
        results
    }

    /// Writes slots, and returns as soon as each shows its map. One that is refused never does:
    /// then the answer is waited for.
    fn write(&self, changes: Vec<SlotChange>) -> Vec<(SlotChange, Result<(), KernelError>)> {
        let policies = self.datapath.policies();
        let expected: Vec<_> = changes
            .iter()
            .filter_map(|(slot, map)| Some((*slot, map.as_ref()?.info().id)))
            .collect();
        let (done, outcome) = queue::bounded(1);
        if let Err(queue::SendError(batch)) = self.batches.send(Batch { changes, done }) {
            return policies.write_slots(batch.changes);
        }
        let mut shown = 0;
        while shown < expected.len() {
            if policies.shows(expected[shown]) {
                shown += 1;
                continue;
            }
            match outcome.try_recv() {
                Ok(results) => return results,
                Err(queue::TryRecvError::Empty) => thread::yield_now(),
                Err(queue::TryRecvError::Disconnected) => {
                    let lost = io::Error::other("the thread that wrote it panicked");
                    let reported = |(slot, _)| ((slot, None), Err(refused_slot(slot, &lost)));
                    return expected.into_iter().map(reported).collect();
                }
            }
        }
        expected.into_iter().map(|(slot, _)| ((slot, None), Ok(()))).collect()
    }
}
