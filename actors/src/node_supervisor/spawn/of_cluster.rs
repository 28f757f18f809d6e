//! Who speaks with the cluster and with other nodes.

use std::{collections::BTreeSet, rc::Rc, time::Duration};

use ipnet::IpNet;

use super::{
    super::{
        settings::{mesh_settings, nodes_settings},
        spawned::{Basis, NodeActors, ServiceActors, SharingActors},
    },
    Spawn, is_of,
};
use crate::{
    cluster::{
        addresses::AddressesPeers,
        api_server::{ClusterMsg, ClusterPeers, ClusterSupervisor},
        clustermesh::{Mesh, MeshMsg, MeshPeers},
        container_runtime::{RuntimeFollower, RuntimeFollowerMsg, RuntimeFollowerPeers},
        definitions::{Definitions, DefinitionsMsg, DefinitionsPeers},
        health_endpoint::{HealthEndpoint, HealthEndpointMsg, HealthEndpointPeers},
        own_prefixes::{OwnPrefixes, OwnPrefixesMsg, OwnPrefixesPeers},
        publish::{Publisher, PublisherMsg, PublisherPeers},
        reachability::{Reachability, ReachabilityMsg, ReachabilityPeers},
        remote_nodes::{self, RemoteNodes, RemoteNodesMsg, RemoteNodesPeers},
        sharing::{CrdActors, KvActors},
        subscriber::Subscriber,
    },
    endpoints::supervisor::EndpointsMsg,
    host::{Outlet, Ref},
    model::{Addresses, Feed},
    node::{devices::DevicesMsg, routes::RoutesMsg},
    policy::rules::PolicyMsg,
    restore::RestoreMsg,
};

/// By then definitions that the agent brings are established, as a rule.
const BROUGHT_AFTER: Duration = Duration::from_secs(30);

