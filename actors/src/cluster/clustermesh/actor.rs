//! The supervisor of other clusters: one reader for each that is configured, and no cluster number
//! used twice. What a cluster says is its reader's part.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use super::{
    answers::MeshAnswer,
    messages::MeshMsg,
    remote::{RemoteCluster, RemoteMsg, RemotePeers, dismiss},
    view::RemoteView,
};
use crate::{
    cluster::{addresses::AddressesMsg, origins::ConfigError, remote_nodes::RemoteNodesMsg},
    host::{Behaviour, Cx, Lent, Ref, Reply, Retry, Survives, gather},
    model::ClusterId,
    ports::{RemoteClusters, Way},
    services::service_cache::ServicesMsg,
};

/// Capacity of a cluster's mailbox, messages: its services come one update at a time.
const CAPACITY: usize = 65_536;
/// After that long, who could not be told which clusters there are is told again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Longest name of a cluster, as Cilium has it.
const NAME_MAX: usize = 32;

/// Whom the supervisor talks to.
#[derive(Clone)]
pub struct MeshPeers {
    /// Where other clusters are known from.
    pub clusters: Rc<dyn RemoteClusters>,
    /// The owner of addresses.
    pub addresses: Ref<AddressesMsg>,
    /// The owner of nodes.
    pub nodes: Ref<RemoteNodesMsg>,
    /// The owner of services.
    pub services: Ref<ServicesMsg>,
}

/// What it knows of this node's own cluster.
#[derive(Clone, Debug)]
pub struct MeshSettings {
    /// Its name.
    pub cluster: String,
    /// Its number.
    pub id: ClusterId,
    /// Where pauses come from.
    pub seed: u64,
}

/// How clusters are reached, by name.
type Ways = BTreeMap<Arc<str>, Way>;

/// What outlives a crash, as the clusters do.
#[derive(Default)]
struct MeshState {
    following: bool,
    clusters: BTreeMap<Arc<str>, SupervisedCluster>,
    ids: BTreeMap<ClusterId, Arc<str>>,
    /// Clusters that are not configured any more, and may not have heard it.
    leaving: Vec<Ref<RemoteMsg>>,
    /// What is configured now, until all have heard of it.
    news: Option<Ways>,
}

struct SupervisedCluster {
    address: Ref<RemoteMsg>,
    version: u64,
}

/// The supervisor of other clusters.
pub struct Mesh {
    peers: MeshPeers,
    settings: Rc<MeshSettings>,
    memory: Lent<MeshState>,
    /// The time of another look.
    looks: Retry,
}

/// What it shows of itself.
#[derive(Debug, Serialize)]
pub struct MeshStatus {
    clusters: BTreeMap<Arc<str>, Option<ClusterId>>,
}

