//! Load balancers that ask a node for a service of a real API server.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, ApiServer, NODE_NAME, Node, objects::NAMESPACE};

use super::{
    Cluster,
    ingresses::{ADDRESS, with_address},
    services::discovery,
};

/// Where they ask for each of two services.
const WEB: u16 = 31234;
const DB: u16 = 31235;

fn service(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local",
            // The other port is named as well, lest the server draw the other service's.
            "healthCheckNodePort": port, "ports": [{ "port": 80, "nodePort": port + 100 }],
        },
    })
}

/// What is answered: the status, and pods by weight and by body; none if nobody listens.
fn answer(port: u16) -> Result<Option<(u16, u64, Value)>> {
    let at: SocketAddr = (ADDRESS.parse::<IpAddr>()?, port).into();
    let mut stream = match TcpStream::connect(at) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => bail!("{at}: {error}"),
    };
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut text = String::new();
    let asked = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    if asked.and_then(|()| stream.read_to_string(&mut text)).is_err() || text.is_empty() {
        // It was closed meanwhile.
        return Ok(None);
    }
    let (head, body) = text.split_once("\r\n\r\n").context("no body")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let is_weight = |name: &str| name.eq_ignore_ascii_case("X-Load-Balancing-Endpoint-Weight");
    let (_, weight) = fields.find(|(name, _)| is_weight(name)).context("no weight")?;
    Ok(Some((status, weight.parse()?, serde_json::from_str(body)?)))
}

fn wait_for(node: &mut Node, port: u16, name: &str, expected: Option<u64>) -> Result<()> {
    let expected = expected.map(|pods| {
        let service = json!({ "namespace": NAMESPACE, "name": name });
        let body = json!({
            "service": service, "localEndpoints": pods, "serviceProxyHealthy": true,
        });
        (if pods > 0 { 200 } else { 503 }, pods, body)
    });
    node.wait(&format!("{name} is not answered for with {expected:?}"), |_| {
        Ok(answer(port)? == expected)
    })
    .map(drop)
}

/// They hear whether pods of this node are ready, over deaths of the agent, until the service is
/// gone; and of one whose port somebody else has, as soon as that one has ended.
#[test]
fn a_node_says_whether_it_has_pods_of_a_service() {
    lab::test("health_checks::a_node_says_whether_it_has_pods_of_a_service", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (cluster, _cgroup) = with_address(program)?;
        let Cluster { mut node, server, web, friend, .. } = cluster;
        let client = server.client();
        let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
        ensure!(answer(WEB)?.is_none(), "nobody may listen yet");
        client.create(&services, &service("web", WEB))?;
        wait_for(&mut node, WEB, "web", Some(0))?;

        let (version, slices) = discovery(client)?;
        let (web, friend) = (web.address(false)?, friend.address(false)?);
        let endpoint = |address: IpAddr, node: &str, ready: bool| {
            json!({
                "addresses": [address], "conditions": { "ready": ready }, "nodeName": node,
                // Where older servers have it.
                "topology": { "kubernetes.io/hostname": node },
            })
        };
        let slice = json!({
            "apiVersion": version, "kind": "EndpointSlice",
            "metadata": { "name": "web-1", "namespace": NAMESPACE,
                          "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": "IPv4", "ports": [{ "port": 8080 }],
            "endpoints": [endpoint(web, NODE_NAME, true)],
        });
        client.create(&slices, &slice)?;
        wait_for(&mut node, WEB, "web", Some(1))?;
        let path = format!("{slices}/web-1");
        for (endpoints, pods) in [
            (json!([endpoint(web, NODE_NAME, false)]), 0),
            (json!([endpoint(web, NODE_NAME, true), endpoint(friend, NODE_NAME, true)]), 2),
            (json!([endpoint(web, "elsewhere", true)]), 0),
            (json!([endpoint(web, NODE_NAME, true)]), 1),
        ] {
            client.patch(&path, &json!({ "endpoints": endpoints }))?;
            wait_for(&mut node, WEB, "web", Some(pods))?;
        }

        let other = TcpListener::bind(("0.0.0.0", DB))?;
        client.create(&services, &service("db", DB))?;
        node.wait("status does not name the port that somebody else has", |node| {
            let summary: Value = node.rest().get("/volvox/services")?;
            let problem = summary["problems"][0]["problem"].as_str().unwrap_or_default();
            Ok(problem.contains("healthCheckNodePort 31235") && problem.contains("in use"))
        })?;
        drop(other);
        wait_for(&mut node, DB, "db", Some(0))?;
        let summary: Value = node.rest().get("/volvox/services")?;
        ensure!(summary["problems"] == json!([]), "{summary}");

        for _ in 0..3 {
            node.kill_agent()?;
            ensure!(answer(WEB)?.is_none(), "nobody is there who could answer");
            node.start_agent()?;
            wait_for(&mut node, WEB, "web", Some(1))?;
        }
        client.delete(&format!("{services}/web"))?;
        wait_for(&mut node, WEB, "web", None)?;
        wait_for(&mut node, DB, "db", Some(0))?;
        node.kill_agent()?;
        client.delete(&format!("{services}/db"))?;
        node.start_agent()?;
        node.wait("services are not synced", |node| {
            let summary: Value = node.rest().get("/volvox/services")?;
            Ok(summary["awaited"] == json!([]))
        })?;
        ensure!(answer(DB)?.is_none(), "it went while nobody saw it");
        Ok(())
    });
}
