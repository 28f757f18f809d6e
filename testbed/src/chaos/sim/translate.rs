//! From the steps of a history to the simulator's actions.

use std::{collections::BTreeMap, time::Duration};

use volvox_sim::{
    history::{
        action::{self, Action},
        events::{RuntimeNews, Victim},
    },
    model::{
        PODS,
        policies::{App, PROBES, Peer, Policy, Way, passes},
    },
    random::Random,
};

use super::policies::{Apps, policy};
use crate::{
    chaos::{
        explain,
        faults::Server,
        history::{
            Death, Expected, Flow, History, Labels, Manifest, ManifestName, Name, Phase, Reach,
            Span, Step, Target,
        },
    },
    traffic::Kind,
};

/// The source that holds all policies of a history.
const SOURCE: u8 = 0;
/// Steps of kernel and disk that a start makes at most, as far as `every` goes.
const STEPS_MAX: u32 = 240;
/// Steps of a moment that the seed chooses.
const MOMENT: usize = 300;
/// Actors that can be told to panic.
const ACTORS: [&str; 6] = ["endpoints", "identities", "ipam", "ipcache", "policy", "services"];
/// The probe of TCP port 80.
const WEB: (u8, u16) = (6, 80);

/// A history as the simulator lives through it.
pub(in crate::chaos) struct Translation {
    /// What happens.
    pub(super) actions: Vec<Action>,
    /// What it cannot do, in words.
    pub(super) refused: Vec<String>,
    /// The steps, in words.
    pub(super) steps: Vec<String>,
    /// Who reaches whom at TCP port 80 in the end, as the model has it: at rest the kernel must agree.
    pub(super) reach: BTreeMap<String, bool>,
    /// Traffic that should flow, and that policies deny somewhere on the way.
    pub(super) denied: Vec<String>,
    /// Traffic that should be denied, and that policies let through.
    pub(super) let_through: Vec<String>,
}

/// Translates, and knows what there is at each step.
pub(super) struct Translator {
    done: Translation,
    pub(super) random: Random,
    apps: Apps,
    numbers: BTreeMap<Name, u8>,
    pods: BTreeMap<Name, App>,
    policies: BTreeMap<ManifestName, Policy>,
    flows: Vec<Flow>,
    /// What fails, as long as it does.
    pub(super) fault: Option<action::Fault>,
}

impl Translation {
    /// Translates; the seed draws what is random.
    pub(in crate::chaos) fn make(history: &History, seed: u64) -> Self {
        let done = Self {
            actions: Vec::new(),
            refused: Vec::new(),
            steps: Vec::new(),
            reach: BTreeMap::new(),
            denied: Vec::new(),
            let_through: Vec::new(),
        };
        let mut translator = Translator {
            done,
            random: Random::new(seed),
            apps: Apps::default(),
            numbers: BTreeMap::new(),
            pods: BTreeMap::new(),
            policies: BTreeMap::new(),
            flows: Vec::new(),
            fault: None,
        };
        translator.beginning(history);
        translator.steps(&history.steps);
        translator.ending(history);
        translator.done
    }
}

impl Translator {
    pub(super) fn refuse(&mut self, what: impl Into<String>) {
        self.done.refused.push(what.into());
    }

    pub(super) fn add(&mut self, action: Action) {
        self.done.actions.push(action);
    }

    fn time(&mut self, ms: u32) {
        let seed = self.random.number();
        self.add(Action::Time { ms, seed });
    }

    fn moment(&mut self) {
        let (count, seed) = (self.random.roll(MOMENT) as u16, self.random.number());
        self.add(Action::Steps { count, seed });
    }

    fn span(&mut self, span: Span) {
        match span {
            Span::Exactly(time) => self.time(milliseconds(time)),
            Span::Within(_) => self.moment(),
        }
    }

    fn beginning(&mut self, history: &History) {
        for server in &history.servers {
            self.add(match server {
                Server::Etcd => Action::ShareStore,
                Server::Api => Action::FollowApiServer,
                Server::Containerd => Action::Runtime(RuntimeNews::Followed),
            });
        }
        if !history.flags.is_empty() {
            self.refuse("its agents have no flags");
        }
        for measure in [history.expect.ready, history.expect.api].into_iter().flatten() {
            let time = milliseconds(measure);
            self.refuse(format!("its time is virtual: nothing takes {time} ms there"));
        }
        self.apply(&history.manifests);
        for (name, labels) in &history.pods {
            self.create(name, labels);
        }
        self.time(100);
        self.add(Action::Connect);
        self.add(Action::Rest);
        self.flows(&history.traffic);
    }

