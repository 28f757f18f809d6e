//! How everybody comes to life: a step for each kind of work, in the order of `NodeSupervisor::spawn`.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use ipnet::IpNet;

use super::{
    NodeSupervisorSettings, Ports,
    drift_watch::watch,
    settings::{mesh_settings, nodes_settings, routes_settings, services_settings},
    spawned::{Basis, Lates, NodeActors, ServiceActors, SharingActors},
};
use crate::{
    cluster::{
        addresses::{AddressesPeers, InheritedAddresses},
        allocator,
        api_server::{ClusterMsg, ClusterPeers, ClusterSupervisor},
        clustermesh::{Mesh, MeshMsg, MeshPeers},
        definitions::{Definitions, DefinitionsMsg, DefinitionsPeers},
        publish::{Publisher, PublisherMsg, PublisherPeers},
        remote_nodes::{self, RemoteNodes, RemoteNodesMsg, RemoteNodesPeers},
        sharing::{CrdActors, KvActors},
        subscriber::Subscriber,
    },
    endpoints::{
        build_queue::BuildQueue,
        endpoint::{EndpointPeers, Settings},
        ipam::Ipam,
        supervisor::{Announcer, Endpoints, EndpointsMsg},
        workloads::Workloads,
    },
    host::{Behaviour, Host, Late, Ref, Reply},
    model::{Feed, IdentityId, Labels, drift::DriftWatch},
    node::{
        auditor::{Auditor, AuditorMsg, AuditorPeers},
        conntrack::Conntrack,
        devices::Devices,
        local_node::{Node, NodeSubscribers},
        routes::Routes,
    },
    policy::{
        identity::{Identities, IdentityMsg, reserved},
        ipcache::{Ipcache, IpcacheMsg},
        rules::{Policies, PolicyMsg, PolicyPeers, Repository},
    },
    ports::{Cluster, InOrder},
    restore::{Inheritance, Restore, RestoreMsg, RestorePeers},
    services::{
        health_checks::HealthChecks,
        service_cache::Services,
        sockets::{Sockets, SocketsMsg, SocketsPeers},
    },
    state_directory::NumberedLabels,
};

/// Capacity of a supervisor's mailbox, messages: every endpoint that a node can have may tell it
/// two things at once.
const SUPERVISOR_CAPACITY: usize = 2 * 65_536;

/// By then definitions that the agent brings are established, as a rule.
const BROUGHT_AFTER: Duration = Duration::from_secs(30);

/// A node's actors on their way to life.
pub(super) struct Spawn<'a> {
    host: &'a Host,
    ports: Ports,
    settings: NodeSupervisorSettings,
    inheritance: &'a Inheritance,
    watch: DriftWatch,
    late_auditor: Late<Ref<AuditorMsg>>,
    late: Lates,
    /// The API server, if identities and addresses are shared by its objects.
    by_objects: Option<Rc<dyn Cluster>>,
    /// What the run before knew of other nodes' identities and addresses.
    remote: InheritedAddresses,
    /// Identities of other nodes.
    of_nodes: BTreeMap<IdentityId, Labels>,
    /// Prefixes of rules, as they are mapped.
    mapped: BTreeMap<IpNet, IdentityId>,
}

impl<'a> Spawn<'a> {
    pub(super) fn new(
        host: &'a Host,
        ports: &Ports,
        settings: NodeSupervisorSettings,
        inheritance: &'a Inheritance,
    ) -> Self {
        let kernel = Rc::new(InOrder::new(Rc::clone(&ports.kernel), host));
        let ports = Ports { kernel, ..ports.clone() };
        let (late_auditor, watch) = watch(settings.schedule.sweep);
        let by_crd = settings.identity_allocation == allocator::Mode::Crd;
        let by_objects = ports.cluster.clone().filter(|_| by_crd && ports.kvstore.is_none());
        let remote = match ports.kvstore.is_some() || by_objects.is_some() {
            true => InheritedAddresses::of(inheritance),
            false => InheritedAddresses::default(),
        };
        Self {
            host,
            ports,
            settings,
            inheritance,
            watch,
            late_auditor,
            late: Lates::default(),
            by_objects,
            remote,
            of_nodes: remote_nodes::inherited_identities(
                &inheritance.kernel,
                &inheritance.identities,
            ),
            mapped: inheritance.prefixes(),
        }
    }

