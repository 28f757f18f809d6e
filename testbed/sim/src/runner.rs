//! Lives through a history: each action is carried out, then somebody looks whether all is well. What an
//! action leads to stands here and nowhere else.

use std::time::Duration;

use volvox_actors_simulated::model::EndpointId;

use super::{
    checks::Realised, history::action::Action, model::REMOTE_PODS, operators::OperatorsFailure,
    world::node::Node,
};

/// Why a history ended badly.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The action, by its place.
    pub at: usize,
    /// What was wrong.
    pub what: String,
}

impl From<OperatorsFailure> for Failure {
    fn from(failure: OperatorsFailure) -> Self {
        Self { at: failure.at, what: failure.what }
    }
}

/// What a history came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Lives of the agent.
    pub lives: u64,
    /// Endpoints that were there when these lives began, all together.
    pub endpoints: u64,
    /// Verdicts that were looked at.
    pub verdicts: u64,
    /// Records of the host.
    pub records: u64,
    /// The hash of all that happened.
    pub hash: u64,
    /// Processor time that it took, if that was measured.
    pub cpu: Duration,
}

impl Node {
    /// Lives through a history, to its end with all pods deleted.
    pub fn run(mut self, actions: &[Action]) -> Result<Tally, Failure> {
        self.live(actions)?;
        self.clear();
        match self.complaint() {
            Some(what) => Err(Failure { at: actions.len(), what }),
            None => Ok(self.tally()),
        }
    }

    /// Lives through a history until the node is at rest, and says what its datapath then is.
    pub fn realise(mut self, actions: &[Action]) -> Result<Realised, Failure> {
        self.live(actions)?;
        Ok(self.realised())
    }

    fn live(&mut self, actions: &[Action]) -> Result<(), Failure> {
        for (at, action) in actions.iter().chain([&Action::Rest]).enumerate() {
            self.trace.say(|| action.to_string());
            self.carry_out(action);
            if let Some(what) = self.complaint() {
                return Err(Failure { at, what });
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::Add(pod) => self.add(*pod),
            Action::Cancel(pod) => self.cancel(*pod),
            Action::Remove(pod) => self.remove(*pod),
            Action::RemoveEarlier(pod) => self.remove_earlier(*pod),
            Action::Unplug(pod) => self.unplug(*pod),
            Action::ForeignRemoval { pod, what, seed } => {
                if let Some(before) = self.remove_from_pod(*pod, *what, *seed) {
                    self.served_if_ready(&before);
                }
            }
            Action::Label { pod, app, reported } => self.label(*pod, *app, *reported),
            Action::Policies { source, policies, reported } => {
                self.policies(*source, policies.clone(), *reported);
            }
            Action::FollowApiServer => self.follow_api_server(),
            Action::ApiServer(what) => self.api_server(*what),
            Action::ShareStore => self.share_store(),
            Action::Store(what) => self.store(*what),
            Action::RemotePod { number, app } if *number > REMOTE_PODS => {
                self.remote_cluster_pod(*number, *app)
            }
            Action::RemotePod { number, app } => self.remote_pod(*number, *app),
            Action::MeshClusters => self.mesh_clusters(),
            Action::RemoteStore(what) => self.remote_store(*what),
            Action::ConfigureRemoteCluster(configured) => {
                self.configure_remote_cluster(*configured)
            }
            Action::Runtime(news) => self.runtime_says(*news),
            Action::Service { number, members, reported } => {
                self.service(*number, *members, *reported)
            }
            Action::Ingress { number, there, reported } => self.ingress(*number, *there, *reported),
            Action::Quarantine { backend, expected } => self.quarantine(*backend, *expected),
            Action::HostFirewall(expected) => self.set_host_firewall(*expected),
            Action::Device { number, what, reported } => self.device(*number, *what, *reported),
            Action::NodePrefix { number, prefix } => self.node_prefix(*number, *prefix),
            Action::NativeRouting(expected) => self.set_native_routing(*expected),
            Action::Deliver => self.deliver(true),
            Action::Relist(which) => self.relist(*which),
            Action::Unreadable(which) => self.unreadable(*which),
            Action::HangPolicy(pod) => self.hang_policy(*pod),
            Action::PolicyRoom(rows) => self.set_policy_room(*rows),
            Action::InForce => self.check_in_force(),
            Action::Regenerate(pod) => self.regenerate(*pod),
            Action::Connect => self.connect(),
            Action::Steps { count, seed } => self.steps(*count, *seed),
            Action::Time { ms, seed } => self.time(Duration::from_millis((*ms).into()), *seed),
            Action::Stall { ms } => self.stall(Duration::from_millis((*ms).into())),
            Action::ClockJump { ms, wall } => {
                self.jump_clocks(Duration::from_millis((*ms).into()), *wall)
            }
            Action::Faults { kind, one_in, seed } => self.fail_steps(*kind, *one_in, *seed),
            Action::FaultsOff => self.end_faults(),
            Action::Crash(which) => self.crash_actor(*which),
            Action::Kill => self.kill(),
            Action::KillAt(nth) => self.kill_at(*nth),
            Action::PowerCut { nth, tmpfs, seed } => self.cut_power(*nth, *tmpfs, *seed),
            Action::Boot { reported } => self.boot(*reported),
            Action::RewriteState(version) => self.rewrite_state(*version),
            Action::TearRecord(pod) => self.tear_record(*pod),
            Action::DuplicateRecord(pod, id) => self.duplicate_record(*pod, EndpointId(*id)),
            Action::ForeignRows => self.add_foreign_rows(),
            Action::ForeignChange(seed) => self.see_change_undone(*seed),
            Action::RestartUnchanged => self.restart_unchanged(),
            Action::Rest => self.come_to_rest(),
        }
        self.replace_dead_agent();
    }

    /// An agent that died is followed by another one.
    fn replace_dead_agent(&mut self) {
        if self.world.is_alive() && self.world.fate.is_dead() {
            match self.faults.power {
                Some(_) => self.lose_power(),
                None => {
                    self.trace.say(|| "it died".to_owned());
                    self.kill();
                }
            }
            self.boot(true);
        }
    }

    /// What is wrong, if anything is.
    fn complaint(&mut self) -> Option<String> {
        let crashes = self.trace.take_crashes();
        let violations = std::mem::take(&mut self.oracle.borrow_mut().violations);
        self.wrong.take().or(crashes.into_iter().next()).or(violations.into_iter().next())
    }

    fn tally(&self) -> Tally {
        Tally {
            lives: self.lives,
            endpoints: self.endpoints,
            verdicts: self.oracle.borrow().verdicts,
            records: self.trace.records(),
            hash: self.trace.hash(),
            cpu: Duration::ZERO,
        }
    }
}
