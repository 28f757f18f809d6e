//! Connections that pods and the host have.

use std::net::{IpAddr, Ipv4Addr};

use super::node::Node;

/// Whom the host has a connection with.
pub(crate) const HOST_PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 99));

impl Node {
    /// Every pod that runs has connections, and so has the host.
    pub(crate) fn connect(&mut self) {
        self.remembered.host_connected = true;
        let oracle = self.oracle.borrow();
        self.world.kernel.tamper(|state| {
            for subject in oracle.expected.pods.values().filter(|subject| subject.runs) {
                for address in subject.addresses.iter() {
                    state.connections.insert(address, subject.owner);
                }
            }
            // The host's own, which no pod has anything to do with.
            state.connections.insert(HOST_PEER, 0);
        });
    }
}
