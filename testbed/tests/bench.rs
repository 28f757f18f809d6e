//! The benches run, and give the figures that they are asked for. On a small node: what is tested is
//! the bench, not the agent's speed.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;
use volvox_testbed::lab::ApiServer;

/// Figures of a bench by name.
fn bench(verb: &str) -> BTreeMap<String, Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["bench", verb, "--endpoints", "20", "--rounds", "2", "--json"])
        .args(["--identities", "50", "--addresses", "500", "--pods", "200", "--policies", "40"])
        // Cargo has built the agent, or the bench says that it is missing.
        .env_remove("CARGO")
        .output()
        .expect("the testbed starts");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    assert!(output.status.success(), "bench {verb}: {stderr}");
    let figures = stdout.lines().map(|line| {
        let figure: Value = serde_json::from_str(line).expect("one JSON line a figure");
        (figure["name"].as_str().expect("a name").to_owned(), figure)
    });
    figures.collect()
}

#[test]
fn restart_tells_times_memory_writes_and_losses() {
    let figures = bench("restart");
    for (name, unit, n) in [
        ("restart.ready", "s", 2),
        ("restart.api", "s", 2),
        ("restart.cpu", "s", 2),
        ("restart.rss_peak", "MB", 2),
        ("restart.kernel_writes", "count", 2),
        ("restart.lost", "count", 8),
        ("restart.lost_control", "count", 8),
    ] {
        let figure = figures.get(name).unwrap_or_else(|| panic!("no {name}: {figures:?}"));
        assert_eq!((&figure["unit"], &figure["n"]), (&unit.into(), &n.into()), "{name}");
    }
    for name in ["restart.lost", "restart.moved", "restart.kernel_writes"] {
        assert_eq!(figures[name]["max"], 0.0, "{name}");
    }
    assert!(figures["restart.ready"]["min"].as_f64() > Some(0.0));
}

#[test]
fn takeover_tells_losses_and_times() {
    let figures = bench("takeover");
    for name in ["takeover.lost", "takeover.moved", "takeover.let_through"] {
        assert_eq!(figures[name]["max"], 0.0, "{name}: {figures:?}");
    }
    assert_eq!(figures["takeover.ready"]["n"], 2);
}

#[test]
fn create_regenerate_packet_and_trace_tell_their_costs() {
    for (verb, name) in [
        ("create", "create.rest"),
        ("regenerate", "regenerate.policy"),
        ("packet", "packet.established"),
        ("trace", "trace.record"),
        ("dashboard", "dashboard.messages"),
    ] {
        let figures = bench(verb);
        assert!(figures[name]["median"].as_f64() > Some(0.0), "{figures:?}");
    }
}

#[test]
fn cluster_tells_what_others_announce_and_policies_cost() {
    let figures = bench("cluster");
    let etcd = [
        ("cluster.ipcache_ratio", "ratio", 2),
        ("cluster.ipcache", "s", 2),
        ("cluster.ipcache_bare", "s", 2),
        ("identity.enforced", "s", 100),
        ("identity.enforced_p99", "s", 1),
    ];
    let api_server = [
        ("policy.compile", "s", 2),
        ("cluster.rss", "MB", 2),
        ("cluster.rss_peak", "MB", 2),
        ("cluster.restart_ready", "s", 2),
        ("cluster.converged", "s", 2),
        ("cluster.requests", "count", 2),
    ];
    // Says loudly when there is none.
    let api_server = ApiServer::find().map_or(&[][..], |_| &api_server);
    if !api_server.is_empty() {
        // Packets may see it before the server says that it has it.
        assert_eq!(figures["policy.change"]["n"], 10);
        assert_eq!(figures["cluster.requests_beyond_lists"]["max"], 0.0, "{figures:?}");
    }
    for &(name, unit, n) in etcd.iter().chain(api_server) {
        let figure = figures.get(name).unwrap_or_else(|| panic!("no {name}: {figures:?}"));
        assert_eq!((&figure["unit"], &figure["n"]), (&unit.into(), &n.into()), "{name}");
        assert!(figure["min"].as_f64() > Some(0.0), "{figure}");
    }
}

#[test]
fn cni_tells_our_plugin_and_another() {
    let figures = bench("cni");
    for (name, unit, n) in [
        ("cni.add", "s", 2),
        ("cni.bridge", "s", 2),
        ("cni.add_in_a_row", "s", 2),
        ("cni.bridge_in_a_row", "s", 2),
        ("cni.add_at_once", "s", 40),
        ("cni.bridge_at_once", "s", 40),
        ("cni.ratio", "ratio", 1),
        ("cni.ratio_at_once", "ratio", 1),
        ("cni.ratio_at_once_90", "ratio", 1),
    ] {
        let figure = figures.get(name).unwrap_or_else(|| panic!("no {name}: {figures:?}"));
        assert_eq!(
            (figure["unit"].as_str(), figure["n"].as_u64()),
            (Some(unit), Some(n)),
            "{name}"
        );
    }
}

#[test]
fn operator_tells_its_memory() {
    if ApiServer::find().is_none() {
        return;
    }
    let figures = bench("operator");
    for name in ["operator.rss", "operator.rss_peak"] {
        assert_eq!(figures[name]["unit"], "MB", "{figures:?}");
    }
}

#[test]
fn kubernetes_tells_of_installing_and_rolling() {
    if ApiServer::find().is_none() {
        return;
    }
    let figures = bench("kubernetes");
    for (name, n) in
        [("install.ready", 1), ("rollout.lost", 2), ("rollout.time", 2), ("requests.hour", 1)]
    {
        assert_eq!(figures[name]["n"], n, "{name}: {figures:?}");
    }
}
