use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use super::{
    config::ConfigError,
    remote::{RemoteCluster, RemoteMsg, RemotePeers, RemoteView, dismiss},
};
use crate::{
    addresses::AddressesMsg,
    host::{Behaviour, Cx, Lane, Message, Ref, Reply, gather},
    model::ClusterId,
    nodes::NodesMsg,
    ports::{RemoteClusters, Way},
    services::ServicesMsg,
};

/// Capacity of a cluster's mailbox, messages: its services come one update at a time.
const CAPACITY: usize = 65_536;
/// After that long, who could not be told which clusters there are is told again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Longest name of a cluster, as Cilium has it.
const NAME_MAX: usize = 32;

/// What the supervisor of other clusters can be told.
pub enum MeshMsg {
    /// These are configured now, and no others.
    Configured(BTreeMap<String, Way>),
    /// A cluster says that this is its number.
    Claim {
        /// The cluster.
        cluster: Arc<str>,
        /// Its number.
        id: ClusterId,
        /// Whether it can be.
        reply: Reply<Result<(), ConfigError>>,
    },
    /// Time to tell again which there are.
    Again,
    /// Show how each of them stands.
    Show(Reply<Vec<RemoteView>>),
}

impl Message for MeshMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Configured(_) => "Configured",
            Self::Claim { .. } => "Claim",
            Self::Again => "Again",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: what is configured last counts.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// Whom the supervisor talks to.
#[derive(Clone)]
pub struct MeshPeers {
    /// Where other clusters are known from.
    pub clusters: Rc<dyn RemoteClusters>,
    /// The owner of addresses.
    pub addresses: Ref<AddressesMsg>,
    /// The owner of nodes.
    pub nodes: Ref<NodesMsg>,
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

/// What outlives a crash, as the clusters do.
#[derive(Default)]
struct Kept {
    following: bool,
    clusters: BTreeMap<Arc<str>, Child>,
    ids: BTreeMap<ClusterId, Arc<str>>,
    /// Clusters that are not configured any more, and may not have heard it.
    leaving: Vec<Ref<RemoteMsg>>,
    /// Owners have not been told which clusters there are.
    untold: bool,
    /// Another look is on its way.
    looking: bool,
}

struct Child {
    address: Ref<RemoteMsg>,
    version: u64,
}

/// The supervisor of other clusters.
pub struct Mesh {
    peers: MeshPeers,
    settings: Rc<MeshSettings>,
    kept: Rc<RefCell<Kept>>,
}

/// What it shows of itself.
#[derive(Debug, Serialize)]
pub struct Observed {
    clusters: BTreeMap<Arc<str>, Option<ClusterId>>,
}

impl Mesh {
    /// Makes each life of the supervisor.
    pub fn factory(peers: MeshPeers, settings: MeshSettings) -> impl FnMut() -> Self + 'static {
        let (kept, settings) = (Rc::default(), Rc::new(settings));
        move || Self {
            peers: peers.clone(),
            settings: Rc::clone(&settings),
            kept: Rc::clone(&kept),
        }
    }

    fn follow(&self, cx: &Cx<'_, Self>) {
        if std::mem::replace(&mut self.kept.borrow_mut().following, true) {
            return;
        }
        let (me, host) = (cx.me().clone(), cx.host().clone());
        self.peers.clusters.follow(Box::new(move |ways| {
            host.outside("configured clusters", || me.tell(MeshMsg::Configured(ways)).is_ok())
        }));
    }

