//! Faults have stopped: within bounded time all must be as it should be; and when all pods are
//! gone, nothing may be left.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ipnet::IpNet;
use volvox_actors_simulated::{
    endpoints::{build_queue::BuildQueueMsg, endpoint::EndpointState},
    host::Waits,
    model::EndpointId,
    node::invariants::{self, ALWAYS, AT_REST},
    policy::{identity::IdentityMsg, rules::PolicyMsg},
    ports::{FsOp, HookState},
    restore::RestoreOutcome,
    state_directory::StateFiles,
    testing::Residue,
};

use super::{
    action::{PODS, SOURCES},
    around::Store,
    node::{HOST_PEER, Node},
};

/// How long each look waits for the next, seconds. All together is the bound of liveness: an
/// interface that vanished is looked for every 300 seconds, twice.
const PATIENCE: [u64; 12] = [1, 1, 3, 5, 10, 15, 30, 60, 120, 300, 300, 300];

/// What the datapath does, told without numbers that were handed out: for each pod its label and
/// the rows of its policy, with what stands behind their identities.
pub type Realised = BTreeMap<u8, (String, BTreeSet<String>)>;

impl Node {
    pub(super) fn realised(&self) -> Realised {
        let identities =
            self.world.ask(&self.world.node_supervisor().identities, IdentityMsg::List);
        let behind: BTreeMap<_, _> =
            identities.iter().map(|it| (it.id, it.labels.to_string())).collect();
        let oracle = self.oracle.borrow();
        let pods = oracle.subjects.iter().map(|(number, subject)| {
            let policy = self.world.kernel.with(|state| state.policy_of(subject.ifindex).cloned());
            let rows = policy.unwrap_or_default().into_iter().map(|(key, row)| {
                let other = behind.get(&key.identity);
                let other = other.cloned().unwrap_or_else(|| key.identity.to_string());
                let (way, protocol, port, bits) = (key.direction, key.protocol, key.port, key.bits);
                format!("{way:?} {other} {protocol}/{port}/{bits} {}", row.deny)
            });
            let app = subject.apps.last().map_or("none", |app| app.name());
            (*number, (app.to_owned(), rows.collect()))
        });
        pods.collect()
    }

