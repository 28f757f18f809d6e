//! From the text of a history to a [`History`]: first the shape, then the values, then what contradicts.

use std::collections::BTreeMap;

use super::{
    check,
    faults::{Fault, Server},
    grammar::HISTORY,
    history::{
        Build, Death, Expectations, Expected, Flow, History, Labels, Manifest, ManifestName,
        NAMESPACE, Name, Phase, Reach, Span, Step, Target, Wait,
    },
    problem::{Complaint, Problem},
    shape::{self, ANY},
    tree::{Part, Path, Tree},
};
use crate::traffic::Kind;

/// What is sent a second, if the file does not say it.
const RATE: u32 = 200;
/// Where it goes.
const PORT: u16 = 80;

impl History {
    /// Reads the text of a file that is called so.
    pub fn read(file: &str, text: &str) -> Result<Self, Vec<Complaint>> {
        let tree =
            Tree::read(text).map_err(|(place, what)| vec![Complaint::new(file, place, what)])?;
        let complaints = |problems: Vec<Problem>| Complaint::all(file, text, &problems);
        let problems = shape::check(&HISTORY, &tree);
        if !problems.is_empty() {
            return Err(complaints(problems));
        }
        let mut reader = Reader { path: Vec::new(), problems: Vec::new() };
        let history = reader.history(file, &tree);
        let mut problems = reader.problems;
        problems.extend(check::contradictions(&history));
        if problems.is_empty() { Ok(history) } else { Err(complaints(problems)) }
    }
}

/// Reads values of a tree whose shape is right. What shapes cannot say is noted.
struct Reader {
    path: Path,
    problems: Vec<Problem>,
}

fn text(tree: &Tree, word: &str) -> String {
    tree.get(word).and_then(Tree::text).unwrap_or_default()
}

fn name(tree: &Tree, word: &str) -> Name {
    Name::parse(&text(tree, word))
}

fn whole(tree: &Tree, word: &str) -> Option<u32> {
    match tree.get(word) {
        Some(Tree::Whole(number)) => u32::try_from(*number).ok(),
        _ => None,
    }
}

fn texts(tree: Option<&Tree>) -> BTreeMap<String, String> {
    let members = tree.map(Tree::members).unwrap_or_default();
    members.iter().filter_map(|(key, value)| Some((key.clone(), value.text()?))).collect()
}

/// One alone is as a list of it.
fn many(tree: &Tree) -> Vec<&Tree> {
    match tree {
        Tree::List(items) => items.iter().collect(),
        Tree::Empty => Vec::new(),
        one => vec![one],
    }
}

fn span(tree: &Tree) -> Span {
    match tree.get("within") {
        Some(longest) => Span::Within(shape::time(longest).unwrap_or_default()),
        None => Span::Exactly(shape::time(tree).unwrap_or_default()),
    }
}

fn target(tree: &Tree) -> Target {
    let to = text(tree, "to");
    match to.strip_prefix("service/") {
        Some(service) => Target::Service(Name::parse(service)),
        None => Target::Pod(Name::parse(&to)),
    }
}

fn port(tree: &Tree) -> u16 {
    whole(tree, "port").and_then(|port| port.try_into().ok()).unwrap_or(PORT)
}

fn reach(tree: &Tree) -> Reach {
    Reach {
        from: name(tree, "from"),
        to: target(tree),
        port: port(tree),
        ipv6: text(tree, "family") == "ipv6",
        is_denied: text(tree, "expected") == "denied",
    }
}

fn build(text: Option<String>) -> Build {
    if text.as_deref() == Some("other") { Build::Other } else { Build::Usual }
}

fn flow(tree: &Tree) -> Flow {
    Flow {
        from: name(tree, "from"),
        to: target(tree),
        kind: match text(tree, "kind").as_str() {
            "udp" => Kind::Udp,
            "tcp" => Kind::Tcp,
            "ping" => Kind::Ping,
            _ => Kind::Connect,
        },
        port: port(tree),
        ipv6: text(tree, "family") == "ipv6",
        expected: match text(tree, "expected").as_str() {
            "denied" => Expected::Denied,
            ANY => Expected::Any,
            _ => Expected::Flows,
        },
        rate: whole(tree, "rate").unwrap_or(RATE),
    }
}

/// Kinds that belong to no namespace.
const OF_NO_NAMESPACE: [&str; 3] =
    ["namespace", "ciliumclusterwidenetworkpolicy", "clusternetworkpolicy"];