    fn configured(&self, cx: &mut Cx<'_, Self>, mut ways: BTreeMap<String, Way>) {
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
        let mut kept = self.kept.borrow_mut();
        let Kept { clusters, ids, leaving, .. } = &mut *kept;
        let gone: Vec<_> =
            clusters.keys().filter(|name| !ways.contains_key(&***name)).cloned().collect();
        for name in gone {
            let Some(child) = clusters.remove(&name) else { continue };
            tracing::info!(cluster = %name, "cluster is not configured any more");
            ids.retain(|_, other| *other != name);
            leaving.push(child.address);
        }
        for (name, way) in ways {
            match clusters.get_mut(&*name) {
                Some(child) if child.version == way.version => {}
                Some(child) => {
                    child.version = way.version;
                    if let Err(refused) = child.address.tell(RemoteMsg::Way(way)) {
                        tracing::error!(cluster = name, %refused, "its old configuration stays");
                    }
                }
                None => {
                    let name: Arc<str> = name.into();
                    let child = self.spawn(cx, &name, way);
                    clusters.insert(name, child);
                }
            }
        }
        kept.untold = true;
    }

    fn spawn(&self, cx: &Cx<'_, Self>, name: &Arc<str>, way: Way) -> Child {
        let version = way.version;
        let peers = RemotePeers {
            mesh: cx.me().clone(),
            addresses: self.peers.addresses.clone(),
            nodes: self.peers.nodes.clone(),
            services: self.peers.services.clone(),
        };
        let remote = RemoteCluster::factory(peers, Arc::clone(name), way, self.settings.seed);
        let address = cx.host().spawn(format!("clustermesh {name}"), CAPACITY, remote);
        Child { address, version }
    }

    /// Has the owners of addresses, nodes and services know which clusters there are.
    fn tell(&self, cx: &mut Cx<'_, Self>) {
        let mut kept = self.kept.borrow_mut();
        dismiss(&mut kept.leaving, || RemoteMsg::Stop);
        if !kept.untold {
            if !kept.leaving.is_empty() && !std::mem::replace(&mut kept.looking, true) {
                cx.after(AGAIN_AFTER, MeshMsg::Again);
            }
            return;
        }
        let names: BTreeSet<_> = kept.clusters.keys().cloned().collect();
        let MeshPeers { addresses, nodes, services, .. } = &self.peers;
        let told = addresses.tell(AddressesMsg::Clusters(names.clone())).is_ok()
            && nodes.tell(NodesMsg::Clusters(names.clone())).is_ok()
            && services.tell(ServicesMsg::Clusters(names)).is_ok();
        kept.untold = !told;
        let open = !told || !kept.leaving.is_empty();
        if open && !std::mem::replace(&mut kept.looking, true) {
            cx.after(AGAIN_AFTER, MeshMsg::Again);
        }
    }

    fn claim(&self, cluster: &Arc<str>, id: ClusterId) -> Result<(), ConfigError> {
        let mut kept = self.kept.borrow_mut();
        let own = (id == self.settings.id).then_some(self.settings.cluster.as_str());
        let other = kept.ids.get(&id).filter(|other| *other != cluster).map(|other| &**other);
        if let Some(other) = own.or(other) {
            return Err(ConfigError::Taken { id, other: other.to_owned() });
        }
        kept.ids.retain(|_, other| other != cluster);
        if kept.clusters.contains_key(cluster) {
            kept.ids.insert(id, Arc::clone(cluster));
        }
        Ok(())
    }

    fn show(&self, reply: Reply<Vec<RemoteView>>) {
        let kept = self.kept.borrow();
        let all: Vec<_> = kept.clusters.values().map(|child| child.address.clone()).collect();
        drop(kept);
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
    type Observed = Observed;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.follow(cx);
        self.kept.borrow_mut().looking = false;
        self.tell(cx);
    }

    fn handle(&mut self, msg: MeshMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            MeshMsg::Configured(ways) => self.configured(cx, ways),
            MeshMsg::Claim { cluster, id, reply } => reply.send(self.claim(&cluster, id)),
            MeshMsg::Again => self.kept.borrow_mut().looking = false,
            MeshMsg::Show(reply) => self.show(reply),
        }
        self.tell(cx);
    }

    fn observe(&self) -> Observed {
        let kept = self.kept.borrow();
        let id = |name| kept.ids.iter().find(|(_, other)| *other == name).map(|(id, _)| *id);
        let clusters = kept.clusters.keys().map(|name| (Arc::clone(name), id(name))).collect();
        Observed { clusters }
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
