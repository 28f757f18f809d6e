//! Reads label selectors: of pods, namespaces, nodes and Cilium's own.

use std::collections::BTreeSet;

use serde_json::Value;

use super::scope::NAMESPACE_LABELS;
use crate::model::field::{Fault, Field, Mapping};
use crate::policy::rules::{
    Selector, SelectorKey,
    selector::{Requirement, Test},
};

/// How the keys of a selector are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// Cilium's: `source:key`, or a key of any source.
    Cilium,
    /// Labels of pods.
    Pod,
    /// Labels of namespaces.
    Namespace,
    /// Labels of nodes.
    Node,
}

impl Keys {
    /// The key that a text means.
    pub(super) fn key(self, text: &str) -> SelectorKey {
        match self {
            Self::Cilium => SelectorKey::parse(text),
            Self::Pod => SelectorKey::new("k8s", text),
            Self::Namespace => SelectorKey::new("k8s", format!("{NAMESPACE_LABELS}{text}")),
            Self::Node => SelectorKey::new("node", text),
        }
    }
}

/// Reads a Kubernetes label selector of pods that is part of no policy.
pub fn pod_selector(said: &Value) -> Result<Selector, String> {
    of_no_policy(said, Keys::Pod)
}

/// The same of namespaces.
pub fn namespace_selector(said: &Value) -> Result<Selector, String> {
    of_no_policy(said, Keys::Namespace)
}

fn of_no_policy(said: &Value, keys: Keys) -> Result<Selector, String> {
    selector(&Field::root(said), keys).map_err(|Fault { path, problem, remedy }| {
        let colon = if path.is_empty() { "" } else { ": " };
        format!("{path}{colon}{problem}: {remedy}")
    })
}

/// Reads a Kubernetes label selector.
pub(super) fn selector(field: &Field<'_>, keys: Keys) -> Result<Selector, Fault> {
    let mapping = field.mapping(&["matchLabels", "matchExpressions"])?;
    let mut selector = Selector::default();
    if let Some(labels) = mapping.get("matchLabels") {
        for (text, value) in labels.any_mapping()?.entries() {
            selector.labels.insert(key(text, &value, keys)?, value.text()?.to_owned());
        }
    }
    for expression in mapping.list("matchExpressions")?.unwrap_or_default() {
        selector.expressions.push(requirement(&expression, keys)?);
    }
    Ok(selector)
}

fn key(text: &str, field: &Field<'_>, keys: Keys) -> Result<SelectorKey, Fault> {
    let key = keys.key(text);
    if key.key.is_empty() {
        return Err(field.fault(format!("{text:?} names no label"), "write a label's key"));
    }
    Ok(key)
}

fn requirement(field: &Field<'_>, keys: Keys) -> Result<Requirement, Fault> {
    let mapping = field.mapping(&["key", "operator", "values"])?;
    let name = mapping.need("key")?;
    let operator = mapping.need("operator")?;
    let test = match operator.text()? {
        "In" => Test::In(some_values(&mapping, &operator)?),
        "NotIn" => Test::NotIn(some_values(&mapping, &operator)?),
        "Exists" => no_values(&mapping, Test::Exists)?,
        "DoesNotExist" => no_values(&mapping, Test::DoesNotExist)?,
        other => {
            return Err(operator.fault(
                format!("unknown operator {other:?}"),
                "write In, NotIn, Exists or DoesNotExist",
            ));
        }
    };
    Ok(Requirement { key: key(name.text()?, &name, keys)?, test })
}

fn values(mapping: &Mapping<'_>) -> Result<BTreeSet<String>, Fault> {
    let list = mapping.list("values")?.unwrap_or_default();
    list.iter().map(|value| value.text().map(str::to_owned)).collect()
}

fn some_values(mapping: &Mapping<'_>, operator: &Field<'_>) -> Result<BTreeSet<String>, Fault> {
    let values = values(mapping)?;
    if values.is_empty() {
        return Err(operator.fault("the operator compares with no value", "add values"));
    }
    Ok(values)
}

fn no_values(mapping: &Mapping<'_>, test: Test) -> Result<Test, Fault> {
    if values(mapping)?.is_empty() {
        return Ok(test);
    }
    let field = mapping.need("values")?;
    Err(field.fault("the operator takes no values", "remove them, or write In or NotIn"))
}
