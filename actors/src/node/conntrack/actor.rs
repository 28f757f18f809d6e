//! The actor that asks the kernel to collect dead connections. `rounds` says when the next round is
//! due, `interval` how long the time between two is.

use std::{collections::BTreeSet, rc::Rc, time::Duration};

use super::{
    ConntrackMsg, ConntrackStatus, FullSignals, FullTable, answers::ConntrackAnswer, interval,
    rounds::Rounds,
};
use crate::{
    host::{AskError, Behaviour, Cx, Lent, Ref, Survives, Time, TimerId},
    model::{BackendId, Families},
    ports::{Kernel, KernelDone, KernelJob, KernelOp, KernelOutcome, Swept},
    services::service_cache::{LeavingBackend, ServicesMsg},
};

/// How long the kernel may take for a round.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long who asks for backends may take to say for which: the round goes on without.
const ASK_PATIENCE: Duration = Duration::from_secs(10);

/// The collector of dead connections.
pub struct Conntrack {
    kernel: Rc<dyn Kernel>,
    fixed: Option<Duration>,
    /// Outlives a crash: whoever said something says it once.
    state: Lent<ConntrackState>,
    timer: Option<TimerId>,
}

struct ConntrackState {
    rounds: Rounds,
    status: ConntrackStatus,
    /// Who asks for backends that no connection has.
    services: Option<Ref<ServicesMsg>>,
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
            rounds_by_signal: 0,
            translations_full: FullSignals::default(),
            connections_full: FullSignals::default(),
            connections: Swept::default(),
            translations: Swept::default(),
            deleted_total: 0,
            translations_deleted_total: 0,
            last_error: None,
        };
        let state =
            Survives::new(ConntrackState { rounds: Rounds::default(), status, services: None });
        move || Self { kernel: Rc::clone(&kernel), fixed, state: state.lend(), timer: None }
    }

    /// Sets the timer for the next round, which may be due at another time than before.
    fn schedule(&mut self, cx: &mut Cx<'_, Self>) {
        if let Some(timer) = self.timer.take() {
            cx.cancel(timer);
        }
        let state = &*self.state;
        if let Some(due) = state.rounds.next(state.status.interval, cx.now()) {
            self.timer = Some(cx.after(due.since(cx.now()), ConntrackAnswer::Collect));
        }
    }

    fn note_full(&mut self, table: FullTable, families: Families) {
        let state = &mut *self.state;
        let full = match table {
            FullTable::Translations => &mut state.status.translations_full,
            FullTable::Connections => &mut state.status.connections_full,
        };
        let is_new = state.rounds.note_full(families);
        for (signals, is_told) in [(&mut full.ipv4, families.ipv4), (&mut full.ipv6, families.ipv6)]
        {
            match is_new {
                true => signals.received += u64::from(is_told),
                false => signals.coalesced += u64::from(is_told),
            }
        }
    }

    fn collect(&mut self, cx: &mut Cx<'_, Self>) {
        let state = &mut *self.state;
        let Some(round) = state.rounds.start(state.status.interval, cx.now()) else { return };
        state.status.rounds_by_signal += u64::from(round.by_signal);
        let Some(services) = &state.services else { return self.sweep(Vec::new(), cx) };
        // Before the sweep begins: who leaves later may have connections where it was already.
        let why = "backends that connections may have still";
        cx.ask(services, ASK_PATIENCE, why, ServicesMsg::Leaving, ConntrackAnswer::Leaving);
    }

    /// Has the kernel sweep; whoever is not known to have left is not looked for.
    fn sweep(&mut self, mut left: Vec<LeavingBackend>, cx: &mut Cx<'_, Self>) {
        let Some(families) = self.state.rounds.families() else { return };
        let Families { ipv4, ipv6 } = families;
        left.retain(|it| if it.is_ipv4 { ipv4 } else { ipv6 });
        let backends = left.iter().map(|it| it.id).collect();
        let why = "dead connections to be collected";
        let answer = move |done| ConntrackAnswer::Collected(left, done);
        let reply = cx.expect("kernel", PATIENCE, why, answer);
        let op = KernelOp::CollectConntrack { families, backends };
        self.kernel.submit(KernelJob::new(vec![op]), reply);
    }

    /// What a round over one family finds says nothing of when the next one over both is due.
    fn collected(
        &mut self,
        mut left: Vec<LeavingBackend>,
        done: Result<KernelDone, AskError>,
        now: Time,
    ) {
        let ConntrackState { rounds, status, services } = &mut *self.state;
        let mut freed = false;
        match found(done) {
            Ok(Collection { connections, translations, fill, used }) => {
                left.retain(|it| !used.contains(&it.id));
                if let Some(services) = services.as_ref().filter(|_| !left.is_empty()) {
                    // If it has too much to do it hears the same of the next round.
                    let _ = services.tell(ServicesMsg::Unused(left));
                }
                status.rounds += 1;
                status.deleted_total += connections.deleted;
                status.translations_deleted_total += translations.deleted;
                status.last_error = None;
                freed = [connections, translations]
                    .iter()
                    .any(|swept| interval::is_worth_it(swept.seen, swept.deleted));
                if rounds.is_over_all() {
                    (status.connections, status.translations) = (connections, translations);
                    if self.fixed.is_none() {
                        let Swept { seen, deleted } = connections;
                        status.interval = interval::next(status.interval, seen, deleted, fill);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(error, retry_in = ?status.interval, "connections were not collected");
                status.last_error = Some(error);
            }
        }
        rounds.end(freed, now);
    }
}

impl Behaviour for Conntrack {
    type Msg = ConntrackMsg;
    type Answer = ConntrackAnswer;
    type Observed = ConntrackStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.rounds.lose(cx.now());
        self.schedule(cx);
    }

    fn handle(&mut self, msg: ConntrackMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            ConntrackMsg::Begin => {
                self.state.rounds.begin(cx.now());
                self.schedule(cx);
            }
            ConntrackMsg::Full { table, families } => {
                self.note_full(table, families);
                self.schedule(cx);
            }
            ConntrackMsg::LookFor(services) => self.state.services = Some(services),
            ConntrackMsg::Show(reply) => {
                let status = self.state.status.clone();
                reply.send(status);
            }
        }
    }

    fn answered(&mut self, answer: ConntrackAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            ConntrackAnswer::Collect => self.collect(cx),
            ConntrackAnswer::Leaving(answer) => {
                self.sweep(answer.unwrap_or_default(), cx);
            }
            ConntrackAnswer::Collected(left, done) => {
                self.collected(left, done, cx.now());
                self.schedule(cx);
            }
        }
    }

    fn observe(&self) -> ConntrackStatus {
        self.state.status.clone()
    }
}

/// What a round found.
struct Collection {
    connections: Swept,
    translations: Swept,
    /// How full their tables are.
    fill: u8,
    /// Who of the backends that were looked for has connections.
    used: BTreeSet<BackendId>,
}

/// What was done, or why nothing was, in words.
fn found(done: Result<KernelDone, AskError>) -> Result<Collection, String> {
    KernelDone::of_one(done, |outcome| match outcome {
        KernelOutcome::Collected { connections, translations, fill, used } => {
            Some(Collection { connections, translations, fill, used })
        }
        _ => None,
    })
}
