//! Shape of the rules and their selectors.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use volvox_actors::policy::rules::{PolicySelector, WrittenPolicies};

/// Answer to `GET /policy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// All rules, a list, as JSON in a text.
    pub policy: String,
    /// Revision of the rules.
    pub revision: u64,
}

/// One selector of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelectorEntry {
    /// Identities that it selects.
    pub identities: Vec<u32>,
    /// The selector, in Cilium's notation.
    pub selector: String,
    /// How many rules use it.
    pub users: usize,
}

impl Policy {
    /// The rules as they were written, each with labels that say where.
    pub fn new(written: &WrittenPolicies) -> Self {
        let rules: Vec<Value> = written
            .rules
            .iter()
            .map(|rule| {
                let mut value = rule.value.clone();
                if let Value::Object(members) = &mut value {
                    let labels = rule.labels.iter().map(
                        |(key, value)| json!({"key": key, "value": value, "source": "directory"}),
                    );
                    members.insert("labels".to_owned(), labels.collect());
                }
                value
            })
            .collect();
        Self { policy: Value::Array(rules).to_string(), revision: written.revision }
    }
}

impl SelectorEntry {
    /// A selector and whom it selects.
    pub fn new(selector: &PolicySelector) -> Self {
        Self {
            identities: selector.identities.iter().map(|id| id.0).collect(),
            selector: selector.selector.clone(),
            users: selector.users,
        }
    }
}
