//! Decides which labels are part of an identity: Cilium's default list or custom patterns.

use regex_lite::Regex;

use crate::model::{Label, Labels};

/// Cilium's own list. An exclamation mark excludes; a pattern is matched from a key's beginning.
const DEFAULT: &[&str] = &[
    "reserved:.*",
    r"io\.kubernetes\.pod\.namespace",
    r"io\.cilium\.k8s\.namespace\.labels",
    r"app\.kubernetes\.io",
    r"io\.cilium\.k8s\.policy\.cluster",
    r"io\.cilium\.k8s\.policy\.serviceaccount",
    r"!io\.kubernetes",
    r"!kubernetes\.io",
    r"!statefulset\.kubernetes\.io/pod-name",
    r"!apps\.kubernetes\.io/pod-index",
    r"!batch\.kubernetes\.io/job-completion-index",
    r"!batch\.kubernetes\.io/controller-uid",
    r"!topology\.kubernetes\.io",
    r"!.*beta\.kubernetes\.io",
    r"!k8s\.io",
    "!pod-template-generation",
    "!pod-template-hash",
    "!controller-revision-hash",
    "!controller-uid",
    "!annotation.*",
    "!etcd_node",
];

/// Says which labels count for an endpoint's identity.
#[derive(Clone, Debug)]
pub struct LabelFilter {
    patterns: Vec<Pattern>,
    /// Whether a label must be included by a pattern to count.
    only_included: bool,
}

#[derive(Clone, Debug)]
struct Pattern {
    /// Source, empty for every source.
    source: String,
    key: Key,
    exclude: bool,
}

/// What a key begins with. Most patterns are plain text, and every label of every pod is held
/// against all of them: a regular expression for each would be a tenth of a restart.
#[derive(Clone, Debug)]
enum Key {
    /// That text.
    Text(String),
    /// That text, and all that follows it.
    TextAndRest(String),
    /// Anything, and that text behind it.
    AnyAndText(String),
    /// Anything else.
    Regex(Regex),
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Nothing after the source.
    #[error("label pattern {0:?} is empty: write [source:][!]pattern")]
    Empty(String),
    /// Not a regular expression.
    #[error("label pattern {pattern:?} is no regular expression: {cause}")]
    NotRegular {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        cause: String,
    },
}

impl LabelFilter {
    /// Cilium's own list, and these patterns after it, as `--labels` has them:
    /// `[source:][!]pattern`. With one that includes, only what is included counts.
    pub fn new<'a>(custom: impl IntoIterator<Item = &'a str>) -> Result<Self, FilterError> {
        let mut patterns =
            DEFAULT.iter().map(|text| pattern(text)).collect::<Result<Vec<_>, _>>()?;
        let custom = custom.into_iter().map(str::trim).filter(|text| !text.is_empty());
        let custom = custom.map(pattern).collect::<Result<Vec<_>, _>>()?;
        let only_included = custom.iter().any(|pattern| !pattern.exclude);
        patterns.extend(custom);
        Ok(Self { patterns, only_included })
    }

    /// The labels that count for the identity, and the others.
    pub fn split(&self, labels: &Labels) -> (Labels, Labels) {
        let (relevant, other): (Vec<_>, Vec<_>) =
            labels.iter().cloned().partition(|label| self.counts(label));
        (Labels::from_iter(relevant), Labels::from_iter(other))
    }

    /// Whether a label counts: the longest including match must be longer than the shortest
    /// excluding one.
    pub fn counts(&self, label: &Label) -> bool {
        let matches = |exclude| {
            let patterns = self.patterns.iter().filter(move |it| it.exclude == exclude);
            patterns.filter_map(|pattern| pattern.length(label)).filter(|length| *length > 0)
        };
        let (included, excluded) = (matches(false).max(), matches(true).min());
        included > excluded || (excluded.is_none() && !self.only_included)
    }
}

impl Pattern {
    /// How many bytes of the key match, if it matches.
    fn length(&self, label: &Label) -> Option<usize> {
        if !self.source.is_empty() && label.source != *self.source {
            return None;
        }
        self.key.length(&label.key)
    }
}

impl Key {
    fn new(pattern: &str) -> Result<Self, regex_lite::Error> {
        if let Some(text) = plain(pattern) {
            return Ok(Self::Text(text));
        }
        if let Some(text) = pattern.strip_suffix(".*").and_then(plain) {
            return Ok(Self::TextAndRest(text));
        }
        if let Some(text) = pattern.strip_prefix(".*").and_then(plain) {
            return Ok(Self::AnyAndText(text));
        }
        Regex::new(&format!("^(?:{pattern})")).map(Self::Regex)
    }

    /// How many bytes of a key match, if it matches.
    fn length(&self, key: &str) -> Option<usize> {
        match self {
            Self::Text(text) => key.starts_with(text.as_str()).then_some(text.len()),
            Self::TextAndRest(text) => {
                Some(text.len() + line(key.strip_prefix(text.as_str())?).len())
            }
            Self::AnyAndText(text) => line(key).rfind(text.as_str()).map(|at| at + text.len()),
            Self::Regex(regex) => regex.find(key).map(|found| found.end()),
        }
    }
}

/// What `.*` matches: a dot is no line's end.
fn line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// The text that a pattern stands for, if it stands for one text alone.
fn plain(pattern: &str) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.as_str().starts_with('.') => text.extend(characters.next()),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '/' | ':' => text.push(character),
            _ => return None,
        }
    }
    Some(text)
}

