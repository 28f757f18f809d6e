//! Tests: a sound node breaks no invariant, and each kind of damage breaks the right one.

use std::{net::IpAddr, sync::Arc};

use super::*;
use crate::{
    endpoints::endpoint::EndpointState,
    model::{
        Addresses, Direction, EndpointId, IdentityId, Labels, Mac, PolicyEntry, PolicyKey,
        PolicyRows,
    },
    ports::{
        Attachment, ConfigRow, EndpointRow, HookState, IpcacheRow, KernelSnapshot, LxcRow,
        lxc_flags,
    },
};

/// A node with one ready endpoint, all in order.
fn sound() -> Snapshot {
    let mut snapshot = Snapshot::default();
    add(&mut snapshot, 7);
    let host = LxcRow { flags: lxc_flags::HOST, ..LxcRow::default() };
    Arc::make_mut(&mut snapshot.kernel).lxc.insert(ip("192.0.2.1"), host);
    snapshot
}

/// Adds a ready endpoint with all that belongs to it; interface, identity and last part of the
/// address follow its number.
fn add(snapshot: &mut Snapshot, id: u16) {
    let (ifindex, identity) = (u32::from(id) + 100, IdentityId(u32::from(id) + 256));
    let addresses =
        Addresses { ipv4: format!("10.0.{}.{}", id >> 8, id & 0xff).parse().ok(), ipv6: None };
    let address = ip(&format!("10.0.{}.{}", id >> 8, id & 0xff));
    let slot = EndpointId(id).slot(0);
    let id = EndpointId(id);
    snapshot.endpoints.push(EndpointFacts {
        id,
        state: EndpointState::Ready,
        failing: false,
        ifindex,
        programs: true,
        addresses,
        identity,
        policy: Arc::default(),
    });
    snapshot.leases.push((address, format!("ns/pod-{id}")));
    let labels = Labels::parse([format!("k8s:app={id}").as_str()]).unwrap();
    snapshot.identities.push((identity, Arc::new(labels)));
    let kernel = Arc::make_mut(&mut snapshot.kernel);
    kernel.config.insert(
        ifindex,
        ConfigRow {
            generation: 1,
            endpoint: id,
            flags: 0,
            identity,
            policy_slot: slot,
            ifindex,
            addresses,
            mac: Mac::default(),
            node_mac: Mac::default(),
        },
    );
    kernel.lxc.insert(address, LxcRow { endpoint: id.0, identity, ..LxcRow::default() });
    kernel.ipcache.insert(address.into(), IpcacheRow { identity, ..IpcacheRow::default() });
    kernel.endpoints.insert(id, EndpointRow::default());
    kernel.policy_pins.push(id);
    let attachment =
        Attachment { from_container: HookState::Link, to_container: HookState::Filter };
    kernel.attachments.insert(id, attachment);
    snapshot.policies.insert(slot, Some(PolicyRows::new()));
    snapshot.attached_before.push(id);
}

fn kernel(snapshot: &mut Snapshot) -> &mut KernelSnapshot {
    Arc::make_mut(&mut snapshot.kernel)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn broken(spoil: impl FnOnce(&mut Snapshot)) -> Vec<&'static str> {
    let mut snapshot = sound();
    spoil(&mut snapshot);
    let all = ALWAYS.iter().chain(AT_REST);
    check(all, &snapshot).into_iter().map(|violation| violation.invariant).collect()
}

#[test]
fn a_sound_node_breaks_none() {
    assert!(broken(|_| {}).is_empty());
    assert!(broken(|node| add(node, 8)).is_empty());
    assert!(check(ALWAYS.iter().chain(AT_REST), &Snapshot::default()).is_empty());
}

#[test]
fn a_thousand_endpoints_are_compared_in_one_go() {
    let mut snapshot = Snapshot::default();
    (1..=1000).for_each(|id| add(&mut snapshot, id));
    let began = std::time::Instant::now();
    assert_eq!(check(ALWAYS.iter().chain(AT_REST), &snapshot), []);
    eprintln!("1,000 endpoints compared in {:?}", began.elapsed());
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = ALWAYS.iter().chain(AT_REST).map(|one| one.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALWAYS.len() + AT_REST.len());
}

