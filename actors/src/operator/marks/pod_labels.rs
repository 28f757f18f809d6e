//! Which labels the pods of agents have: a label selector, as people write it.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// A label selector: `k8s-app in (cilium,volvox)`, `k8s-app=cilium,!debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLabels(Vec<LabelTest>);

/// Why a text is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no label selector; write as k8s-app=cilium, or k8s-app in (cilium,volvox)")]
pub struct PodLabelsError(String);

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTest {
    /// The label is there, and has one of these values.
    In(String, Vec<String>),
    /// It is not there, or has none of these values.
    NotIn(String, Vec<String>),
    /// It is there.
    Exists(String),
    /// It is not there.
    Absent(String),
}

impl LabelTest {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((key, value)) = text.split_once("!=") {
            return Some(Self::NotIn(word(key)?, vec![value_of(value)?]));
        }
        if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            return Some(Self::In(word(key)?, vec![value_of(value)?]));
        }
        if let Some(list) = text.strip_suffix(')') {
            let (head, list) = list.split_once('(')?;
            let values = list.split(',').map(value_of).collect::<Option<Vec<_>>>()?;
            let mut words = head.split_whitespace();
            return match (words.next(), words.next(), words.next()) {
                (Some(key), Some("in"), None) => Some(Self::In(word(key)?, values)),
                (Some(key), Some("notin"), None) => Some(Self::NotIn(word(key)?, values)),
                _ => None,
            };
        }
        match text.strip_prefix('!') {
            Some(key) => Some(Self::Absent(word(key)?)),
            None => Some(Self::Exists(word(text)?)),
        }
    }

    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = |key: &String| labels.get(key);
        let is_of = |key: &String, values: &[String]| {
            value(key).is_some_and(|value| values.iter().any(|it| it == value))
        };
        match self {
            Self::In(key, values) => is_of(key, values),
            Self::NotIn(key, values) => !is_of(key, values),
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

/// The name of a label.
fn word(text: &str) -> Option<String> {
    let text = text.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (!text.is_empty() && text.chars().all(is_plain)).then(|| text.to_owned())
}

/// A value, which may be empty.
fn value_of(text: &str) -> Option<String> {
    match text.trim() {
        "" => Some(String::new()),
        text if text.contains('/') => None,
        text => word(text),
    }
}

impl PodLabels {
    /// Whether an object's labels are such.
    pub fn hold(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|test| test.holds(labels))
    }
}

impl FromStr for PodLabels {
    type Err = PodLabelsError;

    fn from_str(text: &str) -> Result<Self, PodLabelsError> {
        let (mut tests, mut rest) = (Vec::new(), text);
        loop {
            // A comma within parentheses separates values.
            let comma = rest.find(',').filter(|comma| rest[..*comma].find('(').is_none());
            let end = comma.or_else(|| rest.find(')').map(|end| end + 1)).unwrap_or(rest.len());
            let test = LabelTest::parse(&rest[..end]);
            tests.push(test.ok_or_else(|| PodLabelsError(text.to_owned()))?);
            rest = rest[end..].trim_start();
            if rest.is_empty() {
                return Ok(Self(tests));
            }
            let more = rest.strip_prefix(',');
            rest = more.ok_or_else(|| PodLabelsError(text.to_owned()))?;
        }
    }
}

impl fmt::Display for PodLabels {
    /// As an API server reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, test) in self.0.iter().enumerate() {
            f.write_str(if nth == 0 { "" } else { "," })?;
            match test {
                LabelTest::In(key, values) => write!(f, "{key} in ({})", values.join(","))?,
                LabelTest::NotIn(key, values) => write!(f, "{key} notin ({})", values.join(","))?,
                LabelTest::Exists(key) => f.write_str(key)?,
                LabelTest::Absent(key) => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels<const N: usize>(all: [(&str, &str); N]) -> BTreeMap<String, String> {
        all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn a_selector_is_read_as_kubernetes_reads_it() {
        let volvox = labels([("k8s-app", "volvox"), ("tier", "")]);
        let other = labels([("k8s-app", "web"), ("debug", "x")]);
        for (text, written, of_volvox, of_other) in [
            ("k8s-app=volvox", "k8s-app in (volvox)", true, false),
            (" k8s-app == volvox ", "k8s-app in (volvox)", true, false),
            ("k8s-app in (cilium, volvox)", "k8s-app in (cilium,volvox)", true, false),
            ("k8s-app in (cilium,volvox),!debug", "k8s-app in (cilium,volvox),!debug", true, false),
            ("k8s-app notin (web , x), tier=", "k8s-app notin (web,x),tier in ()", true, false),
            ("k8s-app!=volvox,debug", "k8s-app notin (volvox),debug", false, true),
            ("a.b/c!=d", "a.b/c notin (d)", true, true),
            ("tier", "tier", true, false),
        ] {
            let labels: PodLabels = text.parse().unwrap();
            assert_eq!(labels.to_string(), written);
            assert_eq!(labels.to_string().parse(), Ok(labels.clone()), "it is read back");
            assert_eq!(
                (labels.hold(&volvox), labels.hold(&other)),
                (of_volvox, of_other),
                "{text}"
            );
        }
        let labels: PodLabels = "!debug".parse().unwrap();
        let nothing = BTreeMap::new();
        assert!(labels.hold(&nothing) && !"debug".parse::<PodLabels>().unwrap().hold(&nothing));
    }

    #[test]
    fn what_is_none_is_named() {
        for text in [
            "",
            ",",
            "a=b,",
            "a in b",
            "a in (b",
            "a in (b))",
            "a within (b)",
            "a=b c",
            "=b",
            "a=b/c",
        ] {
            let error = text.parse::<PodLabels>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no label selector")), "{error}");
        }
    }
}
