//! The restore supervisor: it takes a restart through its phases and owns the report.
//! It asks other supervisors to do the work, and goes on with the same phase after a crash.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{
    answers::RestoreAnswer,
    messages::{MappingSource, RestoreInput, RestoreMsg},
    plan::{RestorePlan, carried, failed, plan},
    remains::remains,
    report::{EndpointReport, PhaseReport, RestoreOutcome, RestoreReport},
    state::{PATIENCE, Restore, RestorePhase, RestoreState},
};
use crate::{
    endpoints::{
        endpoint::HEALTH_OWNER,
        ipam::{IpamError, IpamMsg},
        supervisor::EndpointsMsg,
    },
    host::{AskError, Behaviour, Cx, Reply},
    model::EndpointId,
    ports::{FsOp, HOST_IFINDEX},
    state_directory::ScannedDirectory,
};

impl Restore {
    fn begin(&mut self, cx: &mut Cx<'_, Self>, mut input: RestoreInput, reply: Reply<()>) {
        self.state.phase_began = cx.now();
        let phases = input.phases.into_iter();
        self.state.report.phases =
            phases.map(|(name, seconds)| PhaseReport { name, seconds }).collect();
        self.state.report.problems = input.problems;
        self.state.report.of_another.clone_from(&input.disk.of_another);
        self.state.opened = Some(reply);
        self.state.enabled = input.enabled;
        self.state.dormant = if input.host { BTreeSet::new() } else { input.disk.lay_host_down() };
        self.state.plan = plan(&input.disk, &input.kernel, &input.identities);
        if input.enabled {
            self.state.plan.set_options(&input.options, input.keep_options);
        } else {
            self.state.plan = RestorePlan::default();
        }
        if !input.host {
            self.state.plan.leave_host_out();
        }
        if input.enabled {
            let wanted = input.health.is_some();
            self.state.plan.settle_health(wanted, &mut input.disk, &input.kernel);
        }
        self.state.own.health = input.health.unwrap_or_default();
        // What could not be read may be somebody's: nobody else gets the number.
        let unread = input.disk.unread.keys().copied();
        let RestoreState { plan, dormant, .. } = &mut *self.state;
        dormant.extend(unread.filter(|id| !plan.candidates.contains_key(id)));
        let unread = input.disk.unread.values().chain(&input.disk.unlisted);
        self.state.report.problems.extend(unread.map(|error| {
            format!(
                "{error}; what the kernel says is used meanwhile, and nothing is written over it"
            )
        }));
        self.state.host = self.state.plan.host();
        // One that is left as it is has its place.
        let is_left = !input.enabled
            && (input.disk.has_host() || input.kernel.config.contains_key(&HOST_IFINDEX));
        self.state.wants_host = input.host && !is_left;
        self.state.carried = carried(&self.state.plan, &input.kernel, &input.identities);
        self.state.remains = remains(&input.disk, &input.kernel, &self.state.plan);
        if input.enabled {
            // The plan has all that is needed of the records, which are most of what was read.
            self.state.disk = ScannedDirectory { records: Vec::new(), ..input.disk };
        } else if !self.state.remains.is_empty() {
            let left = self.state.remains.len();
            self.state.report.left = left;
            self.state.report.problems.push(format!(
                "restoring is switched off (--restore=false): {left} endpoints of the life before \
                 are not this agent's, and nothing reaches them from this node; their numbers and \
                 addresses are not used; to have them back, start with --restore=true"
            ));
        }
        self.state.report.quarantined = self
            .state
            .disk
            .quarantined
            .iter()
            .map(|put| format!("{}: {}", put.dir, put.reason))
            .collect();
        for (id, reason) in std::mem::take(&mut self.state.plan.refuted) {
            let plan = self.state.disk.put_aside(&id.to_string(), &reason);
            self.state.disk.tidying.entry(id).or_default().extend(plan);
            self.state.report.quarantined.push(format!("{id}: {reason}"));
        }
        self.state.kernel = input.kernel;
        self.state.own.router = input.router;
        self.end_phase(cx, "plan");
        self.tidy(cx);
    }

    /// Puts the state directory in order, before anything is written there: what is torn is put
    /// aside, builds that never finished go.
    fn tidy(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.phase = RestorePhase::Tidying;
        self.state.cleanup.untidied = std::mem::take(&mut self.state.disk.tidying);
        self.write(cx, self.state.cleanup.untidied.clone());
        if self.state.cleanup.writing == 0 {
            self.reserve(cx);
        }
    }

