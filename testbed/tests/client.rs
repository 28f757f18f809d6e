//! The client `volvox` against a real agent, and against none.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use volvox_testbed::lab::{self, Binaries, Node, Pod, Through};

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

/// How long a record may take to be seen, before the test says that it failed.
const PATIENCE: Duration = Duration::from_secs(60);

struct Shop {
    node: Node,
    web: Pod,
    bad: Pod,
}

impl Shop {
    fn open() -> Result<Self> {
        let mut node = Node::new(Binaries::find()?)?;
        node.write_manifest("web.yaml", POLICY)?;
        node.start_agent()?;
        let web = Pod::create(&node, "shop/web", &[("app", "web")], Through::Rest)?;
        let bad = Pod::create(&node, "shop/bad", &[("app", "bad")], Through::Rest)?;
        node.wait_for_ready(2)?;
        Ok(Self { node, web, bad })
    }

    fn client(&self, words: &str) -> Command {
        let mut command = Command::new(&self.node.binaries().client);
        command.arg("--socket-path").arg(self.node.path("cilium.sock"));
        command.arg("--bpf-root").arg(self.node.bpf_root());
        command.args(words.split(' '));
        command
    }

    fn run(&self, words: &str) -> Result<Output> {
        self.client(words).output().with_context(|| format!("cannot run volvox {words}"))
    }

    /// What a command that succeeds writes.
    fn text(&self, words: &str) -> Result<String> {
        let output = self.run(words)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "volvox {words}: {}: {complaint}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    fn json(&self, words: &str) -> Result<Value> {
        let text = self.text(&format!("-o json {words}"))?;
        serde_json::from_str(&text).with_context(|| format!("volvox {words} wrote {text}"))
    }

    /// Has the bad pod send to the web pod.
    fn offend(&self) -> Result<()> {
        let target = SocketAddr::new(self.web.address(false)?, 9);
        self.bad.netns.run(move || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.send_to(b"let me in", target)?;
            Ok(())
        })
    }
}

/// A client that watches; killed when it is dropped.
struct Monitor(Child);

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_command_answers_people_and_programs() {
    lab::test("every_command_answers_people_and_programs", || {
        let mut shop = Shop::open()?;
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
            ensure!(!shop.text(words)?.trim().is_empty(), "volvox {words} writes nothing");
            shop.json(words)?;
        }
        ensure!(shop.text("metrics")?.contains("\ncilium_endpoint 2.0\n"));
        let policies = shop.json("policy status")?;
        ensure!(policies["policies"][0]["selects"] == 1, "{policies}");
        ensure!(shop.run("endpoint get 4000")?.status.code() == Some(4), "no such endpoint");
        ensure!(shop.run("endpoint disconnect 1")?.status.code() == Some(2), "nobody said yes");
        ensure!(shop.run("endpoint gte 1")?.status.code() == Some(2), "no such command");
        shop.text("endpoint disconnect pod-name:shop/bad --yes")?;
        ensure!(shop.json("endpoint list")?.as_array().is_some_and(|all| all.len() == 1));
        shop.node.kill_agent()?;
        ensure!(shop.run("status")?.status.code() == Some(3), "nobody is there");
        // The kernel still tells what it does.
        ensure!(shop.json("bpf policy list")?.as_array().is_some_and(|rows| !rows.is_empty()));
        Ok(())
    });
}

#[test]
fn the_monitor_names_the_rule_that_dropped_a_packet() {
    lab::test("the_monitor_names_the_rule_that_dropped_a_packet", || {
        let shop = Shop::open()?;
        let mut command = shop.client("-o json monitor --type drop");
        let mut monitor = Monitor(command.stdout(Stdio::piped()).spawn()?);
        let lines = BufReader::new(monitor.0.stdout.take().context("no pipe")?).lines();
        let (tell, told) = std::sync::mpsc::channel();
        // Ends with the pipe, when the monitor is killed.
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|it| tell.send(it)));
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Again and again: the monitor may not be listening yet.
            shop.offend()?;
            let Ok(line) = told.recv_timeout(Duration::from_millis(20)) else {
                ensure!(Instant::now() < deadline, "no drop was seen in {PATIENCE:?}");
                continue;
            };
            let drop: Value = serde_json::from_str(&line)?;
            if drop["packet"]["destination-port"] != 9 {
                continue;
            }
            ensure!(drop["reason-text"] == "Policy denied by denylist", "{drop}");
            ensure!(drop["packet"]["destination"] == shop.web.address(false)?.to_string());
            let origin = "web.yaml: CiliumNetworkPolicy shop/web: spec.ingressDeny[0]";
            ensure!(drop["origins"] == serde_json::json!([origin]), "{drop}");
            return Ok(());
        }
    });
}

#[test]
fn probes_and_prometheus_are_answered_on_loopback() {
    lab::test("probes_and_prometheus_are_answered_on_loopback", || {
        ensure!(Command::new("ip").args(["link", "set", "lo", "up"]).status()?.success());
        let mut node = Node::new(Binaries::find()?)?;
        node.flags(&["--prometheus-serve-addr=127.0.0.1:9962", "--agent-health-port=9879"]);
        node.start_agent()?;
        let get = |port: u16, path: &str| -> Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", port))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ensure!(get(9879, "/healthz")?.starts_with("HTTP/1.1 200"));
        let metrics = get(9962, "/metrics")?;
        ensure!(
            metrics.contains("\nvolvox_kernel_writes_total{object=\"links\"} 0.0\n"),
            "{metrics}"
        );
        for (port, path) in [(9962, "/v1/endpoint"), (9879, "/v1/endpoint"), (9879, "/metrics")] {
            let answer = get(port, path)?;
            ensure!(answer.starts_with("HTTP/1.1 404"), "{path} at {port}: {answer}");
        }
        Ok(())
    });
}
