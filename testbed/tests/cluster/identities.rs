//! Identities and addresses that nodes share as objects of the API server.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{
    self, ApiClient, ApiServer, Binaries, Etcd, Inventory, NODE_NAME, Node, Pod,
};

use crate::{Cluster, PORT, objects};

const IDENTITIES: &str = "/apis/cilium.io/v2/ciliumidentities";
const ENDPOINTS: &str = "/apis/cilium.io/v2/namespaces/shop/ciliumendpoints";
/// Set by Cilium's operator on an identity that it is about to remove.
const HEARTBEAT: &str = "io.cilium.heartbeat";

fn define_identities(client: &ApiClient) -> Result<()> {
    objects::define(client, "ciliumidentities", "CiliumIdentity", "Cluster")
}

/// Waits until the server serves what it was told of, so that others can write it.
fn wait_until_served(client: &ApiClient, paths: &[&str]) -> Result<()> {
    lab::wait_for("Cilium's kinds are served", || {
        Ok(paths.iter().all(|path| client.get(path).is_ok()))
    })
}

/// Labels that a pod of that app has in an identity.
fn labels(app: &str) -> Value {
    json!({
        "k8s:app": app,
        "k8s:io.cilium.k8s.namespace.labels.kubernetes.io/metadata.name": "shop",
        "k8s:io.cilium.k8s.policy.cluster": "default",
        "k8s:io.cilium.k8s.policy.serviceaccount": "default",
        "k8s:io.kubernetes.pod.namespace": "shop",
    })
}

/// Another node numbers labels.
fn identity(client: &ApiClient, name: &str, labels: Value) -> Result<()> {
    let object = json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumIdentity",
        "metadata": { "name": name }, "security-labels": labels,
    });
    client.create(IDENTITIES, &object)
}

/// Another node has a pod with that address.
fn endpoint(client: &ApiClient, name: &str, ip: &str, id: u64) -> Result<()> {
    let networking = json!({ "addressing": [{ "ipv4": ip }], "node": "192.0.2.7" });
    let object = json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumEndpoint",
        "metadata": { "name": name, "namespace": "shop" },
        "status": { "id": 7, "identity": { "id": id }, "networking": networking },
    });
    client.create(ENDPOINTS, &object)
}

/// The identity of a pod of this node.
fn identity_of(node: &Node, pod: &str) -> Result<u64> {
    let endpoint: Value = node.rest().get(&format!("/endpoint/pod-name:shop%2F{pod}"))?;
    endpoint["status"]["identity"]["id"].as_u64().context("the pod has an identity")
}

/// A cluster in which another node's client has number 40000 and the address 10.99.0.1, and in which
/// there are objects that nobody can read.
fn start(program: std::path::PathBuf) -> Result<Cluster> {
    let cluster = Cluster::start_with(program, |server, node| {
        let client = server.client();
        define_identities(client)?;
        objects::define(client, "ciliumendpoints", "CiliumEndpoint", "Namespaced")?;
        wait_until_served(client, &[IDENTITIES, ENDPOINTS])?;
        identity(client, "40000", labels("client"))?;
        identity(client, "40001", json!({}))?;
        identity(client, "70000", labels("client"))?;
        identity(client, "client", labels("client"))?;
        node.set_flag("identity-allocation-mode", Some("crd"));
        Ok(())
    })?;
    // Their namespace is there by now.
    let client = cluster.server.client();
    endpoint(client, "torn", "10.99.0", 40_000)?;
    endpoint(client, "spoilt", "10.99.0.9", 40_001)?;
    endpoint(client, "client", "10.99.0.1", 40_000)?;
    Ok(cluster)
}

impl Cluster {
    fn wait_for_identity(&mut self, id: u64, labels: &Value) -> Result<()> {
        let Self { node, server, .. } = self;
        node.wait(&format!("CiliumIdentity {id} is not as it should be"), |_| {
            let object = server.client().get(&format!("{IDENTITIES}/{id}")).unwrap_or_default();
            let marked = object["metadata"]["annotations"].get(HEARTBEAT).is_some();
            Ok(object["security-labels"] == *labels && !marked)
        })
        .map(drop)
    }
}

