//! What must not move: who has which numbers.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Node;

/// The numbers of every endpoint, by its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory(BTreeMap<String, Numbers>);

/// The numbers of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Numbers {
    endpoint: u64,
    identity: u64,
    addressing: Value,
    mac: Value,
}

impl Inventory {
    /// Reads them through the API.
    pub fn read(node: &Node) -> Result<Self> {
        node.endpoints()?.iter().map(Numbers::read).collect::<Result<_>>().map(Self)
    }

    /// How many endpoints there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many endpoints of this inventory are gone from `later` or have other numbers there.
    pub fn moved(&self, later: &Self) -> usize {
        self.0
            .iter()
            .filter(|(container, numbers)| later.0.get(*container) != Some(numbers))
            .count()
    }

    /// Whether an endpoint of another inventory has the number of one of these.
    pub fn shares_numbers_with(&self, other: &Self) -> bool {
        let mut numbers = self.0.values().map(|it| it.endpoint);
        numbers.any(|number| other.0.values().any(|it| it.endpoint == number))
    }
}

impl Numbers {
    fn read(endpoint: &Value) -> Result<(String, Self)> {
        let status = &endpoint["status"];
        let container = status["external-identifiers"]["container-id"].as_str();
        let networking = &status["networking"];
        let numbers = Self {
            endpoint: endpoint["id"].as_u64().context("an endpoint without id")?,
            identity: status["identity"]["id"].as_u64().context("an endpoint without identity")?,
            addressing: networking["addressing"].clone(),
            mac: networking["mac"].clone(),
        };
        Ok((container.context("an endpoint without container")?.into(), numbers))
    }
}
