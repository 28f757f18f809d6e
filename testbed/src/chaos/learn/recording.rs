//! What a flight recording tells of a life: who was there, what came from outside, and how much followed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use volvox_actors::host::{
    Time,
    flight::{Event, Flight, What},
};
use volvox_inspect::flight;

use crate::chaos::tree::Tree;

/// Pods that the simulator has at most.
const PODS: usize = 26;
/// Labels that it has at most.
const LABELS: usize = 3;
/// A pause that is told.
const PAUSE: Duration = Duration::from_millis(20);
/// One that is longer is told as this: what waits in the agent waits for less.
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// What followed from one event, at most, as far as deaths go into it.
const FOLLOWED_MAX: u32 = 400;
/// The policy that stands for all.
const POLICY: &str = "learned";

/// One life.
pub(super) struct Recorded {
    place: PathBuf,
    /// Who was there when it began.
    before: BTreeSet<String>,
    events: Vec<Came>,
    /// What followed from its start.
    start: u32,
}

/// Something that came from outside.
struct Came {
    at: Time,
    what: Outside,
    /// Messages and steps of the kernel that followed from it.
    followed: u32,
}

enum Outside {
    Create(String),
    Delete(String),
    Label(String),
    Policy,
}

/// What was learned.
pub(super) struct Learned {
    /// The history.
    pub(super) tree: Tree,
    /// Of each step what followed from it; of a pause nothing.
    pub(super) followed: Vec<u32>,
    /// What is to be known of it.
    pub(super) notes: Vec<String>,
}

impl Recorded {
    /// Reads a ring.
    pub(super) fn read(place: &Path) -> Result<Self> {
        let Flight { events, life } = flight::open(place)?;
        ensure!(
            !events.is_empty(),
            "{} holds nothing: an agent writes it while it runs",
            place.display()
        );
        if life.overwritten > 0 {
            volvox_system::complain!(
                "{}: {} earlier records were overwritten; the history begins behind them",
                place.display(),
                life.overwritten
            );
        }
        let mut reader = Reader::default();
        events.iter().for_each(|event| reader.take(event));
        Ok(reader.life(place))
    }
}

/// What is known of a root.
#[derive(Default)]
struct Root {
    what: Option<(Arc<str>, Time)>,
    followed: u32,
    deletes: Option<String>,
    labels: BTreeSet<String>,
    changes_policy: bool,
}

#[derive(Default)]
struct Reader {
    /// Names of cells, of endpoints' the pod's.
    cells: BTreeMap<u32, Arc<str>>,
    roots: BTreeMap<u64, Root>,
    spawned: Vec<(String, Time)>,
}

/// The pod of the cell of an endpoint, or the endpoint where it has none.
fn pod(cell: &str) -> Option<String> {
    let rest = cell.strip_prefix("endpoint ")?;
    let name = rest.split_once(" (").and_then(|(_, name)| name.strip_suffix(')'));
    Some(name.map_or_else(|| format!("endpoint-{rest}"), str::to_owned))
}

