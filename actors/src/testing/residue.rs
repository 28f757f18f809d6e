//! Finds leaks: compares all that endpoints have in kernel, disk and actors, before and after.

use std::collections::BTreeSet;

use super::World;
use crate::{
    endpoints::{build_queue::BuildQueueMsg, ipam::IpamMsg},
    policy::identity::IdentityMsg,
    state_directory::StateFiles,
};

/// All that an endpoint could leave behind, a line for each thing.
#[derive(Clone, Debug)]
pub struct Residue(BTreeSet<String>);

impl Residue {
    /// What there is now.
    pub fn of(world: &World) -> Self {
        let node_supervisor = world.node_supervisor();
        let state = world.kernel.state();
        let rows = state.rows;
        let mut lines = BTreeSet::new();
        lines.extend(rows.lxc.iter().map(|row| format!("cilium_lxc {row:?}")));
        lines.extend(rows.config.iter().map(|row| format!("volvox_config {row:?}")));
        lines.extend(rows.endpoints.iter().map(|row| format!("volvox_endpoint {row:?}")));
        lines.extend(rows.torn_rows.iter().map(|row| format!("torn {row}")));
        lines.extend(rows.ipcache.iter().map(|row| format!("cilium_ipcache {row:?}")));
        lines.extend(rows.routes.iter().map(|row| format!("route {row:?}")));
        lines.extend(rows.attachments.iter().map(|row| format!("programs {row:?}")));
        lines.extend(state.slots.iter().map(|row| format!("slot {row:?}")));
        lines.extend(state.aside.keys().map(|slot| format!("built aside {slot}")));
        lines.extend(state.pins.iter().map(|row| format!("pin {row:?}")));
        lines.extend(state.connections.keys().map(|address| format!("connections of {address}")));
        let services = &state.services;
        lines.extend(services.slots.iter().map(|row| format!("service {row:?}")));
        lines.extend(services.backends.iter().map(|row| format!("backend {row:?}")));
        lines.extend(services.members.iter().map(|row| format!("member {row:?}")));
        lines.extend(services.reverse_nat.iter().map(|row| format!("reverse {row:?}")));
        let directories = world.disk.files().directories("").unwrap();
        lines.extend(directories.iter().map(|name| format!("directory {name}")));
        lines.remove("directory lib");
        let leases = world.ask(&node_supervisor.ipam, IpamMsg::Dump);
        lines.extend(leases.iter().map(|(address, lease)| format!("{address}: {}", lease.owner)));
        let identities = world.ask(&node_supervisor.identities, IdentityMsg::List).into_iter();
        let used = identities.filter(|identity| identity.references > 0);
        lines.extend(used.map(|it| format!("identity {} has {}", it.id, it.references)));
        lines.extend(world.list().iter().map(|view| format!("endpoint {}", view.id)));
        let queue = world.ask(&node_supervisor.build_queue, BuildQueueMsg::Show);
        lines.extend(queue.building.iter().map(|id| format!("{id} builds")));
        lines.extend(queue.waiting.iter().map(|(id, _)| format!("{id} waits to build")));
        Self(lines)
    }

    /// Asserts that nothing came and nothing went, slots and generations apart: these depend on
    /// how often an endpoint was built.
    pub fn assert_alike(world: &World, before: &Self, what: impl std::fmt::Display) {
        let alike = |lines: &BTreeSet<String>| -> BTreeSet<String> {
            let counts_builds = |line: &&String| {
                ["volvox_config", "slot", "pin"].iter().any(|name| line.starts_with(name))
            };
            lines.iter().filter(|line| !counts_builds(line)).cloned().collect()
        };
        let (now, before) = (alike(&Self::of(world).0), alike(&before.0));
        assert_eq!(now, before, "{what}");
    }

    /// What came and what went since then.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let came = now.0.difference(&self.0).map(|line| format!("came: {line}"));
        came.chain(self.0.difference(&now.0).map(|line| format!("went: {line}"))).collect()
    }

    /// Asserts that nothing came and nothing went since then.
    pub fn assert_same(world: &World, before: &Self, what: impl std::fmt::Display) {
        let now = Self::of(world);
        let differences = before.differences(&now);
        assert!(differences.is_empty(), "{what}: {differences:#?}");
    }
}
