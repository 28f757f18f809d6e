//! The rows by which the kernel's programs know an endpoint, besides its policy.

use std::{collections::BTreeMap, net::IpAddr};

use super::{EndpointSpec, masquerade, options};
use crate::{
    model::{EndpointId, IdentityId},
    ports::{ConfigRow, LxcRow, config_flags},
    state_directory::EndpointRecord,
};

/// What the kernel is to hold of an endpoint. Builds write it, and those who compare it with what
/// the kernel holds take it from here as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRows {
    /// Its configuration; slot and generation are each build's to choose.
    pub config: ConfigRow,
    /// Its addresses, as local ones.
    pub lxc: BTreeMap<IpAddr, LxcRow>,
}

impl OwnRows {
    /// By what a state file says, whoever wrote it.
    pub fn of_record(record: &EndpointRecord) -> Self {
        let spec = EndpointSpec::from(record);
        Self::of(record.id, &spec, record.security.id, &record.options.map)
    }

    pub(super) fn of(
        id: EndpointId,
        spec: &EndpointSpec,
        identity: IdentityId,
        set: &BTreeMap<String, i64>,
    ) -> Self {
        let lxc = LxcRow {
            ifindex: spec.ifindex,
            endpoint: id.0,
            flags: 0,
            mac: spec.mac,
            node_mac: spec.node_mac,
            identity,
            parent_ifindex: spec.parent_ifindex,
        };
        let config = ConfigRow {
            generation: 0,
            endpoint: id,
            flags: options::flags(set) | if spec.is_chained() { config_flags::CHAINED } else { 0 },
            identity,
            policy_slot: 0,
            ifindex: spec.config_ifindex(),
            addresses: spec.addresses,
            mac: spec.mac,
            node_mac: spec.node_mac,
        };
        let families = masquerade::unmasqueraded(&spec.properties);
        let row = |address| (address, LxcRow { flags: masquerade::flag(families, address), ..lxc });
        Self { config, lxc: spec.addresses.iter().map(row).collect() }
    }
}
