//! A history as it was understood: plain data that both worlds live through.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use serde_json::Value;

use super::faults::{Fault, Server};
use crate::traffic::Kind;

/// Labels of a pod.
pub(super) type Labels = BTreeMap<String, String>;

/// A namespace and a name. Shows the name alone where the namespace is the usual one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Where things are that name no namespace.
pub(super) const NAMESPACE: &str = "default";

impl Name {
    pub(super) fn parse(text: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or((NAMESPACE, text));
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// As the lab calls it.
    pub(super) fn full(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            NAMESPACE => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// Names a manifest: its kind in small letters, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManifestName {
    pub(super) kind: String,
    pub(super) name: Name,
}

impl fmt::Display for ManifestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// An object of Kubernetes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    pub(super) name: ManifestName,
    /// With its namespace filled in.
    pub(super) object: Value,
}

/// What goes on while things happen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flow {
    pub(super) from: Name,
    pub(super) to: Target,
    pub(super) kind: Kind,
    pub(super) port: u16,
    pub(super) ipv6: bool,
    pub(super) expected: Expected,
    pub(super) rate: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    Pod(Name),
    Service(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Flows,
    Denied,
    Any,
}

/// A step of a history.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Create {
        pod: Name,
        labels: Labels,
    },
    /// Who makes a pod gives up after a while.
    Cancel {
        pod: Name,
        labels: Labels,
        after: Span,
    },
    /// An actor of the agent panics.
    Crash(String),
    DeletePod(Name),
    DeleteManifest(ManifestName),
    Label {
        pod: Name,
        labels: Labels,
    },
    Apply(Vec<Manifest>),
    Traffic(Vec<Flow>),
    Wait(Wait),
    Sleep(Span),
    Kill,
    /// The agent is killed so long from now, while nothing else happens.
    KillAfter(Span),
    /// The agent that runs will die there, whatever else happens meanwhile.
    KillBefore {
        call: String,
        nth: u32,
        /// Another one is started at once.
        restarts: bool,
    },
    /// The agent that runs lives for so many messages between actors, and steps of kernel and disk.
    KillAfterMessages(u32),
    Stop,
    Start(Vec<Death>),
    Restart(Vec<Death>),
    Flags(BTreeMap<String, String>),
    Upgrade(Build, Vec<Death>),
    Reach(Reach),
    Fault(Fault),
    Repeat {
        times: u32,
        steps: Vec<Step>,
    },
}

/// A connection that is tried.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reach {
    pub(super) from: Name,
    pub(super) to: Target,
    pub(super) port: u16,
    pub(super) ipv6: bool,
    pub(super) is_denied: bool,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Ready,
    Applied,
    Dead,
}

/// A time, or a part of it that the seed chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Span {
    Exactly(Duration),
    Within(Duration),
}

/// Where an agent dies that has just been started.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Death {
    Before {
        call: String,
        nth: u32,
    },
    /// Before the first call, then before the next but so many, until a start makes fewer.
    Every {
        call: String,
        step: u32,
    },
    After(Span),
    At(Phase),
}

/// How far a start has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Api,
    Ready,
    Restored,
}

/// A build of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    Other,
    Usual,
}

/// What is judged; nothing where there is no number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expectations {
    pub(super) lost: Option<u64>,
    pub(super) let_through: Option<u64>,
    pub(super) moved: Option<u64>,
    pub(super) dips: Option<u64>,
    pub(super) leaks: Option<u64>,
    pub(super) differences: Option<u64>,
    pub(super) writes: Option<u64>,
    pub(super) ready: Option<Duration>,
    pub(super) api: Option<Duration>,
    /// Only what these say, if any is named.
    pub(super) guarantees: Vec<u8>,
}

impl Default for Expectations {
    fn default() -> Self {
        let none = Some(0);
        Self {
            lost: none,
            let_through: none,
            moved: none,
            dips: none,
            leaks: none,
            differences: none,
            writes: None,
            ready: None,
            api: None,
            guarantees: Vec::new(),
        }
    }
}

/// A whole history.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Of the file, without its end.
    pub(super) name: String,
    pub(super) about: String,
    pub(super) reported: Option<String>,
    pub(super) flags: BTreeMap<String, String>,
    pub(super) servers: BTreeSet<Server>,
    /// In the order of the file.
    pub(super) pods: Vec<(Name, Labels)>,
    pub(super) manifests: Vec<Manifest>,
    pub(super) traffic: Vec<Flow>,
    pub(super) steps: Vec<Step>,
    pub(super) expect: Expectations,
}

impl History {
    /// Every step, those that are repeated once.
    pub(super) fn all_steps(&self) -> Vec<&Step> {
        fn add<'a>(steps: &'a [Step], all: &mut Vec<&'a Step>) {
            for step in steps {
                all.push(step);
                if let Step::Repeat { steps, .. } = step {
                    add(steps, all);
                }
            }
        }
        let mut all = Vec::new();
        add(&self.steps, &mut all);
        all
    }

    /// Every fault.
    pub(super) fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.all_steps().into_iter().filter_map(|step| match step {
            Step::Fault(fault) => Some(fault),
            _ => None,
        })
    }

    /// Deaths before calls: their names.
    pub(super) fn calls(&self) -> Vec<&str> {
        self.all_steps().into_iter().flat_map(calls_of).collect()
    }
}

fn calls_of(step: &Step) -> Vec<&str> {
    match step {
        Step::KillBefore { call, .. } => vec![call],
        Step::Start(deaths) | Step::Restart(deaths) | Step::Upgrade(_, deaths) => deaths
            .iter()
            .filter_map(|death| match death {
                Death::Before { call, .. } | Death::Every { call, .. } => Some(call.as_str()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}
