//! What contradicts itself in a history whose words are right.

mod faults;

use std::collections::{BTreeMap, BTreeSet};

use faults::Hold;

use super::{
    faults::Server,
    history::{Death, Expected, Flow, History, Manifest, ManifestName, Name, Step, Target, Wait},
    problem::Problem,
    read::{KINDS, is_kind},
    suggest::{nearest, remedy},
    tree::{Part, Path},
};
use crate::{judge::MEASURED, traffic::Kind};

/// Everything that contradicts.
pub(super) fn contradictions(history: &History) -> Vec<Problem> {
    let mut walk = Walk {
        path: Vec::new(),
        problems: Vec::new(),
        pods: history.pods.iter().map(|(name, _)| name.clone()).collect(),
        manifests: BTreeSet::new(),
        agent: Agent::Lives,
        judged: BTreeMap::new(),
        serves: BTreeSet::new(),
        counted: BTreeMap::new(),
        known: faults::Known::of(&history.servers),
    };
    walk.beginning(history);
    walk.at(&[word("steps")], |walk| {
        walk.steps(&history.steps);
        walk.wants_interfaces();
    });
    walk.guarantees(history);
    walk.problems
}

fn word(text: &str) -> Part {
    Part::Key(text.to_owned())
}

/// Whether an agent runs.
#[derive(Clone, Copy, PartialEq)]
enum Agent {
    Lives,
    /// It runs, and will die somewhere.
    Dying,
    /// So does this one, and another one is started then.
    Restarting,
    Dead,
}

/// What is known at a step.
struct Walk {
    path: Path,
    problems: Vec<Problem>,
    pods: BTreeSet<Name>,
    manifests: BTreeSet<ManifestName>,
    agent: Agent,
    /// Pods of flows that are judged, and which flow it is.
    judged: BTreeMap<Name, String>,
    /// Pods, kinds and ports at which somebody answers.
    serves: BTreeSet<(Name, Kind, u16)>,
    /// Pods in which TCP segments are counted.
    counted: BTreeMap<Name, String>,
    known: faults::Known,
}

impl Walk {
    fn at(&mut self, parts: &[Part], body: impl FnOnce(&mut Self)) {
        let depth = self.path.len();
        self.path.extend_from_slice(parts);
        body(self);
        self.path.truncate(depth);
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.problems.push(Problem::value(&self.path, what));
    }

    fn beginning(&mut self, history: &History) {
        for (number, manifest) in history.manifests.iter().enumerate() {
            self.at(&[word("manifests"), Part::Item(number)], |walk| {
                if walk.manifests.contains(&manifest.name) {
                    walk.wrong(format!("{} is there twice: take one of them away", manifest.name));
                }
                walk.apply(manifest);
            });
        }
        for (number, flow) in history.traffic.iter().enumerate() {
            self.at(&[word("traffic"), Part::Item(number)], |walk| walk.flow(flow));
        }
    }

    fn apply(&mut self, manifest: &Manifest) {
        let kind = &manifest.name.kind;
        if !is_kind(kind) {
            let what = match kind.as_str() {
                "pod" => "pods are made by the word pods, or by the step create".to_owned(),
                _ => format!("kind {kind} is not understood: {}", remedy(kind, KINDS.into_iter())),
            };
            self.at(&[word("kind")], |walk| walk.wrong(what));
        }
        self.manifests.insert(manifest.name.clone());
    }

    fn pod(&mut self, name: &Name) {
        if self.pods.contains(name) {
            return;
        }
        let there: Vec<_> = self.pods.iter().map(ToString::to_string).collect();
        let written = name.to_string();
        let remedy = match nearest(&written, there.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None if there.is_empty() => "there are no pods: name it under pods".to_owned(),
            None => format!("there are {}", there.join(", ")),
        };
        self.wrong(format!("there is no pod {written} at this step: {remedy}"));
    }