impl Reader {
    fn take(&mut self, event: &Event) {
        match &event.what {
            What::Spawned { cell, name, at, .. } => {
                if let Some(pod) = pod(name) {
                    self.spawned.push((pod, *at));
                }
                self.cells.insert(cell.0, Arc::clone(name));
            }
            What::Root { root, what, at } => {
                self.roots.entry(root.0).or_default().what = Some((Arc::clone(what), *at));
            }
            What::Kernel { root, .. } => self.roots.entry(root.0).or_default().followed += 1,
            What::Message { root, kind, to, .. } => {
                let name = self.cells.get(&to.0).cloned();
                let root = self.roots.entry(root.0).or_default();
                root.followed += 1;
                let pod = name.as_deref().and_then(pod);
                match (&**kind, pod) {
                    ("Delete", Some(pod)) => root.deletes = Some(pod),
                    ("Pod", Some(pod)) => drop(root.labels.insert(pod)),
                    ("PolicyChanged", _) => root.changes_policy = true,
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn life(self, place: &Path) -> Recorded {
        let mut events = Vec::new();
        let (mut start, mut listed) = (0, Time::default());
        let mut created = BTreeSet::new();
        for (_, root) in self.roots {
            let Some((what, at)) = root.what else { continue };
            if matches!(&*what, "start" | "evidence") {
                start += root.followed;
                listed = listed.max(at);
            }
            let mut add = |what| events.push(Came { at, what, followed: root.followed });
            let named = what.strip_prefix("PUT /endpoint/").and_then(|it| it.split_once(" for "));
            if let Some((_, name)) = named {
                created.insert(name.to_owned());
                add(Outside::Create(name.to_owned()));
            } else if let Some(name) = root.deletes {
                add(Outside::Delete(name));
            } else if !root.labels.is_empty() {
                root.labels.into_iter().for_each(|name| add(Outside::Label(name)));
            } else if root.changes_policy {
                add(Outside::Policy);
            }
        }
        // Until then it hears what there is, which is no change.
        events.retain(|came| {
            came.at > listed || !matches!(came.what, Outside::Label(_) | Outside::Policy)
        });
        events.sort_by_key(|came| came.at);
        // What was there before anybody was made is there from the beginning.
        let first = |name: &str| {
            let of = |came: &&Came| matches!(&came.what, Outside::Create(its) if its == name);
            events.iter().find(of).map(|came| came.at)
        };
        let before = self.spawned.into_iter().filter(|(name, at)| {
            !created.contains(name) || first(name).is_some_and(|created| *at < created)
        });
        let before = before.map(|(name, _)| name).collect();
        Recorded { place: place.to_owned(), before, events, start }
    }
}

/// Pods of one workload have names that differ in what a controller adds.
fn workload(pod: &str) -> &str {
    let added = |part: &str| {
        part.len() <= 10 && (part.chars().any(|it| it.is_ascii_digit()) || part.len() == 5)
    };
    let mut name = pod;
    while let Some((before, last)) = name.rsplit_once('-') {
        if !added(last) {
            break;
        }
        name = before;
    }
    name
}

/// Writes a history of one life, or of several that followed each other.
struct Writer {
    steps: Vec<(Tree, u32)>,
    there: BTreeSet<String>,
    /// Of each pod, how often its labels changed.
    changes: BTreeMap<String, usize>,
    workloads: Vec<String>,
    policies: usize,
    left_out: BTreeSet<String>,
}

fn text(text: impl Into<String>) -> Tree {
    Tree::Text(text.into())
}

fn map(members: &[(&str, Tree)]) -> Tree {
    Tree::Map(members.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

/// One version of the policy, or the other.
fn policy(version: usize) -> Tree {
    let label = |number: usize| map(&[("app", text(format!("app-{number}")))]);
    let peers = if version.is_multiple_of(2) { vec![1] } else { vec![1, 2] };
    let peer = |number| map(&[("podSelector", map(&[("matchLabels", label(number))]))]);
    let from = Tree::List(peers.into_iter().map(peer).collect());
    map(&[
        ("apiVersion", text("networking.k8s.io/v1")),
        ("kind", text("NetworkPolicy")),
        ("metadata", map(&[("name", text(POLICY))])),
        (
            "spec",
            map(&[
                ("podSelector", map(&[("matchLabels", label(0))])),
                ("ingress", Tree::List(vec![map(&[("from", from)])])),
            ]),
        ),
    ])
}

impl Writer {
    fn labels(&mut self, pod: &str) -> Tree {
        let workload = workload(pod).to_owned();
        let place = self.workloads.iter().position(|it| *it == workload);
        let place = place.unwrap_or_else(|| {
            self.workloads.push(workload);
            self.workloads.len() - 1
        });
        let changes = self.changes.get(pod).copied().unwrap_or_default();
        map(&[("app", text(format!("app-{}", (place + changes) % LABELS)))])
    }

    fn add(&mut self, word: &str, value: Tree, followed: u32) {
        self.steps.push((map(&[(word, value)]), followed.min(FOLLOWED_MAX)));
    }

    fn came(&mut self, came: &Came) {
        let followed = came.followed;
        match &came.what {
            Outside::Create(pod) if !self.there.contains(pod) => {
                if self.there.len() >= PODS {
                    self.left_out.insert(pod.clone());
                    return;
                }
                self.there.insert(pod.clone());
                let labels = self.labels(pod);
                self.add("create", map(&[("pod", text(pod)), ("labels", labels)]), followed);
            }
            Outside::Delete(pod) if self.there.remove(pod) => {
                self.add("delete", text(pod), followed);
            }
            Outside::Label(pod) if self.there.contains(pod) => {
                *self.changes.entry(pod.clone()).or_default() += 1;
                let labels = self.labels(pod);
                self.add("label", map(&[("pod", text(pod)), ("labels", labels)]), followed);
            }
            Outside::Policy => {
                self.policies += 1;
                self.add("apply", policy(self.policies), followed);
            }
            _ => {}
        }
    }
}

/// The history of these lives, which followed each other.
pub(super) fn learn(lives: &[Recorded]) -> Result<Learned> {
    let Some(first) = lives.first() else { bail!("no recording is named") };
    let mut writer = Writer {
        steps: Vec::new(),
        there: first.before.iter().take(PODS).cloned().collect(),
        changes: BTreeMap::new(),
        workloads: Vec::new(),
        policies: 0,
        left_out: first.before.iter().skip(PODS).cloned().collect(),
    };
    let there: Vec<_> = writer.there.iter().cloned().collect();
    let pods = there.into_iter().map(|pod| {
        let labels = writer.labels(&pod);
        (pod, labels)
    });
    let pods = Tree::Map(pods.collect());
    for (number, life) in lives.iter().enumerate() {
        if number > 0 {
            writer.steps.push((text("kill"), 0));
            writer.steps.push((text("start"), life.start.min(FOLLOWED_MAX)));
        }
        let mut before: Option<Time> = None;
        for came in &life.events {
            let since = before.map(|before| came.at.since(before)).unwrap_or_default();
            if since >= PAUSE {
                let pause = format!("{}ms", since.min(PAUSE_MAX).as_millis());
                writer.add("sleep", text(pause), 0);
            }
            writer.came(came);
            before = Some(came.at);
        }
    }
    writer.steps.push((text("restart"), lives.last().map_or(0, |it| it.start.min(FOLLOWED_MAX))));
    let places: Vec<_> = lives.iter().map(|it| it.place.display().to_string()).collect();
    let about = format!(
        "Learned from a flight recording: {} events from outside in {} lives.",
        writer.steps.iter().filter(|(_, followed)| *followed > 0).count(),
        lives.len()
    );
    let mut notes = vec![
        format!("Learned from {}.", places.join(" and ")),
        "A recording holds no contents: labels stand for workloads, and one policy for all.".into(),
    ];
    if writer.workloads.len() > LABELS {
        let count = writer.workloads.len();
        notes.push(format!("There were {count} workloads; {LABELS} labels stand for them."));
    }
    if !writer.left_out.is_empty() {
        let count = writer.left_out.len();
        notes.push(format!("{count} pods are left out: the simulator has {PODS}."));
    }
    let (steps, followed) = writer.steps.into_iter().unzip();
    let tree = map(&[
        ("about", text(about)),
        ("pods", pods),
        ("manifests", Tree::List(vec![policy(0)])),
        ("steps", Tree::List(steps)),
    ]);
    Ok(Learned { tree, followed, notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_one_workload_are_known_by_their_names() {
        for (pod, expected) in [
            ("shop/web-7d4b9c6f5-x2x4z", "shop/web"),
            ("shop/db-0", "shop/db"),
            ("shop/web", "shop/web"),
            ("shop/payment-gateway", "shop/payment-gateway"),
        ] {
            assert_eq!(workload(pod), expected, "{pod}");
        }
        assert_eq!(pod("endpoint 7 (shop/web)"), Some("shop/web".into()));
        assert_eq!(pod("endpoint 7"), Some("endpoint-7".into()));
        assert_eq!(pod("ipcache"), None);
    }
}
