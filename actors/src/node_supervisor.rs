//! Everyone: the supervisors of one node, brought to life in one place, for production, tests and
//! the simulator alike.
//!
//! ```text
//!   workloads ─► endpoints ─► endpoint, endpoint, … ─► identities, policy, build queue, ipcache
//!       ▲            ▲                                        ▲
//!   cluster or   REST, CNI                               kernel, disk
//!   manifests
//! ```

mod drift_watch;
mod facts;
mod settings;
mod spawn;
mod spawned;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use serde_json::Value;

use self::{
    spawn::Spawn,
    spawned::{Basis, NodeActors, ServiceActors, SharingActors},
};
use crate::{
    cluster::{
        allocator,
        api_server::{ClusterMsg, ClusterSettings},
        clustermesh::MeshMsg,
        definitions::DefinitionsMsg,
        kvstore::KvSettings,
        publish::{PublishSettings, PublisherMsg},
        remote_nodes::RemoteNodesMsg,
        sharing::{CrdActors, KvActors},
    },
    endpoints::{
        build_queue::BuildQueueMsg,
        ipam::{IpamMsg, Pools},
        supervisor::{EndpointsMsg, Schedule},
        workloads::WorkloadsMsg,
    },
    host::{Host, Ref},
    node::{
        auditor::AuditorMsg,
        conntrack::ConntrackMsg,
        devices::{DevicesMsg, DevicesSettings},
        local_node::{NodeMsg, NodeSettings},
        routes::{RoutesMsg, RoutingMode},
    },
    policy::{
        identity::{IdentityMsg, LabelFilter},
        ipcache::IpcacheMsg,
        rules::{PolicyMsg, PolicySettings},
    },
    ports::{AgentNotices, Cluster, Disk, HealthListeners, Kernel, KvStore, RemoteClusters},
    restore::{Inheritance, RestoreMsg},
    services::{
        health_checks::HealthChecksMsg,
        service_cache::{Balancing, ServicesMsg},
    },
};

/// What the actors ask of the world.
#[derive(Clone)]
pub struct Ports {
    /// BPF maps, programs, interfaces and routes.
    pub kernel: Rc<dyn Kernel>,
    /// The state and library directories.
    pub disk: Rc<dyn Disk>,
    /// The store that the nodes of the cluster share, if there is one.
    pub kvstore: Option<Rc<dyn KvStore>>,
    /// The API server, if a cluster is followed.
    pub cluster: Option<Rc<dyn Cluster>>,
    /// Other clusters, if this one is meshed with them.
    pub clusters: Option<Rc<dyn RemoteClusters>>,
    /// Where load balancers ask for services, if they are answered.
    pub health_listeners: Option<Rc<dyn HealthListeners>>,
    /// Who hears of what happens on the node, if anybody does.
    pub notices: Option<Rc<dyn AgentNotices>>,
}

/// How this node is to be run.
#[derive(Clone, Debug)]
pub struct NodeSupervisorSettings {
    /// Name of the cluster.
    pub cluster: String,
    /// What applies to all policies, address families among it.
    pub policy: PolicySettings,
    /// Addresses that are handed out.
    pub pools: Pools,
    /// Which labels count for an identity.
    pub label_filter: LabelFilter,
    /// Options of a new endpoint, by Cilium's names.
    pub options: BTreeMap<String, i64>,
    /// Builds that run at the same time.
    pub permits: usize,
    /// How often endpoints are looked after, and how much each may queue.
    pub schedule: Schedule,
    /// Time between two collections of connections; `None` adapts it to what is found.
    pub conntrack_interval: Option<Duration>,
    /// How load of services is balanced.
    pub balancing: Balancing,
    /// Whether sockets connect to backends of services themselves.
    pub sockets: bool,
    /// What is this node's own.
    pub node: NodeSettings,
    /// How its devices are used.
    pub devices: DevicesSettings,
    /// How packets of pods reach other nodes.
    pub routing: RoutingMode,
    /// The largest packet that the node's own devices take, bytes.
    pub mtu: u32,
    /// How it takes part in what the nodes of the cluster share.
    pub kvstore: KvSettings,
    /// Who has numbers of identities handed out.
    pub identity_allocation: allocator::Mode,
    /// How the cluster is followed, if one is.
    pub follow: ClusterSettings,
    /// CustomResourceDefinitions that are brought to the cluster, if one is followed.
    pub definitions: Vec<Value>,
    /// What the node says of itself in the cluster, if one is followed; `None` is nothing.
    pub publish: Option<PublishSettings>,
}

