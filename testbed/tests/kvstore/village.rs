//! A node with a web pod, an etcd, and what other nodes write there.

use anyhow::{Context, Result};
use serde_json::Value;
use volvox_testbed::lab::{Binaries, Etcd, Node, Pod, Through, other_node, wait_for};

pub(super) const ADDRESSES: &str = "cilium/state/ip/v1/default/";
pub(super) const IDENTITIES: &str = "cilium/state/identities/v1/id/";
pub(super) const USERS: &str = "cilium/state/identities/v1/value/";

/// Web lets clients in.
const POLICY: &str = r#"
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  ingress:
  - fromEndpoints: [{matchLabels: {app: client}}]
"#;

pub(super) struct Village {
    pub(super) node: Node,
    pub(super) etcd: Etcd,
    pub(super) web: Pod,
}

impl Village {
    /// Founds it: another node's client is known, and the web pod is ready.
    pub(super) fn found() -> Result<Self> {
        Self::found_by(|node| {
            let etcd = Etcd::start(&node.path("etcd"))?;
            etcd.share_with(node)?;
            Ok(etcd)
        })
    }

    /// The same with an etcd that the node's next agent shares.
    pub(super) fn found_by(start: impl FnOnce(&mut Node) -> Result<Etcd>) -> Result<Self> {
        let mut node = Node::new(Binaries::find()?)?;
        let etcd = start(&mut node)?;
        node.write_manifest("web.yaml", POLICY)?;
        for (key, value) in other_node::identity(40_000, &labels("client")) {
            etcd.put(&key, &value)?;
        }
        announce(&etcd, "10.99.0.1", 40_000)?;
        node.start_agent()?;
        let web = Pod::create(&node, "shop/web", &[("app", "web")], Through::Rest)?;
        node.wait_for_ready(1)?;
        let village = Self { node, etcd, web };
        village.wait_for_address("10.99.0.1/32", Some(40_000))?;
        Ok(village)
    }

    /// The identity that the kernel has for an address.
    pub(super) fn address(&self, prefix: &str) -> Result<Option<u64>> {
        self.node.mapped(prefix)
    }

    pub(super) fn wait_for_address(&self, prefix: &str, id: Option<u64>) -> Result<()> {
        wait_for(&format!("{prefix} has identity {id:?}"), || Ok(self.address(prefix)? == id))
    }

    /// Identities that the web pod's policy map lets in.
    pub(super) fn lets_in(&self) -> Result<Vec<u64>> {
        let rows: Vec<Value> = self.volvox("-o json bpf policy list")?;
        Ok(rows.iter().filter_map(|row| row["identity"].as_u64()).collect())
    }

    /// What the client writes.
    pub(super) fn volvox<T: serde::de::DeserializeOwned>(&self, words: &str) -> Result<T> {
        let text = self.text(words)?;
        serde_json::from_str(&text).with_context(|| format!("volvox {words} wrote {text}"))
    }

    pub(super) fn text(&self, words: &str) -> Result<String> {
        self.node.volvox(words)
    }

    /// Waits until the agent says this of the store.
    pub(super) fn wait_for_store(&mut self, state: &str) -> Result<()> {
        self.node.wait(&format!("the agent does not call the store {state}"), |node| {
            let health: Value = node.rest().get("/healthz")?;
            Ok(health["kvstore"]["state"] == state)
        })?;
        Ok(())
    }

    /// Begins a life that finds no etcd: it ends restoring all the same.
    pub(super) fn start_without_etcd(&mut self) -> Result<()> {
        self.node.start_agent()?;
        self.node.wait_for_ready(1)?;
        self.node.wait("restoring does not end", |node| {
            let report: Value = node.rest().get("/volvox/restore")?;
            Ok(report["finished"] == true)
        })?;
        self.wait_for_store("Failure")
    }

    /// Waits until this node has announced the web pod.
    pub(super) fn wait_for_announcement(&self) -> Result<()> {
        let key = format!("{ADDRESSES}{}", self.web.address(false)?);
        wait_for("the web pod is announced", || Ok(!self.etcd.get(&key)?.is_empty()))
    }
}

/// Labels of a pod of that app, as the store has them.
pub(super) fn labels(app: &str) -> String {
    other_node::labels("shop", &[("app", app)])
}

/// Another node says whose an address is.
pub(super) fn announce(etcd: &Etcd, ip: &str, id: u32) -> Result<()> {
    let (key, value) = other_node::address(ip.parse()?, id, "shop", "client");
    etcd.put(&key, &value)
}
