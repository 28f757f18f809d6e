use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use super::BuildQueueMsg;
use crate::{host::Ref, model::EndpointId};

/// The permits of one queue and who holds them. Outlives a crash of the queue: what is being
/// built goes on, and counts.
#[derive(Clone, Debug)]
pub(super) struct Permits(Rc<RefCell<Held>>);

#[derive(Debug)]
struct Held {
    permits: usize,
    out: BTreeMap<u64, EndpointId>,
    next: u64,
}

impl Permits {
    pub(super) fn new(permits: usize) -> Self {
        Self(Rc::new(RefCell::new(Held { permits, out: BTreeMap::new(), next: 0 })))
    }

    /// A permit for that endpoint, if one is left.
    pub(super) fn take(&self, endpoint: EndpointId, queue: &Ref<BuildQueueMsg>) -> Option<Permit> {
        let mut held = self.0.borrow_mut();
        if held.out.len() >= held.permits {
            return None;
        }
        held.next += 1;
        let number = held.next;
        held.out.insert(number, endpoint);
        Some(Permit { number, permits: self.clone(), queue: queue.clone() })
    }

    pub(super) fn available(&self) -> bool {
        let held = self.0.borrow();
        held.out.len() < held.permits
    }

    pub(super) fn total(&self) -> usize {
        self.0.borrow().permits
    }

    /// Who builds, longest first.
    pub(super) fn holders(&self) -> Vec<EndpointId> {
        self.0.borrow().out.values().copied().collect()
    }
}

/// The right to build, given back when it is dropped: also when its holder crashes.
pub struct Permit {
    number: u64,
    permits: Permits,
    queue: Ref<BuildQueueMsg>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.0.borrow_mut().out.remove(&self.number);
        // A full mailbox holds a message, and after any message the queue looks who is next.
        let _ = self.queue.tell(BuildQueueMsg::Released);
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({})", self.number)
    }
}
