//! Shape of an endpoint's realised policy, made from the rows that the kernel has and from the
//! rules behind them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use volvox_actors::{
    endpoints::endpoint::{EndpointView, Realised},
    model::{Direction, PolicyEntry, PolicyKey},
    policy::rules::{ClauseOrigin, DerivedFilter},
};

/// The policy of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EndpointPolicy {
    /// Revision that a proxy has; the same, as there is none.
    pub proxy_policy_revision: u64,
    /// Always empty: there is no proxy.
    pub proxy_statistics: Vec<Value>,
    /// What the kernel does.
    pub realized: RealizedPolicy,
}

/// A policy that is in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RealizedPolicy {
    /// Peers to which everything is allowed; null if there is none.
    pub allowed_egress_identities: Option<Vec<u32>>,
    /// Peers from which everything is allowed; null if there is none.
    pub allowed_ingress_identities: Option<Vec<u32>>,
    /// Revision that it was built from.
    pub build: u64,
    /// Peers to which everything is denied; null if there is none.
    pub denied_egress_identities: Option<Vec<u32>>,
    /// Peers from which everything is denied; null if there is none.
    pub denied_ingress_identities: Option<Vec<u32>>,
    /// The endpoint's identity.
    pub id: u32,
    /// Rules with a protocol or port.
    pub l4: L4Policy,
    /// Directions that are enforced: `none`, `ingress`, `egress` or `both`.
    pub policy_enabled: String,
    /// Revision that it shows.
    pub policy_revision: u64,
}

/// Rules with a protocol or port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct L4Policy {
    /// From the endpoint.
    pub egress: Vec<PolicyRule>,
    /// To the endpoint.
    pub ingress: Vec<PolicyRule>,
}

/// One protocol and port, and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct PolicyRule {
    /// Labels of the rules that it comes from; empty in a list of endpoints.
    pub derived_from_rules: Vec<Vec<String>>,
    /// The protocol, port and peers, as JSON in a text.
    pub rule: String,
    /// The same labels, by selector of the peers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules_by_selector: BTreeMap<String, Vec<Vec<String>>>,
}

impl EndpointPolicy {
    /// The policy of an endpoint, as the kernel has it.
    pub fn new(view: &EndpointView) -> Self {
        let realised = &view.realised;
        let peers = |direction, deny| peers(realised, direction, deny);
        Self {
            proxy_policy_revision: realised.whole_revision,
            proxy_statistics: Vec::new(),
            realized: RealizedPolicy {
                allowed_egress_identities: peers(Direction::Egress, false),
                allowed_ingress_identities: peers(Direction::Ingress, false),
                build: realised.whole_revision,
                denied_egress_identities: peers(Direction::Egress, true),
                denied_ingress_identities: peers(Direction::Ingress, true),
                id: view.identity.0,
                l4: L4Policy {
                    egress: rules(realised, Direction::Egress),
                    ingress: rules(realised, Direction::Ingress),
                },
                policy_enabled: enabled(realised).to_owned(),
                policy_revision: realised.whole_revision,
            },
        }
    }
}

impl L4Policy {
    /// The rules behind a policy, as Cilium writes them.
    pub fn derived(filters: &[DerivedFilter]) -> Self {
        let of = |direction| {
            let filters = filters.iter().filter(|filter| filter.direction == direction);
            filters.map(PolicyRule::derived).collect()
        };
        Self { egress: of(Direction::Egress), ingress: of(Direction::Ingress) }
    }
}

impl PolicyRule {
    fn derived(filter: &DerivedFilter) -> Self {
        let selectors: Vec<Value> =
            filter.selectors.keys().map(|selector| json!({selector.as_str(): null})).collect();
        let mut rule = json!({
            "port": filter.port, "protocol": filter.protocol, "l7-rules": selectors,
        });
        if let Some(end) = filter.end_port {
            rule["end-port"] = end.into();
        }
        if let Some(name) = &filter.port_name {
            rule["port-name"] = name.as_str().into();
        }
        if filter.deny {
            rule["deny"] = true.into();
        }
        let labels = |origins: &BTreeSet<&ClauseOrigin>| -> Vec<Vec<String>> {
            let sets: BTreeSet<_> = origins.iter().map(|origin| origin.labels()).collect();
            sets.into_iter().collect()
        };
        let by_selector = filter.selectors.iter();
        Self {
            derived_from_rules: labels(&filter.origins()),
            rule: rule.to_string(),
            rules_by_selector: by_selector
                .map(|(selector, origins)| (selector.clone(), labels(&origins.iter().collect())))
                .collect(),
        }
    }
}

/// Which directions are enforced.
pub fn enabled(realised: &Realised) -> &'static str {
    match (realised.ingress_enforced, realised.egress_enforced) {
        (false, false) => "none",
        (true, false) => "ingress",
        (false, true) => "egress",
        (true, true) => "both",
    }
}

/// Peers that are allowed or denied whatever the protocol.
fn peers(realised: &Realised, direction: Direction, deny: bool) -> Option<Vec<u32>> {
    let peers: Vec<u32> = rows(realised, direction)
        .filter(|(key, entry)| key.bits == 0 && entry.deny == deny)
        .map(|(key, _)| key.identity.0)
        .collect();
    (!peers.is_empty()).then_some(peers)
}

fn rows(
    realised: &Realised,
    direction: Direction,
) -> impl Iterator<Item = (&PolicyKey, &PolicyEntry)> {
    realised.policy.iter().filter(move |(key, _)| key.direction == direction)
}

/// Rows with a protocol, those of the same protocol, ports and verdict as one rule.
fn rules(realised: &Realised, direction: Direction) -> Vec<PolicyRule> {
    let mut by_port: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for (key, entry) in rows(realised, direction).filter(|(key, _)| key.bits > 0) {
        let what = (key.protocol, key.port, key.bits, entry.deny);
        by_port.entry(what).or_default().push(key.identity.0);
    }
    by_port
        .into_iter()
        .map(|((protocol, port, bits, deny), identities)| {
            let mut rule = json!({
                "protocol": protocol_name(protocol), "port": port, "identities": identities,
            });
            if let Some(last) = last_port(port, bits) {
                rule["end-port"] = last.into();
            }
            if deny {
                rule["deny"] = true.into();
            }
            PolicyRule { rule: rule.to_string(), ..PolicyRule::default() }
        })
        .collect()
}

/// The last port of the range that a row stands for; none for a single one.
pub fn last_port(port: u16, bits: u8) -> Option<u16> {
    let free = 24u8.saturating_sub(bits.max(8));
    (free > 0).then(|| port | (u16::MAX >> (16 - free)))
}

/// The name of an IP protocol; its number if it has none here.
pub fn protocol_name(protocol: u8) -> String {
    match protocol {
        0 => "ANY".to_owned(),
        1 => "ICMP".to_owned(),
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        58 => "ICMPv6".to_owned(),
        132 => "SCTP".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_ports_is_a_range() {
        assert_eq!(last_port(80, 24), None);
        assert_eq!(last_port(80, 20), Some(95));
        assert_eq!(last_port(0, 8), Some(65535));
    }
}
