//! Other nodes with prefixes of pods: what they say of themselves, and how agents reach them.

use serde_json::json;
use volvox_actors_simulated::node::routes::RoutingMode;

use super::{kvstore::node_key, node::Node};
use crate::model::other_nodes::{gateways, nets};

/// How agents reach them.
pub(crate) const NATIVE: RoutingMode =
    RoutingMode::Native { direct: true, skip_unreachable: false };

const TUNNEL: RoutingMode = RoutingMode::Tunnel { port: 8472 };

fn key(number: u8) -> String {
    node_key(&format!("peer-{number}"))
}

impl Node {
    /// Another node says that its pods have that prefix, or it leaves.
    pub(crate) fn node_prefix(&mut self, number: u8, prefix: Option<u8>) {
        let Some(store) = &self.world.kvstore else { return };
        self.oracle.borrow_mut().routes.becomes(number, prefix);
        let Some(prefix) = prefix else { return store.delete(&key(number)) };
        let addresses = gateways(number).map(|ip| json!({ "Type": "InternalIP", "IP": ip }));
        let [ipv4, ipv6] = nets(prefix).map(|net| net.addr());
        let said = json!({
            "Name": format!("peer-{number}"), "Cluster": "default", "IPAddresses": addresses,
            "IPv4AllocCIDR": { "IP": ipv4, "Mask": "////AA==" },
            "IPv6AllocCIDR": { "IP": ipv6, "Mask": "//////////8AAAAAAAAAAA==" },
        });
        store.put(&key(number), &said.to_string());
    }

    /// From now on agents reach other nodes by routes to neighbours, or in tunnels.
    pub(crate) fn set_native_routing(&mut self, expected: bool) {
        let mode = if expected { NATIVE } else { TUNNEL };
        if self.world.settings.routing != mode {
            self.kill();
            self.world.settings.routing = mode;
            self.oracle.borrow_mut().routes.may_go();
            self.boot(true);
        }
    }
}
