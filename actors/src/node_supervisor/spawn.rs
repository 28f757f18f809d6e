//! How everybody comes to life: a step for each kind of work, in the order of `NodeSupervisor::spawn`.

mod of_cluster;

use std::{collections::BTreeMap, rc::Rc};

use ipnet::IpNet;

use super::{
    drift_watch::watch,
    settings::{NodeSupervisorSettings, Ports, own_prefixes, routes_settings, services_settings},
    spawned::{Basis, Lates, NodeActors, ServiceActors},
};
use crate::{
    cluster::{
        addresses::InheritedAddresses, allocator, api_server::ClusterMsg,
        own_prefixes::OwnPrefixesMsg, publish::PublisherMsg, remote_nodes,
    },
    endpoints::{
        build_queue::BuildQueue,
        endpoint::{EndpointPeers, Settings},
        ipam::{Ipam, IpamMsg, IpamPeers},
        supervisor::{Announcer, Endpoints, EndpointsMsg},
        workloads::Workloads,
    },
    host::{Behaviour, Host, Late, Ref, Reply},
    model::{Families, Feed, IdentityId, Labels, drift::DriftWatch},
    node::{
        auditor::{Auditor, AuditorMsg, AuditorPeers},
        conntrack::{Conntrack, ConntrackMsg},
        devices::{Devices, DevicesSettings},
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
        service_cache::{Services, ServicesMsg},
        sockets::{Sockets, SocketsMsg, SocketsPeers},
    },
    state_directory::NumberedLabels,
};

/// Capacity of a supervisor's mailbox, messages: every endpoint that a node can have may tell it
/// two things at once.
const SUPERVISOR_CAPACITY: usize = 2 * 65_536;

/// Whether a prefix is of one of these families.
fn is_of(families: Families, prefix: &IpNet) -> bool {
    match prefix {
        IpNet::V4(_) => families.ipv4,
        IpNet::V6(_) => families.ipv6,
    }
}

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
        mut settings: NodeSupervisorSettings,
        inheritance: &'a Inheritance,
    ) -> Self {
        // Nobody else gives prefixes of pools.
        settings.follow.pod_pools = settings.follow.pod_pools.filter(|_| ports.cluster.is_some());
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
        let ipam = self.ipam();
        let identities = self.identities();
        let notices = self.ports.notices.clone();
        let ipcache = Ipcache::factory(Rc::clone(kernel), self.watch.clone(), notices);
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
        self.late.workloads.set(workloads.clone());
        let conntrack = Conntrack::factory(Rc::clone(kernel), settings.conntrack_interval);
        let conntrack = self.supervisor("conntrack", conntrack);
        Basis { ipam, identities, ipcache, build_queue, workloads, conntrack }
    }

    /// The owner of addresses. Of several pools it asks of which one a pod is, and says how much it needs.
    fn ipam(&self) -> Ref<IpamMsg> {
        let settings = &self.settings;
        let several =
            settings.follow.pod_pools.as_ref().map(|it| it.several(settings.policy.families));
        let (has_several, late) = (several.is_some(), self.late.own_prefixes.clone());
        let workloads = self.late.workloads.clone();
        let peers = move || match has_several {
            true => IpamPeers {
                workloads: Some(workloads.get()),
                demand: Some(late.get().outlet(OwnPrefixesMsg::Demand)),
            },
            false => IpamPeers::default(),
        };
        self.supervisor("ipam", Ipam::of_several(settings.pools, several, peers))
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
        let sockets = self.settings.serving.sockets.then(|| self.sockets());
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
        let spared =
            settings.follow.pod_pools.as_ref().map_or(Families::NONE, |it| it.unmasqueraded);
        let own_prefixes = own_prefixes(settings).into_iter().filter(|it| is_of(spared, it));
        let devices =
            DevicesSettings { own_prefixes: own_prefixes.collect(), ..settings.devices.clone() };
        let devices = Devices::factory(Rc::clone(kernel), devices, watch.clone());
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

    /// The policy, which endpoints and the cluster know, and which knows them.
    pub(super) fn policy(&self, basis: &Basis) -> Ref<PolicyMsg> {
        let (late, late_cluster) = (self.late.endpoints.clone(), self.late.cluster.clone());
        let (identities, ipcache) = (basis.identities.clone(), basis.ipcache.clone());
        let follows = self.follows();
        let notices = self.ports.notices.clone();
        let peers = move || PolicyPeers {
            notices: notices.clone(),
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
            notices: ports.notices.clone(),
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

    /// The ipcache hears what it holds, and whose that is; the publisher is to hear of endpoints, and so is the
    /// owner of services, who also asks who sweeps connections. Mailboxes of new cells are empty.
    pub(super) fn hand_down(
        &self,
        basis: &Basis,
        services: &Ref<ServicesMsg>,
        endpoints: &Ref<EndpointsMsg>,
        publisher: Option<&Ref<PublisherMsg>>,
        has_nodes: bool,
    ) {
        if let Some(publisher) = publisher {
            let announcer = Announcer::Views(publisher.outlet(PublisherMsg::Endpoint));
            let _ = endpoints.tell(EndpointsMsg::AnnounceTo(announcer));
        }
        let announcer = Announcer::Users(services.outlet(ServicesMsg::Endpoint));
        let _ = endpoints.tell(EndpointsMsg::AnnounceTo(announcer));
        let _ = basis.conntrack.tell(ConntrackMsg::LookFor(services.clone()));
        let found = self.inheritance.kernel.ipcache.clone();
        let _ = basis.ipcache.tell(IpcacheMsg::Restore(found));
        if has_nodes {
            let reply = Reply::to(|_| {});
            let entries = remote_nodes::inherited_entries(&self.inheritance.kernel);
            let _ = basis.ipcache.tell(IpcacheMsg::Upsert { entries, reply });
        }
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