fn pattern(text: &str) -> Result<Pattern, FilterError> {
    let (source, rest) = text.split_once(':').unwrap_or(("", text));
    // The mark stands before the pattern; before the source is how lists print it.
    let (source, before) = unmarked(source);
    let (rest, after) = unmarked(rest);
    if rest.is_empty() {
        return Err(FilterError::Empty(text.to_owned()));
    }
    let key = Key::new(rest).map_err(|error| FilterError::NotRegular {
        pattern: text.to_owned(),
        cause: error.to_string(),
    })?;
    Ok(Pattern { source: source.to_owned(), key, exclude: before || after })
}

fn unmarked(text: &str) -> (&str, bool) {
    text.strip_prefix('!').map_or((text, false), |rest| (rest, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_is_plain_text_matches_as_the_regular_expression_does() {
        let patterns = DEFAULT.iter().map(|text| text.trim_start_matches('!'));
        let patterns: Vec<_> = patterns.chain(["a.*b", "", "a|b", r"\d+", "x.*"]).collect();
        let keys = [
            "",
            "a",
            "b",
            "x",
            "x\ny",
            "v1beta.kubernetes.io.beta.kubernetes.io/x",
            "\nbeta.kubernetes.io",
            "annotation.z",
            "io.kubernetes.pod",
            "ioxkubernetes",
        ];
        let keys = keys.iter().copied().chain(patterns.iter().copied());
        for (pattern, key) in patterns.iter().flat_map(|it| keys.clone().map(move |key| (it, key)))
        {
            let regex = Regex::new(&format!("^(?:{pattern})")).unwrap();
            let expected = regex.find(key).map(|found| found.end());
            assert_eq!(Key::new(pattern).unwrap().length(key), expected, "{pattern:?} on {key:?}");
        }
        let is_plain = |text: &&&str| !matches!(Key::new(text).unwrap(), Key::Regex(_));
        assert!(patterns.iter().filter(is_plain).count() > DEFAULT.len() / 2);
    }

    fn counting(custom: &[&str], labels: &[&str]) -> Vec<String> {
        let filter = LabelFilter::new(custom.iter().copied()).unwrap();
        let labels = Labels::parse(labels.iter().copied()).unwrap();
        let (relevant, other) = filter.split(&labels);
        assert_eq!(relevant.len() + other.len(), labels.len());
        relevant.to_texts()
    }

    #[test]
    fn by_default_what_differs_from_pod_to_pod_does_not_count() {
        let counted = [
            "container:role=x",
            "k8s:app.kubernetes.io/name=web",
            "k8s:app=web",
            "k8s:io.cilium.k8s.namespace.labels.team=a",
            "k8s:io.cilium.k8s.policy.cluster=default",
            "k8s:io.cilium.k8s.policy.serviceaccount=default",
            "k8s:io.kubernetes.pod.namespace=default",
            "reserved:init",
        ];
        let left_out = [
            "k8s:io.kubernetes.pod.name=web-1",
            "k8s:kubernetes.io/hostname=n",
            "k8s:node.beta.kubernetes.io/x=y",
            "k8s:k8s.io/x=y",
            "k8s:pod-template-hash=abc",
            "k8s:controller-revision-hash=abc",
            "k8s:controller-uid=1",
            "k8s:batch.kubernetes.io/controller-uid=1",
            "k8s:statefulset.kubernetes.io/pod-name=web-1",
            "k8s:annotation.x=y",
            "k8s:etcd_node=a",
        ];
        let mut counts = counting(&[], &[counted.as_slice(), left_out.as_slice()].concat());
        counts.sort();
        assert_eq!(counts, counted);
    }

    #[test]
    fn one_pattern_that_includes_leaves_out_the_rest() {
        let labels = [
            "k8s:app=web",
            "container:app=web2",
            "k8s:io.kubernetes.pod.namespace=default",
            "k8s:tier=front",
            "reserved:host",
        ];
        let mut counts = counting(&["k8s:app", ""], &labels[..1]);
        counts.extend(counting(&["k8s:app"], &labels[1..]));
        assert_eq!(
            counts,
            ["k8s:app=web", "reserved:host", "k8s:io.kubernetes.pod.namespace=default"]
        );
    }

    #[test]
    fn a_pattern_may_exclude_with_or_without_source() {
        let labels = ["k8s:app=web", "k8s:tier=front", "container:kind=x"];
        for custom in ["k8s:!tier", "!k8s:tier", "!tier"] {
            assert_eq!(counting(&[custom], &labels), ["k8s:app=web", "container:kind=x"]);
        }
    }

    #[test]
    fn the_longer_match_decides() {
        let labels = ["k8s:foo.bar=1", "k8s:foo.baz=1"];
        assert_eq!(counting(&["!foo", r"foo\.bar"], &labels), ["k8s:foo.bar=1"]);
    }

    #[test]
    fn a_pattern_that_cannot_be_used_is_named() {
        assert!(
            matches!(LabelFilter::new(["k8s:"]), Err(FilterError::Empty(text)) if text == "k8s:")
        );
        let error = LabelFilter::new(["app("]).unwrap_err();
        assert!(error.to_string().starts_with("label pattern \"app(\" is no regular expression: "));
    }
}
