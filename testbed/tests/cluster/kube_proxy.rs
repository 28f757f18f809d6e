//! A real kube-proxy on the node, beside the agent: who serves what, and what a change from one to the other
//! costs.

use std::{
    net::{IpAddr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{self, ApiServer, NODE_NAME, Netns, Node, Process, ip, objects::NAMESPACE},
    traffic::{Kind, Plan, Stream},
};

use super::{Cluster, services::discovery};

/// The node's own address, the client's outside, and the service's.
const OWN: &str = "198.51.100.1";
const CLIENT: &str = "198.51.100.2";
const ADDRESS: &str = "10.96.0.88";
/// Of the service, of its pods and of the node: streams use one number at both ends, and each its own.
const PORT: u16 = 31_080;
const BY_NODE: u16 = 31_082;
/// Where pods answer with a byte.
const ANSWERS: u16 = 31_081;
const PATIENCE: Duration = Duration::from_secs(2);

/// The program, or `None` and loud words if there is none, or none of what it needs.
fn find() -> Option<PathBuf> {
    for needed in ["iptables", "conntrack"] {
        if Command::new(needed).arg("--version").output().is_err() {
            volvox_system::complain!("SKIPPED: no {needed}: install the package {needed}");
            return None;
        }
    }
    let program = ApiServer::find()?.with_file_name("kube-proxy");
    if !program.is_file() {
        volvox_system::complain!("SKIPPED: no {}: run testbed/test", program.display());
        return None;
    }
    Some(program)
}

/// Starts it for this node, and waits until its rules are there.
fn start(program: &Path, cluster: &Cluster) -> Result<Process> {
    let kubeconfig = cluster.server.kubeconfig().display().to_string();
    let arguments = [
        ("kubeconfig", kubeconfig.as_str()),
        ("hostname-override", NODE_NAME),
        ("proxy-mode", "iptables"),
        ("cluster-cidr", "10.11.0.0/16"),
        ("iptables-min-sync-period", "0s"),
        // What it would set is the machine's.
        ("conntrack-max-per-core", "0"),
        ("conntrack-tcp-timeout-established", "0"),
        ("conntrack-tcp-timeout-close-wait", "0"),
    ];
    let arguments = arguments.map(|(name, value)| format!("--{name}={value}"));
    let process = Process::start(program, &arguments, &cluster.node.path("kube-proxy.log"))?;
    lab::wait_for("rules of kube-proxy", || Ok(rules()?.contains(&PORT.to_string())))?;
    Ok(process)
}

fn rules() -> Result<String> {
    let rules = Command::new("iptables").args(["-t", "nat", "-S"]).output()?;
    Ok(String::from_utf8(rules.stdout)?)
}

/// Removes it and its rules.
fn remove(program: &Path, process: Process) -> Result<()> {
    process.kill()?;
    let cleaned = Command::new(program).arg("--cleanup").output()?;
    ensure!(
        !rules()?.contains("KUBE-SVC"),
        "rules stay: {}",
        String::from_utf8_lossy(&cleaned.stderr)
    );
    Ok(())
}

fn outside() -> Result<Netns> {
    let outside = Netns::create("outside")?;
    ip("link add cable0 type veth peer eth0 netns outside")?;
    ip(&format!("address add {OWN}/24 dev cable0"))?;
    ip("link set cable0 up")?;
    // Before its address is changed, a packet to a service has to have a way out.
    ip(&format!("route add default via {CLIENT}"))?;
    ip(&format!("-n outside address add {CLIENT}/24 dev eth0"))?;
    ip("-n outside link set eth0 up")?;
    ip(&format!("-n outside route add default via {OWN}"))?;
    Ok(outside)
}

/// A node port of both protocols with `web` behind it.
fn serve(cluster: &Cluster) -> Result<()> {
    let client = cluster.server.client();
    let ports = |of: &dyn Fn(u16, &str, &str) -> Value| {
        json!([
            of(PORT, "stream", "UDP"),
            of(BY_NODE, "by-node", "UDP"),
            of(ANSWERS, "answers", "TCP"),
        ])
    };
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": { "type": "NodePort", "clusterIP": ADDRESS, "ports": ports(&|port, name, protocol| {
            json!({ "name": name, "port": port, "nodePort": port, "targetPort": port,
                    "protocol": protocol })
        }) },
    });
    client.create(&format!("/api/v1/namespaces/{NAMESPACE}/services"), &service)?;
    let (version, slices) = discovery(client)?;
    let web = cluster.web.address(false)?.to_string();
    let slice = json!({
        "apiVersion": version, "kind": "EndpointSlice",
        "metadata": { "name": "web-1", "namespace": NAMESPACE,
                      "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4", "endpoints": [{ "addresses": [web], "conditions": { "ready": true } }],
        "ports": ports(&|port, name, protocol| {
            json!({ "name": name, "port": port, "protocol": protocol })
        }),
    });
    client.create(&slices, &slice)?;
    cluster.web.netns.answer(ANSWERS)
}