    pub(super) fn write(&mut self, cx: &mut Cx<'_, Self>, plans: BTreeMap<EndpointId, Vec<FsOp>>) {
        self.state.cleanup.writing = plans.len();
        for (id, ops) in plans {
            let then = move |answer| RestoreAnswer::Tidied(id, answer);
            let reply = cx.expect("disk", PATIENCE, "the state directory", then);
            self.peers.disk.submit(ops, reply);
        }
    }

    pub(super) fn reserve(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.phase = RestorePhase::Reserving;
        // A crash may have cut off what was awaited.
        self.state.cleanup.writing = 0;
        let living = self.state.plan.endpoints().map(|endpoint| {
            let owner = endpoint.spec.owner(endpoint.id);
            (endpoint.id, owner, endpoint.spec.addresses.iter().collect::<BTreeSet<_>>())
        });
        let dead = self.state.remains.iter();
        let dead = dead.map(|(&id, all)| (id, format!("remains of endpoint {id}"), all.clone()));
        let (mut ids, mut desired) = (Vec::new(), Vec::new());
        for (id, owner, addresses) in living.chain(dead) {
            ids.extend(addresses.iter().map(|_| id));
            desired.extend(addresses.into_iter().map(|address| (address, owner.clone())));
        }
        let ids = ids.into_iter().zip(desired.iter().map(|(address, _)| *address)).collect();
        let ipam = self.peers.ipam.clone();
        cx.ask(
            &ipam,
            PATIENCE,
            "addresses of restored endpoints",
            |reply| IpamMsg::ReserveAll { desired, reply },
            move |answer| RestoreAnswer::Reserved { desired: ids, answer },
        );
    }

    fn reserved(
        &mut self,
        cx: &mut Cx<'_, Self>,
        desired: Vec<(EndpointId, IpAddr)>,
        answer: Result<Vec<Result<String, IpamError>>, AskError>,
    ) {
        // No answer says nothing of the endpoints, and what was reserved may be so again.
        let Ok(answers) = answer else { return self.reserve(cx) };
        for ((id, address), answer) in desired.into_iter().zip(answers) {
            match answer {
                Ok(pool) => {
                    self.state.reserved.insert(address, id);
                    if let Some(candidate) = self.state.plan.candidates.get_mut(&id) {
                        candidate.learn_pool(address, pool);
                    }
                }
                Err(error) => {
                    if let Some(candidate) = self.state.plan.candidates.remove(&id) {
                        let error = format!("its address {address} could not be reserved: {error}");
                        self.state.plan.failed.insert(id, failed(&candidate, error));
                        self.state.remains.entry(id).or_default();
                    }
                }
            }
        }
        self.open_ipam(cx);
    }

    /// Restored addresses are reserved: others may be handed out.
    fn open_ipam(&mut self, cx: &mut Cx<'_, Self>) {
        self.end_phase(cx, "reserve addresses");
        let router: Vec<IpAddr> = self.state.own.router.iter().collect();
        let desired = router.iter().map(|address| (*address, "router".to_owned())).collect();
        let reply = Reply::to(move |answer: Result<Vec<Result<String, IpamError>>, AskError>| {
            let all = answer.as_ref().is_ok_and(|answers| answers.iter().all(Result::is_ok));
            if !all {
                tracing::error!(?router, ?answer, "router addresses are not reserved");
            }
        });
        if let Err(refused) = self.peers.ipam.tell(IpamMsg::ReserveAll { desired, reply }) {
            tracing::error!(%refused, "router addresses are not reserved");
        }
        let health: Vec<IpAddr> = self.state.own.health.iter().collect();
        let desired = health.iter().map(|it| (*it, HEALTH_OWNER.to_owned())).collect();
        // One that something is left of is had again once that is removed.
        let reply = Reply::to(move |answer: Result<Vec<Result<String, IpamError>>, AskError>| {
            tracing::debug!(?health, ?answer, "addresses that the health endpoint had");
        });
        if let Err(refused) = self.peers.ipam.tell(IpamMsg::ReserveAll { desired, reply }) {
            tracing::warn!(%refused, "addresses that the health endpoint had are not reserved");
        }
        if let Err(refused) = self.peers.ipam.tell(IpamMsg::RestoreFinished) {
            tracing::error!(%refused, "IPAM did not hear that restored addresses are reserved");
        }
        self.describe(cx);
    }