impl Mesh {
    /// Makes each life of the supervisor.
    pub fn factory(peers: MeshPeers, settings: MeshSettings) -> impl FnMut() -> Self + 'static {
        let (memory, settings) = (Survives::<MeshState>::default(), Rc::new(settings));
        move || Self {
            peers: peers.clone(),
            settings: Rc::clone(&settings),
            memory: memory.lend(),
            looks: Retry::default(),
        }
    }

    fn follow(&mut self, cx: &Cx<'_, Self>) {
        if std::mem::replace(&mut self.memory.following, true) {
            return;
        }
        let (home, host) = (cx.home().clone(), cx.host().clone());
        self.peers.clusters.follow(Box::new(move |ways| {
            host.outside("configured clusters", || home.tell(MeshAnswer::Configured(ways)))
        }));
    }

    fn configured(&mut self, mut ways: BTreeMap<String, Way>) {
        // The directory is the same in all clusters of a mesh.
        ways.remove(&self.settings.cluster);
        ways.retain(|name, _| {
            let is_name = is_name(name);
            if !is_name {
                tracing::error!(
                    name,
                    "configuration of no cluster: its file's name is to be the cluster's, of at \
                     most {NAME_MAX} small letters, digits and dashes"
                );
            }
            is_name
        });
        let ways: Ways = ways.into_iter().map(|(name, way)| (name.into(), way)).collect();
        let memory = &mut *self.memory;
        let MeshState { clusters, ids, leaving, .. } = memory;
        // At once: if one comes back before owners hear of it, some may have let go of what it said.
        let gone: Vec<_> =
            clusters.keys().filter(|name| !ways.contains_key(*name)).cloned().collect();
        for name in gone {
            let Some(child) = clusters.remove(&name) else { continue };
            tracing::info!(cluster = %name, "cluster is not configured any more");
            ids.retain(|_, other| *other != name);
            leaving.push(child.address);
        }
        memory.news = Some(ways);
    }

    /// Does what is still to be done, and looks again if something stays open.
    fn go_on(&mut self, cx: &mut Cx<'_, Self>) {
        let news = self.memory.news.clone();
        // Owners heed no cluster of which they have not heard: it is read after that.
        if let Some(ways) = news
            && self.tell_owners(&ways)
            && self.arrange(cx, &ways)
        {
            self.memory.news = None;
        }
        let memory = &mut *self.memory;
        dismiss(&mut memory.leaving, || RemoteMsg::Stop);
        let is_open = memory.news.is_some() || !memory.leaving.is_empty();
        if is_open {
            self.looks.pause_once(cx, AGAIN_AFTER, MeshAnswer::Again);
        }
    }

    /// Has the owners of addresses, nodes and services know which clusters there are.
    fn tell_owners(&self, ways: &Ways) -> bool {
        let names: BTreeSet<_> = ways.keys().cloned().collect();
        let MeshPeers { addresses, nodes, services, .. } = &self.peers;
        addresses.tell(AddressesMsg::Clusters(names.clone())).is_ok()
            && nodes.tell(RemoteNodesMsg::Clusters(names.clone())).is_ok()
            && services.tell(ServicesMsg::Clusters(names)).is_ok()
    }

    /// Has each cluster read by its way; whether all who read know theirs.
    fn arrange(&mut self, cx: &Cx<'_, Self>, ways: &Ways) -> bool {
        let mut all_know = true;
        for (name, way) in ways {
            match self.memory.clusters.get_mut(name) {
                Some(child) if child.version == way.version => {}
                Some(child) => match child.address.tell(RemoteMsg::Way(way.clone())) {
                    Ok(()) => child.version = way.version,
                    Err(_) => all_know = false,
                },
                None => {
                    let child = self.spawn(cx, name, way.clone());
                    self.memory.clusters.insert(Arc::clone(name), child);
                }
            }
        }
        all_know
    }

    fn spawn(&self, cx: &Cx<'_, Self>, name: &Arc<str>, way: Way) -> SupervisedCluster {
        let version = way.version;
        let peers = RemotePeers {
            mesh: cx.me().clone(),
            addresses: self.peers.addresses.clone(),
            nodes: self.peers.nodes.clone(),
            services: self.peers.services.clone(),
        };
        let remote = RemoteCluster::factory(peers, Arc::clone(name), way, self.settings.seed);
        let address = cx.host().spawn(format!("clustermesh {name}"), CAPACITY, remote);
        SupervisedCluster { address, version }
    }

    fn claim(&mut self, cluster: &Arc<str>, id: ClusterId) -> Result<(), ConfigError> {
        let memory = &mut *self.memory;
        let own = (id == self.settings.id).then_some(self.settings.cluster.as_str());
        let other = memory.ids.get(&id).filter(|other| *other != cluster).map(|other| &**other);
        if let Some(other) = own.or(other) {
            return Err(ConfigError::Taken { id, other: other.to_owned() });
        }
        memory.ids.retain(|_, other| other != cluster);
        if memory.clusters.contains_key(cluster) {
            memory.ids.insert(id, Arc::clone(cluster));
        }
        Ok(())
    }

    fn show(&self, reply: Reply<Vec<RemoteView>>) {
        let memory = &*self.memory;
        let all: Vec<_> = memory.clusters.values().map(|child| child.address.clone()).collect();
        gather(&all, RemoteMsg::Show, |views| reply.send(views.into_iter().flatten().collect()));
    }
}

/// Whether a cluster can be called so.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = [name.bytes().next(), name.bytes().last()];
    name.len() <= NAME_MAX
        && name.bytes().all(is_inner)
        && ends.iter().all(|end| end.is_some_and(|byte| byte != b'-'))
}

impl Behaviour for Mesh {
    type Msg = MeshMsg;
    type Answer = MeshAnswer;
    type Observed = MeshStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.follow(cx);
        self.go_on(cx);
    }

    fn handle(&mut self, msg: MeshMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            MeshMsg::Claim { cluster, id, reply } => reply.send(self.claim(&cluster, id)),
            MeshMsg::Show(reply) => self.show(reply),
        }
        self.go_on(cx);
    }

    fn answered(&mut self, answer: MeshAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            MeshAnswer::Configured(ways) => self.configured(ways),
            MeshAnswer::Again => self.looks.over(),
        }
        self.go_on(cx);
    }

    fn observe(&self) -> MeshStatus {
        let memory = &*self.memory;
        let id = |name| memory.ids.iter().find(|(_, other)| *other == name).map(|(id, _)| *id);
        let clusters = memory.clusters.keys().map(|name| (Arc::clone(name), id(name))).collect();
        MeshStatus { clusters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clusters_are_cilium_s() {
        assert!(["b", "cluster-2", "0"].into_iter().all(is_name));
        let long = "a".repeat(33);
        assert!(!["", "B", "-b", "b-", "b.key", "b_c", &long].into_iter().any(is_name));
    }
}
