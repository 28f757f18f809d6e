//! Faults have stopped: within bounded time all must be as it should be; and when all pods are
//! gone, nothing may be left.

use std::time::Duration;

use volvox_actors_simulated::{
    endpoints::build_queue::BuildQueueMsg,
    host::Waits,
    node::invariants::{self, ALWAYS, AT_REST},
    policy::rules::PolicyMsg,
    ports::FsOp,
    restore::RestoreOutcome,
    state_directory::StateFiles,
    testing::Residue,
};

use crate::{
    history::events::{RuntimeNews, StoreEvent},
    model::{PODS, RANKED_SOURCES, REMOTE_PODS, SOURCES, other_nodes::NODES},
    world::{connections::HOST_PEER, node::Node, remote_cluster},
};

/// How long each look waits for the next, seconds. All together is the bound of liveness: an
/// interface that vanished is looked for every 300 seconds, twice.
const PATIENCE: [u64; 12] = [1, 1, 3, 5, 10, 15, 30, 60, 120, 300, 300, 300];

impl Node {
    /// Faults end, everything is told; the node must come to rest.
    pub(crate) fn come_to_rest(&mut self) {
        self.end_faults();
        self.world.kernel.hold(false);
        self.world.kernel.stall(|_| false);
        self.faults.hung = None;
        self.boot(false);
        self.deliver(false);
        self.store(StoreEvent::Up);
        self.remote_store(StoreEvent::Up);
        self.runtime_says(RuntimeNews::Up);
        let mut lacks = None;
        for (nth, seconds) in PATIENCE.into_iter().enumerate() {
            self.ask_queued();
            self.time(Duration::from_secs(seconds), nth as u64);
            if self.wrong.is_some() || !self.oracle.borrow().violations.is_empty() {
                return;
            }
            lacks = self.lacks();
            if lacks.is_none() {
                return self.remember();
            }
        }
        if let Some(lacks) = lacks {
            let waits = self.waits();
            self.wrong(format!("it never comes to rest: {lacks}; waits: {waits}"));
        }
    }

    fn waits(&self) -> String {
        let waits = |waits: &Waits| waits.iter().map(|wait| wait.why.clone()).collect::<Vec<_>>();
        self.world.node_supervisor().host.with_waits(waits).join(", ")
    }

    /// What is not yet as it should be.
    fn lacks(&self) -> Option<String> {
        self.answers_lack()
            .or_else(|| self.endpoints_lack())
            .or_else(|| self.is_busy())
            .or_else(|| self.ipcache_lacks())
            .or_else(|| self.store_lacks())
            .or_else(|| self.host_endpoint_lacks())
            .or_else(|| self.devices_lack())
            .or_else(|| self.routes_lack())
            .or_else(|| self.programs_lack())
            .or_else(|| self.quarantine_lacks())
            .or_else(|| self.health_checks_lack())
            .or_else(|| self.world.kernel.with(|state| self.oracle.borrow_mut().exact(state)))
            .or_else(|| {
                let all = ALWAYS.iter().chain(AT_REST);
                let broken = invariants::check(all, &self.world.facts());
                broken.first().map(ToString::to_string)
            })
    }

    /// Somebody outside waits, or the agent has not heard or restored all.
    fn answers_lack(&self) -> Option<String> {
        if let Some(pod) = self.pods.values().find(|pod| pod.call.is_some()) {
            return Some(format!("pod {} is neither started nor deleted", pod.number));
        }
        if self.requests.are_open() {
            return Some("somebody outside still waits for an answer".to_owned());
        }
        if self.world.cluster.as_ref().is_some_and(|cluster| !cluster.is_heard()) {
            return Some("not all of the cluster is heard of".to_owned());
        }
        (!self.world.report().finished).then(|| "restoring has not ended".to_owned())
    }

    /// The agent is in the middle of something.
    fn is_busy(&self) -> Option<String> {
        let waits = self.waits();
        if !waits.is_empty() {
            return Some(format!("somebody waits for {waits}"));
        }
        if self.world.try_ask(&self.world.node_supervisor().policy, PolicyMsg::Idle).is_none() {
            return Some("a change of policies is under way".to_owned());
        }
        let builds =
            self.world.ask(&self.world.node_supervisor().build_queue, BuildQueueMsg::Show).building;
        builds.first().map(|id| format!("endpoint {id} has a permit to build"))
    }

