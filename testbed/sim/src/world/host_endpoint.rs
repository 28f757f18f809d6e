//! The node's own endpoint: whether agents are started with a policy of the node.

use volvox_actors_simulated::{model::EndpointKind, ports::FsOp, state_directory::scan};

use super::node::Node;
use crate::model::manifests::{HOST_POLICY, host_policy};

impl Node {
    /// From now on agents are started with a policy of the node, or without one.
    pub(crate) fn set_host_firewall(&mut self, expected: bool) {
        if self.world.settings.policy.host_firewall == expected {
            return;
        }
        self.kill();
        self.world.settings.policy.host_firewall = expected;
        let objects = host_policy(HOST_POLICY).filter(|_| expected);
        self.world.manifests.insert(HOST_POLICY.to_owned(), objects.into_iter().collect());
        self.changed(HOST_POLICY.to_owned(), false);
        if self.world.cluster.is_some() {
            self.tell(&[HOST_POLICY.to_owned()]);
        }
        self.boot(true);
    }

    /// The number of the node's own endpoint is meant to stay, also where it has none.
    pub(crate) fn forget_own_records(&self) {
        self.world.disk.tamper(|files| {
            let found = scan(files);
            let of_host =
                found.records.into_iter().filter(|it| it.record.kind() == EndpointKind::Host);
            for record in of_host {
                let _ = files.apply(&FsOp::Remove(record.dir.into()));
            }
        });
    }
}
