//! A node with two pods and one policy, and the means to run the client `volvox` on it.

use std::{
    net::{SocketAddr, UdpSocket},
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use volvox_testbed::lab::{Binaries, Node, Pod, Through};

/// Web lets clients in at TCP port 80, and never anybody bad.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress:
  - fromEndpoints: [{matchLabels: {app: client}}]
    toPorts: [{ports: [{port: "80", protocol: TCP}]}]
  ingressDeny:
  - fromEndpoints: [{matchLabels: {app: bad}}]
"#;

/// A node with two pods and a policy.
pub(crate) struct Shop {
    pub(crate) node: Node,
    pub(crate) web: Pod,
    bad: Pod,
}

impl Shop {
    /// Opens it: both pods are ready.
    pub(crate) fn open() -> Result<Self> {
        let mut node = Node::new(Binaries::find()?)?;
        node.write_manifest("web.yaml", POLICY)?;
        node.start_agent()?;
        let web = Pod::create(&node, "shop/web", &[("app", "web")], Through::Rest)?;
        let bad = Pod::create(&node, "shop/bad", &[("app", "bad")], Through::Rest)?;
        node.wait_for_ready(2)?;
        Ok(Self { node, web, bad })
    }

    /// A command of the client, to be run.
    pub(crate) fn client(&self, words: &str) -> Command {
        let mut command = Command::new(&self.node.binaries().client);
        command.arg("--socket-path").arg(self.node.path("cilium.sock"));
        command.arg("--bpf-root").arg(self.node.bpf_root());
        command.args(words.split(' '));
        command
    }

    /// Runs one to its end.
    pub(crate) fn run(&self, words: &str) -> Result<Output> {
        self.client(words).output().with_context(|| format!("cannot run volvox {words}"))
    }

    /// What a command that succeeds writes.
    pub(crate) fn text(&self, words: &str) -> Result<String> {
        let output = self.run(words)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "volvox {words}: {}: {complaint}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The same, for programs.
    pub(crate) fn json(&self, words: &str) -> Result<Value> {
        let text = self.text(&format!("-o json {words}"))?;
        serde_json::from_str(&text).with_context(|| format!("volvox {words} wrote {text}"))
    }

    /// Has the bad pod send to the web pod; the port it sends from.
    pub(crate) fn offend(&self) -> Result<u16> {
        let target = SocketAddr::new(self.web.address(false)?, 9);
        self.bad.netns.run(move || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.send_to(b"let me in", target)?;
            Ok(socket.local_addr()?.port())
        })
    }
}
