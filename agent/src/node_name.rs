//! What this node is called.

use std::env;

use rustix::system::uname;

/// This node's name, as its pod is told or as the machine is called.
pub fn node_name() -> String {
    let given = env::var("K8S_NODE_NAME").ok().filter(|name| !name.is_empty());
    given.unwrap_or_else(|| uname().nodename().to_string_lossy().into_owned())
}
