//! What the annotations of a Service say: where it is exposed, and how it is served. They are those of
//! Cilium, under its names.

use std::collections::BTreeMap;

use super::balancing::Algorithm;
use crate::model::{field::Fault, place::Place};

/// All of Cilium's about services begin so,
const PREFIX: &str = "service.cilium.io/";
/// and are obeyed if they are these, or have these names of before.
const GLOBAL: [&str; 2] = ["service.cilium.io/global", "io.cilium/global-service"];
const SHARED: [&str; 2] = ["service.cilium.io/shared", "io.cilium/shared-service"];
const AFFINITY: [&str; 2] = ["service.cilium.io/affinity", "io.cilium/service-affinity"];
const TYPE: [&str; 1] = ["service.cilium.io/type"];
const NODE: [&str; 1] = ["service.cilium.io/node"];
const NODE_SELECTOR: [&str; 1] = ["service.cilium.io/node-selector"];
const ALGORITHM: [&str; 1] = ["service.cilium.io/lb-algorithm"];
const FORWARDING: [&str; 1] = ["service.cilium.io/forwarding-mode"];
const RANGES: [&str; 1] = ["service.cilium.io/src-ranges-policy"];
/// All of these.
const OBEYED: [&[&str]; 9] =
    [&GLOBAL, &SHARED, &AFFINITY, &TYPE, &NODE, &NODE_SELECTOR, &ALGORITHM, &FORWARDING, &RANGES];

/// What most Services say nothing of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Annotated {
    /// The only kind of its addresses that leads to it, if not all do.
    pub(super) exposed: Option<Exposed>,
    /// What the labels of nodes must fulfil that serve it.
    pub(super) nodes: Box<[NodeLabelRequirement]>,
    /// Whose backends come first.
    pub(super) affinity: Affinity,
    /// How its backends are chosen, if not as for others.
    pub(super) algorithm: Option<Algorithm>,
    /// Whether its backends on other nodes answer clients outside themselves, if it says so.
    pub(super) direct: Option<bool>,
    /// Its source ranges name who is kept out.
    pub(super) denies: bool,
    /// Annotations that are not obeyed.
    pub(super) ignored: Box<[Box<str>]>,
}

/// Kinds of addresses of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exposed {
    Cluster,
    NodePort,
    Balancer,
}

/// Whose backends a global service uses, as long as there are some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Affinity {
    /// All.
    #[default]
    None,
    /// Those of this cluster.
    Local,
    /// Those of others.
    Remote,
}

/// What a Service has to do with those of its name in other clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GlobalServiceOptions {
    /// Their backends are used as well,
    pub(super) is_global: bool,
    /// and they may use those of this one.
    is_shared: bool,
}

/// Annotations by name.
type Annotations = BTreeMap<String, String>;

/// An annotation: its name, and what it says.
type Annotation<'a> = (&'a str, &'a str);

/// Reads the annotations of a Service.
pub(super) fn read(
    annotations: Option<&Annotations>,
) -> Result<(GlobalServiceOptions, Option<Box<Annotated>>), Fault> {
    let Some(all) = annotations else { return Ok((GlobalServiceOptions::default(), None)) };
    let is_global = truth(find(all, &GLOBAL))?.unwrap_or(false);
    let is_shared = truth(find(all, &SHARED))?.unwrap_or(is_global);
    let nodes: Result<Vec<NodeLabelRequirement>, Fault> = match find(all, &NODE_SELECTOR) {
        Some(said) => requirements(said),
        None => Ok(Vec::new()),
    };
    let mut nodes = nodes?;
    if let Some((_, node)) = find(all, &NODE) {
        let values = [node.into()].into();
        nodes.push(NodeLabelRequirement {
            label: NODE[0].into(),
            values: Some(values),
            holds: true,
        });
    }
    let annotated = Annotated {
        exposed: one_of(find(all, &TYPE), &EXPOSED)?,
        nodes: nodes.into(),
        affinity: one_of(find(all, &AFFINITY), &AFFINITIES)?.unwrap_or_default(),
        algorithm: one_of(find(all, &ALGORITHM), &ALGORITHMS)?,
        direct: one_of(find(all, &FORWARDING), &FORWARDING_MODES)?,
        denies: one_of(find(all, &RANGES), &RANGE_POLICIES)?.unwrap_or(false),
        ignored: all.keys().filter(|it| is_ignored(it)).map(|it| it.as_str().into()).collect(),
    };
    let sharing = GlobalServiceOptions { is_global, is_shared };
    let is_plain = annotated == Annotated::default();
    Ok((sharing, (!is_plain).then(|| Box::new(annotated))))
}

const EXPOSED: [(&str, Exposed); 3] = [
    ("ClusterIP", Exposed::Cluster),
    ("NodePort", Exposed::NodePort),
    ("LoadBalancer", Exposed::Balancer),
];
const AFFINITIES: [(&str, Affinity); 3] =
    [("none", Affinity::None), ("local", Affinity::Local), ("remote", Affinity::Remote)];
const ALGORITHMS: [(&str, Algorithm); 2] =
    [("random", Algorithm::Random), ("maglev", Algorithm::Maglev)];
const FORWARDING_MODES: [(&str, bool); 2] = [("snat", false), ("dsr", true)];
const RANGE_POLICIES: [(&str, bool); 2] = [("allow", false), ("deny", true)];

/// Whether an annotation is Cilium's about services, and does nothing here.
fn is_ignored(name: &str) -> bool {
    name.starts_with(PREFIX) && !OBEYED.iter().any(|names| names.contains(&name))
}

