//! Other plugins, as the distribution has them, in the namespaces of a scene.

use std::{
    io::Write,
    os::fd::{AsFd, AsRawFd},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::scene::Scene;

/// Where the package `containernetworking-plugins` has them.
const PLUGINS: &str = "/usr/lib/cni";

/// Runs another plugin on the scene's node, with the same container. The test's thread is in the
/// node's namespace, and so is what it starts.
pub(super) fn run(scene: &Scene, command: &str, config: &Value) -> Result<Value, String> {
    let mut env = scene.env(command);
    let fd = scene.container.as_fd().as_raw_fd();
    env.insert("CNI_NETNS".into(), format!("/proc/{}/fd/{fd}", std::process::id()));
    env.insert("CNI_PATH".into(), PLUGINS.into());
    let kind = config["type"].as_str().unwrap();
    let mut child = Command::new(Path::new(PLUGINS).join(kind))
        .envs(env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{kind}: {error}; install containernetworking-plugins"));
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    match output.status.success() {
        true if text.trim().is_empty() => Ok(Value::Null),
        true => Ok(serde_json::from_str(&text).unwrap()),
        false => Err(text),
    }
}

/// The bridge plugin's configuration, its addresses by host-local.
pub(super) fn bridge(scene: &Scene, version: &str) -> Value {
    json!({
        "cniVersion": version, "name": "site", "type": "bridge", "bridge": "cni0",
        "isGateway": true,
        "ipam": {
            "type": "host-local", "dataDir": scene.directory().join("leases"),
            "ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd88::/64"}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
        },
    })
}

/// The same of the ptp plugin, which makes a pair for each container and no bridge.
pub(super) fn ptp(scene: &Scene, version: &str) -> Value {
    let Value::Object(mut config) = bridge(scene, version) else { unreachable!("it is an object") };
    config.retain(|key, _| !["bridge", "isGateway"].contains(&key.as_str()));
    config.insert("type".to_owned(), json!("ptp"));
    Value::Object(config)
}