impl Spawn<'_> {
    /// The cluster's other nodes, if there is a cluster.
    pub(in crate::node_supervisor) fn nodes(
        &self,
        basis: &Basis,
        own: &NodeActors,
    ) -> Option<Ref<RemoteNodesMsg>> {
        if !self.in_cluster() {
            return None;
        }
        let (session, policy) = (self.late.session.clone(), self.late.policy.clone());
        let (ipcache, identities) = (basis.ipcache.clone(), basis.identities.clone());
        let routes = own.routes.clone();
        let peers = move || RemoteNodesPeers {
            ipcache: ipcache.clone(),
            identities: identities.clone(),
            policy: policy.get(),
            session: session.get(),
            routes: routes.clone(),
        };
        let mapped = remote_nodes::inherited(&self.inheritance.kernel);
        let settings = nodes_settings(&self.settings, self.follows());
        let nodes = RemoteNodes::factory(peers, settings, mapped, &self.of_nodes);
        Some(self.supervisor("nodes", nodes))
    }

    /// Who has this node's prefixes, where addresses are of several pools.
    pub(in crate::node_supervisor) fn own_prefixes(
        &mut self,
        basis: &Basis,
        own: &NodeActors,
        nodes: Option<&Ref<RemoteNodesMsg>>,
    ) -> Option<Ref<OwnPrefixesMsg>> {
        let pools = self.settings.follow.pod_pools.clone()?;
        let cluster = self.ports.cluster.clone()?;
        let further = &mut self.settings.follow.further;
        further.extend([
            (Feed::CiliumNode, Subscriber::Prefixes),
            (Feed::PodPools, Subscriber::Pools),
        ]);
        let (disk, ipam) = (Rc::clone(&self.ports.disk), basis.ipam.clone());
        let spared = pools.unmasqueraded;
        let to_devices = move |mut all: BTreeSet<IpNet>| {
            all.retain(|it| is_of(spared, it));
            DevicesMsg::OwnPrefixes(all)
        };
        let heard_by = [own.routes.outlet(RoutesMsg::OwnPrefixes), own.devices.outlet(to_devices)];
        let nodes = nodes.map(|nodes| nodes.outlet(RemoteNodesMsg::OwnPrefixes));
        let heard_by: Vec<_> = heard_by.into_iter().chain(nodes).collect();
        let peers = move || OwnPrefixesPeers {
            cluster: Rc::clone(&cluster),
            disk: Rc::clone(&disk),
            ipam: ipam.clone(),
            heard_by: heard_by.clone(),
        };
        let owner = self.supervisor("own-prefixes", OwnPrefixes::factory(peers, pools.prefixes));
        self.late.own_prefixes.set(owner.clone());
        Some(owner)
    }

    /// Who keeps what this node says of itself in the cluster, if it says anything.
    pub(in crate::node_supervisor) fn publisher(&mut self) -> Option<Ref<PublisherMsg>> {
        let (cluster, publish) = self.ports.cluster.clone().zip(self.settings.publish.take())?;
        self.settings.follow.further = publish.feeds();
        let (late, late_restore) = (self.late.endpoints.clone(), self.late.restore.clone());
        let peers = move || PublisherPeers {
            cluster: Rc::clone(&cluster),
            restore: late_restore.get(),
            endpoints: late.get(),
        };
        Some(self.supervisor("publisher", Publisher::factory(peers, publish)))
    }

    /// Who follows the cluster, if one is followed.
    pub(in crate::node_supervisor) fn cluster(
        &mut self,
        basis: &Basis,
        serving: &ServiceActors,
        policy: &Ref<PolicyMsg>,
        publisher: Option<&Ref<PublisherMsg>>,
        nodes: Option<&Ref<RemoteNodesMsg>>,
    ) -> Option<Ref<ClusterMsg>> {
        self.choose_feeds();
        if !self.settings.definitions.is_empty() {
            self.settings.follow.plain_nodes_after = BROUGHT_AFTER;
        }
        let cluster = self.ports.cluster.clone()?;
        let (policy, workloads) = (policy.clone(), basis.workloads.clone());
        let (publisher, shares) = (publisher.cloned(), self.by_objects.is_some());
        let (late_crd, nodes) = (self.late.crd.clone(), nodes.cloned());
        let services = serving.services.clone();
        let follows_prefixes = self.settings.follow.pod_pools.is_some();
        let late_prefixes = self.late.own_prefixes.clone();
        let peers = move || ClusterPeers {
            cluster: Rc::clone(&cluster),
            policy: policy.clone(),
            workloads: workloads.clone(),
            publisher: publisher.clone(),
            shared: shares.then(|| late_crd.get()).map(|it| (it.allocator, it.addresses)),
            nodes: nodes.clone(),
            prefixes: follows_prefixes.then(|| late_prefixes.get()),
            services: Some(services.clone()),
        };
        let supervisor = ClusterSupervisor::factory(peers, self.settings.follow.clone());
        let supervisor = self.supervisor("cluster", supervisor);
        self.late.cluster.set(supervisor.clone());
        Some(supervisor)
    }

    /// Who brings definitions to the cluster, if there are some to bring. Who waits for them hears of it.
    pub(in crate::node_supervisor) fn definitions(
        &mut self,
        follower: Option<&Ref<ClusterMsg>>,
    ) -> Option<Ref<DefinitionsMsg>> {
        let brought = std::mem::take(&mut self.settings.definitions);
        let (cluster, follower) = self.ports.cluster.clone().zip(follower)?;
        let peers = DefinitionsPeers { cluster, established: follower.outlet(ClusterMsg::Defined) };
        let seed = self.settings.follow.seed;
        (!brought.is_empty())
            .then(|| self.supervisor("definitions", Definitions::factory(peers, brought, seed)))
    }

    /// Says which objects are followed besides those of policies and pods, and for whom.
    fn choose_feeds(&mut self) {
        let further = &mut self.settings.follow.further;
        if self.by_objects.is_some() {
            further.extend([
                (Feed::CiliumIdentities, Subscriber::Allocator),
                (Feed::CiliumEndpoints, Subscriber::Addresses),
            ]);
        }
        // As Cilium does: where there is a store, nodes meet there.
        let feed = if self.ports.kvstore.is_some() { Feed::Node } else { Feed::CiliumNode };
        let of_services = [Feed::Services, Feed::Node, Feed::Ingresses, Feed::Workloads];
        further.extend(of_services.map(|feed| (feed, Subscriber::Services)));
        further.extend([(feed, Subscriber::Nodes), (Feed::Node, Subscriber::Host)]);
    }

    /// Who shares identities and addresses with other nodes, if that is done.
    pub(in crate::node_supervisor) fn sharing(
        &mut self,
        basis: &Basis,
        policy: &Ref<PolicyMsg>,
        endpoints: &Ref<EndpointsMsg>,
        nodes: Option<&Ref<RemoteNodesMsg>>,
        cluster: Option<&Ref<ClusterMsg>>,
    ) -> SharingActors {
        let peers = AddressesPeers {
            session: None,
            endpoints: endpoints.clone(),
            identities: basis.identities.clone(),
            policy: policy.clone(),
            ipcache: basis.ipcache.clone(),
        };
        let (settings, remote) = (&self.settings.kvstore, std::mem::take(&mut self.remote));
        let (mut kvstore, mut crd) = (None, None);
        if let Some((store, nodes)) = self.ports.kvstore.as_ref().zip(nodes) {
            let settings = settings.clone();
            kvstore = Some(KvActors::spawn(self.host, store, settings, peers, remote, nodes));
        } else if let Some((objects, follower)) = self.by_objects.as_ref().zip(cluster.cloned()) {
            let actors = CrdActors::spawn(self.host, objects, follower, settings, &peers, remote);
            self.late.crd.set(actors.clone());
            crd = Some(actors);
        }
        self.late.session.set(kvstore.as_ref().map(|kvstore| kvstore.session.clone()));
        SharingActors { kvstore, crd }
    }

    /// Who follows the container runtime, if that is done.
    pub(in crate::node_supervisor) fn container_runtime(
        &self,
        endpoints: &Ref<EndpointsMsg>,
        restore: &Ref<RestoreMsg>,
    ) -> Option<Ref<RuntimeFollowerMsg>> {
        let runtime = self.ports.container_runtime.clone()?;
        let (endpoints, restore) = (endpoints.clone(), restore.clone());
        let peers = move || RuntimeFollowerPeers {
            runtime: Rc::clone(&runtime),
            endpoints: endpoints.clone(),
            restore: restore.clone(),
        };
        Some(self.supervisor("container-runtime", RuntimeFollower::factory(peers)))
    }

    /// Who probes nodes, if that is done.
    pub(in crate::node_supervisor) fn reachability(
        &self,
        nodes: Option<&Ref<RemoteNodesMsg>>,
    ) -> Option<Ref<ReachabilityMsg>> {
        let (probes, settings) =
            self.ports.probes.clone().zip(self.settings.reachability.clone())?;
        let nodes = nodes.cloned();
        let peers = move || ReachabilityPeers { probes: Rc::clone(&probes), nodes: nodes.clone() };
        Some(self.supervisor("reachability", Reachability::factory(peers, settings)))
    }

    /// Who hears which addresses the health endpoint has.
    pub(in crate::node_supervisor) fn told_of_health(
        publisher: Option<&Ref<PublisherMsg>>,
        nodes: Option<&Ref<RemoteNodesMsg>>,
        reachability: Option<&Ref<ReachabilityMsg>>,
    ) -> Vec<Outlet<Addresses>> {
        let publisher = publisher.map(|it| it.outlet(PublisherMsg::Health));
        let nodes = nodes.map(|it| it.outlet(RemoteNodesMsg::OwnHealth));
        let reachability = reachability.map(|it| it.outlet(ReachabilityMsg::OwnHealth));
        publisher.into_iter().chain(nodes).chain(reachability).collect()
    }

    /// The owner of the health endpoint, if there is to be one.
    pub(in crate::node_supervisor) fn health_endpoint(
        &self,
        basis: &Basis,
        (endpoints, restore): (&Ref<EndpointsMsg>, &Ref<RestoreMsg>),
        heard_by: Vec<Outlet<Addresses>>,
    ) -> Option<Ref<HealthEndpointMsg>> {
        let places = self.ports.health_places.clone()?;
        let (probes, settings) =
            self.ports.probes.clone().zip(self.settings.health_endpoint.clone())?;
        let (endpoints, restore, ipam) = (endpoints.clone(), restore.clone(), basis.ipam.clone());
        let disk = Rc::clone(&self.ports.disk);
        let peers = move || HealthEndpointPeers {
            places: Rc::clone(&places),
            probes: Rc::clone(&probes),
            disk: Rc::clone(&disk),
            endpoints: endpoints.clone(),
            ipam: ipam.clone(),
            restore: restore.clone(),
            heard_by: heard_by.clone(),
        };
        Some(self.supervisor("health-endpoint", HealthEndpoint::factory(peers, settings)))
    }

    /// Who reads other clusters, if that is done.
    pub(in crate::node_supervisor) fn mesh(
        &self,
        serving: &ServiceActors,
        sharing: &SharingActors,
        nodes: Option<&Ref<RemoteNodesMsg>>,
    ) -> Option<Ref<MeshMsg>> {
        let SharingActors { kvstore, crd } = sharing;
        let addresses = kvstore.as_ref().map(|it| &it.addresses);
        let addresses = addresses.or_else(|| crd.as_ref().map(|it| &it.addresses));
        let mesh = self.ports.clusters.clone().zip(addresses.cloned()).zip(nodes.cloned());
        mesh.map(|((clusters, addresses), nodes)| {
            let services = serving.services.clone();
            let peers = MeshPeers { clusters, addresses, nodes, services };
            self.supervisor("clustermesh", Mesh::factory(peers, mesh_settings(&self.settings)))
        })
    }
}
