//! Calling the CNI plugin as a container runtime does.

use std::{
    io::Write,
    net::IpAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Node, Pod, pod::INTERFACE, strace};

/// `ADD`; the pod's addresses.
pub fn add(node: &Node, pod: &Pod) -> Result<Vec<IpAddr>> {
    addresses(&add_with_result(node, pod)?)
}

/// `ADD`; what the plugin answers, which the next one in a list gets.
pub fn add_with_result(node: &Node, pod: &Pod) -> Result<Value> {
    Ok(serde_json::from_slice(&call(node, "ADD", pod, &[])?)?)
}

/// The addresses of a result.
pub fn addresses(result: &Value) -> Result<Vec<IpAddr>> {
    let addresses = result["ips"].as_array().context("the result has no ips")?;
    addresses
        .iter()
        .map(|ip| {
            let text = ip["address"].as_str().context("an ip without address")?;
            let address = text.split('/').next().unwrap_or(text);
            address.parse().with_context(|| format!("{text} is no address"))
        })
        .collect()
}

/// `DEL`.
pub fn del(node: &Node, pod: &Pod) -> Result<()> {
    call(node, "DEL", pod, &[]).map(drop)
}

/// A plugin that is at work.
pub struct Running {
    child: Child,
    what: String,
}

impl Running {
    /// Starts it: `ADD` or `DEL`.
    pub fn begin(node: &Node, command: &str, pod: &Pod) -> Result<Self> {
        begin(Command::new(&node.binaries().cni), &node.binaries().cni, &config(node), command, pod)
    }

    /// Whether it has come to its end.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Kills it, and waits for its end.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// What it answers.
    pub fn finish(self) -> Result<Vec<u8>> {
        let output = self.child.wait_with_output()?;
        if !output.status.success() {
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8_lossy(&printed);
            bail!("CNI {}: {printed}", self.what);
        }
        Ok(output.stdout)
    }
}

/// `CHECK`.
pub fn check(node: &Node, pod: &Pod) -> Result<()> {
    call(node, "CHECK", pod, &[]).map(drop)
}

/// `ADD` by a plugin that is killed before its `when`th call of this name, if it makes so many;
/// whether it lived to its end.
pub fn add_killed(node: &Node, pod: &Pod, name: &str, when: u32) -> Result<bool> {
    let strace = strace::before_death(name, when, &node.binaries().cni);
    Ok(call(node, "ADD", pod, &strace).is_ok())
}

/// Calls another plugin, with a configuration of its own; its helpers are beside it.
pub fn call_other(plugin: &Path, config: &Value, command: &str, pod: &Pod) -> Result<()> {
    finished(Command::new(plugin), plugin, config, command, pod).map(drop)
}

/// `before` are a program and its arguments that start the plugin; the last is the plugin.
fn call(node: &Node, command: &str, pod: &Pod, before: &[String]) -> Result<Vec<u8>> {
    let plugin = &node.binaries().cni;
    let started = match before {
        [] => Command::new(plugin),
        arguments => {
            let mut started = Command::new(strace::PROGRAM);
            started.args(arguments);
            started
        }
    };
    finished(started, plugin, &config(node), command, pod)
}

fn finished(
    started: Command,
    plugin: &Path,
    config: &Value,
    command: &str,
    pod: &Pod,
) -> Result<Vec<u8>> {
    begin(started, plugin, config, command, pod)?.finish()
}

fn begin(
    mut started: Command,
    plugin: &Path,
    config: &Value,
    command: &str,
    pod: &Pod,
) -> Result<Running> {
    let mut child = started
        .env_clear()
        // Others' plugins start programs of their own, as `iptables`.
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", &pod.container_id)
        .env("CNI_NETNS", pod.netns.path())
        .env("CNI_IFNAME", INTERFACE)
        .env("CNI_PATH", plugin.parent().unwrap_or("/".as_ref()))
        .env("CNI_ARGS", arguments(pod))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the CNI plugin")?;
    let mut stdin = child.stdin.take().expect("piped above");
    stdin.write_all(config.to_string().as_bytes())?;
    drop(stdin);
    Ok(Running { child, what: format!("{command} of {}/{}", pod.namespace, pod.name) })
}

fn arguments(pod: &Pod) -> String {
    let uid = match pod.uid.as_str() {
        "" => String::new(),
        uid => format!(";K8S_POD_UID={uid}"),
    };
    format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={}{uid}",
        pod.namespace, pod.name, pod.container_id
    )
}

fn config(node: &Node) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "volvox",
        "type": "volvox-cni",
        "socket-path": node.path("cilium.sock"),
        // As the agent's own configuration names it: the socket is not beside it here.
        "delete-queue": node.path("cilium/deleteQueue"),
        "log-file": node.path("cni.log"),
    })
}
