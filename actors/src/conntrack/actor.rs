use std::{cell::RefCell, rc::Rc, time::Duration};

use super::{ConntrackMsg, ConntrackStatus, interval};
use crate::{
    host::{AskError, Behaviour, Cx},
    ports::{Kernel, KernelDone, KernelJob, KernelOp, KernelOutcome, Swept},
};

/// How long the kernel may take for a round.
const PATIENCE: Duration = Duration::from_secs(300);

/// The collector of dead connections.
pub struct Conntrack {
    kernel: Rc<dyn Kernel>,
    fixed: Option<Duration>,
    /// Outlives a crash: whoever said that restore is over says it once.
    kept: Rc<RefCell<Kept>>,
}

struct Kept {
    begun: bool,
    status: ConntrackStatus,
}

impl Conntrack {
    /// Makes each life of the collector. It works at a fixed interval, or with none, or zero, at
    /// one that follows the traffic.
    pub fn factory(
        kernel: Rc<dyn Kernel>,
        fixed: Option<Duration>,
    ) -> impl FnMut() -> Self + 'static {
        let fixed = fixed.filter(|interval| !interval.is_zero());
        let status = ConntrackStatus {
            interval: fixed.unwrap_or(interval::FIRST),
            rounds: 0,
            connections: Swept::default(),
            translations: Swept::default(),
            deleted_total: 0,
            translations_deleted_total: 0,
            last_error: None,
        };
        let kept = Rc::new(RefCell::new(Kept { begun: false, status }));
        move || Self { kernel: Rc::clone(&kernel), fixed, kept: Rc::clone(&kept) }
    }

    fn schedule(&self, cx: &mut Cx<'_, Self>) {
        let interval = self.kept.borrow().status.interval;
        cx.after(interval, ConntrackMsg::Collect);
    }

    fn collect(&self, cx: &mut Cx<'_, Self>) {
        let why = "dead connections to be collected";
        let reply = cx.expect("kernel", PATIENCE, why, ConntrackMsg::Collected);
        self.kernel.submit(KernelJob::new(vec![KernelOp::CollectConntrack]), reply);
    }

    fn collected(&self, done: Result<KernelDone, AskError>) {
        let status = &mut self.kept.borrow_mut().status;
        match found(done) {
            Ok((connections, translations)) => {
                status.rounds += 1;
                (status.connections, status.translations) = (connections, translations);
                status.deleted_total += connections.deleted;
                status.translations_deleted_total += translations.deleted;
                status.last_error = None;
                if self.fixed.is_none() {
                    let Swept { seen, deleted } = connections;
                    status.interval = interval::next(status.interval, seen, deleted);
                }
            }
            Err(error) => {
                tracing::warn!(error, retry_in = ?status.interval, "connections were not collected");
                status.last_error = Some(error);
            }
        }
    }
}

impl Behaviour for Conntrack {
    type Msg = ConntrackMsg;
    type Observed = ConntrackStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if self.kept.borrow().begun {
            self.schedule(cx);
        }
    }

    fn handle(&mut self, msg: ConntrackMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            ConntrackMsg::Begin => {
                if !std::mem::replace(&mut self.kept.borrow_mut().begun, true) {
                    self.schedule(cx);
                }
            }
            ConntrackMsg::Collect => self.collect(cx),
            ConntrackMsg::Collected(done) => {
                self.collected(done);
                self.schedule(cx);
            }
            ConntrackMsg::Show(reply) => {
                let status = self.kept.borrow().status.clone();
                reply.send(status);
            }
        }
    }

    fn observe(&self) -> ConntrackStatus {
        self.kept.borrow().status.clone()
    }
}

/// What was done to connections and to translations, or why nothing was, in words.
fn found(done: Result<KernelDone, AskError>) -> Result<(Swept, Swept), String> {
    let done = done.map_err(|error| error.to_string())?;
    match (done.failed, done.outcomes.first()) {
        (Some((_, error)), _) => Err(error.to_string()),
        (None, Some(&KernelOutcome::Collected { connections, translations })) => {
            Ok((connections, translations))
        }
        (None, other) => Err(format!("the kernel port answered {other:?}")),
    }
}