#[test]
fn nothing_is_owned_twice() {
    let spoil = |change: fn(&mut EndpointFacts)| {
        broken(|node| {
            add(node, 8);
            change(&mut node.endpoints[1]);
        })
    };
    assert!(spoil(|endpoint| endpoint.id = EndpointId(7)).contains(&"endpoint-ids-are-unique"));
    let address = spoil(|endpoint| endpoint.addresses.ipv4 = "10.0.0.7".parse().ok());
    assert!(address.contains(&"endpoints-share-no-address"));
    let interface = spoil(|endpoint| endpoint.ifindex = 107);
    assert!(interface.contains(&"endpoints-share-no-interface"));
    let leaving = spoil(|endpoint| {
        endpoint.state = EndpointState::Disconnecting;
        (endpoint.ifindex, endpoint.addresses.ipv4) = (107, "10.0.0.7".parse().ok());
    });
    assert!(leaving.is_empty());
}

#[test]
fn an_address_has_one_owner_and_a_used_one_has_one() {
    let one = ["an-address-has-one-owner"];
    assert_eq!(broken(|node| node.leases.push((ip("10.0.0.7"), "ns/other".into()))), one);
    assert_eq!(broken(|node| node.leases.push((ip("10.0.0.9"), String::new()))), one);
    assert_eq!(broken(|node| node.leases.clear()), ["endpoints-addresses-are-handed-out"]);
}

#[test]
fn a_number_is_one_set_of_labels_and_a_set_has_one_number() {
    let one = ["a-number-is-one-set-of-labels"];
    let other = || Arc::new(Labels::reserved("other"));
    assert_eq!(broken(|node| node.identities.push((IdentityId(263), other()))), one);
    let same = |node: &mut Snapshot| {
        let labels = Arc::clone(&node.identities[0].1);
        node.identities.push((IdentityId(264), labels));
    };
    assert_eq!(broken(same), one);
}

#[test]
fn programs_never_dip() {
    let lost = |state: EndpointState| {
        broken(|node| {
            node.endpoints[0].state = state;
            kernel(node).attachments.clear();
        })
    };
    assert_eq!(
        lost(EndpointState::Ready),
        ["attached-programs-never-dip", "ready-means-programmed"]
    );
    assert_eq!(lost(EndpointState::Restoring), ["attached-programs-never-dip"]);
    assert!(lost(EndpointState::Disconnecting).is_empty());
}

#[test]
fn ready_is_programmed_enforced_and_known() {
    let id = EndpointId(7);
    let slot = id.slot(0);
    assert_eq!(broken(|node| kernel(node).config.clear()), ["ready-means-programmed"]);
    let identity = |node: &mut Snapshot| node.endpoints[0].identity = IdentityId(300);
    assert_eq!(broken(identity), ["ready-means-programmed", "ready-means-known-to-others"]);
    assert_eq!(broken(|node| node.policies = [(slot, None)].into()), ["ready-means-enforced"]);
    let rows = |node: &mut Snapshot| {
        let key = PolicyKey {
            direction: Direction::Ingress,
            identity: IdentityId::UNKNOWN,
            protocol: 0,
            port: 0,
            bits: 0,
        };
        let entry = PolicyEntry { deny: false, precedence: 1, cookie: 0 };
        node.policies.insert(slot, Some(PolicyRows::from([(key, entry)])));
    };
    assert_eq!(broken(rows), ["ready-means-enforced"]);
    // One that was not read says nothing.
    assert!(broken(|node| node.policies.clear()).is_empty());
    assert_eq!(broken(|node| kernel(node).ipcache.clear()), ["ready-means-known-to-others"]);
    assert_eq!(broken(|node| kernel(node).lxc.clear()), ["ready-means-known-to-others"]);
    // One whose last build failed is served by an earlier one.
    let failing = broken(|node| {
        node.endpoints[0].failing = true;
        node.policies = [(slot, None)].into();
    });
    assert!(failing.is_empty());
}

#[test]
fn nothing_of_a_gone_endpoint_stays_but_what_is_the_host_s() {
    let left = broken(|node| node.endpoints.clear());
    assert_eq!(left, ["nothing-is-left-behind"]);
    let mut snapshot = sound();
    snapshot.endpoints.clear();
    let found = check(AT_REST, &snapshot).remove(0).to_string();
    for what in ["address 10.0.0.7", "interface 107", "a record", "programs", "a policy pin"] {
        assert!(found.contains(what), "{found}");
    }
    assert!(!found.contains("192.0.2.1"), "{found}");
    // It may just be on its way, or back.
    snapshot.changed.insert(EndpointId(7));
    assert!(check(AT_REST, &snapshot).is_empty());
}
