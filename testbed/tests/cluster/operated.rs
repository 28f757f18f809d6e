//! Operators with the packaged rights and a real API server: prefixes, what is left over, marks of Nodes, and
//! the death of the one who leads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, ApiClient, ApiServer, Binaries, Etcd, Node, Operator, wait_for};

use crate::rights::account;

/// What is packaged.
const MANIFEST: &str = include_str!("../../../agent/packaging/operator.yaml");
const NODES: &str = "/apis/cilium.io/v2/ciliumnodes";
const IDENTITIES: &str = "/apis/cilium.io/v2/ciliumidentities";
/// The taint of Nodes whose agent is not ready.
const TAINT: &str = "node.cilium.io/agent-not-ready";
const PODS: &str = "/api/v1/namespaces/kube-system/pods";
pub(crate) const ENDPOINTS: &str = "/apis/cilium.io/v2/namespaces/default/ciliumendpoints";
/// So short that a test sees it.
const FLAGS: [&str; 5] = [
    "--cluster-pool-ipv4-cidr=10.60.0.0/16",
    "--cilium-endpoint-gc-interval=2s",
    "--identity-gc-interval=2s",
    "--identity-heartbeat-timeout=4s",
    "--nodes-gc-interval=2s",
];

pub(crate) fn object(kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": "cilium.io/v2", "kind": kind, "metadata": { "name": name },
    });
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn join(client: &ApiClient, name: &str) -> Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    client.create("/api/v1/nodes", &node)?;
    client.create(NODES, &object("CiliumNode", name, json!({ "spec": {} })))
}

/// Which node has which prefix; an error if two have the same one.
fn prefixes(client: &ApiClient) -> Result<BTreeMap<String, String>> {
    let list = client.get(NODES)?;
    let mut prefixes = BTreeMap::new();
    for node in list["items"].as_array().context("no list")? {
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if let Some(cidr) = node["spec"]["ipam"]["podCIDRs"][0].as_str() {
            let other = prefixes.insert(cidr.to_owned(), name.clone());
            ensure!(other.is_none(), "{cidr} is {name}'s and {other:?}'s");
        }
    }
    Ok(prefixes)
}

fn wait_for_prefixes(client: &ApiClient, count: usize) -> Result<BTreeMap<String, String>> {
    wait_for(&format!("{count} nodes have prefixes"), || Ok(prefixes(client)?.len() == count))?;
    prefixes(client)
}

/// A node, and a server at which operators have the packaged rights alone.
pub(crate) fn started(program: PathBuf) -> Result<(Node, Etcd, ApiServer)> {
    let node = Node::new(Binaries::find()?)?;
    let etcd = Etcd::start(&node.path("etcd"))?;
    let server = ApiServer::start_strict(program, &node.path("api"), &etcd)?;
    account(&server, MANIFEST)?;
    Ok((node, etcd, server))
}

/// Starts both, and waits until one leads: that one first.
fn two_operators(server: &ApiServer, place: &Path) -> Result<[Operator; 2]> {
    let start = |number| Operator::start(number, &server.kubeconfig(), place, &FLAGS);
    let (one, other) = (start(0)?, start(1)?);
    wait_for("an operator leads", || Ok(one.leads() || other.leads()))?;
    Ok(if one.leads() { [one, other] } else { [other, one] })
}

