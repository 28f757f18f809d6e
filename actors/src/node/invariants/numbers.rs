//! No number is owned twice, and none that is used lacks an owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Debug, Display},
};

use super::{
    Snapshot,
    invariant::{Invariant, Violation, verdict},
};

pub(super) const ENDPOINT_IDS: Invariant =
    Invariant { name: "endpoint-ids-are-unique", check: endpoint_ids };

fn endpoint_ids(snapshot: &Snapshot) -> Result<(), Violation> {
    let ids = snapshot.endpoints.iter().map(|endpoint| (endpoint.id, endpoint.ifindex));
    let what = |id, interfaces| format!("number {id} is had by interfaces {interfaces}");
    verdict(ENDPOINT_IDS.name, shared(ids, what))
}

pub(super) const ENDPOINT_ADDRESSES: Invariant =
    Invariant { name: "endpoints-share-no-address", check: endpoint_addresses };

fn endpoint_addresses(snapshot: &Snapshot) -> Result<(), Violation> {
    let addresses = snapshot
        .living()
        .flat_map(|endpoint| endpoint.addresses.iter().map(|address| (address, endpoint.id)));
    let what = |address, ids| format!("address {address} is had by endpoints {ids}");
    verdict(ENDPOINT_ADDRESSES.name, shared(addresses, what))
}

pub(super) const ENDPOINT_INTERFACES: Invariant =
    Invariant { name: "endpoints-share-no-interface", check: endpoint_interfaces };

fn endpoint_interfaces(snapshot: &Snapshot) -> Result<(), Violation> {
    let interfaces = snapshot
        .living()
        .filter(|endpoint| endpoint.ifindex != 0)
        .map(|endpoint| (endpoint.ifindex, endpoint.id));
    let what = |ifindex, ids| format!("interface {ifindex} is had by endpoints {ids}");
    verdict(ENDPOINT_INTERFACES.name, shared(interfaces, what))
}

pub(super) const LEASES: Invariant = Invariant { name: "an-address-has-one-owner", check: leases };

fn leases(snapshot: &Snapshot) -> Result<(), Violation> {
    let leases = snapshot.leases.iter().map(|(address, owner)| (address, owner));
    let twice = shared(leases, |address, owners| format!("address {address} is had by {owners}"));
    let nobody = snapshot.leases.iter().filter(|(_, owner)| owner.is_empty());
    let nobody = nobody.map(|(address, _)| format!("address {address} is had by nobody"));
    verdict(LEASES.name, twice.into_iter().chain(nobody))
}

pub(super) const ADDRESSES_ARE_LEASED: Invariant =
    Invariant { name: "endpoints-addresses-are-handed-out", check: addresses_are_leased };

fn addresses_are_leased(snapshot: &Snapshot) -> Result<(), Violation> {
    let leased: BTreeSet<_> = snapshot.leases.iter().map(|(address, _)| *address).collect();
    let used = snapshot
        .living()
        .flat_map(|endpoint| endpoint.addresses.iter().map(|address| (endpoint.id, address)));
    let found = used
        .filter(|(_, address)| !leased.contains(address))
        .map(|(id, address)| format!("address {address} of endpoint {id} may be handed out again"));
    verdict(ADDRESSES_ARE_LEASED.name, found)
}

pub(super) const IDENTITIES: Invariant =
    Invariant { name: "a-number-is-one-set-of-labels", check: identities };

fn identities(snapshot: &Snapshot) -> Result<(), Violation> {
    let sets = snapshot.identities.iter().map(|(id, labels)| (id, labels));
    let sets = shared(sets, |id, sets| format!("identity {id} is {sets}"));
    let numbers = snapshot.identities.iter().map(|(id, labels)| (labels, id));
    let numbers = shared(numbers, |labels, ids| format!("the set {labels} has numbers {ids}"));
    verdict(IDENTITIES.name, sets.into_iter().chain(numbers))
}

/// A line for each thing that has more than one owner.
fn shared<T: Ord + Display, O: Debug>(
    owned: impl IntoIterator<Item = (T, O)>,
    what: impl Fn(T, String) -> String,
) -> Vec<String> {
    let mut owners: BTreeMap<T, Vec<O>> = BTreeMap::new();
    for (thing, owner) in owned {
        owners.entry(thing).or_default().push(owner);
    }
    let several = owners.into_iter().filter(|(_, owners)| owners.len() > 1);
    several.map(|(thing, owners)| what(thing, format!("{owners:?}"))).collect()
}
