//! Programs at interfaces to other machines: whoever was given some keeps them until something happens to it.

use std::collections::BTreeSet;

use volvox_actors_simulated::{
    ports::{DeviceKind, KernelOp, RoutingOp},
    testing::KernelState,
};

use crate::model::devices::row;

/// Programs at interfaces, as steps come.
#[derive(Default)]
pub(crate) struct DevicePrograms {
    /// Interfaces that were given programs since something happened to them.
    settled: BTreeSet<String>,
}

impl DevicePrograms {
    /// Something happened to an interface.
    pub(crate) fn touched(&mut self, name: &str) {
        self.settled.remove(name);
    }

    /// What a step did wrong: the local rule is missing, or programs went from where they belong.
    pub(crate) fn wrong(&mut self, state: &KernelState, op: &KernelOp) -> Option<String> {
        match op {
            KernelOp::AttachDevice { ifindex, name, kind } => {
                let link = state.rows.links.get(ifindex);
                if *kind == DeviceKind::Overlay || link.is_some_and(|link| row(link).is_some()) {
                    self.settled.insert(name.clone());
                }
                None
            }
            KernelOp::DetachDevice { name } => {
                let lost = self.settled.remove(name);
                lost.then(|| format!("{name} lost its programs, and nothing happened to it"))
            }
            KernelOp::Routing(RoutingOp::Remove { name, .. }) => {
                self.touched(name);
                None
            }
            KernelOp::Routing(_) => [false, true].into_iter().find_map(|ipv6| {
                let rules = state.routing.rules.get(&ipv6);
                let none = rules.is_none_or(|rules| rules.priorities.is_empty());
                none.then(|| format!("no rule looks up own addresses, IPv6: {ipv6}"))
            }),
            _ => None,
        }
    }
}