#[test]
fn operators_give_prefixes_and_remove_what_is_left_over() {
    lab::test("operated::operators_give_prefixes_and_remove_what_is_left_over", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (node, _etcd, server) = started(program)?;
        let client = server.client();
        let [mut leader, second] = two_operators(&server, &node.path("."))?;

        // They register what is missing themselves.
        wait_for("CiliumNodes are served", || Ok(client.get(NODES).is_ok()))?;
        (1..=4).try_for_each(|number| join(client, &format!("n{number}")))?;
        let before = wait_for_prefixes(client, 4)?;

        // What lives stays; what is left over goes.
        client.create(NODES, &object("CiliumNode", "left", json!({ "spec": {} })))?;
        let used = json!({ "status": { "identity": { "id": 1001 }, "state": "ready" } });
        wait_for("all kinds are served", || {
            Ok(client.get(ENDPOINTS).is_ok() && client.get(IDENTITIES).is_ok())
        })?;
        client.create(ENDPOINTS, &object("CiliumEndpoint", "left", used))?;
        let labels = json!({ "security-labels": { "k8s:app": "web" } });
        for id in ["1001", "1002"] {
            client.create(IDENTITIES, &object("CiliumIdentity", id, labels.clone()))?;
        }
        let gone = |path: String| move || Ok(client.get(&path).is_err());
        wait_for("the CiliumNode without a Node goes", gone(format!("{NODES}/left")))?;
        wait_for("the CiliumEndpoint without a pod goes", gone(format!("{ENDPOINTS}/left")))?;
        wait_for("the unused identity goes", gone(format!("{IDENTITIES}/1002")))?;
        ensure!(prefixes(client)?.len() >= before.len(), "a prefix went");

        // The one that leads stands still, another one takes over, and the first one ends when it goes on.
        let is_other = leader.process().pid();
        leader.process().signal(lab::Signal::STOP)?;
        wait_for("the second one leads", || Ok(second.leads()))?;
        join(client, "n5")?;
        wait_for_prefixes(client, 5)?;
        leader.process().signal(lab::Signal::CONT)?;
        wait_for(&format!("operator {is_other} ends"), || Ok(leader.process().check().is_err()))?;

        // One that is killed gives its Lease nowhere; the next one has it soon, and nothing moved.
        second.kill()?;
        let third = Operator::start(2, &server.kubeconfig(), &node.path("."), &FLAGS)?;
        join(client, "n6")?;
        let after = wait_for_prefixes(client, 6)?;
        let moved = before.iter().find(|(cidr, name)| after.get(*cidr) != Some(*name));
        ensure!(moved.is_none(), "{moved:?} moved: {after:?}");

        // One that is told to end gives it back.
        third.terminate()?;
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        let lease = client.get(&format!("{lease}/cilium-operator-resource-lock"))?;
        ensure!(lease["spec"]["holderIdentity"] == "", "{lease}");
        Ok(())
    });
}

/// Says in a CiliumNode how many addresses of a pool its agent needs.
fn ask_of(client: &ApiClient, name: &str, pool: &str, needed: u64) -> Result<()> {
    let requested = json!([{ "pool": pool, "needed": { "ipv4-addrs": needed } }]);
    let pools = json!({ "spec": { "ipam": { "pools": { "requested": requested } } } });
    client.patch(&format!("{NODES}/{name}"), &pools)
}

/// What a node has of pools, and what its CiliumNode says is wrong.
fn pooled(client: &ApiClient, name: &str) -> Result<(Value, String)> {
    let ipam_of = client.get(&format!("{NODES}/{name}"))?;
    let error = &ipam_of["status"]["ipam"]["operator-status"]["error"];
    let error = error.as_str().unwrap_or_default().to_owned();
    Ok((ipam_of["spec"]["ipam"]["pools"]["allocated"].clone(), error))
}

#[test]
fn operators_give_prefixes_of_pools_and_free_them() {
    lab::test("operated::operators_give_prefixes_of_pools_and_free_them", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (node, _etcd, server) = started(program)?;
        let client = server.client();
        let flags = [
            "--ipam=multi-pool",
            "--auto-create-cilium-pod-ip-pools=default=ipv4-cidrs:10.61.0.0/27;ipv4-mask-size:28",
        ];
        let start = |number| Operator::start(number, &server.kubeconfig(), &node.path("."), &flags);
        let first = start(0)?;
        wait_for("CiliumNodes are served", || Ok(client.get(NODES).is_ok()))?;
        ["n1", "n2"].iter().try_for_each(|name| join(client, name))?;
        ask_of(client, "n1", "default", 20)?;
        let both = json!([{ "pool": "default", "cidrs": ["10.61.0.0/28", "10.61.0.16/28"] }]);
        wait_for("n1 has prefixes", || Ok(pooled(client, "n1")?.0 == both))?;
        ask_of(client, "n2", "default", 8)?;
        wait_for("n2 is told that the pool is used up", || {
            Ok(pooled(client, "n2")?.1.contains("CiliumPodIPPool default"))
        })?;

        // The next one knows what is given, and what an agent gives back is another node's then.
        first.kill()?;
        let second = start(1)?;
        wait_for("the next one leads", || Ok(second.leads()))?;
        let less = json!([{ "pool": "default", "cidrs": ["10.61.0.0/28"] }]);
        ask_of(client, "n1", "default", 8)?;
        let left = json!({ "spec": { "ipam": { "pools": { "allocated": less } } } });
        client.patch(&format!("{NODES}/n1"), &left)?;
        let other = json!([{ "pool": "default", "cidrs": ["10.61.0.16/28"] }]);
        wait_for("n2 has what n1 gave back", || {
            Ok(pooled(client, "n2")? == (other.clone(), String::new()))
        })?;
        ensure!(pooled(client, "n1")?.0 == less, "{:?}", pooled(client, "n1")?);
        Ok(())
    });
}