#[test]
fn nodes_share_identities_as_objects_and_a_restart_needs_none_of_them() {
    let name = "identities::nodes_share_identities_as_objects_and_a_restart_needs_none_of_them";
    lab::test(name, || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = start(program)?;
        cluster.friend_and_stranger_reach([true, false])?;
        let mut ids = Vec::new();
        for app in ["web", "friend", "stranger"] {
            let id = identity_of(&cluster.node, app)?;
            cluster.wait_for_identity(id, &labels(app))?;
            ids.push(id);
        }
        // What others say; of what cannot be read the rest hears nothing but its name.
        cluster.node.wait_until_mapped("10.99.0.1/32", Some(40_000))?;
        ensure!(cluster.node.mapped("10.99.0.9/32")?.is_none(), "an identity without labels");
        let log = std::fs::read_to_string(cluster.node.log())?;
        for name in ["40001", "70000", "client", "shop/torn"] {
            let named =
                |line: &str| line.contains("WARN") && line.contains(&format!("name={name}"));
            let quoted = |line: &str| line.contains(&format!("name=\"{name}\""));
            ensure!(log.lines().any(|it| named(it) || quoted(it)), "nobody names {name}: {log}");
        }
        objects::change_policy(cluster.server.client(), &["friend", "client"])?;
        cluster.node.wait("web does not let the other node's client in", |node| {
            Ok(node.lets_in()?.contains(&40_000))
        })?;

        // Somebody removes an identity that is in use, and the operator is about to.
        let web = format!("{IDENTITIES}/{}", ids[0]);
        cluster.server.client().delete(&web)?;
        cluster.wait_for_identity(ids[0], &labels("web"))?;
        let mark = json!({ "metadata": { "annotations": { HEARTBEAT: "2026-01-01T00:00:00Z" } } });
        cluster.server.client().patch(&web, &mark)?;
        cluster.wait_for_identity(ids[0], &labels("web"))?;

        // Another life of the agent, without the server.
        let before = Inventory::read(&cluster.node)?;
        cluster.node.kill_agent()?;
        cluster.server.kill()?;
        cluster.node.start_agent()?;
        cluster.node.wait_for_ready(3)?;
        cluster.friend_and_stranger_reach([true, false])?;
        for (app, id) in ["web", "friend", "stranger"].into_iter().zip(&ids) {
            ensure!(identity_of(&cluster.node, app)? == *id, "{app} has another number");
        }
        ensure!(cluster.node.mapped("10.99.0.1/32")? == Some(40_000), "an address is forgotten");
        ensure!(cluster.node.lets_in()?.contains(&40_000), "an identity is forgotten");
        ensure!(before.moved(&Inventory::read(&cluster.node)?) == 0, "numbers moved");
        // It comes back and says what changed.
        cluster.server.start_again()?;
        let client = cluster.server.client();
        client.delete(&format!("{ENDPOINTS}/client"))?;
        endpoint(client, "late", "10.99.0.2", 40_000)?;
        cluster.node.wait_until_mapped("10.99.0.2/32", Some(40_000))?;
        cluster.node.wait_until_mapped("10.99.0.1/32", None)?;
        cluster.friend_and_stranger_reach([true, false])
    });
}

#[test]
fn a_definition_that_is_missing_is_waited_for() {
    lab::test("identities::a_definition_that_is_missing_is_waited_for", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut node = Node::new(Binaries::find()?)?;
        let etcd = Etcd::start(&node.path("etcd"))?;
        let server = ApiServer::start(program, &node.path("api"), &etcd)?;
        objects::namespace(server.client())?;
        let kubeconfig = server.kubeconfig().display().to_string();
        node.set_flag("k8s-kubeconfig-path", Some(&kubeconfig));
        node.set_flag("identity-allocation-mode", Some("crd"));
        node.start_agent()?;
        node.wait("nobody says what is missing", |node| {
            let why = node.volvox("why -o wide")?;
            Ok(why.contains("CustomResourceDefinition ciliumidentities.cilium.io to be registered"))
        })?;
        let status = node.rest().get::<Value>("/healthz")?.to_string();
        ensure!(status.contains("ciliumidentities are not defined"), "{status}");
        define_identities(server.client())?;
        wait_until_served(server.client(), &[IDENTITIES])?;
        let uid = objects::pod(server.client(), "web", NODE_NAME)?;
        let _web = Pod::of_cluster(&node, "shop/web", &uid)?;
        node.wait_for_ready(1)?;
        let id = identity_of(&node, "web")?;
        let object = server.client().get(&format!("{IDENTITIES}/{id}"))?;
        ensure!(object["security-labels"] == labels("web"), "{object}");
        Ok(())
    });
}

/// Pods whose labels numbers are given.
const APPS: [&str; 3] = ["web", "friend", "stranger"];

