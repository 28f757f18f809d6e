//! The operator of a large cluster: what it holds when it knows all Nodes and pods.

use std::{thread, time::Duration};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Figure, Options, Unit};
use crate::{
    lab::{ApiServer, Etcd, Operator, path, wait_for},
    progress::Progress,
};

/// Pods of a node.
const PODS: u32 = 20;
/// By then it has seen what is left over, and what its start needed is given back.
const SETTLED_AFTER: Duration = Duration::from_secs(40);
const NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const ENDPOINTS: &str = "/apis/cilium.io/v2/namespaces/default/ciliumendpoints";

pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let Some(program) = ApiServer::find() else { return Ok(Vec::new()) };
    let progress = Progress::new(options.json);
    let place = path("operator");
    let etcd = Etcd::start_careless(&path("etcd"))?;
    let server = ApiServer::start(program, &path("api"), &etcd)?;
    let client = server.client();
    let start = |number| {
        std::fs::create_dir_all(&place)?;
        let pool = "--cluster-pool-ipv4-cidr=10.0.0.0/8";
        Operator::start(number, &server.kubeconfig(), &place, &[pool])
    };
    // The kinds are its own to register.
    let first = start(0)?;
    wait_for("the kinds are served", || {
        Ok(client.get(NODES).is_ok() && client.get(ENDPOINTS).is_ok())
    })?;
    first.terminate()?;
    let pods = options.cluster.pods;
    let nodes = pods.div_ceil(PODS);
    let bar = progress.bar("making Nodes and pods", pods as usize);
    for nth in 0..nodes {
        let name = format!("node-{nth}");
        let mut all = vec![
            ("/api/v1/nodes".to_owned(), node(&name)),
            (NODES.to_owned(), object("CiliumNode", &name, json!({ "spec": {} }))),
        ];
        let here = (nth * PODS..((nth + 1) * PODS).min(pods)).collect::<Vec<_>>();
        all.extend(here.iter().flat_map(|pod| of_pod(*pod, &name)));
        client.create_all(&all)?;
        bar.inc(here.len() as u64);
    }
    bar.finish();
    let mut operator = start(1)?;
    wait_for("every node has a prefix", || {
        let last = client.get(&format!("{NODES}/node-{}", nodes - 1))?;
        Ok(operator.leads() && !last["spec"]["ipam"]["podCIDRs"].is_null())
    })?;
    thread::sleep(SETTLED_AFTER);
    let usage = operator.process().usage()?;
    let mut resident = Figure::new("operator.rss", Unit::Megabytes).below(60.0);
    resident.push(usage.memory as f64 / 1e6);
    let mut peak = Figure::new("operator.rss_peak", Unit::Megabytes);
    peak.push(usage.memory_peak as f64 / 1e6);
    let left: Value = client.get(&format!("{ENDPOINTS}?limit=1"))?;
    left["items"][0].as_object().context("it removed what lives")?;
    Ok(vec![resident, peak])
}

fn object(kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": "cilium.io/v2", "kind": kind, "metadata": { "name": name },
    });
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
    })
}

/// A pod as clusters have them, and its CiliumEndpoint.
fn of_pod(nth: u32, node: &str) -> [(String, Value); 2] {
    let name = format!("app-{}-7d4b9c5f6-{nth:05}", nth % 500);
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example/team/{name}:1.2.3"),
            "args": ["--listen=:8080", "--log-level=info"],
            "env": [{ "name": "ZONE", "value": "a" }, { "name": "LEVEL", "value": "info" }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } },
        })
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default",
            "labels": { "app": format!("app-{}", nth % 500), "pod-template-hash": "7d4b9c5f6" },
            "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
        },
        "spec": { "nodeName": node, "containers": [container("app"), container("sidecar")] },
    });
    let address = format!("10.{}.{}.{}", nth >> 16 & 0xff, nth >> 8 & 0xff, nth & 0xff);
    let endpoint = object(
        "CiliumEndpoint",
        &name,
        json!({
            "status": {
                "id": nth % 65_000, "state": "ready",
                "identity": {
                    "id": 1000 + nth % 500, "labels": [format!("k8s:app=app-{}", nth % 500)],
                },
                "networking": { "addressing": [{ "ipv4": address }], "node": "192.0.2.1" },
            },
        }),
    );
    [("/api/v1/namespaces/default/pods".to_owned(), pod), (ENDPOINTS.to_owned(), endpoint)]
}
