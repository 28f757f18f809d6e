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
    /// None while it changes.
    identity: Option<u64>,
    addressing: [Value; 2],
    /// Names of the pools that the addresses are of, where whoever made it named them.
    pools: [Option<String>; 2],
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
            .filter(|(container, numbers)| {
                !later.0.get(*container).is_some_and(|later| numbers.became(later))
            })
            .count()
    }

    /// What is other than it was, in words.
    pub fn changes(&self, later: &Self) -> Vec<String> {
        let changed = self.0.iter().filter_map(|(container, numbers)| {
            let Some(now) = later.0.get(container) else {
                return Some(format!("endpoint {} is gone", numbers.endpoint));
            };
            (!numbers.became(now)).then(|| numbers.difference(now))
        });
        changed.collect()
    }

    /// Knows nothing more of the endpoint of that container: it goes, or is made anew.
    pub fn leave(&mut self, container: &str) {
        self.0.remove(container);
    }

    /// The endpoint of that container gets another identity.
    pub fn is_relabelled(&mut self, container: &str) {
        if let Some(numbers) = self.0.get_mut(container) {
            numbers.identity = None;
        }
    }

    /// Takes those of another that this one does not know.
    pub fn learn(&mut self, later: &Self) {
        for (container, numbers) in &later.0 {
            self.0.entry(container.clone()).or_insert_with(|| numbers.clone());
        }
    }

    /// The identities that endpoints were to get are there.
    pub fn settle(&mut self, later: &Self) {
        for (container, numbers) in &mut self.0 {
            let its = later.0.get(container).and_then(|later| later.identity);
            numbers.identity = numbers.identity.or(its);
        }
    }

    /// Whether an endpoint of another inventory has the number of one of these.
    pub fn shares_numbers_with(&self, other: &Self) -> bool {
        let mut numbers = self.0.values().map(|it| it.endpoint);
        numbers.any(|number| other.0.values().any(|it| it.endpoint == number))
    }
}

impl Numbers {
    fn difference(&self, now: &Self) -> String {
        let show = |it: &Self| {
            let identity = it.identity.map_or("?".to_owned(), |identity| identity.to_string());
            let Self { endpoint, addressing: [v4, v6], mac, pools: [of_v4, of_v6], .. } = it;
            let pool = |of: &Option<String>| of.as_ref().map(|it| format!(" of pool {it}"));
            let [of_v4, of_v6] = [of_v4, of_v6].map(|it| pool(it).unwrap_or_default());
            format!("endpoint {endpoint} of identity {identity} at {v4}{of_v4}, {v6}{of_v6}, {mac}")
        };
        format!("{} became {}", show(self), show(now))
    }

    /// Whether these are the same later, as far as they are known.
    fn became(&self, later: &Self) -> bool {
        let identity = self.identity.or(later.identity);
        let mut pools = self.pools.clone();
        for (pool, later) in pools.iter_mut().zip(&later.pools) {
            *pool = pool.take().or_else(|| later.clone());
        }
        *later == Self { identity, pools, ..self.clone() }
    }

    fn read(endpoint: &Value) -> Result<(String, Self)> {
        let status = &endpoint["status"];
        let container = status["external-identifiers"]["container-id"].as_str();
        let networking = &status["networking"];
        let pool = |it: &Value| it.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        let addressing = &networking["addressing"][0];
        let identity = status["identity"]["id"].as_u64();
        let numbers = Self {
            endpoint: endpoint["id"].as_u64().context("an endpoint without id")?,
            identity: Some(identity.context("an endpoint without identity")?),
            addressing: ["ipv4", "ipv6"].map(|it| addressing[it].clone()),
            pools: ["ipv4-pool-name", "ipv6-pool-name"].map(|it| pool(&addressing[it])),
            mac: networking["mac"].clone(),
        };
        Ok((container.context("an endpoint without container")?.into(), numbers))
    }
}