fn manifest(tree: &Tree) -> Manifest {
    let mut object = tree.json();
    let kind = text(tree, "kind").to_lowercase();
    let metadata = tree.get("metadata").cloned().unwrap_or(Tree::Empty);
    let namespace = metadata.get("namespace").and_then(Tree::text);
    let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
    if !OF_NO_NAMESPACE.contains(&kind.as_str()) {
        object["metadata"]["namespace"] = namespace.clone().into();
    }
    let name = Name { namespace, name: text(&metadata, "name") };
    Manifest { name: ManifestName { kind, name }, object }
}

fn expectations(tree: Option<&Tree>) -> Expectations {
    let usual = Expectations::default();
    let Some(tree) = tree else { return usual };
    let limit = |word: &str, usual: Option<u64>| match tree.get(word) {
        None => usual,
        Some(Tree::Whole(number)) => u64::try_from(*number).ok(),
        Some(_) => None,
    };
    let time = |word: &str| tree.get(word).and_then(|it| shape::time(it).ok());
    let numbers = tree.get("guarantees").map(Tree::items).unwrap_or_default();
    Expectations {
        lost: limit("lost", usual.lost),
        let_through: limit("let-through", usual.let_through),
        moved: limit("moved", usual.moved),
        dips: limit("dips", usual.dips),
        leaks: limit("leaks", usual.leaks),
        differences: limit("differences", usual.differences),
        writes: limit("writes", usual.writes),
        ready: time("ready"),
        api: time("api"),
        guarantees: numbers.iter().filter_map(|it| it.text()?.parse().ok()).collect(),
    }
}

impl Reader {
    fn history(&mut self, file: &str, tree: &Tree) -> History {
        let stem = std::path::Path::new(file).file_stem();
        let items = |word: &str| tree.get(word).map(Tree::items).unwrap_or_default();
        let pods = tree.get("pods").map(Tree::members).unwrap_or_default();
        self.path.push(Part::Key("steps".into()));
        let steps = self.steps(items("steps"));
        self.path.pop();
        History {
            name: stem.map_or(file.to_owned(), |stem| stem.to_string_lossy().into_owned()),
            about: text(tree, "about"),
            reported: tree.get("reported").and_then(Tree::text),
            flags: texts(tree.get("node").and_then(|node| node.get("flags"))),
            servers: items("servers").iter().filter_map(|it| Server::of(&it.text()?)).collect(),
            pods: pods.iter().map(|(name, it)| (Name::parse(name), texts(Some(it)))).collect(),
            manifests: items("manifests").iter().map(manifest).collect(),
            traffic: items("traffic").iter().map(flow).collect(),
            steps,
            expect: expectations(tree.get("expect")),
        }
    }

    fn steps(&mut self, items: &[Tree]) -> Vec<Step> {
        let steps = items.iter().enumerate().map(|(number, tree)| {
            self.path.push(Part::Item(number));
            let step = match (tree, tree.members().first()) {
                (_, Some((word, value))) => {
                    self.path.push(Part::Key(word.clone()));
                    let step = self.step(word, value);
                    self.path.pop();
                    step
                }
                (word, None) => self.step(&word.text().unwrap_or_default(), &Tree::Empty),
            };
            self.path.pop();
            step
        });
        steps.collect()
    }

    fn step(&mut self, word: &str, value: &Tree) -> Step {
        let labels = || -> Labels { texts(value.get("labels")) };
        match word {
            "cancel" => {
                self.only_one(value, &["after", "within"]);
                let after = value.get("after").map_or_else(|| span(value), span);
                Step::Cancel { pod: name(value, "pod"), labels: labels(), after }
            }
            "crash" => Step::Crash(value.text().unwrap_or_default()),
            "create" => Step::Create { pod: name(value, "pod"), labels: labels() },
            "label" => Step::Label { pod: name(value, "pod"), labels: labels() },
            "delete" => delete(&value.text().unwrap_or_default()),
            "apply" => Step::Apply(many(value).into_iter().map(manifest).collect()),
            "traffic" => Step::Traffic(many(value).into_iter().map(flow).collect()),
            "wait" => Step::Wait(match value.text().as_deref() {
                Some("dead") => Wait::Dead,
                Some("applied") => Wait::Applied,
                _ => Wait::Ready,
            }),
            "sleep" => Step::Sleep(span(value)),
            "kill" => self.kill(value),
            "stop" => Step::Stop,
            "start" => Step::Start(self.deaths(value)),
            "restart" => Step::Restart(self.deaths(value)),
            "flags" => Step::Flags(texts(Some(value))),
            "reach" => Step::Reach(reach(value)),
            "upgrade" => {
                let to = value.get("to").unwrap_or(value).text();
                Step::Upgrade(build(to), self.deaths(value))
            }
            "fault" => {
                let what = value.members().first();
                let (what, value) = what.expect("the shape is right");
                if what == "clock" && value.text().is_none() {
                    self.path.push(Part::Key(what.clone()));
                    self.only_one(value, &["ahead", "back"]);
                    self.path.pop();
                }
                Step::Fault(Fault::read(what, value))
            }
            _ => {
                self.path.push(Part::Key("steps".into()));
                let steps = self.steps(value.get("steps").map(Tree::items).unwrap_or_default());
                self.path.pop();
                Step::Repeat { times: whole(value, "times").unwrap_or(1), steps }
            }
        }
    }

