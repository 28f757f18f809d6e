//! The actor that has the kernel end sockets of backends that are gone, one round at a time.
//! Rounds cover the network namespaces of all endpoints; a failed round is tried again.

use std::{collections::BTreeSet, rc::Rc, sync::Arc, time::Duration};

use super::{SocketsMsg, SocketsStatus, answers::SocketsAnswer};
use crate::{
    endpoints::{endpoint::EndpointView, supervisor::EndpointsMsg},
    host::{AskError, Behaviour, Cx, Lent, Pauses, Ref, Retry, Survives},
    model::Labels,
    ports::{Kernel, KernelDone, KernelJob, KernelOp, KernelOutcome},
};

/// How long a round may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// When a round that failed is tried again.
const PAUSES: Pauses = Pauses::Fixed(Duration::from_secs(30));

/// Whom the ender of sockets needs.
pub struct SocketsPeers {
    /// The kernel.
    pub kernel: Rc<dyn Kernel>,
    /// Who knows the network namespaces of all endpoints.
    pub endpoints: Ref<EndpointsMsg>,
}

/// The ender of sockets.
pub struct Sockets {
    peers: SocketsPeers,
    /// The round that is under way, or waits for its time.
    round: Retry,
    /// Outlives a crash: that backends went is said once.
    memory: Lent<SocketsStatus>,
}

impl Sockets {
    /// Makes each life of the actor.
    pub fn factory(peers: impl Fn() -> SocketsPeers + 'static) -> impl FnMut() -> Self + 'static {
        let memory = Survives::<SocketsStatus>::default();
        move || Self { peers: peers(), round: Retry::default(), memory: memory.lend() }
    }

    /// Begins a round, unless one is under way: what goes meanwhile is the next one's.
    fn begin(&mut self, cx: &mut Cx<'_, Self>) {
        if self.memory.due && self.round.begin() {
            let list = |reply| EndpointsMsg::List { labels: Labels::default(), reply };
            let why = "whose sockets are to be looked at";
            cx.ask(&self.peers.endpoints, PATIENCE, why, list, SocketsAnswer::Endpoints);
        }
    }

    /// The kernel looks at what is noted of sockets: what it finds is not lost with a life.
    fn look(&mut self, endpoints: &[Arc<EndpointView>], cx: &mut Cx<'_, Self>) {
        // What goes from now on may be missed by this round.
        self.memory.due = false;
        let paths = endpoints.iter().map(|it| it.spec.container_netns_path.clone());
        let namespaces: BTreeSet<_> = paths.filter(|path| !path.is_empty()).collect();
        let reply = cx.expect("kernel", PATIENCE, "sockets to be ended", SocketsAnswer::Ended);
        self.peers.kernel.submit(KernelJob::new(vec![KernelOp::EndSockets { namespaces }]), reply);
    }

    fn failed(&mut self, error: String, cx: &mut Cx<'_, Self>) {
        let wait = self.round.failed(PAUSES, cx, SocketsAnswer::Retry);
        tracing::warn!(error, retry_in = ?wait, "sockets of backends that are gone were not ended");
        let memory = &mut *self.memory;
        (memory.due, memory.last_error) = (true, Some(error));
    }

    fn ended(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        match ended(done) {
            Ok(ended) => {
                let memory = &mut *self.memory;
                memory.rounds += 1;
                memory.ended_total += ended;
                memory.last_error = None;
                self.round.succeeded();
            }
            Err(error) => self.failed(error, cx),
        }
    }
}

impl Behaviour for Sockets {
    type Msg = SocketsMsg;
    type Answer = SocketsAnswer;
    type Observed = SocketsStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.begin(cx);
    }

    fn handle(&mut self, msg: SocketsMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            SocketsMsg::BackendsGone => self.memory.due = true,
        }
        self.begin(cx);
    }

    fn answered(&mut self, answer: SocketsAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            SocketsAnswer::Endpoints(Ok(endpoints)) => self.look(&endpoints, cx),
            SocketsAnswer::Endpoints(Err(error)) => self.failed(error.to_string(), cx),
            SocketsAnswer::Ended(done) => self.ended(done, cx),
            SocketsAnswer::Retry => self.round.over(),
        }
        self.begin(cx);
    }

    fn observe(&self) -> SocketsStatus {
        self.memory.clone()
    }
}

/// How many a round ended, or why it did not take place, in words.
fn ended(done: Result<KernelDone, AskError>) -> Result<u64, String> {
    KernelDone::of_one(done, |outcome| match outcome {
        KernelOutcome::Ended(ended) => Some(ended),
        _ => None,
    })
}
