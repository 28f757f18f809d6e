//! A node in a cluster of a real etcd and a real kube-apiserver.

mod definitions;
mod health_checks;
mod host_ports;
mod identities;
mod ingresses;
mod installed;
mod kube_proxy;
mod nodes;
mod operated;
mod operated_store;
mod pooled;
mod prefixes;
mod published;
mod rights;
mod scraped;
mod services;
mod tiers;
mod typed;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::{
    lab::{
        self, ApiServer, Binaries, Etcd, NODE_NAME, Netns, Node, Pod,
        objects::{self, CILIUM_POLICIES, POLICIES, denial},
    },
    traffic::{Kind, Plan, Stream},
};

/// Where the pods' probes arrive.
const PORT: u16 = 5000;

/// A node that follows a cluster in which `web` may be reached by `friend`, but not by `stranger`.
struct Cluster {
    etcd: Etcd,
    server: ApiServer,
    node: Node,
    web: Pod,
    friend: Pod,
    stranger: Pod,
}

impl Cluster {
    fn start(program: PathBuf) -> Result<Self> {
        Self::start_with(program, |_, _| Ok(()))
    }

    /// The same, with more in the cluster, or other flags, before the agent starts.
    fn start_with(
        program: PathBuf,
        prepare: impl FnOnce(&ApiServer, &mut Node) -> Result<()>,
    ) -> Result<Self> {
        Self::start_by(ApiServer::start, program, prepare)
    }

    /// The same with a server that is started that way.
    fn start_by(
        start: fn(PathBuf, &Path, &Etcd) -> Result<ApiServer>,
        program: PathBuf,
        prepare: impl FnOnce(&ApiServer, &mut Node) -> Result<()>,
    ) -> Result<Self> {
        let mut node = Node::new(Binaries::find()?)?;
        let etcd = Etcd::start(&node.path("etcd"))?;
        let server = start(program, &node.path("api"), &etcd)?;
        prepare(&server, &mut node)?;
        objects::namespace(server.client())?;
        objects::policy(server.client(), &["friend"])?;
        let kubeconfig = server.kubeconfig().display().to_string();
        node.set_flag("k8s-kubeconfig-path", Some(&kubeconfig));
        node.start_agent()?;
        let pod = |app: &str| -> Result<Pod> {
            let uid = objects::pod(server.client(), app, NODE_NAME)?;
            Pod::of_cluster(&node, &format!("shop/{app}"), &uid)
        };
        let (web, friend, stranger) = (pod("web")?, pod("friend")?, pod("stranger")?);
        Ok(Self { etcd, server, node, web, friend, stranger })
    }

    fn friend_and_stranger_reach(&mut self, expected: [bool; 2]) -> Result<()> {
        let [web, friend, stranger] = [&self.web, &self.friend, &self.stranger];
        self.node
            .wait(&format!("reaching web is not {expected:?}"), |_| {
                Ok([reaches(friend, web)?, reaches(stranger, web)?] == expected)
            })
            .map(drop)
    }

    /// Restarts the agent, whatever is around it.
    fn restart(&mut self) -> Result<()> {
        self.node.kill_agent()?;
        self.start_again()
    }

    fn start_again(&mut self) -> Result<()> {
        self.node.start_agent()?;
        self.node.wait_for_ready(3).map(drop)
    }

    /// What the endpoint of `web` waits for, in words.
    fn why(&self) -> Result<String> {
        let why: Value = self.node.rest().get("/volvox/endpoint/pod-name:shop%2Fweb/why")?;
        let chain = why["chain"].as_array().context("no chain")?;
        Ok(chain.iter().map(|wait| format!("{}\n", wait["why"])).collect())
    }
}

/// Whether one of a few datagrams gets through.
fn reaches(from: &Pod, to: &Pod) -> Result<bool> {
    arrives(&from.netns, &to.netns, to.address(false)?)
}

fn arrives(from: &Netns, to: &Netns, at: IpAddr) -> Result<bool> {
    let any = Ipv4Addr::UNSPECIFIED;
    let receiver = to.run(|| Ok(UdpSocket::bind((any, PORT))?))?;
    receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
    let sender = from.run(|| Ok(UdpSocket::bind((any, 0))?))?;
    for _ in 0..5 {
        let _ = sender.send_to(b"?", (at, PORT));
    }
    Ok(receiver.recv(&mut [0]).is_ok())
}