    /// Fails unless one of these words is there, and no two of them.
    fn only_one(&mut self, tree: &Tree, words: &[&str]) -> bool {
        let there: Vec<_> = words.iter().filter(|word| tree.get(word).is_some()).collect();
        if there.len() != 1 {
            let what = match there.as_slice() {
                [] => format!("when? Say one of {}", words.join(", ")),
                [first, second, ..] => {
                    format!("{first} and {second} contradict each other: take one of them away")
                }
                _ => return true,
            };
            self.problems.push(Problem::value(&self.path, what));
        }
        there.len() == 1
    }

    /// Fails where there is a word that says nothing without another one.
    fn needs(&mut self, tree: &Tree, word: &str, other: &str) {
        if tree.get(word).is_some() && tree.get(other).is_none() {
            let what = format!("{word} says nothing without {other}");
            self.problems.push(Problem::value(&self.path, what));
        }
    }

    fn kill(&mut self, tree: &Tree) -> Step {
        if *tree == Tree::Empty {
            return Step::Kill;
        }
        if self.only_one(tree, &["before", "after", "within", "messages"]) {
            ["nth", "then"].iter().for_each(|word| self.needs(tree, word, "before"));
        }
        if let Some(count) = whole(tree, "messages") {
            return Step::KillAfterMessages(count);
        }
        if tree.get("before").is_some() {
            return Step::KillBefore {
                call: text(tree, "before"),
                nth: whole(tree, "nth").unwrap_or(1),
                restarts: tree.get("then").is_some(),
            };
        }
        Step::KillAfter(tree.get("after").map_or_else(|| span(tree), span))
    }

    fn deaths(&mut self, tree: &Tree) -> Vec<Death> {
        let Some(killed) = tree.get("killed") else { return Vec::new() };
        self.path.push(Part::Key("killed".into()));
        let deaths = many(killed).into_iter().enumerate().map(|(number, tree)| {
            let is_list = matches!(killed, Tree::List(_));
            if is_list {
                self.path.push(Part::Item(number));
            }
            let death = self.death(tree);
            if is_list {
                self.path.pop();
            }
            death
        });
        let deaths = deaths.collect();
        self.path.pop();
        deaths
    }

    fn death(&mut self, tree: &Tree) -> Death {
        if self.only_one(tree, &["before", "after", "within", "at"]) {
            ["nth", "every"].iter().for_each(|word| self.needs(tree, word, "before"));
        }
        let call = text(tree, "before");
        match (whole(tree, "nth"), whole(tree, "every")) {
            (Some(_), Some(_)) => {
                let what = "nth and every contradict each other: take one of them away";
                self.problems.push(Problem::value(&self.path, what));
            }
            (None, Some(step)) => return Death::Every { call, step },
            _ => {}
        }
        if tree.get("before").is_some() {
            return Death::Before { call, nth: whole(tree, "nth").unwrap_or(1) };
        }
        match text(tree, "at").as_str() {
            "api" => Death::At(Phase::Api),
            "ready" => Death::At(Phase::Ready),
            "restored" => Death::At(Phase::Restored),
            _ => Death::After(tree.get("after").map_or_else(|| span(tree), span)),
        }
    }
}

fn delete(text: &str) -> Step {
    let (kind, rest) = text.split_once('/').unwrap_or(("pod", text));
    match kind.to_lowercase().as_str() {
        "pod" => Step::DeletePod(Name::parse(rest)),
        // Three parts are kind, namespace and name; of two the first is a kind if it is one.
        kind if rest.contains('/') || is_kind(kind) => {
            Step::DeleteManifest(ManifestName { kind: kind.to_owned(), name: Name::parse(rest) })
        }
        _ => Step::DeletePod(Name::parse(text)),
    }
}

/// Whether manifests of that kind are understood.
pub(super) fn is_kind(kind: &str) -> bool {
    KINDS.contains(&kind)
}

/// Kinds of manifests, in small letters.
pub(super) const KINDS: [&str; 7] = [
    "networkpolicy",
    "ciliumnetworkpolicy",
    "ciliumclusterwidenetworkpolicy",
    "clusternetworkpolicy",
    "service",
    "endpointslice",
    "namespace",
];
