//! Real pods in a cluster of a real etcd and a real kube-apiserver.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{
        self, ApiServer, Binaries, Etcd, NODE_NAME, Node,
        objects::{self, NAMESPACE},
    },
    traffic::{Kind, Plan, Stream},
};

use crate::{pod::Pod, runtime::Containerd, wait_until};

/// A node of a cluster, whose agents share etcd with the API server.
struct Cluster {
    node: Node,
    etcd: Etcd,
    server: ApiServer,
}

impl Cluster {
    fn start(program: std::path::PathBuf) -> Result<Self> {
        let mut node = Node::new(Binaries::find()?)?;
        let etcd = Etcd::start(&node.path("etcd"))?;
        etcd.share_with(&mut node)?;
        let server = ApiServer::start(program, &node.path("api"), &etcd)?;
        let client = server.client();
        objects::namespace(client)?;
        objects::node(client, NODE_NAME)?;
        objects::policy(client, &["friend"])?;
        node.set_flag("k8s-kubeconfig-path", Some(&server.kubeconfig().display().to_string()));
        node.start_agent()?;
        node.wait("it writes no CNI configuration", |node| {
            Ok(node.path("cni/05-volvox.conflist").exists())
        })?;
        Ok(Self { node, etcd, server })
    }

    /// A pod that is scheduled here, and that the runtime then runs.
    fn run<'a>(&self, runtime: &'a Containerd, app: &str) -> Result<Pod<'a>> {
        let uid = objects::pod(self.server.client(), app, NODE_NAME)?;
        Pod::run_as(runtime, NAMESPACE, app, &uid)
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.server.client().delete(path)
    }

    /// Another life of the agent, whatever is around it.
    fn restart(&mut self, pods: usize) -> Result<()> {
        self.node.kill_agent()?;
        self.node.start_agent()?;
        self.node.wait_for_ready(pods).map(drop)
    }

    /// What the endpoint of `web` waits for.
    fn why(&self) -> Result<String> {
        let why: Value = self.node.rest().get("/volvox/endpoint/pod-name:shop%2Fweb/why")?;
        Ok(why.to_string())
    }

    /// Waits until the agent has read all that etcd has.
    fn wait_for_etcd(&mut self) -> Result<()> {
        self.node.wait("the agent does not share etcd", |node| {
            let health: Value = node.rest().get("/healthz")?;
            Ok(health["kvstore"]["state"] == "Ok")
        })?;
        Ok(())
    }
}

#[test]
fn every_part_of_a_cluster_may_be_killed_under_its_pods() {
    lab::test("cluster::every_part_of_a_cluster_may_be_killed_under_its_pods", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = Cluster::start(program)?;
        let runtime = Containerd::start(&cluster.node)?;
        let web = cluster.run(&runtime, "web")?;
        let friend = cluster.run(&runtime, "friend")?;
        let stranger = cluster.run(&runtime, "stranger")?;
        let as_said = |friends: bool, strangers: bool| {
            wait_until(friends, &friend, &web)?;
            wait_until(strangers, &stranger, &web)
        };
        as_said(true, false)?;
        let stream = Stream::start(Plan {
            kind: Kind::Udp,
            from: friend.netns.clone(),
            to: web.netns.clone(),
            target: SocketAddr::new(web.address, 5000),
            rate: 500,
        })?;

        // The agent; then etcd and with it the API server; then only that one.
        cluster.node.kill_agent()?;
        as_said(true, false).context("without an agent")?;
        cluster.node.start_agent()?;
        cluster.node.wait_for_ready(3)?;
        as_said(true, false)?;
        cluster.etcd.kill()?;
        cluster.restart(3)?;
        as_said(true, false).context("without etcd")?;
        cluster.etcd.start_again()?;
        cluster.wait_for_etcd()?;
        cluster.server.kill()?;
        cluster.restart(3)?;
        as_said(true, false).context("without the API server")?;
        cluster.node.wait("nobody says what is missing", |node| {
            let why: Value = node.rest().get("/volvox/endpoint/pod-name:shop%2Fweb/why")?;
            Ok(why.to_string().contains("which are not synced"))
        })?;
        let why = cluster.why()?;
        ensure!(why.contains("it keeps the policy of the life before"), "{why}");
        cluster.server.start_again()?;

        // What changes while the agent is dead: the policy, a pod's labels, a pod, the Node.
        cluster.node.kill_agent()?;
        objects::change_policy(cluster.server.client(), &["friend", "guest"])?;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/stranger");
        let labels = json!({ "metadata": { "labels": { "app": "guest" } } });
        cluster.server.client().patch(&path, &labels)?;
        cluster.delete(&format!("/api/v1/nodes/{NODE_NAME}"))?;
        objects::node(cluster.server.client(), NODE_NAME)?;
        cluster.node.start_agent()?;
        cluster.node.wait_for_ready(3)?;
        as_said(true, true).context("as the cluster says now")?;
        cluster.node.kill_agent()?;
        cluster.delete(&path)?;
        stranger.remove()?;
        cluster.node.start_agent()?;
        cluster.node.wait_for_ready(2)?;
        wait_until(true, &friend, &web)?;
        let report = stream.stop()?;
        ensure!(report.is_clean(), "{report:?}");
        Ok(())
    });
}