#[test]
fn what_the_cluster_says_is_enforced() {
    lab::test("what_the_cluster_says_is_enforced", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = Cluster::start(program)?;
        cluster.friend_and_stranger_reach([true, false])?;
        objects::change_policy(cluster.server.client(), &["stranger"])?;
        cluster.friend_and_stranger_reach([false, true])?;
        // Labels of a pod that is there already.
        let path = "/api/v1/namespaces/shop/pods/friend";
        let labels = json!({ "metadata": { "labels": { "app": "stranger" } } });
        cluster.server.client().patch(path, &labels)?;
        cluster.friend_and_stranger_reach([true, true])?;
        let labels = json!({ "metadata": { "labels": { "app": "friend" } } });
        cluster.server.client().patch(path, &labels)?;
        cluster.friend_and_stranger_reach([false, true])?;
        cluster.server.client().delete(&format!("{POLICIES}/web"))?;
        cluster.friend_and_stranger_reach([true, true])?;

        // Resources that were not defined when the agent began.
        let client = cluster.server.client();
        objects::define(client, "ciliumnetworkpolicies", "CiliumNetworkPolicy", "Namespaced")?;
        cluster.node.wait("the definition is not served", |_| {
            Ok(cluster.server.client().get(CILIUM_POLICIES).is_ok())
        })?;
        cluster.server.client().create(CILIUM_POLICIES, &denial("friend"))?;
        cluster.friend_and_stranger_reach([false, true])?;
        cluster.server.client().delete(&format!("{CILIUM_POLICIES}/denied"))?;
        cluster.friend_and_stranger_reach([true, true])
    });
}

#[test]
fn a_restart_needs_no_api_server() {
    lab::test("a_restart_needs_no_api_server", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let mut cluster = Cluster::start(program)?;
        cluster.friend_and_stranger_reach([true, false])?;
        let stream = Stream::start(Plan {
            kind: Kind::Udp,
            from: cluster.friend.netns.clone(),
            to: cluster.web.netns.clone(),
            target: SocketAddr::new(cluster.web.address(false)?, PORT + 1),
            rate: 200,
        })?;

        // It holds its connections and answers nothing.
        cluster.server.hang()?;
        cluster.restart()?;
        let why = cluster.why()?;
        let words = "it keeps the policy of the life before";
        ensure!(why.contains(words) && why.contains("a list of networkpolicies"), "{why}");
        cluster.friend_and_stranger_reach([true, false])?;

        // It is gone, and what it keeps its objects in.
        cluster.server.kill()?;
        cluster.etcd.kill()?;
        cluster.restart()?;
        let Cluster { node, web, .. } = &mut cluster;
        let name = format!("/volvox/endpoint/pod-name:shop%2F{}/why", web.name);
        node.wait("nobody says why", |node| {
            let why: Value = node.rest().get(&name)?;
            let why = why.to_string();
            Ok(why.contains("networkpolicies, which are not synced") && why.contains("refused"))
        })?;
        cluster.friend_and_stranger_reach([true, false])?;

        // It is back, while the agent is down, and says something else.
        cluster.node.kill_agent()?;
        cluster.etcd.start_again()?;
        cluster.server.start_again()?;
        objects::change_policy(cluster.server.client(), &["friend", "stranger"])?;
        cluster.etcd.compact()?;
        cluster.node.start_agent()?;
        cluster.node.wait_for_ready(3)?;
        cluster.friend_and_stranger_reach([true, true])?;

        // It goes and comes while the agent runs, with a history that is not what it was.
        cluster.server.kill()?;
        cluster.server.start_again()?;
        objects::change_policy(cluster.server.client(), &["friend"])?;
        cluster.etcd.compact()?;
        cluster.friend_and_stranger_reach([true, false])?;
        cluster.restart()?;
        cluster.friend_and_stranger_reach([true, false])?;
        let report = stream.stop()?;
        ensure!(report.is_clean(), "{report:?}");
        Ok(())
    });
}