    fn spawn(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.phase = RestorePhase::Spawning;
        let RestoreState { plan, report, alive, cleanup, .. } = &mut *self.state;
        let mut endpoints = Vec::with_capacity(plan.candidates.len());
        for (id, mut candidate) in std::mem::take(&mut plan.candidates) {
            // From now on its directories are its own to write.
            if let Some(steps) = cleanup.untidied.remove(&id) {
                candidate.endpoint.on_disk = false;
                candidate.endpoint.untidied = steps;
            }
            let pending = EndpointReport {
                pod: candidate.endpoint.spec.pod(),
                fate: RestoreOutcome::Pending,
                source: candidate.source,
                notes: candidate.notes,
                error: None,
            };
            report.endpoints.insert(id, pending);
            alive.insert(id);
            endpoints.push(candidate.endpoint);
        }
        for (&id, failed) in &plan.failed {
            tracing::warn!(endpoint = %id, error = ?failed.error, "endpoint was not restored");
            report.endpoints.insert(id, failed.clone());
        }
        let withheld = self.state.remains.keys().chain(&self.state.dormant).copied().collect();
        let host = self.state.wants_host;
        let to = self.peers.endpoints.clone();
        cx.ask(
            &to,
            PATIENCE,
            "restored endpoints to be spawned",
            |reply| EndpointsMsg::Restore { endpoints, withheld, host, reply },
            RestoreAnswer::Spawned,
        );
    }

    pub(super) fn regenerate(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.phase = RestorePhase::Settling;
        if let Some(opened) = self.state.opened.take() {
            opened.send(());
        }
        self.ask_settled(cx);
        for source in [MappingSource::Node, MappingSource::Policy] {
            self.ask_synced(cx, source);
        }
    }

    pub(super) fn end_phase(&mut self, cx: &Cx<'_, Self>, name: &str) {
        let seconds = cx.now().since(self.state.phase_began).as_secs_f64();
        self.state.report.phases.push(PhaseReport { name: name.to_owned(), seconds });
        self.state.phase_began = cx.now();
    }
}

impl Behaviour for Restore {
    type Msg = RestoreMsg;
    type Answer = RestoreAnswer;
    type Observed = RestoreReport;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.state.report.ipcache_waits_for.is_empty() {
            self.prune_ipcache(cx);
        }
        match self.state.phase {
            RestorePhase::Idle => {}
            RestorePhase::Done if !self.state.cleanup.prune.is_empty() => self.prune_next(cx),
            RestorePhase::Done => {
                // Whether these directories went, nobody will say.
                self.state.cleanup.writing = 0;
                if !self.state.remains.is_empty() {
                    self.free_when_removed(cx);
                }
            }
            RestorePhase::Tidying | RestorePhase::Reserving => self.reserve(cx),
            RestorePhase::Describing => self.describe(cx),
            RestorePhase::Learning => self.hold_carried(cx),
            RestorePhase::Spawning => self.spawn(cx),
            RestorePhase::Settling => self.regenerate(cx),
            RestorePhase::Pruning => self.prune_next(cx),
            RestorePhase::Forgetting => self.forget_failed(cx),
        }
    }

    fn handle(&mut self, msg: RestoreMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            RestoreMsg::Begin { input, reply } => self.begin(cx, *input, reply),
            RestoreMsg::AwaitProgrammed(reply) => {
                self.state.awaiting.push(reply);
                self.answer_when_programmed();
            }
            RestoreMsg::Report(reply) => reply.send(Arc::new(self.state.report.clone())),
        }
    }

    fn answered(&mut self, answer: RestoreAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            RestoreAnswer::Reserved { desired, answer } => self.reserved(cx, desired, answer),
            RestoreAnswer::Described(answer) => self.described(cx, answer),
            RestoreAnswer::Carried(answer) => self.carried(cx, answer),
            RestoreAnswer::Learned(answer) => {
                if let Err(error) = answer {
                    self.state.report.problems.push(format!("policy: {error}"));
                }
                self.spawn(cx);
            }
            // What is left to be told is told again.
            RestoreAnswer::Spawned(Err(_)) => self.spawn(cx),
            RestoreAnswer::Spawned(Ok(())) => {
                self.end_phase(cx, "spawn endpoints");
                self.regenerate(cx);
            }
            RestoreAnswer::Synced(source, answer) => self.synced(cx, source, answer),
            RestoreAnswer::Settled(answer) => self.settled(cx, answer),
            RestoreAnswer::Built(answer) => self.built(cx, answer),
            RestoreAnswer::Pruned(answer) => self.pruned(cx, answer),
            RestoreAnswer::PruneAgain => self.prune_again(cx),
            RestoreAnswer::Tidied(id, answer) => self.tidied(cx, id, answer),
        }
    }

    fn observe(&self) -> RestoreReport {
        self.state.report.clone()
    }
}