    fn flow(&mut self, flow: &Flow) {
        self.at(&[word("from")], |walk| walk.pod(&flow.from));
        self.at(&[word("to")], |walk| match &flow.to {
            Target::Pod(name) => walk.pod(name),
            Target::Service(name) => walk.service(name, flow.kind, flow.ipv6),
        });
        let what = format!("{} from {}", flow.kind, flow.from);
        if flow.kind == Kind::Tcp && flow.expected == Expected::Denied {
            self.wrong("tcp is one connection, which could not begin: write connect");
        }
        let receiver = match &flow.to {
            Target::Pod(name) => vec![name],
            Target::Service(_) => Vec::new(),
        };
        if flow.expected != Expected::Any {
            for name in [&flow.from].into_iter().chain(receiver.iter().copied()) {
                self.judged.insert(name.clone(), what.clone());
            }
        }
        for name in receiver.iter().filter(|_| flow.kind != Kind::Ping) {
            let kind = if flow.kind == Kind::Udp { Kind::Udp } else { Kind::Tcp };
            if !self.serves.insert(((*name).clone(), kind, flow.port)) {
                let port = flow.port;
                self.wrong(format!(
                    "{name} answers other traffic at port {port}: take another port"
                ));
            }
        }
        if matches!(flow.kind, Kind::Tcp | Kind::Connect) && flow.expected == Expected::Flows {
            for name in [&flow.from].into_iter().chain(receiver) {
                if let Some(other) = self.counted.insert(name.clone(), what.clone()) {
                    self.wrong(format!(
                        "the kernel counts lost segments for each pod, and {name} has {other} \
                         already: let it be between pods of its own"
                    ));
                }
            }
        }
    }

