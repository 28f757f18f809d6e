//! Labels and sets of labels: how they are read, written, compared and shared in memory.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// Longest label that is accepted, in bytes.
const LABEL_BYTES_MAX: usize = 1024;

/// Sources that need no text of their own in each label: a node knows many labels.
const SOURCES: [&str; 7] = ["k8s", "reserved", "cidr", "container", "cidrgroup", "any", "unspec"];

/// Where a label comes from: `k8s`, `reserved`, `cidr`, `container`, `any`, …
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LabelSource(Cow<'static, str>);

impl LabelSource {
    /// The source of that name.
    pub fn new(name: impl AsRef<str> + Into<String>) -> Self {
        let known = SOURCES.into_iter().find(|known| *known == name.as_ref());
        Self(known.map_or_else(|| Cow::Owned(name.into()), Cow::Borrowed))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for LabelSource {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for LabelSource {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for LabelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for LabelSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer).map(Self::new)
    }
}

/// One label, written `source:key=value`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label {
    /// Name within the source.
    pub key: String,
    /// Where it comes from.
    #[serde(default)]
    pub source: LabelSource,
    /// Value; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
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
        source: impl AsRef<str> + Into<String>,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), value: value.into(), source: LabelSource::new(source) }
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

/// A set of labels, one for each key. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(
    /// By key.
    Arc<Vec<Label>>,
);

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
        self.place(key).ok().map(|place| &self.0[place])
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|label| label.key.as_str().cmp(key))
    }

    /// Adds a label; one of the same key gives way.
    pub fn insert(&mut self, label: Label) {
        let place = self.place(&label.key);
        let all = Arc::make_mut(&mut self.0);
        match place {
            Ok(place) => all[place] = label,
            Err(place) => all.insert(place, label),
        }
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
        self.0.iter()
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
        let mut labels = Vec::from_iter(labels);
        if !labels.is_sorted_by(|one, next| one.key < next.key) {
            // Of one key the last counts.
            labels.reverse();
            labels.sort_by(|one, other| one.key.cmp(&other.key));
            labels.dedup_by(|one, other| one.key == other.key);
        }
        labels.shrink_to_fit();
        Self(Arc::new(labels))
    }
}

/// As Cilium writes a set: each label below its key.
impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|label| (&label.key, label)))
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Set;

        impl<'de> Visitor<'de> for Set {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels by their keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels = Vec::new();
                while let Some((_, label)) = map.next_entry::<IgnoredAny, Label>()? {
                    labels.push(label);
                }
                Ok(labels.into_iter().collect())
            }
        }

        deserializer.deserialize_map(Set)
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
    fn of_one_key_the_last_label_counts() {
        let labels = Labels::parse(["k8s:b=1", "k8s:a=1", "any:b=2", "k8s:c=1", "k8s:b=3"]);
        assert_eq!(labels.unwrap().to_texts(), ["k8s:a=1", "k8s:b=3", "k8s:c=1"]);
        let mut labels = Labels::parse(["k8s:b=1"]).unwrap();
        ["k8s:b=2", "mine:a=1"].iter().for_each(|text| labels.insert(text.parse().unwrap()));
        assert_eq!(labels.to_texts(), ["mine:a=1", "k8s:b=2"]);
        let text = r#"{"a":{"key":"a","source":"mine","value":"1"},"b":{"key":"b","source":"k8s","value":"2"}}"#;
        assert_eq!(serde_json::to_string(&labels).unwrap(), text);
        assert_eq!(serde_json::from_str::<Labels>(text).unwrap(), labels);
    }

    #[test]
    fn sorts_the_text_that_names_an_identity() {
        let labels = Labels::parse(["k8s:b=2", "k8s:a=1"]).unwrap();
        assert_eq!(labels.sorted_text(), "k8s:a=1;k8s:b=2;");
    }
}
