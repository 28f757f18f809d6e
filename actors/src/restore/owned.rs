//! What the kernel holds, sorted by the endpoint whose it is.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    endpoints::endpoint::{EndpointSpec, RestoredEndpoint},
    model::{EndpointId, IdentityId},
    ports::{KernelSnapshot, OwnedRows},
};

/// What the kernel holds, as it is, and by whose it is.
pub(super) struct Owned<'a> {
    pub(super) kernel: &'a KernelSnapshot,
    pub(super) rows: OwnedRows,
}

impl Owned<'_> {
    /// An endpoint of that make, with what the kernel holds for it.
    pub(super) fn with_kernel(&self, id: EndpointId, spec: EndpointSpec) -> RestoredEndpoint {
        let Self { kernel, rows } = self;
        let interface = spec.interface_of_its_own();
        let link = interface.and_then(|ifindex| kernel.links.get(&ifindex));
        let routes = interface.and_then(|ifindex| rows.routes.get(&ifindex));
        let config =
            kernel.config.get(&spec.config_ifindex()).filter(|row| row.endpoint == id).copied();
        RestoredEndpoint {
            id,
            identity: IdentityId::INIT,
            identity_labels: Default::default(),
            carried: Vec::new(),
            unlabelled: false,
            user_labels: Default::default(),
            options: Arc::default(),
            own_options: BTreeMap::new(),
            config,
            policy: config.and_then(|row| kernel.policies.get(&row.policy_slot).cloned()),
            lxc: rows.lxc.get(&id).cloned().unwrap_or_default(),
            attachment: kernel.attachments.get(&id).copied().unwrap_or_default(),
            routes: routes.cloned().unwrap_or_default(),
            recorded: kernel.endpoints.get(&id).is_some_and(|row| {
                row.ifindex == spec.ifindex
                    && row.chained == spec.is_chained()
                    && row.container_id == spec.container_id
                    && row.addresses == spec.addresses
            }),
            policy_pinned: rows.policy_pins.contains(&id),
            link_up: spec.is_up(link),
            on_disk: false,
            unsaved: kernel.endpoints.get(&id).is_some_and(|row| row.unsaved),
            untidied: Vec::new(),
            spec,
        }
    }
}
