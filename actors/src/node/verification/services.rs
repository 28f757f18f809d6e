//! Services: frontends, and which backends stand behind them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    desired::DesiredNode,
    difference::{Guarantee, NodeDifference},
};
use crate::{
    model::BackendId,
    ports::{ServiceTables, SlotRow},
};

const WRITTEN_AGAIN: &str = "the agent writes it again within its next sweep for drift; if it stays so, \
                             restart the agent and report it";

/// How the row of an address ends that stands for all its other ports.
const WILDCARD: &str = ":0/ANY";

/// The address of a frontend.
fn address(frontend: &str) -> &str {
    frontend.rsplit_once(':').map_or(frontend, |(address, _)| address)
}

/// What the kernel has of them, against what is wanted.
pub(super) fn compare(
    desired: &DesiredNode,
    tables: &ServiceTables,
    found: &mut Vec<NodeDifference>,
) {
    let mut slots: BTreeMap<String, BTreeMap<u16, SlotRow>> = BTreeMap::new();
    for ((frontend, slot), row) in &tables.slots {
        slots.entry(frontend.to_string()).or_default().insert(*slot, *row);
    }
    let backends: BTreeMap<BackendId, String> =
        tables.backends.iter().map(|(id, row)| (*id, row.at.to_string())).collect();
    let mut add = |guarantee, frontend: &str, what: String| {
        let (about, remedy) = (format!("service {frontend}"), WRITTEN_AGAIN.to_owned());
        found.push(NodeDifference { guarantee, about, found: what, remedy });
    };
    for service in &desired.services {
        let frontend = &service.frontend;
        let Some(own) = slots.remove(frontend) else {
            add(Guarantee::Enforced, frontend, "the kernel does not have it".to_owned());
            continue;
        };
        match own.get(&0) {
            None => add(Guarantee::Enforced, frontend, "its first slot is not there".to_owned()),
            Some(row) if row.id != service.id => {
                let what =
                    format!("its number is {} in the kernel, wanted is {}", row.id.0, service.id.0);
                add(Guarantee::Numbers, frontend, what);
            }
            Some(_) => {}
        }
        let has: Vec<BackendId> = own.range(1..).map(|(_, row)| BackendId(row.word)).collect();
        let wanted: Vec<BackendId> = service.backends.iter().map(|(id, _)| *id).collect();
        if has != wanted {
            let list = |all: &[BackendId]| {
                all.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(", ")
            };
            let what = format!("its backends are [{}], wanted are [{}]", list(&has), list(&wanted));
            add(Guarantee::Enforced, frontend, what);
        }
        for (id, at) in &service.backends {
            let is_at = backends.get(id);
            if at.is_some() && is_at != at.as_ref() {
                let is_at = is_at.map_or("nowhere", String::as_str);
                let wanted = at.as_deref().unwrap_or_default();
                let what = format!("backend {} is at {is_at}, wanted is {wanted}", id.0);
                add(Guarantee::Numbers, frontend, what);
            }
        }
    }
    if desired.restored && desired.services_known {
        let addresses: BTreeSet<&str> =
            desired.services.iter().map(|service| address(&service.frontend)).collect();
        // An address of a service has a row for all its other ports.
        let is_wildcard = |it: &str| it.ends_with(WILDCARD) && addresses.contains(address(it));
        for frontend in slots.keys().filter(|frontend| !is_wildcard(frontend)) {
            add(Guarantee::Clean, frontend, "the kernel has it, and nobody wants it".to_owned());
        }
    }
}