    /// Records that could not be read are evidence.
    fn quarantine_lacks(&self) -> Option<String> {
        let retained = self.world.disk.with(|files| files.directories("quarantine"));
        (retained.map_or(0, |retained| retained.len()) < self.remembered.torn)
            .then(|| "a record that could not be read is not in quarantine".to_owned())
    }

    /// What load balancers hear of services.
    fn health_checks_lack(&self) -> Option<String> {
        let heard = self.world.listeners.answers();
        self.world
            .kernel
            .with(|state| self.oracle.borrow().services.health_checks_lack(&heard, &state.services))
    }

    /// At rest: what counts from now on.
    fn remember(&mut self) {
        let report = self.world.report();
        let rebuilt = report.endpoints.iter().find(|(_, it)| it.fate == RestoreOutcome::Rebuilt);
        if let (false, Some((id, _))) = (self.remembered.tampered, rebuilt) {
            self.wrong(format!("endpoint {id} lost its state file to a kill"));
        }
        let left = self.world.kernel.with(|state| state.connections.contains_key(&HOST_PEER));
        if self.remembered.host_connected && !left {
            self.wrong("a connection of the host was cut");
        }
        for pod in self.pods.values_mut() {
            let newest = pod.apps.len() - 1;
            pod.apps.drain(..newest);
        }
        for view in self.world.list() {
            if view.spec.is_host() {
                self.remembered.host_number = Some(view.id);
            }
            let mut oracle = self.oracle.borrow_mut();
            let own = oracle.expected.pods.values_mut().find(|it| it.endpoint == Some(view.id));
            let Some(subject) = own else { continue };
            let Some(app) = subject.apps.last().copied() else { continue };
            subject.identity = Some((app, view.identity));
            drop(oracle);
            let known = *self.remembered.numbers.entry(app).or_insert(view.identity);
            if known != view.identity {
                let (name, now) = (app.name(), view.identity);
                self.wrong(format!("the number of {name} was {known}, now it is {now}"));
            }
        }
    }

    /// A restart of a node at rest, where nothing changed.
    pub(crate) fn restart_unchanged(&mut self) {
        self.come_to_rest();
        self.kill();
        let before = self.trace.steps();
        self.boot(true);
        self.come_to_rest();
        let written = self.trace.steps() - before;
        if written > 0 {
            self.wrong(format!("nothing changed, and a restart takes {written} steps to write it"));
        }
        self.verify();
    }

    /// Who looks at a node at rest from outside, as `volvox verify` does, finds nothing.
    fn verify(&mut self) {
        if self.wrong.is_none()
            && let Some(first) = self.world.differences().first()
        {
            let first = first.to_string();
            self.wrong(format!("who verifies the node finds: {first}"));
        }
    }

    /// All pods go: nothing stays.
    pub(crate) fn clear(&mut self) {
        (1..=PODS).for_each(|number| self.remove(number));
        self.empty_other_nodes();
        self.unplug_devices();
        self.set_host_firewall(false);
        self.world.kernel.tamper(|state| {
            state.connections.remove(&HOST_PEER);
        });
        let names: Vec<String> = self.world.manifests.keys().cloned().collect();
        self.world.manifests.clear();
        (0..SOURCES)
            .chain(RANKED_SOURCES)
            .for_each(|source| self.oracle.borrow_mut().expected.policies(source, Vec::new()));
        self.oracle.borrow_mut().services.end();
        self.tell(&names);
        let mut left = Vec::new();
        for seconds in PATIENCE.into_iter().chain([300]) {
            self.time(Duration::from_secs(seconds), seconds);
            self.world.disk.tamper(|files| {
                // Evidence is meant to stay.
                let quarantine = FsOp::Remove("quarantine".into());
                let _ = files.apply(&quarantine);
            });
            self.forget_own_records();
            left = self.empty.differences(&Residue::of(&self.world));
            if left.is_empty() {
                return;
            }
        }
        self.wrong(format!("after all pods were deleted: {}", left.join("; ")));
    }

    /// Pods of other nodes go, and the nodes with them.
    fn empty_other_nodes(&mut self) {
        self.store(StoreEvent::Up);
        self.remote_store(StoreEvent::Up);
        (1..=REMOTE_PODS).for_each(|number| self.remote_pod(number, None));
        (1..=NODES).for_each(|number| self.node_prefix(number, None));
        remote_cluster::pods().for_each(|number| self.remote_cluster_pod(number, None));
    }
}
