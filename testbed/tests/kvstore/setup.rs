//! A node with a web pod, which shares an etcd, and what another node writes there.

use anyhow::Result;
use volvox_testbed::lab::{self, Etcd, Node, Pod, Setup, other_node, wait_for};

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

/// The node knows another node's client, and the web pod is ready.
pub(super) fn start() -> Result<(Node, Etcd, Pod)> {
    let etcd = Etcd::start(&lab::path("etcd"))?;
    let (node, web) = start_with(&etcd, Setup::new())?;
    Ok((node, etcd, web))
}

/// The same with that etcd, and with more than these two.
pub(super) fn start_with<'a>(etcd: &'a Etcd, more: Setup<'a>) -> Result<(Node, Pod)> {
    for (key, value) in other_node::identity(40_000, &labels("client")) {
        etcd.put(&key, &value)?;
    }
    announce(etcd, "10.99.0.1", 40_000)?;
    let setup = more.shares(etcd).manifest("web.yaml", POLICY);
    let (mut node, [web]) = setup.pod("shop/web", &[("app", "web")]).start()?;
    node.wait_until_mapped("10.99.0.1/32", Some(40_000))?;
    Ok((node, web))
}

/// Begins a life that finds no etcd: it ends restoring all the same.
pub(super) fn start_without_etcd(node: &mut Node) -> Result<()> {
    node.start_agent()?;
    node.wait_for_ready(1)?;
    node.wait_until_restored()?;
    node.wait_for_store("Failure")
}

/// Waits until the node has announced the web pod.
pub(super) fn wait_for_announcement(etcd: &Etcd, web: &Pod) -> Result<()> {
    let key = format!("{ADDRESSES}{}", web.address(false)?);
    wait_for("the web pod is announced", || Ok(!etcd.get(&key)?.is_empty()))
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
