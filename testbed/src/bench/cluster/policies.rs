//! A node in a cluster: its pods and all policies come from an API server, the pods of other nodes
//! from etcd.

use std::{collections::BTreeSet, net::Ipv4Addr, path::PathBuf, thread, time::Duration};

use anyhow::Result;
use serde_json::Value;

use super::{
    neighbours::{FIRST_IDENTITY, address, in_force},
    objects::{App, namespaces, prober},
};
use crate::{
    bench::Options,
    fleet::Fleet,
    lab::{ApiServer, Binaries, Etcd, Metrics, Node, Pair, Store, Through, other_node},
    progress::Progress,
};

/// Between two looks at an agent that has much to do: looking costs it time.
const LOOK: Duration = Duration::from_millis(10);

/// The number of who probes from another node.
const PROBER: u32 = FIRST_IDENTITY - 1;

/// A cluster without policies, and a node of it whose endpoints are ready.
pub(super) struct Cluster {
    pub(super) fleet: Fleet,
    pub(super) server: ApiServer,
    pub(super) store: Store,
    _etcd: Etcd,
    /// How many there are.
    pub(super) apps: usize,
    pods: u32,
}

impl Cluster {
    pub(super) fn launch(program: PathBuf, options: &Options, progress: &Progress) -> Result<Self> {
        let (apps, pods) = (options.cluster.policies as usize, options.cluster.pods);
        let local = usize::from(options.endpoints);
        let mut node = Node::new(Binaries::find()?)?;
        options.add_flags(&mut node);
        let etcd = Etcd::start(&node.path("etcd"))?;
        etcd.share_with(&mut node)?;
        let mut store = etcd.connect()?;
        store.put_many(&announcements(apps, pods)?)?;
        let server = ApiServer::start(program, &node.path("api"), &etcd)?;
        let app = |number: usize| App(number * apps / local);
        let all = (0..local).map(|number| app(number).pod(&pod(number)));
        server.client().create_all(&namespaces(apps).chain(all).collect::<Vec<_>>())?;
        let kubeconfig = server.kubeconfig().display().to_string();
        node.set_flag("k8s-kubeconfig-path", Some(&kubeconfig));
        node.start_agent()?;
        node.wait("addresses are not in force", |node| Ok(in_force(node)? == pods))?;
        let fleet = Fleet::populate(node, local, Through::Rest, progress, |number| {
            let app = app(number);
            (format!("{}/{}", app.namespace(), pod(number)), app.name())
        })?;
        Ok(Self { fleet, server, store, _etcd: etcd, apps, pods })
    }

    /// The app of a pod of this node.
    pub(super) fn app(&self, pod: usize) -> App {
        App(pod * self.apps / self.fleet.pods.len())
    }

    /// Who probes has this address on another node.
    pub(super) fn announce_prober(&mut self, address: Ipv4Addr) -> Result<()> {
        let pair = other_node::address(address, PROBER, "probe", "prober");
        self.store.put(other_node::identity(PROBER, &prober()).iter().chain([&pair]))?;
        self.pods += 1;
        Ok(())
    }

    /// Waits until the agent knows all that there is and has nothing left to do; since when it was
    /// started.
    pub(super) fn wait_until_converged(&mut self) -> Result<Duration> {
        let (ready, pods) = (self.fleet.pods.len(), self.pods);
        let took = self.fleet.node.wait("not all is known and in force", |node| {
            thread::sleep(LOOK);
            Ok(is_converged(node, pods).unwrap_or_default())
        })?;
        self.fleet.node.wait_for_ready(ready)?;
        Ok(took)
    }
}

/// Whether all sources of the agent are synced, and nothing is left of the restart.
fn is_converged(node: &Node, addresses: u32) -> Result<bool> {
    let health: Value = node.rest().get("/healthz")?;
    if health["kubernetes"]["state"] != "Ok" {
        return Ok(false);
    }
    let metrics = Metrics::scrape(node.rest())?;
    let all = |name| metrics.family(name).map(|(_, value)| value).collect::<Vec<_>>();
    Ok(all("cilium_kvstore_initial_sync_completed") == [1.0; 2]
        && all("volvox_restore_finished") == [1.0]
        && in_force(node)? == addresses)
}

fn pod(number: usize) -> String {
    format!("local-{number}")
}

/// What other nodes announce: each app, and its pods.
fn announcements(apps: usize, pods: u32) -> Result<Vec<Pair>> {
    let apps = u32::try_from(apps)?;
    let labels = |app: u32| App(app as usize).labels();
    let known: BTreeSet<u32> = (0..apps).collect();
    let identities =
        known.iter().flat_map(|&app| other_node::identity(FIRST_IDENTITY + app, &labels(app)));
    let addresses = (0..pods).map(|nth| {
        let app = nth % apps;
        let namespace = App(app as usize).namespace();
        other_node::address(address(nth), FIRST_IDENTITY + app, &namespace, &format!("pod-{nth}"))
    });
    Ok(identities.chain(addresses).collect())
}
