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

pub use self::settings::{NodeSupervisorSettings, Ports, ServingChoices};
use self::{
    spawn::Spawn,
    spawned::{Basis, NodeActors, ServiceActors, SharingActors},
};
use crate::{
    cluster::{
        api_server::ClusterMsg,
        clustermesh::MeshMsg,
        container_runtime::RuntimeFollowerMsg,
        definitions::DefinitionsMsg,
        health_endpoint::HealthEndpointMsg,
        own_prefixes::OwnPrefixesMsg,
        publish::PublisherMsg,
        reachability::ReachabilityMsg,
        remote_nodes::RemoteNodesMsg,
        sharing::{CrdActors, KvActors},
    },
    endpoints::{
        build_queue::BuildQueueMsg, ipam::IpamMsg, supervisor::EndpointsMsg,
        workloads::WorkloadsMsg,
    },
    host::{Host, Ref},
    node::{
        auditor::AuditorMsg, conntrack::ConntrackMsg, devices::DevicesMsg, local_node::NodeMsg,
        routes::RoutesMsg,
    },
    policy::{identity::IdentityMsg, ipcache::IpcacheMsg, rules::PolicyMsg},
    restore::{Inheritance, RestoreMsg},
    services::{health_checks::HealthChecksMsg, service_cache::ServicesMsg},
};

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
    /// The owner of this node's prefixes of pools, if it has several.
    pub own_prefixes: Option<Ref<OwnPrefixesMsg>>,
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
    /// Who follows the container runtime, if that is done.
    pub container_runtime: Option<Ref<RuntimeFollowerMsg>>,
    /// The owner of the health endpoint, if there is to be one.
    pub health_endpoint: Option<Ref<HealthEndpointMsg>>,
    /// Who probes nodes, if that is done.
    pub reachability: Option<Ref<ReachabilityMsg>>,
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
        let own_prefixes = spawn.own_prefixes(&basis, &own, nodes.as_ref());
        let cluster = spawn.cluster(&basis, &serving, &policy, publisher.as_ref(), nodes.as_ref());
        let definitions = spawn.definitions(cluster.as_ref());
        spawn.introduce(&basis, &policy);
        let auditor = spawn.auditor(&basis);
        let endpoints = spawn.endpoints(&basis, &policy, &auditor);
        spawn.hand_down(&basis, &serving.services, &endpoints, publisher.as_ref(), nodes.is_some());
        let sharing = spawn.sharing(&basis, &policy, &endpoints, nodes.as_ref(), cluster.as_ref());
        let mesh = spawn.mesh(&serving, &sharing, nodes.as_ref());
        let restore = spawn.restore(&basis, &own, &policy, &endpoints, &auditor);
        let container_runtime = spawn.container_runtime(&endpoints, &restore);
        let reachability = spawn.reachability(nodes.as_ref());
        let told = Spawn::told_of_health(publisher.as_ref(), nodes.as_ref(), reachability.as_ref());
        let health_endpoint = spawn.health_endpoint(&basis, (&endpoints, &restore), told);
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
            own_prefixes,
            auditor,
            restore,
            kvstore,
            crd,
            mesh,
            container_runtime,
            health_endpoint,
            reachability,
        }
    }
}