    fn ending(&mut self, history: &History) {
        self.add(Action::Rest);
        if history.expect.writes.is_some() || history.expect.guarantees.contains(&9) {
            self.add(Action::RestartUnchanged);
        }
        let names: Vec<_> = self.pods.keys().cloned().collect();
        for from in &names {
            for to in names.iter().filter(|to| *to != from) {
                let reached = self.passes(from, to, WEB);
                self.done.reach.insert(format!("{from} -> {to}"), reached);
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            if let Step::Repeat { times, steps } = step {
                (0..*times).for_each(|_| self.steps(steps));
                continue;
            }
            self.done.steps.push(explain::step(step));
            self.step(step);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Create { pod, labels } => self.create(pod, labels),
            Step::DeletePod(pod) => {
                self.pods.remove(pod);
                let number = self.number(pod);
                self.add(Action::Remove(number));
            }
            Step::Label { pod, labels } => {
                let app = self.app(labels);
                self.pods.insert(pod.clone(), app);
                let pod = self.number(pod);
                self.add(Action::Label { pod, app, reported: true });
                self.look();
            }
            Step::Apply(manifests) => self.apply(manifests),
            Step::DeleteManifest(name) => {
                self.policies.remove(name);
                self.tell();
            }
            Step::Traffic(flows) => self.flows(flows),
            // Rest ends faults, which must go on.
            Step::Wait(_) if self.fault.is_some() => self.time(3_000),
            Step::Wait(_) => self.add(Action::Rest),
            Step::Sleep(span) => self.span(*span),
            Step::Kill | Step::Stop => self.add(Action::Kill),
            Step::KillAfter(span) => {
                self.span(*span);
                self.add(Action::Kill);
            }
            Step::KillAfterMessages(count) => {
                let seed = self.random.number();
                self.add(Action::Steps { count: short(*count), seed });
                self.add(Action::Kill);
            }
            Step::Cancel { pod, labels, after } => self.cancel(pod, labels, *after),
            Step::Crash(actor) => {
                let victim = match ACTORS.iter().find(|name| *name == actor) {
                    Some(name) => Victim::Named(name),
                    None => Victim::Any(self.random.number()),
                };
                self.add(Action::Crash(victim));
            }
            Step::KillBefore { restarts: true, .. } => {
                self.refuse("nobody starts an agent there by himself");
            }
            Step::KillBefore { nth, .. } => self.add(Action::KillAt(short(*nth))),
            Step::Start(deaths) => self.start(deaths),
            Step::Restart(deaths) => {
                self.add(Action::Kill);
                self.start(deaths);
                if self.fault.is_some() { self.time(3_000) } else { self.add(Action::Rest) }
            }
            Step::Flags(_) => self.refuse("its agents have no flags"),
            Step::Reach(reach) => self.reach(reach),
            Step::Upgrade(..) => {
                self.refuse("it has one build of the agent, and none to upgrade to")
            }
            Step::Fault(fault) => self.fault(fault),
            Step::Repeat { .. } => {}
        }
    }

    /// What the model says of one connection; the node must agree with the model all the time.
    fn reach(&mut self, reach: &Reach) {
        let what = explain::step(&Step::Reach(reach.clone()));
        let (Target::Pod(to), probe) = (&reach.to, (6, reach.port)) else {
            return self.refuse(format!("its services are its own ({what})"));
        };
        if !PROBES.contains(&probe) {
            return self.refuse(format!("it looks at TCP ports 80 and 81, and not whether {what}"));
        }
        match (reach.is_denied, self.passes(&reach.from, to, probe)) {
            (false, false) => self.done.denied.push(what),
            (true, true) => self.done.let_through.push(what),
            _ => {}
        }
    }

    fn create(&mut self, name: &Name, labels: &Labels) {
        let app = self.app(labels);
        self.pods.insert(name.clone(), app);
        let pod = self.number(name);
        self.add(Action::Label { pod, app, reported: true });
        self.add(Action::Add(pod));
        self.look();
    }

    /// It is gone behind this, whether it came to be or not.
    fn cancel(&mut self, name: &Name, labels: &Labels, after: Span) {
        let (app, pod) = (self.app(labels), self.number(name));
        self.add(Action::Label { pod, app, reported: true });
        self.add(Action::Add(pod));
        self.span(after);
        self.add(Action::Cancel(pod));
    }

    fn app(&mut self, labels: &Labels) -> App {
        let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        match self.apps.of(pairs) {
            Ok(app) => app,
            Err(why) => {
                self.refuse(why);
                App::None
            }
        }
    }

    pub(super) fn number(&mut self, name: &Name) -> u8 {
        let next = self.numbers.len() + 1;
        if next > PODS.into() && !self.numbers.contains_key(name) {
            self.refuse(format!("it has {PODS} pods at most"));
        }
        let next = u8::try_from(next).unwrap_or(PODS).min(PODS);
        *self.numbers.entry(name.clone()).or_insert(next)
    }

    fn apply(&mut self, manifests: &[Manifest]) {
        for Manifest { name, object } in manifests {
            match name.kind.as_str() {
                "namespace" => continue,
                "service" | "endpointslice" => {
                    self.refuse(format!("its services are its own, and not {name}"));
                    continue;
                }
                _ => {}
            }
            match policy(&name.kind, object, &mut self.apps) {
                Ok(policy) => drop(self.policies.insert(name.clone(), policy)),
                Err(why) => self.refuse(format!("{name}: {why}")),
            }
        }
        self.tell();
    }

    /// The source holds the policies that there are.
    fn tell(&mut self) {
        let policies = self.policies.values().cloned().collect();
        self.add(Action::Policies { source: SOURCE, policies, reported: true });
        self.look();
    }

    fn start(&mut self, deaths: &[Death]) {
        for death in deaths {
            match death {
                Death::Before { nth, .. } => self.die_at(*nth),
                Death::Every { step, .. } => {
                    (1..=STEPS_MAX).step_by(*step as usize).for_each(|nth| self.die_at(nth));
                }
                Death::After(span) => {
                    self.boot();
                    self.span(*span);
                }
                Death::At(Phase::Api) => {
                    self.boot();
                    self.moment();
                }
                Death::At(_) => {
                    self.boot();
                    self.time(3_000);
                }
            }
            self.add(Action::Kill);
        }
        self.boot();
    }

    fn boot(&mut self) {
        self.add(Action::Boot { reported: true });
        self.fail();
    }

    /// An agent begins, and dies at a step of kernel or disk.
    fn die_at(&mut self, nth: u32) {
        self.boot();
        self.add(Action::KillAt(short(nth)));
        self.time(100);
    }

    pub(super) fn fail(&mut self) {
        if let Some(kind) = self.fault {
            let seed = self.random.number();
            self.add(Action::Faults { kind, one_in: 1, seed });
        }
    }

    fn flows(&mut self, flows: &[Flow]) {
        for flow in flows {
            if matches!(flow.to, Target::Service(_)) {
                self.refuse(format!("its services are its own ({})", explain::flow(flow)));
            } else if !PROBES.contains(&probe(flow)) {
                let known = "TCP ports 80 and 81, and UDP ports 53 and 80";
                self.refuse(format!("it looks at {known}, not at {}", explain::flow(flow)));
            }
        }
        self.flows.extend_from_slice(flows);
        self.look();
    }

    /// Whether policies let that pass, both ways.
    fn passes(&self, from: &Name, to: &Name, probe: (u8, u16)) -> bool {
        let (Some(from), Some(to)) = (self.pods.get(from), self.pods.get(to)) else { return false };
        let bit = PROBES.iter().position(|it| *it == probe).map_or(0, |place| 1 << place);
        let policies = || self.policies.values();
        let out = passes(policies(), Way::Out, *from, Peer::Pod(*to));
        let into = passes(policies(), Way::In, *to, Peer::Pod(*from));
        out & into & bit != 0
    }

    /// Looks whether policies do what is expected of the traffic.
    fn look(&mut self) {
        for flow in self.flows.clone() {
            let Target::Pod(to) = &flow.to else { continue };
            let passes = self.passes(&flow.from, to, probe(&flow));
            let what = explain::flow(&flow);
            let list = match (flow.expected, passes) {
                (Expected::Flows, false) => &mut self.done.denied,
                (Expected::Denied, true) => &mut self.done.let_through,
                _ => continue,
            };
            if !list.contains(&what) {
                list.push(what);
            }
        }
    }
}

fn probe(flow: &Flow) -> (u8, u16) {
    match flow.kind {
        Kind::Udp => (17, flow.port),
        Kind::Ping => (1, 0),
        Kind::Tcp | Kind::Connect => (6, flow.port),
    }
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn short(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
