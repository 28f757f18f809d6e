//! Reads label selectors of Kubernetes' own objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::selector::Keys;
use crate::{
    model::{field::Fault, place::Place},
    policy::rules::{
        Selector, SelectorKey,
        selector::{Requirement, Test},
    },
};

/// Reads what is selected at that place.
pub(super) fn label_selector(
    at: &Place<'_>,
    said: &LabelSelector,
    keys: Keys,
) -> Result<Selector, Fault> {
    let mut selector = Selector::default();
    let place = at.key("matchLabels");
    for (text, value) in said.match_labels.iter().flatten() {
        selector.labels.insert(key(&place.key(text), text, keys)?, value.clone());
    }
    let place = at.key("matchExpressions");
    for (at, expression) in place.each(said.match_expressions.as_ref()) {
        selector.expressions.push(requirement(&at, expression, keys)?);
    }
    Ok(selector)
}

fn key(at: &Place<'_>, text: &str, keys: Keys) -> Result<SelectorKey, Fault> {
    let key = keys.key(text);
    match key.key.is_empty() {
        true => Err(at.fault(format!("{text:?} names no label"), "write a label's key")),
        false => Ok(key),
    }
}

fn requirement(
    at: &Place<'_>,
    said: &LabelSelectorRequirement,
    keys: Keys,
) -> Result<Requirement, Fault> {
    let name = at.need("key", &said.key)?;
    let place = at.key("operator");
    let values = said.values.iter().flatten().cloned().collect();
    let has_values = said.values.as_ref().is_some_and(|values| !values.is_empty());
    let test = match at.need("operator", &said.operator)? {
        "In" if has_values => Test::In(values),
        "NotIn" if has_values => Test::NotIn(values),
        "In" | "NotIn" => {
            return Err(place.fault("the operator compares with no value", "add values"));
        }
        "Exists" | "DoesNotExist" if has_values => {
            return Err(at
                .key("values")
                .fault("the operator takes no values", "remove them, or write In or NotIn"));
        }
        "Exists" => Test::Exists,
        "DoesNotExist" => Test::DoesNotExist,
        other => {
            return Err(place.fault(
                format!("unknown operator {other:?}"),
                "write In, NotIn, Exists or DoesNotExist",
            ));
        }
    };
    Ok(Requirement { key: key(&at.key("key"), name, keys)?, test })
}
