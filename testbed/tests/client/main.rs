//! The client `volvox` against a real agent, and against none.

mod asks;
mod monitor;
mod on_call;
mod promtool;
mod setup;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use volvox_testbed::lab::{self, Etcd, Node, Setup};

/// A service with one backend.
const SERVICE: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIP: 10.96.0.7
  clusterIPs: [10.96.0.7]
  ipFamilies: [IPv4]
  ports: [{name: web, port: 80, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: web, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.11.0.9], conditions: {ready: true}}]
"#;

#[test]
fn every_command_answers_people_and_programs() {
    lab::test("every_command_answers_people_and_programs", || {
        let (mut node, _pods) = setup::start()?;
        let code = |node: &Node, words: &str| -> Result<_> {
            let output = node.client(words).output();
            Ok(output.with_context(|| format!("cannot run volvox {words}"))?.status.code())
        };
        for words in [
            "status",
            "endpoint list",
            "endpoint get pod-name:shop/web",
            "endpoint log 1",
            "endpoint health 1",
            "endpoint labels 1",
            "endpoint config 1 TraceNotification=Enabled",
            "endpoint regenerate 1 --level rebuild",
            "ipam list",
            "identity list",
            "policy get",
            "policy status",
            "bpf lxc list",
            "bpf ipcache list",
            "bpf policy list",
            "bpf ct list",
            "restore report",
            "why",
            "why 1",
        ] {
            ensure!(!node.volvox(words)?.trim().is_empty(), "volvox {words} writes nothing");
            node.json(words)?;
        }
        names_lead_to_one_endpoint(&node)?;
        let metrics = node.volvox("metrics")?;
        ensure!(metrics.contains("\ncilium_endpoint 2.0\n"), "{metrics}");
        // As in Cilium all policy maps share one row, and Cilium's alerts find it by its prefix.
        let pressure = "\ncilium_bpf_map_pressure{map_name=\"cilium_policy_v2_*\"} ";
        ensure!(metrics.contains(pressure), "{metrics}");
        let policies = node.json("policy status")?;
        ensure!(policies["policies"][0]["selects"] == 1, "{policies}");
        ensure!(code(&node, "endpoint get 4000")? == Some(4), "no such endpoint");
        ensure!(code(&node, "endpoint disconnect 1")? == Some(2), "nobody said yes");
        ensure!(code(&node, "endpoint gte 1")? == Some(2), "no such command");
        node.volvox("endpoint disconnect pod-name:shop/bad --yes")?;
        ensure!(node.json("endpoint list")?.as_array().is_some_and(|all| all.len() == 1));
        node.kill_agent()?;
        ensure!(code(&node, "status")? == Some(3), "nobody is there");
        // The kernel still tells what it does.
        for words in ["bpf policy list", "bpf policy list web", "bpf policy list shop/web"] {
            ensure!(node.json(words)?.as_array().is_some_and(|rows| !rows.is_empty()), "{words}");
        }
        ensure!(!node.volvox("trace --endpoint shop/web")?.trim().is_empty());
        Ok(())
    });
}

/// Whatever an endpoint is called by, it is the same one.
fn names_lead_to_one_endpoint(node: &Node) -> Result<()> {
    let web = node.json("endpoint get pod-name:shop/web")?;
    let status = &web["status"];
    let address = status["networking"]["addressing"][0]["ipv4"].as_str().context("no address")?;
    let container =
        status["external-identifiers"]["container-id"].as_str().context("no container")?;
    for name in ["web", "shop/web", address, container] {
        let found = node.json(&format!("endpoint get {name}"))?;
        ensure!(found["id"] == web["id"], "{name}: {found}");
        node.json(&format!("why {name}"))?;
    }
    // Containers of the lab begin alike.
    let several = node.client(&format!("endpoint get {}", &container[..12])).output()?;
    let complaint = String::from_utf8_lossy(&several.stderr);
    ensure!(several.status.code() == Some(2) && complaint.contains("shop/bad"), "{complaint}");
    for name in ["cache", "shop/cache", "10.99.0.1"] {
        for words in ["endpoint get", "why", "bpf policy list"] {
            let output = node.client(&format!("{words} {name}")).output()?;
            let complaint = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(4), "volvox {words} {name}: {complaint}");
        }
    }
    Ok(())
}

#[test]
fn probes_and_prometheus_are_answered_on_loopback() {
    lab::test("probes_and_prometheus_are_answered_on_loopback", || {
        ensure!(Command::new("ip").args(["link", "set", "lo", "up"]).status()?.success());
        // A store and a mesh, a service and an endpoint: all that has metrics. Nobody answers for the
        // other cluster.
        let mesh = lab::path("mesh");
        fs::create_dir_all(&mesh)?;
        fs::write(mesh.join("far"), "endpoints: [\"http://127.0.0.1:9\"]\n")?;
        let etcd = Etcd::start(&lab::path("etcd"))?;
        let mesh = mesh.display().to_string();
        let flags = [
            ("prometheus-serve-addr", "127.0.0.1:9962"),
            ("agent-health-port", "9879"),
            ("cluster-name", "near"),
            ("cluster-id", "1"),
            ("clustermesh-config", &mesh),
        ];
        let setup = Setup::new().flags(&flags).shares(&etcd).manifest("service.yaml", SERVICE);
        let (mut node, [_web]) = setup.pod("shop/web", &[("app", "web")]).start()?;
        node.wait("the service is not served", |node| Ok(!node.served()?.is_empty()))?;
        let ask = |host: &str, port: u16, path: &str| -> Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let get = |port: u16, path: &str| ask(&format!("127.0.0.1:{port}"), port, path);
        let health = get(9879, "/healthz")?;
        ensure!(health.starts_with("HTTP/1.1 200"), "{health}");
        // Another name may be one that a page has pointed here.
        let other = ask("x", 9879, "/healthz")?;
        ensure!(other.starts_with("HTTP/1.1 403"), "{other}");
        let metrics = get(9962, "/metrics")?;
        ensure!(metrics.contains("\nvolvox_kernel_writes_total{object=\"links\"} "), "{metrics}");
        for family in [
            "cilium_endpoint ",
            "volvox_services_frontends ",
            "volvox_kvstore_up",
            "cilium_clustermesh_remote_clusters ",
        ] {
            ensure!(metrics.contains(&format!("\n{family}")), "there is no {family}: {metrics}");
        }
        let (head, body) = metrics.split_once("\r\n\r\n").context("an answer has a body")?;
        ensure!(head.contains("text/plain; version=0.0.4"), "{head}");
        promtool::check(body)?;
        for (port, path) in [(9962, "/v1/endpoint"), (9879, "/v1/endpoint"), (9879, "/metrics")] {
            let answer = get(port, path)?;
            ensure!(answer.starts_with("HTTP/1.1 404"), "{path} at {port}: {answer}");
        }
        Ok(())
    });
}