/// The supervisors of one node.
#[derive(Clone)]
pub struct NodeSupervisor {
    /// Their host.
    pub host: Host,
    /// The supervisor of endpoints.
    pub endpoints: Ref<EndpointsMsg>,
    /// The owner of addresses.
    pub ipam: Ref<IpamMsg>,
    /// The owner of identities.
    pub identities: Ref<IdentityMsg>,
    /// The owner of the map from addresses to identities.
    pub ipcache: Ref<IpcacheMsg>,
    /// The owner of the policy repository.
    pub policy: Ref<PolicyMsg>,
    /// The owner of build permits.
    pub build_queue: Ref<BuildQueueMsg>,
    /// Who follows the cluster, if that is done.
    pub cluster: Option<Ref<ClusterMsg>>,
    /// Who brings definitions there, if that is done.
    pub definitions: Option<Ref<DefinitionsMsg>>,
    /// Who keeps what this node says of itself there, if that is done.
    pub publisher: Option<Ref<PublisherMsg>>,
    /// The keeper of pods and namespaces.
    pub workloads: Ref<WorkloadsMsg>,
    /// The collector of dead connections.
    pub conntrack: Ref<ConntrackMsg>,
    /// The owner of frontends and backends.
    pub services: Ref<ServicesMsg>,
    /// The owner of health checks, if load balancers are answered.
    pub health_checks: Option<Ref<HealthChecksMsg>>,
    /// The owner of the node's devices.
    pub devices: Ref<DevicesMsg>,
    /// The node itself.
    pub node: Ref<NodeMsg>,
    /// The owner of the ways to other nodes.
    pub routes: Ref<RoutesMsg>,
    /// The owner of the cluster's other nodes, if there is a cluster.
    pub nodes: Option<Ref<RemoteNodesMsg>>,
    /// Who says what should never be.
    pub auditor: Ref<AuditorMsg>,
    /// The supervisor of restoring.
    pub restore: Ref<RestoreMsg>,
    /// Those who share a store with other nodes, if there is one.
    pub kvstore: Option<KvActors>,
    /// Those who share identities and addresses with them through the API server, if that is done.
    pub crd: Option<CrdActors>,
    /// Who reads other clusters, if that is done.
    pub mesh: Option<Ref<MeshMsg>>,
}

impl NodeSupervisor {
    /// Brings all supervisors to life. They do nothing before they are told to.
    pub fn spawn(
        host: &Host,
        ports: &Ports,
        settings: NodeSupervisorSettings,
        inheritance: &Inheritance,
    ) -> Self {
        // In this order: who is spawned first has the first turn, the publisher says first which objects
        // are followed, and who shares takes what the run before knew of others.
        let mut spawn = Spawn::new(host, ports, settings, inheritance);
        let basis = spawn.basis();
        let serving = spawn.serving();
        let own = spawn.own(&basis, &serving);
        let nodes = spawn.nodes(&basis, &own);
        let policy = spawn.policy(&basis);
        let publisher = spawn.publisher();
        let cluster = spawn.cluster(&basis, &serving, &policy, publisher.as_ref(), nodes.as_ref());
        let definitions = spawn.definitions(cluster.as_ref());
        spawn.introduce(&basis, &policy);
        let auditor = spawn.auditor(&basis);
        let endpoints = spawn.endpoints(&basis, &policy, &auditor);
        spawn.hand_down(&basis, &endpoints, publisher.as_ref(), nodes.is_some());
        let sharing = spawn.sharing(&basis, &policy, &endpoints, nodes.as_ref(), cluster.as_ref());
        let mesh = spawn.mesh(&serving, &sharing, nodes.as_ref());
        let restore = spawn.restore(&basis, &own, &policy, &endpoints, &auditor);
        let Basis { ipam, identities, ipcache, build_queue, workloads, conntrack } = basis;
        let ServiceActors { services, health_checks } = serving;
        let NodeActors { devices, routes, node } = own;
        let SharingActors { kvstore, crd } = sharing;
        Self {
            host: host.clone(),
            endpoints,
            ipam,
            identities,
            ipcache,
            policy,
            build_queue,
            cluster,
            definitions,
            publisher,
            workloads,
            conntrack,
            services,
            health_checks,
            devices,
            node,
            routes,
            nodes,
            auditor,
            restore,
            kvstore,
            crd,
            mesh,
        }
    }
}