/// Sends a datagram each few milliseconds through many sockets, so that many connections are judged,
/// until it is told to stop. How many of how many arrived.
fn probe(from: &Pod, to: &Pod, stop: &AtomicBool) -> Result<(usize, usize)> {
    let any = Ipv4Addr::UNSPECIFIED;
    let at = SocketAddr::new(to.address(false)?, PORT);
    let receiver = to.netns.run(|| Ok(UdpSocket::bind((any, PORT))?))?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    let open = || (0..256).map(|_| Ok(UdpSocket::bind((any, 0))?)).collect::<Result<Vec<_>>>();
    let senders = from.netns.run(open)?;
    thread::scope(|scope| {
        let arrived = scope.spawn(|| {
            let mut arrived = 0_usize;
            while receiver.recv(&mut [0]).is_ok() {
                arrived += 1;
            }
            arrived
        });
        let mut sent = 0_usize;
        for sender in senders.iter().cycle() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            sent += usize::from(sender.send_to(b"?", at).is_ok());
            thread::sleep(Duration::from_millis(3));
        }
        let arrived = arrived.join().ok().context("the receiver panicked")?;
        Ok((arrived, sent))
    })
}

impl Cluster {
    /// Changes flags and kills the agent; meanwhile `friend` reaches `web` with each datagram, and in
    /// the end every endpoint is ready with the number that is desired.
    fn renumber(&mut self, change: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let stop = AtomicBool::new(false);
        let (web, friend) = (self.web.clone(), self.friend.clone());
        thread::scope(|scope| {
            let probing = scope.spawn(|| probe(&friend, &web, &stop));
            let changed = change(self);
            // What arrives last is seen, too.
            thread::sleep(Duration::from_secs(2));
            stop.store(true, Ordering::Relaxed);
            let (arrived, sent) = probing.join().ok().context("the probe panicked")??;
            changed?;
            ensure!(sent > 100 && arrived == sent, "{arrived} of {sent} datagrams arrived");
            Ok(())
        })?;
        self.friend_and_stranger_reach([true, false])
    }

    fn ids(&self) -> Result<Vec<u64>> {
        APPS.iter().map(|app| identity_of(&self.node, app)).collect()
    }

    fn wait_for_ids(&mut self, desired: &[u64]) -> Result<()> {
        let desired = desired.to_vec();
        self.node
            .wait(&format!("the pods do not get the numbers {desired:?}"), |node| {
                let ids: Result<Vec<_>> = APPS.iter().map(|app| identity_of(node, app)).collect();
                Ok(ids? == desired)
            })
            .map(drop)?;
        self.node.wait_for_ready(3).map(drop)
    }
}

/// From the node's own numbers to objects, to etcd, and back. Each time the numbers that the pods have
/// are each other's there.
#[test]
fn identities_change_their_numbering_under_traffic() {
    lab::test("identities::identities_change_their_numbering_under_traffic", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = Cluster::start_with(program, |server, _| {
            define_identities(server.client())?;
            objects::define(server.client(), "ciliumendpoints", "CiliumEndpoint", "Namespaced")?;
            wait_until_served(server.client(), &[IDENTITIES, ENDPOINTS])
        })?;
        cluster.node.wait_for_ready(3)?;
        cluster.friend_and_stranger_reach([true, false])?;

        let mut desired = cluster.ids()?;
        desired.rotate_left(1);
        for (app, id) in APPS.iter().zip(&desired) {
            identity(cluster.server.client(), &id.to_string(), labels(app))?;
        }
        cluster.renumber(|cluster| {
            cluster.node.set_flag("identity-allocation-mode", Some("crd"));
            cluster.restart()?;
            cluster.wait_for_ids(&desired)
        })?;

        desired.rotate_left(1);
        let pairs: Vec<(String, String)> = APPS
            .iter()
            .zip(&desired)
            .map(|(app, id)| (format!("cilium/state/identities/v1/id/{id}"), stored(app)))
            .collect();
        cluster.etcd.connect()?.put(&pairs)?;
        cluster.renumber(|cluster| {
            cluster.node.set_flag("identity-allocation-mode", None);
            cluster.etcd.share_with(&mut cluster.node)?;
            cluster.restart()?;
            cluster.wait_for_ids(&desired)
        })?;

        // The numbers of before are its own from then on.
        cluster.renumber(|cluster| {
            cluster.node.set_flag("kvstore", None).set_flag("kvstore-opt", None);
            cluster.restart()?;
            cluster.wait_for_ids(&desired)
        })
    });
}

/// Labels of a pod of that app, as the store has them.
fn stored(app: &str) -> String {
    let labels = labels(app);
    let all = labels.as_object().into_iter().flatten();
    all.map(|(key, value)| format!("{key}={};", value.as_str().unwrap_or_default())).collect()
}