    fn supervisor<B: Behaviour>(
        &self,
        name: &str,
        make: impl FnMut() -> B + 'static,
    ) -> Ref<B::Msg> {
        self.host.spawn(name.to_owned(), SUPERVISOR_CAPACITY, make)
    }

    fn follows(&self) -> bool {
        self.ports.cluster.is_some()
    }

    fn in_cluster(&self) -> bool {
        self.follows() || self.ports.kvstore.is_some()
    }

    /// Addresses, identities, the ipcache, permits, pods and connections.
    pub(super) fn basis(&self) -> Basis {
        let Ports { kernel, .. } = &self.ports;
        let settings = &self.settings;
        let ipam = self.supervisor("ipam", Ipam::factory(settings.pools));
        let identities = self.identities();
        let ipcache = Ipcache::factory(Rc::clone(kernel), self.watch.clone());
        let ipcache = self.supervisor("ipcache", ipcache);
        let build_queue = self.supervisor("build-queue", BuildQueue::factory(settings.permits));
        // Who follows the cluster tells the owner of pods, and that asks it.
        let (late, follows) = (self.late.cluster.clone(), self.follows());
        let node = settings.kvstore.node.as_str();
        let cluster = move || {
            let supervisor = follows.then(|| late.get())?;
            Some(supervisor.outlet(|reply| ClusterMsg::AwaitSync(Feed::Workloads, reply)))
        };
        let workloads = Workloads::factory(settings.cluster.as_str(), node, cluster);
        let workloads = self.supervisor("workloads", workloads);
        let conntrack = Conntrack::factory(Rc::clone(kernel), settings.conntrack_interval);
        let conntrack = self.supervisor("conntrack", conntrack);
        Basis { ipam, identities, ipcache, build_queue, workloads, conntrack }
    }

    fn identities(&self) -> Ref<IdentityMsg> {
        let (settings, families) = (&self.settings, self.settings.policy.families);
        // What a lost table does not say of prefixes, the kernel does.
        let mut numbers = self.inheritance.identities.clone();
        numbers.keep_ports(|id| self.remote.named_ports.contains_key(&id));
        numbers.local.extend(self.mapped.iter().map(|(prefix, &id)| {
            let labels = reserved::prefix_labels(prefix, families);
            NumberedLabels { id, labels }
        }));
        let identities = Identities::factory(
            Rc::clone(&self.ports.disk),
            (settings.cluster.as_str(), settings.kvstore.cluster_id),
            families,
            &numbers,
            self.inheritance.identities_generation,
        );
        self.supervisor("identities", identities)
    }

    /// Services, who ends sockets for them, and who answers load balancers.
    pub(super) fn serving(&self) -> ServiceActors {
        let sockets = self.settings.sockets.then(|| self.sockets());
        let health_checks =
            self.ports.health_listeners.clone().map(|listeners| {
                self.supervisor("health-checks", HealthChecks::factory(listeners))
            });
        let settings = services_settings(&self.settings, &self.ports);
        let found = self.inheritance.kernel.services.clone();
        let (kernel, watch) = (Rc::clone(&self.ports.kernel), self.watch.clone());
        let health = health_checks.clone();
        let services = Services::factory(kernel, settings, found, sockets, health, watch);
        let services = self.supervisor("services", services);
        ServiceActors { services, health_checks }
    }

    fn sockets(&self) -> Ref<SocketsMsg> {
        let (late, kernel) = (self.late.endpoints.clone(), Rc::clone(&self.ports.kernel));
        let peers = move || SocketsPeers { kernel: Rc::clone(&kernel), endpoints: late.get() };
        self.supervisor("sockets", Sockets::factory(peers))
    }

