//! What a verification from outside finds at the world's node.

use std::sync::Arc;

use super::World;
use crate::{
    endpoints::ipam::IpamMsg,
    node::verification::{DesiredEndpoint, DesiredNode, Evidence, NodeDifference, differences},
    services::service_cache::ServicesMsg,
    state_directory::scan,
};

impl World {
    /// What there is to be compared at this moment.
    pub fn evidence(&self) -> Evidence {
        let node_supervisor = self.node_supervisor();
        let services = self.ask(&node_supervisor.services, ServicesMsg::List);
        let status = self.ask(&node_supervisor.services, ServicesMsg::Show);
        let desired = DesiredNode {
            restored: self.report().finished,
            endpoints: self.list().iter().map(|view| DesiredEndpoint::of(view)).collect(),
            ..DesiredNode::default()
        };
        let leases = self.ask(&node_supervisor.ipam, IpamMsg::Dump);
        let desired = desired
            .with_leases(&leases)
            .with_services(&services, status.awaited.is_empty() && status.open == 0);
        Evidence {
            kernel: Arc::new(self.kernel.state().snapshot_at_boot()),
            disk: Arc::new(scan(&self.disk.files())),
            desired: Some(desired),
        }
    }

    /// What is not as it is to be.
    pub fn differences(&self) -> Vec<NodeDifference> {
        differences(&self.evidence())
    }
}
