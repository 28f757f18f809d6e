//! All that is compared of a node's maps, read at once without an agent. It changes nothing.

use std::{collections::BTreeMap, sync::Arc};

use volvox_actors::{
    model::{EndpointId, PolicyRows},
    ports::{ConfigRow, KernelSnapshot, ServiceTables},
};
use volvox_bpf_progs::{layouts as raw, maps::MAPS};

use super::Dump;
use crate::{
    error::{DatapathError, refused},
    policies,
    rows::endpoint_from_raw,
    sys::Map,
};

impl Dump {
    /// Rows of endpoints, addresses, policies and services, and which policy maps are pinned. Interfaces,
    /// routes and hooks are no maps: they are left out.
    pub fn snapshot(&self) -> Result<KernelSnapshot, DatapathError> {
        let config = self.config()?;
        let (mut endpoints, mut torn_rows) = (BTreeMap::new(), Vec::new());
        self.table::<u32, raw::EndpointRow>("volvox_endpoint")?.for_each(|id, row| {
            let Ok(id) = u16::try_from(id).map(EndpointId) else { return };
            match endpoint_from_raw(&row) {
                Some(row) => drop(endpoints.insert(id, row)),
                None => torn_rows.push(id),
            }
        })?;
        Ok(KernelSnapshot {
            lxc: self.lxc()?,
            ipcache: self.ipcache()?,
            policies: self.policies(config.values())?,
            policy_pins: self.pins.policies()?,
            services: self.all_services()?,
            config,
            endpoints,
            torn_rows,
            ..KernelSnapshot::default()
        })
    }

    /// The policies in the slots that these rows name, by slot; none where a slot is empty.
    fn policies<'a>(
        &self,
        config: impl Iterator<Item = &'a ConfigRow>,
    ) -> Result<BTreeMap<u32, Arc<PolicyRows>>, DatapathError> {
        let slots = self.map("volvox_policy")?;
        let mut found = BTreeMap::new();
        for row in config {
            let slot = row.policy_slot;
            let failed = |error| refused("read", format!("policy slot {slot}"), &error);
            let mut id = [0; 4];
            if slots.lookup(&slot.to_ne_bytes(), &mut id).map_err(failed)? {
                // One that was replaced meanwhile is gone: the next look sees the other one.
                let Ok(map) = Map::by_id(u32::from_ne_bytes(id)) else { continue };
                found.insert(slot, Arc::new(policies::rows(&map).map_err(failed)?));
            }
        }
        Ok(found)
    }

    /// Endpoints that have a directory of pinned links.
    pub fn pinned_links(&self) -> Result<Vec<EndpointId>, DatapathError> {
        Ok(self.pins.linked_endpoints()?)
    }

    fn all_services(&self) -> Result<ServiceTables, DatapathError> {
        let all: Vec<_> = MAPS.iter().map(|spec| spec.name).collect();
        self.services(&all)
    }
}
