//! The actor that keeps routes to other nodes as they should be: it reads the kernel, has the
//! difference planned, and writes it. It looks again at intervals and after changes in the kernel.

use std::{collections::BTreeMap, mem, rc::Rc, time::Duration};

use ipnet::IpNet;

use super::{
    Neighbour, RoutesMsg, RoutesSettings, RoutesView,
    answers::RoutesAnswer,
    plan::{KnownNodes, RoutesPlan},
};
use crate::{
    host::{AskError, Behaviour, Cx, Lent, Pauses, Retry, Survives},
    model::{NodeFacts, NodeKey, repairs::Repairs},
    ports::{Kernel, KernelDone, KernelJob, KernelOp, KernelOutcome, Routing, RoutingOp},
};

/// How often it is looked whether all is as it was made.
const EVERY: Duration = Duration::from_secs(60);
/// After the nth failure in a row the next look comes n times as late, but not later than usual.
const PAUSES: Pauses = Pauses::Linear { step: Duration::from_secs(1), most: EVERY };
/// What somebody did before the first look is looked at after that long: others need the kernel first.
const SOON: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);
/// Rounds of looking and writing in which everything is as it should be, unless somebody else
/// changes it as fast.
const ROUNDS_MAX: u32 = 8;

/// The owner of the ways to other nodes.
pub struct Routes {
    kernel: Rc<dyn Kernel>,
    /// Outlive a crash: they change.
    settings: Lent<RoutesSettings>,
    /// Outlives a crash: what was said of nodes is said only once.
    state: Lent<RoutesState>,
    /// The look under way, or the time of the next.
    looks: Retry,
    /// Something new was said since the look began.
    again: bool,
    round: u32,
    /// Prefixes that the kernel refused since then, and why.
    refused: BTreeMap<IpNet, String>,
    /// The look under way is because of what somebody else did.
    disturbed: bool,
    repairs: Repairs,
    shown: Shown,
}

#[derive(Default)]
struct RoutesState {
    nodes: BTreeMap<NodeKey, Neighbour>,
    all: bool,
    begun: bool,
}

impl RoutesState {
    /// Takes in what is said of nodes; whether that is new.
    fn take(&mut self, changed: BTreeMap<NodeKey, Option<Neighbour>>, all: bool) -> bool {
        let mut is_new = all && !self.all;
        self.all |= all;
        for (key, node) in changed {
            let before = self.nodes.remove(&key);
            is_new |= before != node;
            if let Some(node) = node {
                self.nodes.insert(key, node);
            }
        }
        is_new
    }
}

/// What the last look came to.
#[derive(Default)]
struct Shown {
    routes: usize,
    tunnel: u32,
    troubles: BTreeMap<String, String>,
    skipped: BTreeMap<String, String>,
    last_error: Option<String>,
}

