//! A node with a web pod, and a pod whose packets that one drops.

use std::net::{SocketAddr, UdpSocket};

use anyhow::Result;
use volvox_testbed::lab::{Node, Pod, Setup};

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

/// Starts it; web and the bad pod are ready.
pub(crate) fn start() -> Result<(Node, [Pod; 2])> {
    let setup = Setup::new().manifest("web.yaml", POLICY);
    setup.pod("shop/web", &[("app", "web")]).pod("shop/bad", &[("app", "bad")]).start()
}

/// Has the bad pod send to the web pod; the port it sends from.
pub(crate) fn offend([web, bad]: &[Pod; 2]) -> Result<u16> {
    let target = SocketAddr::new(web.address(false)?, 9);
    bad.netns.run(move || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.send_to(b"let me in", target)?;
        Ok(socket.local_addr()?.port())
    })
}
