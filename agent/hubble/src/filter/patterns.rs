//! Patterns: regular expressions of a bounded size, names of hosts, and names of nodes.

use regex::{Regex, RegexBuilder};

/// How large an expression may be, written and compiled, bytes.
const EXPRESSION_MAX: usize = 1024;
const COMPILED_MAX: usize = 256 << 10;

/// A regular expression that is matched anywhere.
#[derive(Debug)]
pub(super) struct Expression(Regex);

impl Expression {
    /// Compiles it, if it is small.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.len() > EXPRESSION_MAX {
            return Err(format!("is longer than {EXPRESSION_MAX} bytes: shorten the expression"));
        }
        let built = RegexBuilder::new(text)
            .size_limit(COMPILED_MAX)
            .dfa_size_limit(COMPILED_MAX)
            .nest_limit(50)
            .build();
        built.map(Self).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim().to_owned();
            format!("is no regular expression: {reason}")
        })
    }

    /// Whether it matches somewhere.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// A pattern of a host's name: `*` is any part of it.
pub(super) fn fqdn(pattern: &str) -> Result<Expression, String> {
    let lower = pattern.trim().trim_end_matches('.').to_lowercase();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._*".contains(letter);
    if lower.is_empty() || !lower.chars().all(is_name) {
        return Err("is no name of a host: letters, digits, - and ., and * for any of them".into());
    }
    let expression = lower.replace('.', "[.]").replace('*', "[-.0-9a-z]*");
    Expression::new(&format!("^{expression}$"))
}

/// A pattern of a node's name, `[cluster/]node`.
#[derive(Debug)]
pub(super) struct NodePattern {
    cluster: Option<Expression>,
    node: Option<Expression>,
}

impl NodePattern {
    /// Reads it.
    pub(super) fn parse(pattern: &str) -> Result<Self, String> {
        let (cluster, node) = match pattern.split_once('/') {
            Some((cluster, node)) => (Some(cluster), node),
            None => (None, pattern),
        };
        if node.contains('/') {
            return Err("is no node: write CLUSTER/NODE, NODE or CLUSTER/".into());
        }
        if pattern.is_empty() {
            return Err("names no node: write its name, or * for any part of it".into());
        }
        let read = |text: &str| (!text.is_empty()).then(|| part(text)).transpose();
        Ok(Self { cluster: cluster.map(read).transpose()?.flatten(), node: read(node)? })
    }

    /// Whether a flow of that node is meant.
    pub(super) fn is(&self, name: &str) -> bool {
        let (cluster, node) = name.split_once('/').unwrap_or(("default", name));
        self.cluster.as_ref().is_none_or(|it| it.is_match(cluster))
            && self.node.as_ref().is_none_or(|it| it.is_match(node))
    }
}

fn part(text: &str) -> Result<Expression, String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._*".contains(letter);
    if !text.chars().all(is_name) {
        return Err("is no name of a node: letters, digits, - and ., and * for any of them".into());
    }
    let expression = text.replace('.', "[.]").replace('*', "[-.0-9a-zA-Z]*");
    Expression::new(&format!("^{expression}$"))
}
