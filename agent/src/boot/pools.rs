//! What an earlier life of the node had of several pools, and how far that is to be believed.

use std::net::IpAddr;

use volvox_actors::{
    ports::KernelSnapshot,
    state_directory::{PoolRecord, Stored},
};

use super::another_node::pods_addresses;
use crate::node_name::node_name;

/// The record that was found.
#[derive(Clone, Debug, Default)]
pub struct FoundPools {
    /// What it says, if it is this node's.
    pub record: Option<PoolRecord>,
    /// Which writing that was.
    pub generation: u32,
    /// Whether the node is the one that it was: if nothing of it was known, the cluster may have given its
    /// prefixes away.
    pub trusted: bool,
}

impl FoundPools {
    /// A record counts if it says this node's name, or if pods are here that have addresses of it.
    pub(super) fn of(found: Stored<PoolRecord>, kernel: &KernelSnapshot) -> Self {
        let is_own =
            |record: &PoolRecord| record.node == node_name() || record.gave(pods_addresses(kernel));
        let Stored { value, generation, .. } = found;
        Self { record: value.filter(is_own), generation, trusted: false }
    }

    /// Whether pods that have these addresses got them from its prefixes.
    pub(super) fn gave(&self, addresses: impl IntoIterator<Item = IpAddr>) -> bool {
        self.record.as_ref().is_some_and(|record| record.gave(addresses))
    }
}

#[cfg(test)]
mod tests {
    use volvox_actors::{
        model::{Addresses, EndpointId},
        ports::EndpointRow,
        state_directory::PoolPrefix,
    };

    use super::*;

    #[test]
    fn a_record_of_another_name_counts_for_pods_that_have_its_addresses() {
        let prefix = PoolPrefix { closed: true, pool: "blue".to_owned() };
        let found = |node: &str| {
            let prefixes = [("10.1.0.0/28".parse().unwrap(), prefix.clone())].into();
            let record = PoolRecord { node: node.to_owned(), prefixes };
            Stored { value: Some(record), generation: 7, errors: Vec::new() }
        };
        let mut kernel = KernelSnapshot::default();
        let counts = |name: &str, kernel: &_| FoundPools::of(found(name), kernel).record.is_some();
        assert!(counts(&node_name(), &kernel) && !counts("another", &kernel));
        assert_eq!(FoundPools::of(found("another"), &kernel).generation, 7);
        let addresses = Addresses { ipv4: "10.1.0.9".parse().ok(), ipv6: None };
        kernel.endpoints.insert(EndpointId(3), EndpointRow { addresses, ..EndpointRow::default() });
        assert!(counts("another", &kernel));
    }
}
