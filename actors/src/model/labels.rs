use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Longest label that is accepted, in bytes.
const LABEL_BYTES_MAX: usize = 1024;

/// Where a label comes from: `k8s`, `reserved`, `cidr`, `container`, `any`, …
pub type Source = String;

/// One label, written `source:key=value`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label {
    /// Name within the source.
    pub key: String,
    /// Value; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Where it comes from.
    #[serde(default)]
    pub source: Source,
}

/// A text that is no label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Nothing before the equals sign.
    #[error("label {0:?} has no key: write source:key=value")]
    NoKey(String),
    /// Too long to be meant.
    #[error("a label of {0} bytes is longer than the {LABEL_BYTES_MAX} that are accepted")]
    TooLong(usize),
}

impl Label {
    /// A label of the given parts.
    pub fn new(
        source: impl Into<String>,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), value: value.into(), source: source.into() }
    }
}

impl FromStr for Label {
    type Err = LabelError;

    /// Reads `source:key=value`; without a source it is `unspec`.
    fn from_str(text: &str) -> Result<Self, LabelError> {
        if text.len() > LABEL_BYTES_MAX {
            return Err(LabelError::TooLong(text.len()));
        }
        // A prefix has colons of its own: `cidr:fd00::/8` has its source before the first one.
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let (source, key) = name.split_once(':').unwrap_or(("unspec", name));
        if key.is_empty() {
            return Err(LabelError::NoKey(text.to_owned()));
        }
        let source = if source.is_empty() { "unspec" } else { source };
        Ok(Self::new(source, key, value))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.key)?;
        if self.value.is_empty() { Ok(()) } else { write!(f, "={}", self.value) }
    }
}

/// A set of labels, one for each key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, Label>);

impl Labels {
    /// The labels of a reserved identity: `reserved:NAME`.
    pub fn reserved(name: &str) -> Self {
        Self::from_iter([Label::new("reserved", name, "")])
    }

    /// Reads a list of `source:key=value`.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, LabelError> {
        texts.into_iter().map(str::parse).collect()
    }

    /// The label of that key.
    pub fn get(&self, key: &str) -> Option<&Label> {
        self.0.get(key)
    }

    /// Adds a label; one of the same key gives way.
    pub fn insert(&mut self, label: Label) {
        self.0.insert(label.key.clone(), label);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Each label, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.values()
    }

    /// Each label as text, by key.
    pub fn to_texts(&self) -> Vec<String> {
        self.iter().map(Label::to_string).collect()
    }

    /// The one text that stands for the set, as in a kvstore: `source:key=value;` for each, by key.
    pub fn sorted_text(&self) -> String {
        self.iter()
            .map(|label| format!("{}:{}={};", label.source, label.key, label.value))
            .collect()
    }

    /// Whether it is the set of the reserved identity of that name.
    pub fn has_reserved(&self, name: &str) -> bool {
        self.get(name).is_some_and(|label| label.source == "reserved")
    }
}

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Self {
        Self(labels.into_iter().map(|label| (label.key.clone(), label)).collect())
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_texts().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_each_form() {
        for (text, source, key, value) in [
            ("k8s:app=web", "k8s", "app", "web"),
            ("reserved:host", "reserved", "host", ""),
            ("app", "unspec", "app", ""),
            ("cidr:fd00::/8", "cidr", "fd00::/8", ""),
            ("k8s:a=b=c", "k8s", "a", "b=c"),
        ] {
            let label: Label = text.parse().unwrap();
            assert_eq!(label, Label::new(source, key, value));
        }
        assert_eq!(Label::new("k8s", "app", "web").to_string(), "k8s:app=web");
    }

    #[test]
    fn refuses_what_is_no_label() {
        assert!(matches!("k8s:=x".parse::<Label>(), Err(LabelError::NoKey(_))));
        assert!(matches!("x".repeat(1 << 20).parse::<Label>(), Err(LabelError::TooLong(_))));
    }

    #[test]
    fn sorts_the_text_that_names_an_identity() {
        let labels = Labels::parse(["k8s:b=2", "k8s:a=1"]).unwrap();
        assert_eq!(labels.sorted_text(), "k8s:a=1;k8s:b=2;");
    }
}