/// Whether somebody answers there who is asked from `from`.
fn answered(from: &Netns, at: &str) -> Result<bool> {
    let at = SocketAddr::from((at.parse::<IpAddr>()?, ANSWERS));
    from.run(move || {
        use std::io::{Read, Write};
        let Ok(mut stream) = TcpStream::connect_timeout(&at, PATIENCE) else { return Ok(false) };
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream.write_all(b"?").and_then(|()| stream.read_exact(&mut [0])).is_ok())
    })
}

/// Frontends of the service that the agent serves, without those of other services.
fn frontends(node: &Node) -> Result<Vec<String>> {
    let of = |it: &Value| it["frontend-address"]["ip"].as_str().map(str::to_owned);
    let mut all: Vec<_> = node.served()?.iter().filter_map(of).collect();
    all.retain(|at| at == ADDRESS || at == OWN);
    all.dedup();
    Ok(all)
}

fn trouble(node: &Node) -> Result<String> {
    let health: Value = node.rest().get("/healthz")?;
    let all = health["controllers"].as_array().context("no controllers")?;
    let found = all.iter().find(|it| it["name"] == "kube-proxy");
    Ok(found.map(|it| it["status"]["last-failure-msg"].to_string()).unwrap_or_default())
}

/// Everybody who may reaches the pod by each address.
fn all_reach(cluster: &mut Cluster, outside: &Netns, node_address: bool) -> Result<()> {
    let friend = cluster.friend.netns.clone();
    let own = Netns::open("/proc/self/ns/net".as_ref())?;
    let reach = |_: &mut Node| {
        let mut all =
            vec![answered(&friend, ADDRESS)?, answered(&friend, OWN)?, answered(outside, OWN)?];
        if node_address {
            all.extend([answered(&own, ADDRESS)?, answered(&own, OWN)?]);
        }
        Ok(all.iter().all(|answered| *answered))
    };
    cluster.node.wait("not all reach the service", reach).map(drop)
}

fn stream(cluster: &Cluster, target: &str, port: u16) -> Result<Stream> {
    let stream = Stream::start(Plan {
        kind: Kind::Udp,
        from: cluster.friend.netns.clone(),
        to: cluster.web.netns.clone(),
        target: (target.parse::<IpAddr>()?, port).into(),
        rate: 200,
    })?;
    stream.wait_for_answers(20)?;
    Ok(stream)
}

fn restart_as(cluster: &mut Cluster, replaces: bool) -> Result<()> {
    cluster.node.set_flag("kube-proxy-replacement", Some(if replaces { "true" } else { "false" }));
    cluster.restart()
}

#[test]
fn a_kube_proxy_serves_beside_the_agent_and_one_takes_over_from_the_other() {
    lab::test(
        "kube_proxy::a_kube_proxy_serves_beside_the_agent_and_one_takes_over_from_the_other",
        || {
            let (Some(server), Some(proxy)) = (ApiServer::find(), find()) else { return Ok(()) };
            let outside = outside()?;
            let mut cluster = Cluster::start_with(server, |_, node| {
                node.set_flag("kube-proxy-replacement", Some("false"));
                Ok(())
            })?;
            cluster.server.client().delete(&format!("{}/web", lab::objects::POLICIES))?;
            serve(&cluster)?;
            cluster
                .node
                .wait("nobody is missed", |node| Ok(trouble(node)?.contains("nobody serves")))?;
            let running = start(&proxy, &cluster)?;
            all_reach(&mut cluster, &outside, true)?;
            ensure!(frontends(&cluster.node)? == [ADDRESS], "{:?}", frontends(&cluster.node)?);
            cluster.node.wait("somebody is missed", |node| Ok(trouble(node)?.is_empty()))?;
            let health: Value = cluster.node.rest().get("/healthz")?;
            let status = &health["kube-proxy-replacement"];
            ensure!(
                status["mode"] == "False" && status["features"]["nodePort"]["enabled"] == false
            );

            // Kills and changes under traffic: a pod's stream to the address inside goes on.
            let inside = stream(&cluster, ADDRESS, PORT)?;
            let by_port = stream(&cluster, OWN, BY_NODE)?;
            for _ in 0..3 {
                cluster.restart()?;
            }
            let report = by_port.stop()?;
            ensure!(report.is_clean(), "by kube-proxy: {report:?}");
            for _ in 0..2 {
                restart_as(&mut cluster, true)?;
                cluster
                    .node
                    .wait("node ports are not served", |node| Ok(frontends(node)?.len() == 2))?;
                ensure!(trouble(&cluster.node)?.contains("KUBE-SERVICES"), "two serve");
                all_reach(&mut cluster, &outside, true)?;
                restart_as(&mut cluster, false)?;
                cluster
                    .node
                    .wait("node ports are served", |node| Ok(frontends(node)?.len() == 1))?;
                all_reach(&mut cluster, &outside, true)?;
            }
            // Alone in the end.
            restart_as(&mut cluster, true)?;
            cluster
                .node
                .wait("node ports are not served", |node| Ok(frontends(node)?.len() == 2))?;
            remove(&proxy, running)?;
            all_reach(&mut cluster, &outside, false)?;
            cluster
                .node
                .wait("a kube-proxy is still seen", |node| Ok(trouble(node)?.is_empty()))?;
            let report = inside.stop()?;
            ensure!(report.is_clean(), "by the agent: {report:?}");
            Ok(())
        },
    );
}
