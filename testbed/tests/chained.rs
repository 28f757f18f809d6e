//! Pods whose interfaces the real plugins `bridge` and `host-local` make, with ours behind them.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{self, Inventory, Netns, Node, Setup},
    traffic::{Kind, Plan, Stream, stop_clean},
};

/// Where Debian's package `containernetworking-plugins` has them.
const PLUGINS: &str = "/usr/lib/cni";
const PORT: u16 = 7000;

/// The manifest of each pod, and a policy by which only `client` reaches `server`.
fn manifests() -> Vec<(String, String)> {
    let pod = |name: &str| {
        let metadata = json!({"namespace": "shop", "name": name, "labels": {"app": name}});
        (format!("{name}.yaml"), json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}))
    };
    let app = |name: &str| json!({"matchLabels": {"app": name}});
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"namespace": "shop", "name": "server"},
        "spec": {"podSelector": app("server"), "ingress": [{"from": [{"podSelector": app("client")}]}]},
    });
    let mut all = ["client", "server", "other"].map(pod).to_vec();
    all.push(("policy.yaml".to_owned(), policy));
    all.into_iter().map(|(name, object)| (name, object.to_string())).collect()
}

/// A container behind the bridge.
struct Chained {
    name: &'static str,
    netns: Netns,
    previous: Value,
}

impl Chained {
    fn add(node: &Node, name: &'static str) -> Result<Self> {
        let mut pod = Self { name, netns: Netns::create(name)?, previous: Value::Null };
        pod.previous = pod.theirs(node, "ADD")?;
        let result = pod.ours(node, "ADD")?;
        ensure!(result == pod.previous, "{result} is not {}", pod.previous);
        Ok(pod)
    }

    fn theirs(&self, node: &Node, command: &str) -> Result<Value> {
        let config = json!({
            "cniVersion": "1.0.0", "name": "site", "type": "bridge", "bridge": "cni0",
            "isGateway": true,
            "ipam": {
                "type": "host-local", "dataDir": node.path("leases"), "subnet": "10.88.0.0/24",
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        });
        self.call(&Path::new(PLUGINS).join("bridge"), command, config)
    }

    fn ours(&self, node: &Node, command: &str) -> Result<Value> {
        let config = json!({
            "cniVersion": "1.0.0", "name": "site", "type": "volvox-cni",
            "chaining-mode": "generic-veth", "socket-path": node.path("cilium.sock"),
            "log-file": node.path("cni.log"),
        });
        self.call(&node.binaries().cni, command, config)
    }

    fn call(&self, plugin: &Path, command: &str, mut config: Value) -> Result<Value> {
        if !self.previous.is_null() {
            config["prevResult"] = self.previous.clone();
        }
        let mut child = Command::new(plugin)
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", format!("c-{}", self.name))
            .env("CNI_NETNS", self.netns.path())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", PLUGINS)
            .env(
                "CNI_ARGS",
                format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={}", self.name),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| {
                format!("{}: install containernetworking-plugins", plugin.display())
            })?;
        let mut stdin = child.stdin.take().context("it was piped")?;
        stdin.write_all(config.to_string().as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{} {command}: {said}", plugin.display());
        Ok(if said.trim().is_empty() { Value::Null } else { serde_json::from_str(&said)? })
    }

    fn target(&self) -> Result<SocketAddr> {
        let address = self.previous["ips"][0]["address"].as_str().context("no address")?;
        let address = address.split('/').next().unwrap_or(address);
        Ok((address.parse::<std::net::IpAddr>()?, PORT).into())
    }
}

fn stream(kind: Kind, from: &Chained, to: &Chained) -> Result<Stream> {
    let (from, to, target) = (from.netns.clone(), to.netns.clone(), to.target()?);
    Stream::start(Plan { kind, from, to, target, rate: 200 })
}

#[test]
fn chained_pods_keep_their_connections_and_their_policy_over_restarts() {
    lab::test("chained_pods_keep_their_connections_and_their_policy_over_restarts", || {
        let (mut node, []) = Setup::new().ipv4_only().start()?;
        for (name, text) in manifests() {
            node.write_manifest(&name, &text)?;
        }
        let client = Chained::add(&node, "client")?;
        let server = Chained::add(&node, "server")?;
        let other = Chained::add(&node, "other")?;
        node.wait_for_ready(3)?;
        let before = Inventory::read(&node)?;
        let allowed = stream(Kind::Udp, &client, &server)?;
        allowed.wait_for_answers(50)?;
        let forbidden = Stream::start(Plan {
            kind: Kind::Udp,
            from: other.netns.clone(),
            to: server.netns.clone(),
            target: SocketAddr::new(server.target()?.ip(), PORT + 1),
            rate: 100,
        })?;
        for _ in 0..5 {
            node.kill_agent()?;
            thread::sleep(Duration::from_millis(100));
            node.start_agent()?;
        }
        node.wait_for_ready(3)?;
        ensure!(forbidden.answers() == 0, "a packet got through that policy forbids");
        forbidden.stop()?;
        stop_clean([allowed])?;
        ensure!(before.moved(&Inventory::read(&node)?) == 0, "numbers moved");
        for pod in [&client, &server, &other] {
            pod.ours(&node, "CHECK")?;
        }
        ensure!(client.ours(&node, "ADD").is_err(), "a second ADD is refused");

        node.kill_agent()?;
        other.ours(&node, "DEL")?;
        other.netns.run(|| {
            ensure!(lab::ip("link show eth0").is_ok(), "the bridge's interface was removed");
            Ok(())
        })?;
        other.theirs(&node, "DEL")?;
        node.start_agent()?;
        node.wait_for_ready(2)?;
        for pod in [&client, &server] {
            pod.ours(&node, "DEL")?;
            pod.theirs(&node, "DEL")?;
        }
        node.wait("endpoints are left", |node| Ok(node.endpoints()?.is_empty()))?;
        ensure!(
            fs::read_dir(node.path("leases/site"))?
                .flatten()
                .all(|it| { !it.file_name().to_string_lossy().starts_with("10.88.0.") }),
            "addresses are left"
        );
        Ok(())
    });
}
