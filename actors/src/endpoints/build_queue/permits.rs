//! Counts build permits: who holds one, when it comes back, and when a slow build counts no longer.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use super::answers::BuildQueueAnswer;
use crate::{
    host::{Home, Time, is_crash},
    model::EndpointId,
    mutants::{Mutant, mutated},
};

/// Who builds for longer than that waits for something that hangs rather than for a processor:
/// there is another permit in place of its own.
pub(super) const OVERDUE: Duration = Duration::from_secs(1);
/// At most so many times the permits that there are may be out in place of others.
pub(super) const SPARE: usize = 8;

/// The permits of one queue and who holds them. Outlives a crash of the queue: what is being
/// built goes on, and counts.
#[derive(Clone, Debug)]
pub(super) struct Permits(Rc<RefCell<HeldPermit>>);

#[derive(Debug)]
struct HeldPermit {
    permits: usize,
    out: BTreeMap<u64, (EndpointId, Time)>,
    next: u64,
}

impl Permits {
    pub(super) fn new(permits: usize) -> Self {
        Self(Rc::new(RefCell::new(HeldPermit { permits, out: BTreeMap::new(), next: 0 })))
    }

    /// A permit for that endpoint, if one is left.
    pub(super) fn take(
        &self,
        endpoint: EndpointId,
        queue: &Home<BuildQueueAnswer>,
        now: Time,
    ) -> Option<Permit> {
        let mut held = self.0.borrow_mut();
        if !held.has_one(now) {
            return None;
        }
        held.next += 1;
        let number = held.next;
        held.out.insert(number, (endpoint, now));
        Some(Permit { number, permits: self.clone(), queue: queue.clone() })
    }

    pub(super) fn available(&self, now: Time) -> bool {
        self.0.borrow().has_one(now)
    }

    pub(super) fn total(&self) -> usize {
        self.0.borrow().permits
    }

    /// Who builds, longest first.
    pub(super) fn holders(&self) -> Vec<EndpointId> {
        self.0.borrow().out.values().map(|(endpoint, _)| *endpoint).collect()
    }
}

impl HeldPermit {
    fn has_one(&self, now: Time) -> bool {
        let overdue = self.out.values().filter(|(_, since)| now.since(*since) >= OVERDUE).count();
        self.out.len() < self.permits + overdue.min(self.permits * SPARE)
    }
}

/// The right to build, given back when it is dropped: also when its holder crashes.
pub struct Permit {
    number: u64,
    permits: Permits,
    queue: Home<BuildQueueAnswer>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if mutated(Mutant::PermitLeaked) && is_crash() {
            return;
        }
        self.permits.0.borrow_mut().out.remove(&self.number);
        // A full mailbox holds a message, and after any message the queue looks who is next.
        let _ = self.queue.tell(BuildQueueAnswer::Released);
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({})", self.number)
    }
}
