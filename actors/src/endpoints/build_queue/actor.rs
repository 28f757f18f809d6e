//! The actor that gives each free permit to the next in line. `queue` has the order, `permits` the
//! count.

use super::{
    BuildQueueMsg, Queued,
    answers::BuildQueueAnswer,
    permits::{OVERDUE, Permits},
    queue::PermitQueue,
};
use crate::host::{Behaviour, Cx, Retry};

/// Hands out permits to build.
///
/// Give its mailbox room for every endpoint: all may ask at once.
pub struct BuildQueue {
    permits: Permits,
    queue: PermitQueue,
    /// When it is looked whether somebody builds for too long.
    looks: Retry,
}

impl BuildQueue {
    /// Makes each life of a queue with so many permits, at least one.
    pub fn factory(permits: usize) -> impl FnMut() -> Self + 'static {
        let permits = Permits::new(permits.max(1));
        move || Self {
            permits: permits.clone(),
            queue: PermitQueue::default(),
            looks: Retry::default(),
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_, Self>) {
        let now = cx.now();
        while self.permits.available(now) {
            let Some((endpoint, reply)) = self.queue.next() else { return };
            if let Some(permit) = self.permits.take(endpoint, cx.home(), now) {
                reply.send(permit);
            }
        }
        if self.queue.waiting().next().is_some() {
            self.looks.pause_once(cx, OVERDUE, BuildQueueAnswer::Overdue);
        }
    }

    fn show(&self) -> Queued {
        Queued {
            permits: self.permits.total(),
            building: self.permits.holders(),
            waiting: self.queue.waiting().collect(),
        }
    }
}

impl Behaviour for BuildQueue {
    type Msg = BuildQueueMsg;
    type Answer = BuildQueueAnswer;
    type Observed = Queued;

    fn handle(&mut self, msg: BuildQueueMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            BuildQueueMsg::Acquire { endpoint, class, reply } => {
                self.queue.join(endpoint, class, reply);
            }
            BuildQueueMsg::Show(reply) => reply.send(self.show()),
        }
        self.serve(cx);
    }

    fn answered(&mut self, answer: BuildQueueAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            BuildQueueAnswer::Released => {}
            BuildQueueAnswer::Overdue => self.looks.over(),
        }
        self.serve(cx);
    }

    fn observe(&self) -> Queued {
        self.show()
    }
}
