//! An endpoint's rows in the kernel's maps: those that the actors want against those that are there.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::State;
use ipnet::IpNet;
use volvox_actors::{
    endpoints::endpoint::{EndpointView, OwnRows},
    model::{Addresses, EndpointId, PolicyRows},
    policy::rules::PolicyMsg,
    ports::{ConfigRow, IpcacheRow},
};
use volvox_inspect::http::{Answer, ok};
use volvox_maps::{DatapathError, Dump};
use volvox_rest::models::{BpfMapEntry, ComparedRow, EndpointRows, RowsLogEntry};

use super::{endpoint::view, map};
use crate::api::{Api, extract::Segment};

/// Values by map and key.
type Texts = BTreeMap<(&'static str, String), String>;

pub(crate) async fn compare(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let view = view(&api, &id).await?;
    let subject = view.subject();
    let policy = api
        .gateway
        .ask(
            format!("GET /endpoint/{}/rows", view.id),
            |node| &node.policy,
            |reply| PolicyMsg::ResolveOrKeep { subject, reply },
        )
        .await?;
    let retained = || Arc::clone(&view.realised.policy);
    let policy = policy.map_or_else(retained, |policy| Arc::clone(&policy.rows));
    let (dump, addresses, id) = (Dump::at(&api.facts.bpf_root), view.spec.addresses, view.id);
    let read = move || realised(&dump, id, addresses);
    let realised = map::blocking(read).await?.map_err(volvox_inspect::http::ApiError::failed)?;
    ok(&EndpointRows {
        id: view.id.0,
        state: view.api_state().to_owned(),
        policy_revision: view.realised.whole_revision,
        last_error: view.last_error.as_ref().map(ToString::to_string),
        rows: side_by_side(desired(&view, &policy), realised),
        log: (view.log.iter())
            .map(|entry| RowsLogEntry {
                wall: entry.wall,
                code: entry.code.to_owned(),
                message: entry.message.to_string(),
            })
            .collect(),
    })
}

fn side_by_side(desired: Texts, mut realised: Texts) -> Vec<ComparedRow> {
    let row = |(map, key): (&str, String), desired, realised| ComparedRow {
        map: map.to_owned(),
        key,
        desired,
        realised,
    };
    let mut rows = Vec::new();
    for (place, text) in desired {
        let there = realised.remove(&place);
        rows.push(row(place, Some(text), there));
    }
    rows.extend(realised.into_iter().map(|(place, text)| row(place, None, Some(text))));
    rows.sort_by_key(|row| (row.desired == row.realised, row.map.clone(), row.key.clone()));
    rows
}

fn desired(view: &EndpointView, policy: &PolicyRows) -> Texts {
    let OwnRows { config, lxc } = view.own_rows();
    let ipcache = IpcacheRow::of(view.identity);
    let mut texts = Texts::new();
    for (address, row) in &lxc {
        put(&mut texts, "cilium_lxc", map::lxc((address, row)));
        put(&mut texts, "cilium_ipcache_v2", map::ipcache((&IpNet::from(*address), &ipcache)));
    }
    put(&mut texts, "volvox_config", config_entry(&config));
    policy.iter().for_each(|row| put(&mut texts, "cilium_policy_v2", map::policy(row)));
    texts
}

fn realised(dump: &Dump, id: EndpointId, addresses: Addresses) -> Result<Texts, DatapathError> {
    let mut texts = Texts::new();
    let lxc = dump.lxc()?;
    let own = lxc.iter().filter(|(address, row)| {
        row.endpoint == id.0 || addresses.iter().any(|own| own == **address)
    });
    own.for_each(|row| put(&mut texts, "cilium_lxc", map::lxc(row)));
    let ipcache = dump.ipcache()?;
    for prefix in addresses.iter().map(IpNet::from) {
        if let Some(row) = ipcache.get(&prefix) {
            put(&mut texts, "cilium_ipcache_v2", map::ipcache((&prefix, row)));
        }
    }
    let config = dump.config()?;
    let own = config.values().filter(|row| row.endpoint == id);
    own.for_each(|row| put(&mut texts, "volvox_config", config_entry(row)));
    let policy = dump.policy(id)?.unwrap_or_default();
    policy.iter().for_each(|row| put(&mut texts, "cilium_policy_v2", map::policy(row)));
    Ok(texts)
}

fn put(texts: &mut Texts, map: &'static str, entry: BpfMapEntry) {
    // Columns are padded for people who read a table.
    let value = entry.value.split_whitespace().collect::<Vec<_>>().join(" ");
    texts.insert((map, entry.key), value);
}

/// A configuration row without what no two builds share: its generation and its slot.
fn config_entry(row: &ConfigRow) -> BpfMapEntry {
    let addresses: Vec<_> = row.addresses.iter().map(|address| address.to_string()).collect();
    let value = format!(
        "id={} sec_id={} flags={:#06x} ip={} mac={} nodemac={}",
        row.endpoint,
        row.identity,
        row.flags,
        addresses.join(","),
        row.mac,
        row.node_mac
    );
    BpfMapEntry::new(format!("ifindex {}", row.ifindex), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_stands_first_and_what_lacks_is_absent() {
        let texts = |rows: &[(&'static str, &str, &str)]| -> Texts {
            rows.iter()
                .map(|(map, key, value)| ((*map, key.to_string()), value.to_string()))
                .collect()
        };
        let desired = texts(&[("a", "1", "x"), ("a", "2", "y"), ("b", "1", "z")]);
        let realised = texts(&[("a", "1", "x"), ("a", "2", "other"), ("c", "9", "stray")]);
        let rows = side_by_side(desired, realised);
        let seen: Vec<_> = (rows.iter())
            .map(|row| (row.key.as_str(), row.desired.as_deref(), row.realised.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                ("2", Some("y"), Some("other")),
                ("1", Some("z"), None),
                ("9", None, Some("stray")),
                ("1", Some("x"), Some("x")),
            ]
        );
    }
}
