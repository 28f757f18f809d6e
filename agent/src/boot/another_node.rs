//! Whether the state directory that was found is another node's: one that was copied with a disk, say.
//!
//! Its prefixes would be given out twice, and its endpoints would be missed here.

use std::net::IpAddr;

use volvox_actors::{
    ports::KernelSnapshot,
    state_directory::{EndpointRecord, NodeState, ScannedDirectory},
};

use crate::node_name::node_name;

/// Addresses that pods have here, as the kernel's rows say.
pub(super) fn pods_addresses(kernel: &KernelSnapshot) -> impl Iterator<Item = IpAddr> + use<'_> {
    let rows = kernel.endpoints.values().flat_map(|row| row.addresses.iter());
    rows.chain(kernel.config.values().flat_map(|row| row.addresses.iter()))
}

/// The node whose directory this is, if it says that it is another's. A node that only has another name by
/// now has pods that the directory knows.
pub(super) fn whose(
    node: Option<&NodeState>,
    found: &ScannedDirectory,
    kernel: &KernelSnapshot,
) -> Option<String> {
    let node = node.filter(|it| !it.name.is_empty() && it.name != node_name())?;
    let is_here = |EndpointRecord { ifindex, node_mac, .. }: &EndpointRecord| {
        !node_mac.is_zero() && kernel.links.get(ifindex).is_some_and(|link| link.mac == *node_mac)
    };
    let knows_some = found.records.iter().any(|it| is_here(&it.record));
    (!knows_some && !node.gave(pods_addresses(kernel))).then(|| node.name.clone())
}

#[cfg(test)]
mod tests {
    use volvox_actors::{
        model::{Addresses, EndpointId, Mac},
        ports::{EndpointRow, Link},
        state_directory::{Form, FoundRecord},
    };

    use super::*;

    #[test]
    fn a_directory_is_anothers_if_it_says_so_and_knows_nobody_here() {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let record = EndpointRecord { ifindex: 7, node_mac: mac, ..EndpointRecord::default() };
        let record =
            FoundRecord { record, dir: "1".to_owned(), form: Form::Json, passed_over: Vec::new() };
        let found = ScannedDirectory { records: vec![record], ..ScannedDirectory::default() };
        let node = |name: &str| NodeState {
            name: name.to_owned(),
            ipv4_range: "10.1.0.0/24".parse().ok(),
            ..NodeState::default()
        };
        let nobody = KernelSnapshot::default();
        let of = |name: &str, kernel| whose(Some(&node(name)), &found, kernel);
        assert_eq!(of("another", &nobody), Some("another".to_owned()));
        assert_eq!(of(&node_name(), &nobody), None);
        assert_eq!(of("", &nobody), None, "an older agent did not say it");
        assert_eq!(whose(None, &found, &nobody), None);
        // It is this one, which had another name.
        let mut kernel = KernelSnapshot::default();
        kernel.links.insert(7, Link { ifindex: 7, mac, ..Link::default() });
        assert_eq!(of("before", &kernel), None);
        let mut kernel = KernelSnapshot::default();
        let addresses = Addresses { ipv4: "10.1.0.9".parse().ok(), ipv6: None };
        kernel.endpoints.insert(EndpointId(3), EndpointRow { addresses, ..EndpointRow::default() });
        assert_eq!(of("before", &kernel), None);
    }
}