    /// Faults end, everything is told; the node must come to rest.
    pub(super) fn rest(&mut self) {
        self.world.fate.is_kind();
        self.faulty = false;
        self.world.kernel.hold(false);
        self.world.kernel.stall(|_| false);
        self.hung = None;
        self.boot(false);
        self.deliver(false);
        self.store(Store::Up);
        self.far(Store::Up);
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
    fn lacks(&mut self) -> Option<String> {
        if let Some(pod) = self.pods.values().find(|pod| pod.call.is_some()) {
            return Some(format!("pod {} is neither started nor deleted", pod.number));
        }
        let open = [self.deletions.len(), self.queued.len(), self.rebuilds.len(), self.asked.len()];
        if open.iter().any(|count| *count > 0) {
            return Some("somebody outside still waits for an answer".to_owned());
        }
        if self.world.cluster.as_ref().is_some_and(|cluster| !cluster.is_heard()) {
            return Some("not all of the cluster is heard of".to_owned());
        }
        if !self.world.report().finished {
            return Some("restoring has not ended".to_owned());
        }
        if let Some(unready) = self.unready() {
            return Some(unready);
        }
        let waits = self.waits();
        if !waits.is_empty() {
            return Some(format!("somebody waits for {waits}"));
        }
        if self.world.try_ask(&self.world.node_supervisor().policy, PolicyMsg::Idle).is_none() {
            return Some("a change of policies is under way".to_owned());
        }
        let builds =
            self.world.ask(&self.world.node_supervisor().build_queue, BuildQueueMsg::Show).building;
        if let Some(id) = builds.first() {
            return Some(format!("endpoint {id} has a permit to build"));
        }
        if let Some(unmapped) = self.unmapped() {
            return Some(unmapped);
        }
        if let Some(unshared) = self.unshared() {
            return Some(unshared);
        }
        if let Some(unguarded) = self.unguarded() {
            return Some(unguarded);
        }
        if let Some(wrong) = self.unplugged().or_else(|| self.misrouted()) {
            return Some(wrong);
        }
        if let Some(programs) = self.programs() {
            return Some(programs);
        }
        let retained = self.world.disk.with(|files| files.directories("quarantine"));
        if retained.map_or(0, |retained| retained.len()) < self.torn {
            return Some("a record that could not be read is not in quarantine".to_owned());
        }
        let heard = self.world.listeners.answers();
        let kernel = self.world.kernel.clone();
        let misheard =
            kernel.with(|state| self.oracle.borrow().served.misheard(&heard, &state.services));
        if let Some(misheard) = misheard {
            return Some(misheard);
        }
        if let Some(verdict) = kernel.with(|state| self.oracle.borrow_mut().exact(state)) {
            return Some(verdict);
        }
        let all = ALWAYS.iter().chain(AT_REST);
        let broken = invariants::check(all, &self.world.facts());
        broken.first().map(ToString::to_string)
    }

    /// Every pod has its endpoint, ready and with the numbers that it had; nobody else has one.
    fn unready(&self) -> Option<String> {
        let oracle = self.oracle.borrow();
        let mut views: BTreeMap<EndpointId, _> =
            self.world.list().into_iter().map(|view| (view.id, view)).collect();
        for (number, subject) in &oracle.subjects {
            let id = subject.endpoint.unwrap_or_default();
            let Some(view) = views.remove(&id) else {
                return Some(format!("pod {number} has no endpoint {id} any more"));
            };
            if view.state != EndpointState::Ready || view.failing {
                return Some(format!("endpoint {id} is {}: {:?}", view.state, view.last_error));
            }
            if view.spec.addresses != subject.addresses || view.spec.ifindex != subject.ifindex {
                return Some(format!("endpoint {id} has the numbers of another pod"));
            }
            let app = view.identity_labels.get("app").map_or("none", |label| &label.value);
            let newest = subject.apps.last().map_or("none", |app| app.name());
            if app != newest {
                return Some(format!("pod {number} is {newest}, its endpoint takes it for {app}"));
            }
            if let Some((same, identity)) = subject.identity
                && subject.apps == [same]
                && identity != view.identity
            {
                let now = view.identity;
                return Some(format!("pod {number} had identity {identity}, now it has {now}"));
            }
        }
        views.retain(|_, view| !view.spec.is_host());
        views.pop_first().map(|(id, view)| format!("endpoint {id} is nobody's: {}", view.state))
    }

    /// Other nodes and the proxies find every pod's identity by its addresses, and nobody else's.
    fn unmapped(&self) -> Option<String> {
        let oracle = self.oracle.borrow();
        self.world.kernel.with(|state| {
            let mut rows: BTreeMap<_, _> =
                state.rows.ipcache.iter().map(|(prefix, row)| (*prefix, row.identity)).collect();
            for (number, subject) in &oracle.subjects {
                let own = state.rows.config.get(&subject.ifindex).map(|row| row.identity);
                for address in subject.addresses.iter() {
                    let mapped = rows.remove(&address.into());
                    if mapped != own {
                        return Some(format!("pod {number} is {own:?}, {address} is {mapped:?}"));
                    }
                }
            }
            let pools = &self.world.settings.pools;
            let of_a_pod = |prefix: &IpNet| match prefix {
                IpNet::V4(prefix) => pools.ipv4.is_some_and(|pool| pool.contains(prefix)),
                IpNet::V6(prefix) => pools.ipv6.is_some_and(|pool| pool.contains(prefix)),
            };
            let left = rows.keys().find(|prefix| of_a_pod(prefix));
            left.map(|prefix| format!("the ipcache has {prefix}, which nobody has"))
        })
    }

    /// Programs run through links, pins follow the policy, state directories are whole.
    fn programs(&self) -> Option<String> {
        let oracle = self.oracle.borrow();
        let endpoints = oracle.subjects.values().filter_map(|it| Some((it, it.endpoint?)));
        self.world.kernel.with(|state| {
            for (subject, id) in endpoints {
                let at = state.rows.attachments.get(&id).copied().unwrap_or_default();
                if [at.from_container, at.to_container] != [HookState::Link; 2] {
                    return Some(format!("endpoint {id} is not attached by links: {at:?}"));
                }
                let slot = state.rows.config.get(&subject.ifindex).map(|row| row.policy_slot);
                if state.pins.get(&id).copied() != slot {
                    return Some(format!("the pin of endpoint {id} is not its policy"));
                }
                if !self.world.disk.with(|files| files.has(&format!("{id}/ep_config.json"))) {
                    return Some(format!("endpoint {id} has no state file"));
                }
            }
            None
        })
    }

    /// A restart of a node at rest, where nothing changed.
    pub(super) fn unchanged(&mut self) {
        self.rest();
        self.kill();
        let before = self.trace.steps();
        self.boot(true);
        self.rest();
        let written = self.trace.steps() - before;
        if written > 0 {
            self.wrong(format!("nothing changed, and a restart takes {written} steps to write it"));
        }
    }

    /// At rest: what counts from now on.
    fn remember(&mut self) {
        let report = self.world.report();
        let rebuilt = report.endpoints.iter().find(|(_, it)| it.fate == RestoreOutcome::Rebuilt);
        if let (false, Some((id, _))) = (self.tampered, rebuilt) {
            self.wrong(format!("endpoint {id} lost its state file to a kill"));
        }
        let left = self.world.kernel.with(|state| state.connections.contains_key(&HOST_PEER));
        if self.host_connected && !left {
            self.wrong("a connection of the host was cut");
        }
        for pod in self.pods.values_mut() {
            let newest = pod.apps.len() - 1;
            pod.apps.drain(..newest);
        }
        for view in self.world.list() {
            if view.spec.is_host() {
                self.host_number = Some(view.id);
            }
            let mut oracle = self.oracle.borrow_mut();
            let own = oracle.subjects.values_mut().find(|it| it.endpoint == Some(view.id));
            let Some(subject) = own else { continue };
            let Some(app) = subject.apps.last().copied() else { continue };
            subject.identity = Some((app, view.identity));
            drop(oracle);
            let known = *self.numbers.entry(app).or_insert(view.identity);
            if known != view.identity {
                let (name, now) = (app.name(), view.identity);
                self.wrong(format!("the number of {name} was {known}, now it is {now}"));
            }
        }
    }

    /// All pods go: nothing stays.
    pub(super) fn clear(&mut self) {
        (1..=PODS).for_each(|number| self.remove(number));
        self.leave_alone();
        self.unplug_uplinks();
        self.guard(false);
        self.world.kernel.tamper(|state| {
            state.connections.remove(&HOST_PEER);
        });
        let names: Vec<String> = self.world.manifests.keys().cloned().collect();
        self.world.manifests.clear();
        (0..SOURCES).for_each(|source| self.oracle.borrow_mut().policies(source, Vec::new()));
        self.oracle.borrow_mut().served.end();
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
}
