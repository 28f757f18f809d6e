//! How filters become links once an endpoint is built, while it already serves.

use std::{sync::Arc, time::Duration};

use super::{Endpoint, Realised, answers::EndpointAnswer};
use crate::{
    host::{AskError, Cx},
    ports::{KernelDone, KernelJob, KernelOp},
};

/// How long the kernel may take: it makes the links of a whole node one after the other.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long after an endpoint was created its links are made. Making one holds the kernel's lock of networks
/// until no processor runs what was there before: a tenth of a second for an endpoint, in which nobody makes an
/// interface. A pod seldom comes alone.
pub const SETTLE_AFTER: Duration = Duration::from_secs(5);

impl Endpoint {
    /// Has links made once those who make pods have had their time.
    pub(super) fn settle_later(&mut self, cx: &mut Cx<'_, Self>) {
        if self.lacks_links() {
            cx.after(SETTLE_AFTER, EndpointAnswer::SettleNow);
        }
    }

    /// The time has come. A build that is under way has them made at its end.
    pub(super) fn settle_now(&mut self, cx: &mut Cx<'_, Self>) {
        if self.phase.is_idle() && !self.datapath.busy {
            self.settle(cx);
        }
    }

    fn lacks_links(&self) -> bool {
        self.datapath.known.as_ref().is_some_and(|known| known.attached() && !known.settled())
    }

    /// Has links made, if its programs are attached by filters and nobody is at it.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.lacks_links() || std::mem::replace(&mut self.datapath.settling, true) {
            return;
        }
        let ops = vec![self.settle_op()];
        let why = "links in place of its filters";
        let reply = cx.expect("kernel", PATIENCE, why, EndpointAnswer::Settled);
        self.peers.kernel.submit(KernelJob::new(ops), reply);
    }

    pub(super) fn settled(&mut self, cx: &mut Cx<'_, Self>, answer: Result<KernelDone, AskError>) {
        self.datapath.settling = false;
        self.datapath.worked_at = cx.now();
        if self.phase.is_going() {
            return self.tear_down_settled(cx);
        }
        let error = match answer {
            Ok(KernelDone { failed: None, .. }) => {
                let op = self.settle_op();
                if let Some(known) = &mut self.datapath.known {
                    known.done(&op, None);
                    let attachment = known.attachment;
                    self.realised = Arc::new(Realised { attachment, ..(*self.realised).clone() });
                    self.publish(cx);
                }
                return;
            }
            Ok(KernelDone { failed: Some((_, error)), .. }) => error.to_string(),
            Err(error) => error.to_string(),
        };
        // The next look at the kernel has it tried again.
        tracing::warn!(endpoint = %self.id, error, "filters stay in place of links");
    }

    fn settle_op(&self) -> KernelOp {
        KernelOp::Settle { endpoint: self.id, ifindex: self.record.spec.ifindex }
    }
}