/// The first of these names that is there.
fn find<'a>(all: &'a Annotations, names: &[&str]) -> Option<Annotation<'a>> {
    let found = names.iter().find_map(|name| all.get_key_value(*name));
    found.map(|(name, text)| (name.as_str(), text.as_str()))
}

fn fault(name: &str, problem: String, remedy: String) -> Fault {
    let at = Place::ROOT.key("metadata");
    let at = at.key("annotations");
    at.key(name).fault(problem, remedy)
}

fn truth(said: Option<Annotation<'_>>) -> Result<Option<bool>, Fault> {
    one_of(said, &[("true", true), ("false", false)])
}

/// Which of these words it is.
fn one_of<T: Copy>(said: Option<Annotation<'_>>, words: &[(&str, T)]) -> Result<Option<T>, Fault> {
    let Some((name, text)) = said else { return Ok(None) };
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|(_, meant)| Some(*meant)).ok_or_else(|| {
        let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        fault(name, format!("{text:?} is not known here"), format!("write {}", all.join(" or ")))
    })
}

/// What one label of a node must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeLabelRequirement {
    label: Box<str>,
    /// One of these; anything at all if none are named.
    values: Option<Box<[Box<str>]>>,
    /// Or just not.
    holds: bool,
}

impl NodeLabelRequirement {
    /// Whether a node of these labels fulfils it.
    pub(super) fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&*self.label);
        let is = match &self.values {
            Some(values) => value.is_some_and(|it| values.iter().any(|one| **one == **it)),
            None => value.is_some(),
        };
        is == self.holds
    }
}

/// Reads a selector of labels as kubectl takes it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
fn requirements((name, text): Annotation<'_>) -> Result<Vec<NodeLabelRequirement>, Fault> {
    let (mut all, mut depth, mut begin) = (Vec::new(), 0_i32, 0);
    for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        if letter == ',' && (depth == 0 || at == text.len()) {
            let part = text[begin..at].trim();
            begin = (at + 1).min(text.len());
            if !part.is_empty() {
                all.push(requirement(part).ok_or_else(|| {
                    fault(
                        name,
                        format!("{part:?} selects no label"),
                        "write it as in a=b,c in (d,e)".to_owned(),
                    )
                })?);
            }
        }
    }
    Ok(all)
}

fn requirement(text: &str) -> Option<NodeLabelRequirement> {
    let label = |name: &str| {
        let name = name.trim();
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        (!name.is_empty() && name.chars().all(is_name)).then(|| Box::<str>::from(name))
    };
    if let Some(name) = text.strip_prefix('!') {
        return Some(NodeLabelRequirement { label: label(name)?, values: None, holds: false });
    }
    for (sign, holds) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((name, value)) = text.split_once(sign) {
            let values = Some([value.trim().into()].into());
            return Some(NodeLabelRequirement { label: label(name)?, values, holds });
        }
    }
    if let Some((before, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let (name, word) = before.trim().rsplit_once(char::is_whitespace)?;
        let holds = ["notin", "in"].iter().position(|it| *it == word)? == 1;
        let values = values.split(',').map(|value| value.trim().into()).collect();
        return Some(NodeLabelRequirement { label: label(name)?, values: Some(values), holds });
    }
    Some(NodeLabelRequirement { label: label(text)?, values: None, holds: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(annotations: [(&str, &str); N]) -> Result<Option<Box<Annotated>>, Fault> {
        let all = annotations.map(|(name, text)| (name.to_owned(), text.to_owned()));
        read(Some(&all.into())).map(|(_, annotated)| annotated)
    }

    #[test]
    fn what_is_not_obeyed_is_named() {
        let some = [
            ("service.cilium.io/lb-l7", "enabled"),
            ("service.cilium.io/global", "true"),
            ("x", "y"),
        ];
        let annotated = of(some).unwrap().unwrap();
        assert_eq!(*annotated.ignored, ["service.cilium.io/lb-l7".into()]);
        assert_eq!(of([("service.cilium.io/shared", "false")]), Ok(None));
        for (name, value) in
            [("type", "Everything"), ("affinity", "near"), ("src-ranges-policy", "no")]
        {
            let name = format!("service.cilium.io/{name}");
            let fault = of([(&name, value)]).unwrap_err();
            assert!(fault.path.contains(&name) && fault.problem.contains(value), "{fault:?}");
        }
    }

    #[test]
    fn nodes_are_selected_by_their_labels() {
        let labels = [("a", "b"), ("e", "g"), ("service.cilium.io/node", "beefy")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (selector, is_met) in [
            ("a=b", true),
            ("a==b, e in (f, g)", true),
            ("a=c", false),
            ("a!=b", false),
            ("z!=b", true),
            ("e notin (f,g)", false),
            ("a,!z", true),
            ("!a", false),
            ("z", false),
            ("", true),
        ] {
            let annotated = of([("service.cilium.io/node-selector", selector)]).unwrap();
            let nodes = annotated.map(|it| it.nodes).unwrap_or_default();
            assert_eq!(nodes.iter().all(|it| it.is_met(&labels)), is_met, "{selector}");
        }
        let named = |node| of([("service.cilium.io/node", node)]).unwrap().unwrap().nodes;
        assert!(named("beefy").iter().all(|it| it.is_met(&labels)));
        assert!(!named("slow").iter().all(|it| it.is_met(&labels)));
        of([("service.cilium.io/node-selector", "a in b)")]).unwrap_err();
    }
}
