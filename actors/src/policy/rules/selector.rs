//! Label selectors of policies: how they match labels, and how Cilium writes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::model::{Label, Labels};

/// Source of a selector's key that matches labels of every source.
const ANY_SOURCE: &str = "any";

/// A label's key as a selector names it: `k8s:app`, `reserved:host`, or `app` for every source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectorKey {
    /// Source, `any` for every source.
    pub source: String,
    /// Key within the source.
    pub key: String,
}

impl SelectorKey {
    /// A key of one source.
    pub fn new(source: impl Into<String>, key: impl Into<String>) -> Self {
        Self { source: source.into(), key: key.into() }
    }

    /// Reads `source:key`; without a source, every source matches.
    pub fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some((source, key)) if !source.is_empty() => Self::new(source, key),
            _ => Self::new(ANY_SOURCE, text.trim_start_matches(':')),
        }
    }

    /// The value of this key among the labels.
    pub(super) fn value_in<'a>(&self, labels: &'a Labels) -> Option<&'a str> {
        labels.get(&self.key).filter(|label| self.accepts(label)).map(|label| label.value.as_str())
    }

    fn accepts(&self, label: &Label) -> bool {
        self.source == ANY_SOURCE || label.source == *self.source
    }
}

impl fmt::Display for SelectorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.source, self.key)
    }
}

/// What is asked of one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Test {
    /// It is there, with one of these values.
    In(BTreeSet<String>),
    /// It is not there, or has none of these values.
    NotIn(BTreeSet<String>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

/// One of a selector's `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// The key.
    pub key: SelectorKey,
    /// What is asked of it.
    pub test: Test,
}

impl Requirement {
    /// Whether the labels fulfil it.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = self.key.value_in(labels);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

/// A label selector. An empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// Keys with the one value they must have.
    pub labels: BTreeMap<SelectorKey, String>,
    /// Further requirements.
    pub expressions: Vec<Requirement>,
}

impl Selector {
    /// Selects labels that have this one.
    pub fn label(key: SelectorKey, value: impl Into<String>) -> Self {
        Self { labels: BTreeMap::from([(key, value.into())]), expressions: Vec::new() }
    }

    /// Selects the reserved identity of that name.
    pub fn reserved(name: &str) -> Self {
        Self::label(SelectorKey::new("reserved", name), "")
    }

    /// Also asks for a key.
    pub fn and_exists(mut self, key: SelectorKey) -> Self {
        self.expressions.push(Requirement { key, test: Test::Exists });
        self
    }

    /// Whether some label has to be there: else it may select what has none at all.
    pub fn needs_a_label(&self) -> bool {
        let needs = |test: &Test| matches!(test, Test::In(_) | Test::Exists);
        !self.labels.is_empty() || self.expressions.iter().any(|one| needs(&one.test))
    }

    /// Whether labels are selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.labels.iter().all(|(key, value)| key.value_in(labels) == Some(value))
            && self.expressions.iter().all(|requirement| requirement.matches(labels))
    }

    /// Each key that is asked about.
    pub fn keys(&self) -> impl Iterator<Item = &SelectorKey> {
        self.labels.keys().chain(self.expressions.iter().map(|requirement| &requirement.key))
    }
}

/// Cilium's own notation, which its REST clients parse and show.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (key, value) in &self.labels {
            write!(f, "{key}: {value},")?;
        }
        f.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for Requirement { key, test } in &self.expressions {
            let none = BTreeSet::new();
            let (operator, values) = match test {
                Test::In(values) => ("In", values),
                Test::NotIn(values) => ("NotIn", values),
                Test::Exists => ("Exists", &none),
                Test::DoesNotExist => ("DoesNotExist", &none),
            };
            let values = values.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            write!(
                f,
                "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},"
            )?;
        }
        f.write_str("},}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(texts: &[&str]) -> Labels {
        Labels::parse(texts.iter().copied()).unwrap()
    }

    #[test]
    fn a_source_in_the_key_narrows_it() {
        let web = labels(&["k8s:app=web"]);
        assert!(Selector::label(SelectorKey::parse("app"), "web").matches(&web));
        assert!(Selector::label(SelectorKey::parse("any:app"), "web").matches(&web));
        assert!(Selector::label(SelectorKey::parse("k8s:app"), "web").matches(&web));
        assert!(!Selector::label(SelectorKey::parse("container:app"), "web").matches(&web));
        assert!(Selector::reserved("host").matches(&Labels::reserved("host")));
        assert!(!Selector::reserved("host").matches(&labels(&["k8s:host"])));
    }

    #[test]
    fn operators_are_kubernetes_own() {
        let values = || BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        for (test, with_a, with_c, without) in [
            (Test::In(values()), true, false, false),
            (Test::NotIn(values()), false, true, true),
            (Test::Exists, true, true, false),
            (Test::DoesNotExist, false, false, true),
        ] {
            let requirement = Requirement { key: SelectorKey::parse("x"), test };
            assert_eq!(requirement.matches(&labels(&["k8s:x=a"])), with_a, "{requirement:?}");
            assert_eq!(requirement.matches(&labels(&["k8s:x=c"])), with_c, "{requirement:?}");
            assert_eq!(requirement.matches(&labels(&["k8s:y=a"])), without, "{requirement:?}");
        }
    }

    #[test]
    fn is_shown_as_cilium_shows_it() {
        let mut selector = Selector::label(SelectorKey::parse("app"), "app-0");
        selector
            .labels
            .insert(SelectorKey::parse("k8s:io.cilium.k8s.policy.cluster"), "default".to_owned());
        assert_eq!(
            selector.to_string(),
            "&LabelSelector{MatchLabels:map[string]string{any.app: app-0,\
             k8s.io.cilium.k8s.policy.cluster: default,},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
    }
}
