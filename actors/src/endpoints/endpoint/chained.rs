//! An endpoint whose interface and addresses are another CNI plugin's.
//!
//! | | own | chained |
//! |---|---|---|
//! | interface | made by our plugin: brought up, taken away with the endpoint | found: never brought up, renamed or removed |
//! | addresses | handed out here, within the pool | the other plugin's: only noted, so that nobody else gets them |
//! | neighbours | every one is the router | the other plugin's: ARP and neighbour discovery pass |
//! | routes | one of ours for each address | the other plugin's |
//! | delivery | by the programs, from interface to interface | by the stack; policy is asked at its interface |

use serde_json::{Value, json};

use super::EndpointSpec;
use crate::ports::Link;

/// The member of Cilium's datapath configuration that says so.
const EXTERNAL_IPAM: &str = "external-ipam";

/// Cilium's datapath configuration of an endpoint that is chained behind another plugin.
pub fn chained_datapath() -> Value {
    json!({
        (EXTERNAL_IPAM): true,
        "require-arp-passthrough": true,
        "require-egress-prog": true,
        "require-routing": false,
    })
}

impl EndpointSpec {
    /// Whether its interface and addresses are another plugin's.
    pub fn is_chained(&self) -> bool {
        self.datapath_configuration.get(EXTERNAL_IPAM) == Some(&Value::Bool(true))
    }

    /// Whether an interface of its own is ours to bring up, and as up as it has to be otherwise.
    pub(crate) fn is_up(&self, link: Option<&Link>) -> bool {
        self.is_chained() || link.is_some_and(|link| link.up)
    }
}