impl Routes {
    /// Makes each life of the actor.
    pub fn factory(
        kernel: Rc<dyn Kernel>,
        settings: RoutesSettings,
    ) -> impl FnMut() -> Self + 'static {
        let state = RoutesState { all: settings.alone, ..RoutesState::default() };
        let (state, settings) = (Survives::new(state), Survives::new(settings));
        move || Self {
            kernel: Rc::clone(&kernel),
            settings: settings.lend(),
            state: state.lend(),
            looks: Retry::default(),
            again: false,
            round: 0,
            refused: BTreeMap::new(),
            disturbed: false,
            repairs: Repairs::default(),
            shown: Shown::default(),
        }
    }

    fn look(&mut self, cx: &mut Cx<'_, Self>) {
        self.again = true;
        if !self.looks.begin_now(cx) {
            return;
        }
        self.state.begun = true;
        (self.again, self.round) = (false, 0);
        self.refused.clear();
        self.read(cx);
    }

    /// Tunnels lead from another address, or take larger packets.
    fn take_facts(&mut self, facts: NodeFacts, cx: &mut Cx<'_, Self>) {
        let NodeFacts { addresses, mtu, .. } = facts;
        (self.settings.addresses, self.settings.mtu) = (addresses, mtu);
        if self.state.begun {
            self.look(cx);
        }
    }

    /// Looks at once what somebody else did, unless that was put right too often lately: then later.
    fn disturbed(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.state.begun {
            return self.looks.pause(cx, SOON, RoutesAnswer::Look);
        }
        match self.repairs.wait(cx.now()) {
            None => {
                self.disturbed = true;
                self.look(cx);
            }
            Some(_) if self.looks.is_asked() => {}
            Some(wait) => self.looks.pause(cx, wait, RoutesAnswer::LookAgain),
        }
    }

    fn read(&mut self, cx: &mut Cx<'_, Self>) {
        let reply = cx.expect("kernel", PATIENCE, "ways to other nodes", RoutesAnswer::Looked);
        self.kernel.submit(KernelJob::new(vec![KernelOp::ReadRouting]), reply);
    }

    fn looked(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        let routing = KernelDone::of_one(done, |outcome| match outcome {
            KernelOutcome::Routing(routing) => Some(routing),
            _ => None,
        });
        match routing {
            Ok(routing) => self.compare(&routing, cx),
            Err(error) => self.finish(Err(error), cx),
        }
    }

    fn compare(&mut self, routing: &Routing, cx: &mut Cx<'_, Self>) {
        let state = &*self.state;
        let known = KnownNodes { nodes: &state.nodes, all: state.all, refused: &self.refused };
        let plan = RoutesPlan::of(&self.settings, known, routing);
        self.tell_new(&plan.troubles);
        let RoutesPlan { ops, troubles, skipped } = plan;
        let (routes, tunnel) = (routing.routes.len(), routing.tunnel);
        self.shown = Shown { routes, tunnel, troubles, skipped, last_error: None };
        if ops.is_empty() {
            return self.finish(Ok(()), cx);
        }
        if mem::take(&mut self.disturbed) {
            self.repairs.spend(cx.now());
        }
        self.round += 1;
        if self.round > ROUNDS_MAX {
            let error = "devices or routes do not stay as they are made: see who else changes them";
            return self.finish(Err(error.to_owned()), cx);
        }
        self.write(ops, cx);
    }

    fn write(&self, ops: Vec<KernelOp>, cx: &mut Cx<'_, Self>) {
        let why = format!("{} steps towards other nodes", ops.len());
        let job = KernelJob::new(ops.clone());
        let done = move |done| RoutesAnswer::Done(ops, done);
        self.kernel.submit(job, cx.expect("kernel", PATIENCE, why, done));
    }

    /// A route that is refused holds nothing else back.
    fn done(
        &mut self,
        mut ops: Vec<KernelOp>,
        done: Result<KernelDone, AskError>,
        cx: &mut Cx<'_, Self>,
    ) {
        let failed = match done {
            Ok(done) => done.failed,
            Err(error) => return self.finish(Err(error.to_string()), cx),
        };
        let Some((at, error)) = failed else { return self.read(cx) };
        let rest = ops.split_off((at + 1).min(ops.len()));
        match ops.pop() {
            Some(KernelOp::Routing(
                RoutingOp::Route { prefix, .. } | RoutingOp::Unroute { prefix },
            )) => drop(self.refused.insert(prefix, error.to_string())),
            _ => return self.finish(Err(error.to_string()), cx),
        }
        match rest.is_empty() {
            true => self.read(cx),
            false => self.write(rest, cx),
        }
    }

    fn finish(&mut self, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        self.disturbed = false;
        let refused = self.refused.iter().map(|(prefix, why)| (prefix.to_string(), why.clone()));
        self.shown.troubles.extend(refused);
        let result = match result {
            Ok(()) => self.refused.values().next().map_or(Ok(()), |why| Err(why.clone())),
            failed => failed,
        };
        match result {
            Ok(()) => {
                self.looks.succeeded();
                self.looks.pause(cx, EVERY, RoutesAnswer::Look);
            }
            Err(error) => {
                let wait = self.looks.failed(PAUSES, cx, RoutesAnswer::Look);
                tracing::warn!(error, retry_in = ?wait, "ways to other nodes are not all there");
                self.shown.last_error = Some(error);
            }
        }
        if self.again {
            self.look(cx);
        }
    }

    /// Logs what was not in the way before.
    fn tell_new(&self, troubles: &BTreeMap<String, String>) {
        for (what, why) in troubles {
            if self.shown.troubles.get(what) != Some(why) {
                tracing::warn!(what, why, "other nodes are not all reached");
            }
        }
    }

    fn view(&self) -> RoutesView {
        let state = &*self.state;
        let Shown { routes, tunnel, troubles, skipped, last_error } = &self.shown;
        RoutesView {
            mode: self.settings.mode,
            nodes: state.nodes.len(),
            synced: state.all,
            routes: *routes,
            tunnel: *tunnel,
            troubles: troubles.clone(),
            skipped: skipped.clone(),
            last_error: last_error.clone(),
        }
    }
}

impl Behaviour for Routes {
    type Msg = RoutesMsg;
    type Answer = RoutesAnswer;
    type Observed = RoutesView;

    /// The first look is when nodes are named, or a minute after the start: others need the kernel
    /// more then.
    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        let begun = self.state.begun;
        match begun {
            true => self.look(cx),
            false => self.looks.pause(cx, EVERY, RoutesAnswer::Look),
        }
    }

    fn handle(&mut self, msg: RoutesMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            RoutesMsg::Nodes { changed, all } => {
                if self.state.take(changed, all) {
                    self.look(cx);
                }
            }
            RoutesMsg::OwnPrefixes(prefixes) => {
                let is_new = self.settings.own_prefixes != prefixes;
                self.settings.own_prefixes = prefixes;
                if is_new && self.state.begun {
                    self.look(cx);
                }
            }
            RoutesMsg::Disturbed => self.disturbed(cx),
            RoutesMsg::Facts(facts) => self.take_facts(facts, cx),
            RoutesMsg::Show(reply) => reply.send(self.view()),
        }
    }

    fn answered(&mut self, answer: RoutesAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            RoutesAnswer::LookAgain => self.disturbed(cx),
            RoutesAnswer::Look => self.look(cx),
            RoutesAnswer::Looked(done) => self.looked(done, cx),
            RoutesAnswer::Done(ops, done) => self.done(ops, done, cx),
        }
    }

    fn observe(&self) -> RoutesView {
        self.view()
    }
}