    /// The node's devices, routes and rows.
    pub(super) fn own(&self, basis: &Basis, serving: &ServiceActors) -> NodeActors {
        let Ports { kernel, .. } = &self.ports;
        let (settings, watch) = (&self.settings, &self.watch);
        let devices = Devices::factory(Rc::clone(kernel), settings.devices.clone(), watch.clone());
        let devices = self.supervisor("devices", devices);
        let routes = routes_settings(settings, self.in_cluster());
        let routes = self.supervisor("routes", Routes::factory(Rc::clone(kernel), routes));
        let subscribers = NodeSubscribers {
            ipcache: basis.ipcache.clone(),
            services: serving.services.clone(),
            devices: devices.clone(),
            routes: routes.clone(),
        };
        let (settings, found) = (settings.node.clone(), &self.inheritance.kernel.lxc);
        let node = Node::factory(Rc::clone(kernel), subscribers, settings, found, watch.clone());
        let node = self.supervisor("node", node);
        NodeActors { devices, routes, node }
    }

    /// The cluster's other nodes, if there is a cluster.
    pub(super) fn nodes(&self, basis: &Basis, own: &NodeActors) -> Option<Ref<RemoteNodesMsg>> {
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

    /// The policy, which endpoints and the cluster know, and which knows them.
    pub(super) fn policy(&self, basis: &Basis) -> Ref<PolicyMsg> {
        let (late, late_cluster) = (self.late.endpoints.clone(), self.late.cluster.clone());
        let (identities, ipcache) = (basis.identities.clone(), basis.ipcache.clone());
        let follows = self.follows();
        let peers = move || PolicyPeers {
            endpoints: late.get().outlet(EndpointsMsg::Policy),
            identities: identities.clone(),
            ipcache: ipcache.clone(),
            cluster: follows.then(|| {
                late_cluster.get().outlet(|reply| ClusterMsg::AwaitSync(Feed::Policies, reply))
            }),
        };
        let cluster = self.settings.cluster.as_str();
        let known = reserved::identities()
            .chain(reserved::well_known(cluster, reserved::OPERATOR_NAMESPACE))
            .chain(self.remote.identities.clone())
            .chain(self.of_nodes.clone());
        let repository = Repository::new(self.settings.policy.clone());
        let (mapped, named_ports) = (self.mapped.clone(), self.remote.named_ports.clone());
        let policy = Policies::factory(peers, repository, known, mapped, named_ports);
        let policy = self.supervisor("policy", policy);
        self.late.policy.set(policy.clone());
        policy
    }

    /// Who keeps what this node says of itself in the cluster, if it says anything.
    pub(super) fn publisher(&mut self) -> Option<Ref<PublisherMsg>> {
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
    pub(super) fn cluster(
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
        let peers = move || ClusterPeers {
            cluster: Rc::clone(&cluster),
            policy: policy.clone(),
            workloads: workloads.clone(),
            publisher: publisher.clone(),
            shared: shares.then(|| late_crd.get()).map(|it| (it.allocator, it.addresses)),
            nodes: nodes.clone(),
            services: Some(services.clone()),
        };
        let supervisor = ClusterSupervisor::factory(peers, self.settings.follow.clone());
        let supervisor = self.supervisor("cluster", supervisor);
        self.late.cluster.set(supervisor.clone());
        Some(supervisor)
    }

    /// Who brings definitions to the cluster, if there are some to bring. Who waits for them hears of it.
    pub(super) fn definitions(
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

    /// The owner of identities hears who listens, and which of them the run before used.
    pub(super) fn introduce(&self, basis: &Basis, policy: &Ref<PolicyMsg>) {
        let identities = &basis.identities;
        // Mailboxes of new cells are empty.
        let _ = identities.tell(IdentityMsg::Subscribe(policy.outlet(PolicyMsg::Forget)));
        let carried = self.inheritance.kernel.config.values().map(|row| row.identity).collect();
        let _ = identities.tell(IdentityMsg::Withhold(carried));
        let _ = identities.tell(IdentityMsg::Inherit(self.of_nodes.keys().copied().collect()));
    }

    /// Who says what should never be.
    pub(super) fn auditor(&self, basis: &Basis) -> Ref<AuditorMsg> {
        let (late, kernel) = (self.late.endpoints.clone(), Rc::clone(&self.ports.kernel));
        let (ipam, identities) = (basis.ipam.clone(), basis.identities.clone());
        let notices = self.ports.notices.clone();
        let peers = move || AuditorPeers {
            kernel: Rc::clone(&kernel),
            endpoints: late.get(),
            ipam: ipam.clone(),
            identities: identities.clone(),
            notices: notices.clone(),
        };
        let auditor = self.supervisor("auditor", Auditor::factory(peers));
        self.late_auditor.set(auditor.clone());
        auditor
    }

    /// The supervisor of endpoints.
    pub(super) fn endpoints(
        &self,
        basis: &Basis,
        policy: &Ref<PolicyMsg>,
        auditor: &Ref<AuditorMsg>,
    ) -> Ref<EndpointsMsg> {
        let settings = Rc::new(Settings {
            label_filter: self.settings.label_filter.clone(),
            options: self.settings.options.clone(),
            policy_rows_max: self.settings.policy.rows_max as usize,
        });
        let (late, ports) = (self.late.endpoints.clone(), self.ports.clone());
        let (policy, watch) = (policy.clone(), self.watch.clone());
        let Basis { ipam, identities, ipcache, build_queue, .. } = basis;
        let (ipam, identities) = (ipam.clone(), identities.clone());
        let (ipcache, build_queue) = (ipcache.clone(), build_queue.clone());
        let peers = move || EndpointPeers {
            kernel: Rc::clone(&ports.kernel),
            disk: Rc::clone(&ports.disk),
            identities: identities.clone(),
            policy: policy.clone(),
            build_queue: build_queue.clone(),
            ipcache: ipcache.clone(),
            ipam: ipam.clone(),
            supervisor: late.get().outlet(EndpointsMsg::Endpoint),
            settings: Rc::clone(&settings),
            watch: watch.clone(),
        };
        let (workloads, auditor) = (basis.workloads.clone(), auditor.outlet(AuditorMsg::Look));
        let endpoints = Endpoints::factory(peers, workloads, auditor, self.settings.schedule);
        let endpoints = self.supervisor("endpoints", endpoints);
        self.late.endpoints.set(endpoints.clone());
        endpoints
    }

    /// The ipcache hears what it holds, and whose that is; the publisher is to hear of endpoints. Mailboxes
    /// of new cells are empty.
    pub(super) fn hand_down(
        &self,
        basis: &Basis,
        endpoints: &Ref<EndpointsMsg>,
        publisher: Option<&Ref<PublisherMsg>>,
        has_nodes: bool,
    ) {
        if let Some(publisher) = publisher {
            let announcer = Announcer::Views(publisher.outlet(PublisherMsg::Endpoint));
            let _ = endpoints.tell(EndpointsMsg::AnnounceTo(announcer));
        }
        let found = self.inheritance.kernel.ipcache.clone();
        let _ = basis.ipcache.tell(IpcacheMsg::Restore(found));
        if has_nodes {
            let reply = Reply::to(|_| {});
            let entries = remote_nodes::inherited_entries(&self.inheritance.kernel);
            let _ = basis.ipcache.tell(IpcacheMsg::Upsert { entries, reply });
        }
    }

    /// Who shares identities and addresses with other nodes, if that is done.
    pub(super) fn sharing(
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

    /// Who reads other clusters, if that is done.
    pub(super) fn mesh(
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

    /// Who brings the endpoints of the run before back.
    pub(super) fn restore(
        &self,
        basis: &Basis,
        own: &NodeActors,
        policy: &Ref<PolicyMsg>,
        endpoints: &Ref<EndpointsMsg>,
        auditor: &Ref<AuditorMsg>,
    ) -> Ref<RestoreMsg> {
        let peers = RestorePeers {
            kernel: Rc::clone(&self.ports.kernel),
            disk: Rc::clone(&self.ports.disk),
            endpoints: endpoints.clone(),
            ipam: basis.ipam.clone(),
            ipcache: basis.ipcache.clone(),
            identities: basis.identities.clone(),
            policy: policy.clone(),
            workloads: basis.workloads.clone(),
            node: own.node.clone(),
            conntrack: basis.conntrack.clone(),
            auditor: auditor.clone(),
        };
        let restore = self.supervisor("restore", Restore::factory(peers));
        self.late.restore.set(restore.clone());
        restore
    }
}