/// The pod of an agent on that node. It is pending until somebody says that it is ready.
fn agent(client: &ApiClient, name: &str, node: &str) -> Result<()> {
    let labels = json!({ "k8s-app": "volvox" });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels },
        "spec": { "nodeName": node, "containers": [{ "name": "agent", "image": "agent" }] },
    });
    client.create(PODS, &pod)
}

fn set_ready(client: &ApiClient, name: &str, ready: bool) -> Result<()> {
    let status = if ready { "True" } else { "False" };
    let conditions = json!([{ "type": "Ready", "status": status }]);
    client.patch(
        &format!("{PODS}/{name}/status"),
        &json!({ "status": { "phase": "Running", "conditions": conditions } }),
    )
}

/// Keys of a Node's taints, and why its network is as it is.
fn marks(client: &ApiClient, name: &str) -> Result<(Vec<String>, String)> {
    let node = client.get(&format!("/api/v1/nodes/{name}"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let network = conditions.find(|it| it["type"] == "NetworkUnavailable");
    let reason = network.map(|it| text(&it["reason"])).unwrap_or_default();
    // The server adds taints of its own to Nodes that are new.
    let keys = taints.map(|it| text(&it["key"])).filter(|it| !it.starts_with("node.kubernetes.io"));
    Ok((keys.collect(), reason))
}

#[test]
fn operators_mark_nodes_by_the_agents_that_run_there() {
    lab::test("operated::operators_mark_nodes_by_the_agents_that_run_there", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let (node, _etcd, server) = started(program)?;
        let client = server.client();
        for (name, taints) in [("n1", json!([TAINT, "theirs"])), ("n2", json!([]))] {
            let taints = taints.as_array().context("no taints")?.iter();
            let taints = taints.map(|key| json!({ "key": key, "effect": "NoSchedule" }));
            let spec = json!({ "taints": taints.collect::<Vec<_>>() });
            let metadata = json!({ "name": name });
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec,
            });
            client.create("/api/v1/nodes", &node)?;
        }
        agent(client, "a1", "n1")?;
        agent(client, "a2", "n2")?;
        let flags = ["--set-cilium-node-taints=true"];
        let operator = Operator::start(0, &server.kubeconfig(), &node.path("."), &flags)?;
        let is = |name: &'static str, taints: &'static [&'static str], reason: &'static str| {
            move || -> Result<bool> {
                Ok(marks(client, name)? == (texts(taints), reason.to_owned()))
            }
        };
        wait_for("a Node whose agent is not ready is tainted", is("n2", &[TAINT], ""))?;
        ensure!(marks(client, "n1")? == (texts(&[TAINT, "theirs"]), String::new()), "too early");
        set_ready(client, "a1", true)?;
        set_ready(client, "a2", true)?;
        wait_for("the taint goes, and another one stays", is("n1", &["theirs"], "CiliumIsUp"))?;
        wait_for("the taint of the other one goes", is("n2", &[], "CiliumIsUp"))?;

        // Killed, it leaves what it wrote; the next one goes on.
        operator.kill()?;
        set_ready(client, "a1", false)?;
        let operator = Operator::start(1, &server.kubeconfig(), &node.path("."), &flags)?;
        wait_for("it is tainted again", is("n1", &["theirs", TAINT], "CiliumIsUp"))?;
        set_ready(client, "a1", true)?;
        wait_for("that goes, too", is("n1", &["theirs"], "CiliumIsUp"))?;
        operator.terminate()
    });
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}