    fn service(&mut self, name: &Name, kind: Kind, is_ipv6: bool) {
        let object = ManifestName { kind: "service".into(), name: name.clone() };
        if !self.manifests.contains(&object) {
            self.wrong(format!("there is no service {name} at this step: name it under manifests"));
        }
        if is_ipv6 && self.known.servers.contains(&Server::Api) {
            self.wrong("the API server gives services IPv4 addresses alone: take family: ipv4");
        }
        if kind == Kind::Ping {
            self.wrong("a service does not answer echo requests: write udp or connect");
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for (number, step) in steps.iter().enumerate() {
            self.at(&[Part::Item(number)], |walk| walk.step(step));
        }
    }

    fn step(&mut self, step: &Step) {
        if matches!(
            step,
            Step::Create { .. }
                | Step::Cancel { .. }
                | Step::DeletePod(_)
                | Step::DeleteManifest(_)
                | Step::Label { .. }
                | Step::Apply(_)
        ) {
            self.wants_server();
        }
        match step {
            Step::Create { pod, .. } => self.at(&[word("create"), word("pod")], |walk| {
                if !walk.pods.insert(pod.clone()) {
                    walk.wrong(format!("pod {pod} is there already: delete it first"));
                }
                walk.wants_agent();
            }),
            Step::Cancel { pod, .. } => self.at(&[word("cancel"), word("pod")], |walk| {
                if walk.pods.contains(pod) {
                    walk.wrong(format!("pod {pod} is there already: delete it first"));
                }
                walk.wants_agent();
            }),
            Step::Crash(_) => self.at(&[word("crash")], Self::wants_agent),
            Step::DeletePod(pod) => self.at(&[word("delete")], |walk| {
                walk.pod(pod);
                walk.pods.remove(pod);
                walk.known.unplugged.remove(pod);
                if let Some(flow) = walk.judged.get(pod) {
                    let what = format!(
                        "{pod} cannot go while it is judged what becomes of {flow}: write expected: any there"
                    );
                    walk.wrong(what);
                }
            }),
            Step::DeleteManifest(name) => self.at(&[word("delete")], |walk| {
                if !walk.manifests.remove(name) {
                    let there: Vec<_> = walk.manifests.iter().map(ToString::to_string).collect();
                    let remedy = remedy(&name.to_string(), there.iter().map(String::as_str));
                    walk.wrong(format!("there is no {name} at this step: {remedy}"));
                }
            }),
            Step::Label { pod, .. } => {
                self.at(&[word("label"), word("pod")], |walk| walk.pod(pod));
            }
            Step::Apply(manifests) => self.at(&[word("apply")], |walk| {
                manifests.iter().for_each(|manifest| walk.apply(manifest));
            }),
            Step::Traffic(flows) => self.at(&[word("traffic")], |walk| {
                flows.iter().for_each(|flow| walk.flow(flow));
            }),
            Step::Wait(what) => self.at(&[word("wait")], |walk| walk.wait(*what)),
            Step::Fault(fault) => self.at(&[word("fault")], |walk| walk.fault(fault)),
            Step::Repeat { times, steps } => {
                self.at(&[word("repeat"), word("steps")], |walk| {
                    walk.steps(steps);
                    // What can be done once may contradict itself the second time.
                    if *times > 1 {
                        walk.steps(steps);
                    }
                });
            }
            Step::Reach(reach) => self.at(&[word("reach")], |walk| {
                walk.at(&[word("from")], |walk| walk.pod(&reach.from));
                walk.at(&[word("to")], |walk| match &reach.to {
                    Target::Pod(name) => walk.pod(name),
                    Target::Service(name) => walk.service(name, Kind::Connect, reach.ipv6),
                });
            }),
            Step::Sleep(_) | Step::Flags(_) => {}
            _ => self.life(step),
        }
    }

    /// What makes agents begin and end.
    fn life(&mut self, step: &Step) {
        if matches!(step, Step::KillBefore { .. }) {
            self.wants_free_agent();
        } else {
            self.known.held.clear();
        }
        match step {
            Step::Kill
            | Step::KillAfter(_)
            | Step::KillAfterMessages(_)
            | Step::KillBefore { .. }
            | Step::Stop => {
                if self.agent == Agent::Dead {
                    self.wrong("no agent runs at this step: start one first");
                }
                self.agent = match step {
                    Step::KillBefore { restarts: true, .. } => Agent::Restarting,
                    Step::KillBefore { .. } => Agent::Dying,
                    _ => Agent::Dead,
                };
            }
            Step::Start(_) => {
                if matches!(self.agent, Agent::Lives | Agent::Restarting) {
                    self.wrong(
                        "an agent runs already at this step: kill it first, or write restart",
                    );
                }
                self.agent = if self.known.starves { Agent::Dying } else { Agent::Lives };
            }
            _ => {
                self.agent = Agent::Lives;
                self.wants_interfaces();
            }
        }
        if let Step::Start(deaths) | Step::Restart(deaths) | Step::Upgrade(_, deaths) = step
            && deaths.len() > 1
            && deaths.iter().any(|death| matches!(death, Death::Every { .. }))
        {
            self.wrong("every is many deaths already: let it stand alone");
        }
    }

    fn wait(&mut self, what: Wait) {
        if self.known.held.contains(&Hold::Still) {
            self.wrong("the agent stands still: write fault: {cpu: well} before this");
        }
        match (what, self.agent) {
            (Wait::Dead, Agent::Lives) => {
                self.wrong("nothing kills the agent: write kill with before in front of it");
            }
            (Wait::Dead, Agent::Restarting) => self.agent = Agent::Lives,
            (Wait::Dead, _) => self.agent = Agent::Dead,
            _ => {
                self.wants_agent();
                self.wants_interfaces();
            }
        }
    }

    fn wants_interfaces(&mut self) {
        if let Some(pod) = self.known.unplugged.pop_first() {
            self.wrong(format!(
                "{pod} has no interface any more, and never gets ready: delete it before this"
            ));
        }
    }

    fn wants_agent(&mut self) {
        if self.agent == Agent::Dead {
            self.wrong("no agent runs at this step: start one first");
        }
    }

    fn guarantees(&mut self, history: &History) {
        for (place, number) in history.expect.guarantees.iter().enumerate() {
            if !MEASURED.contains(number) {
                let all: Vec<_> = MEASURED.iter().map(ToString::to_string).collect();
                let path = [word("expect"), word("guarantees"), Part::Item(place)];
                self.at(&path, |walk| {
                    walk.wrong(format!(
                        "nothing measures guarantee {number}: take of {}",
                        all.join(", ")
                    ));
                });
            }
        }
    }
}
