//! The client `volvox` against a real agent, and against none.

mod monitor;
mod shop;

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use anyhow::{Result, ensure};
use shop::Shop;
use volvox_testbed::lab::{self, Binaries, Node};

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
        let metrics = shop.text("metrics")?;
        ensure!(metrics.contains("\ncilium_endpoint 2.0\n"), "{metrics}");
        // As in Cilium all policy maps share one row, and Cilium's alerts find it by its prefix.
        let pressure = "\ncilium_bpf_map_pressure{map_name=\"cilium_policy_v2_*\"} ";
        ensure!(metrics.contains(pressure), "{metrics}");
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
fn probes_and_prometheus_are_answered_on_loopback() {
    lab::test("probes_and_prometheus_are_answered_on_loopback", || {
        ensure!(Command::new("ip").args(["link", "set", "lo", "up"]).status()?.success());
        let mut node = Node::new(Binaries::find()?)?;
        node.flags(&["--prometheus-serve-addr=127.0.0.1:9962", "--agent-health-port=9879"]);
        node.start_agent()?;
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
