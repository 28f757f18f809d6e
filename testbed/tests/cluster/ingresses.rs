//! Ingresses that name nothing but a service, of a real API server.

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{self, ApiClient, ApiServer, Cgroup, Netns, Node, Pod, ip},
    traffic::{Kind, Plan, Stream},
};

use super::{Cluster, objects::NAMESPACE, services::discovery};

/// Where they are.
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
/// The node's own address,
pub(super) const ADDRESS: &str = "192.0.2.9";
/// the service's port there, and that of its pods.
const OUTER: u16 = 80;
pub(super) const INNER: u16 = 8080;
/// A second port of the same service.
const STREAMED: u16 = 7000;

/// A service of pod `web` with both ports.
fn serve(client: &ApiClient, web: &Pod) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": { "ports": [
            { "name": "http", "port": OUTER, "targetPort": INNER },
            { "name": "stream", "port": STREAMED },
        ] },
    });
    client.create(&format!("/api/v1/namespaces/{NAMESPACE}/services"), &service)?;
    let (version, slices) = discovery(client)?;
    let slice = json!({
        "apiVersion": version, "kind": "EndpointSlice",
        "metadata": { "name": "web-1", "namespace": NAMESPACE,
                      "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4",
        "ports": [
            { "name": "http", "port": INNER, "protocol": "TCP" },
            { "name": "stream", "port": STREAMED, "protocol": "TCP" },
        ],
        "endpoints": [{ "addresses": [web.address(false)?] }],
    });
    client.create(&slices, &slice)
}

fn ingress(name: &str, port: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "defaultBackend": { "service": { "name": "web", "port": port } } },
    })
}

/// A cluster whose node has an address of its own, and a part of the node whose sockets are balanced.
pub(super) fn with_address(program: PathBuf) -> Result<(Cluster, Cgroup)> {
    let mut cgroup = None;
    let cluster = Cluster::start_with(program, |_, node| {
        ip("link add node0 type veth peer node1")?;
        ip("link set node1 up")?;
        ip(&format!("address add {ADDRESS}/24 dev node0"))?;
        ip("link set node0 up")?;
        let own = Cgroup::create(&node.path("cgroups"))?;
        node.set_flag("bpf-lb-sock", Some("true"));
        node.set_flag("cgroup-root", Some(&own.path().display().to_string()));
        cgroup = Some(own);
        Ok(())
    })?;
    Ok((cluster, cgroup.context("no cgroup")?))
}

pub(super) fn is_answered(from: &Netns, at: SocketAddr) -> Result<bool> {
    from.run(move || {
        let Ok(mut stream) = TcpStream::connect_timeout(&at, Duration::from_millis(500)) else {
            return Ok(false);
        };
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"?")?;
        Ok(stream.read_exact(&mut [0]).is_ok())
    })
}

/// Frontends at the node's own address: port and number.
fn frontends(node: &Node) -> Result<Vec<(u64, u64)>> {
    let all = node.served()?;
    let own = all.iter().filter(|it| it["frontend-address"]["ip"] == ADDRESS);
    let number = |value: &Value| value.as_u64().context("no number");
    own.map(|it| Ok((number(&it["frontend-address"]["port"])?, number(&it["id"])?))).collect()
}

pub(super) fn wait_for_frontends(node: &mut Node, ports: &[u64]) -> Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    node.wait(&format!("the frontends are not of {ports:?}"), |node| {
        // It may be on its way.
        found = frontends(node).unwrap_or_default();
        Ok(found.iter().map(|(port, _)| *port).eq(ports.iter().copied()))
    })?;
    Ok(found)
}

/// Whoever sends to the node's address reaches the service's pod, as far as policy lets him, over
/// deaths of the agent; what is removed while the agent is dead goes once the server has said so.
#[test]
fn an_ingress_leads_from_the_node_to_its_service() {
    lab::test("ingresses::an_ingress_leads_from_the_node_to_its_service", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (cluster, cgroup) = with_address(program)?;
        let Cluster { mut node, server, friend, stranger, web, .. } = cluster;
        let client = server.client();
        serve(client, &web)?;
        web.netns.answer(INNER)?;
        let at: SocketAddr = (ADDRESS.parse::<IpAddr>()?, OUTER).into();
        ensure!(!is_answered(&friend.netns, at)?, "there is no Ingress yet");
        ensure!(!cgroup.is_answered(at)?, "there is no Ingress yet");
        client.create(INGRESSES, &ingress("front", json!({ "number": OUTER })))?;
        client.create(INGRESSES, &ingress("stream", json!({ "name": "stream" })))?;
        let before = wait_for_frontends(&mut node, &[OUTER.into(), STREAMED.into()])?;
        ensure!(is_answered(&friend.netns, at)?, "a pod is not answered");
        ensure!(!is_answered(&stranger.netns, at)?, "policy does not count");
        ensure!(cgroup.is_answered(at)?, "the host is not answered");

        let stream = Stream::start(Plan {
            kind: Kind::Tcp,
            from: friend.netns.clone(),
            to: web.netns.clone(),
            target: (ADDRESS.parse::<IpAddr>()?, STREAMED).into(),
            rate: 200,
        })?;
        stream.wait_for_answers(20)?;
        for _ in 0..3 {
            node.kill_agent()?;
            ensure!(is_answered(&friend.netns, at)?, "a pod is not answered without an agent");
            ensure!(cgroup.is_answered(at)?, "the host is not answered without an agent");
            node.start_agent()?;
        }
        ensure!(wait_for_frontends(&mut node, &[OUTER.into(), STREAMED.into()])? == before);

        node.kill_agent()?;
        client.delete(&format!("{INGRESSES}/front"))?;
        ensure!(is_answered(&friend.netns, at)?, "nobody said so yet");
        node.start_agent()?;
        let after = wait_for_frontends(&mut node, &[STREAMED.into()])?;
        ensure!(after[..] == before[1..], "the number moved");
        ensure!(!is_answered(&friend.netns, at)?, "it is gone");
        ensure!(!cgroup.is_answered(at)?, "it is gone");
        let report = stream.stop()?;
        ensure!(report.is_clean(), "{report:?}");
        Ok(())
    });
}
