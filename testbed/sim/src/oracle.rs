//! Nobody ever meets a third verdict: after each step of the kernel, what that step could have
//! changed is what the old or the new model says.
//!
//! What all versions of policies and labels allow must pass between pods that run, and what none of them
//! allows must never pass. It looks at the kernel's state and at the model, and knows no node.

mod datapath;
mod devices;
mod newest;
mod policies;
mod quarantine;
mod routes;
mod services;

use std::net::IpAddr;

use volvox_actors_simulated::{
    model::{Addresses, IdentityId},
    ports::{HookState, KernelOp},
    testing::KernelState,
};

use self::{datapath::Datapath, devices::DevicePrograms, routes::Routes, services::ServiceChecks};
use super::model::{
    expected::{Expected, ExpectedPod},
    policies::OUTSIDE,
};

/// Watches every step of the kernel.
pub(crate) struct Oracle {
    /// What should be.
    pub(crate) expected: Expected,
    /// Services.
    pub(crate) services: ServiceChecks,
    /// Interfaces to other machines.
    pub(crate) devices: DevicePrograms,
    /// Other nodes with prefixes.
    pub(crate) routes: Routes,
    datapath: Datapath,
    outside: Vec<IpAddr>,
    /// Their identities, as far as they are known by the ipcache as it is.
    outside_identities: [Option<IdentityId>; OUTSIDE.len()],
    /// A wait for others to enforce something ended without an answer: one that never
    /// acknowledges must not hold up the rest. What passes is then not demanded until all rest.
    pub(crate) late: bool,
    /// Policy maps have no room for all policies: what passes is not demanded.
    pub(crate) crowded: bool,
    /// What went wrong.
    pub(crate) violations: Vec<String>,
    /// How many verdicts were looked at.
    pub(crate) verdicts: u64,
}

impl Default for Oracle {
    fn default() -> Self {
        Self {
            expected: Expected::default(),
            services: ServiceChecks::default(),
            devices: DevicePrograms::default(),
            routes: Routes::default(),
            datapath: Datapath::default(),
            outside: OUTSIDE.iter().map(|text| text.parse().expect("an address")).collect(),
            outside_identities: [None; OUTSIDE.len()],
            late: false,
            crowded: false,
            violations: Vec::new(),
            verdicts: 0,
        }
    }
}

impl Oracle {
    /// Looks at what a step could have changed.
    pub(crate) fn stepped(&mut self, state: &KernelState, op: &KernelOp) {
        match op {
            KernelOp::PutConfig(row) => {
                self.connections(state, row.ifindex);
                self.interface(state, row.ifindex, true);
            }
            KernelOp::DeleteConfig { ifindex, .. }
            | KernelOp::LinkUp { ifindex }
            | KernelOp::LinkDown { ifindex } => self.interface(state, *ifindex, false),
            KernelOp::Attach { ifindex, .. }
            | KernelOp::Settle { ifindex, .. }
            | KernelOp::Detach { ifindex, .. } => {
                self.attached(state, op);
                self.interface(state, *ifindex, false);
            }
            KernelOp::FlipPolicy { slot }
            | KernelOp::PutPolicyRow { slot, .. }
            | KernelOp::DeletePolicyRow { slot, .. }
            | KernelOp::ClearSlot { slot } => {
                self.datapath.slot_changed(*slot);
                let mut rows = state.rows.config.values();
                let ifindex = rows.find(|row| row.policy_slot == *slot).map(|row| row.ifindex);
                if let Some(ifindex) = ifindex {
                    self.interface(state, ifindex, false);
                }
            }
            KernelOp::PutLxc { address, .. } | KernelOp::DeleteLxc { address, .. } => {
                self.address(state, *address);
            }
            KernelOp::PutIpcache(rows) => {
                self.outside_identities = Default::default();
                rows.iter().for_each(|(prefix, _)| self.prefix(state, prefix));
            }
            KernelOp::DeleteIpcache(prefixes) => {
                self.outside_identities = Default::default();
                prefixes.iter().for_each(|prefix| self.prefix(state, prefix));
            }
            KernelOp::ScrubConntrack { addresses } => self.scrubbed(*addresses),
            KernelOp::PutServices(_) | KernelOp::DeleteServices(_) => {
                self.violations.extend(self.services.wrong(&state.services));
            }
            KernelOp::Routing(_)
            | KernelOp::AttachDevice { .. }
            | KernelOp::DetachDevice { .. } => {
                let wrong = self.devices.wrong(state, op).or_else(|| self.routes.wrong(state));
                self.violations.extend(wrong);
            }
            _ => {}
        }
    }

    /// Looks at every verdict that there is.
    pub(crate) fn everything(&mut self, state: &KernelState) {
        self.datapath.all_changed();
        self.outside_identities = Default::default();
        let interfaces: Vec<u32> = self.expected.pods.values().map(|it| it.ifindex).collect();
        interfaces.into_iter().for_each(|ifindex| self.interface(state, ifindex, false));
    }

    /// Looks at all packets of one interface.
    pub(crate) fn look(&mut self, state: &KernelState, ifindex: u32) {
        self.interface(state, ifindex, true);
    }

    /// A pod that runs has programs at both hooks.
    fn attached(&mut self, state: &KernelState, op: &KernelOp) {
        let (KernelOp::Attach { endpoint, .. }
        | KernelOp::Settle { endpoint, .. }
        | KernelOp::Detach { endpoint, .. }) = op
        else {
            return;
        };
        let runs = |it: &ExpectedPod| {
            it.runs && it.endpoint == Some(*endpoint) && state.rows.links.contains_key(&it.ifindex)
        };
        let at = state.rows.attachments.get(endpoint).copied().unwrap_or_default();
        let empty = [at.from_container, at.to_container].contains(&HookState::Empty);
        if empty && self.expected.pods.values().any(runs) {
            self.violations.push(format!("endpoint {endpoint} lost its programs"));
        }
    }

    /// A pod that starts must not find connections of who had its address before.
    fn connections(&mut self, state: &KernelState, ifindex: u32) {
        let Some(subject) = self.expected.pods.values().find(|it| it.ifindex == ifindex) else {
            return;
        };
        for address in subject.addresses.iter() {
            if state.connections.get(&address).is_some_and(|owner| *owner != subject.owner) {
                self.violations.push(format!("connections of who had {address} before are left"));
            }
        }
    }

    /// Connections of a pod that runs are never forgotten.
    fn scrubbed(&mut self, addresses: Addresses) {
        let lost = |it: &&ExpectedPod| {
            it.runs && addresses.iter().any(|a| it.addresses.iter().any(|b| a == b))
        };
        if let Some(subject) = self.expected.pods.values().find(lost) {
            self.violations.push(format!("connections of {:?} were cut", subject.addresses));
        }
    }
}
