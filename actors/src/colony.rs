//! Everyone: the supervisors of one node, brought to life in one place, for production, tests and
//! the simulator alike.
//!
//! ```text
//!   workloads ─► endpoints ─► endpoint, endpoint, … ─► identities, policy, build queue, ipcache
//!       ▲            ▲                                        ▲
//!   cluster or   REST, CNI                               kernel, disk
//!   manifests
//! ```

mod facts;
mod late;
mod settings;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use ipnet::IpNet;

pub(crate) use self::late::Late;
use self::settings::{mesh_settings, nodes_settings, routes_settings, services_settings};
use crate::{
    addresses::{AddressesPeers, Inherited},
    allocator,
    auditor::{Auditor, AuditorMsg, AuditorPeers},
    build_queue::{BuildQueue, BuildQueueMsg},
    cluster::{ClusterMsg, ClusterPeers, ClusterSettings, ClusterSupervisor, Feed, Hearer},
    clustermesh::{Mesh, MeshMsg, MeshPeers},
    conntrack::{Conntrack, ConntrackMsg},
    crd::CrdActors,
    devices::{Devices, DevicesMsg, DevicesSettings},
    endpoint::{Peers, Settings},
    endpoints::{Announcer, Endpoints, EndpointsMsg, Schedule},
    health_checks::{HealthChecks, HealthChecksMsg},
    host::{Host, Ref, Reply},
    identity::{Identities, IdentityMsg, LabelFilter, reserved},
    ipam::{Ipam, IpamMsg, Pools},
    ipcache::{Ipcache, IpcacheMsg},
    kvstore::{KvActors, KvSettings, SessionMsg},
    model::{IdentityId, Scope},
    node::{Node, NodeHearers, NodeMsg, NodeSettings},
    nodes::{self, Nodes, NodesMsg, NodesPeers},
    policy::{Policies, PolicyMsg, PolicyPeers, PolicySettings, Repository},
    ports::{
        AgentNotices, Cluster, Disk, HealthListeners, InOrder, Kernel, KernelSnapshot, KvStore,
        RemoteClusters,
    },
    publish::{PublishSettings, Publisher, PublisherMsg, PublisherPeers},
    restore::{Restore, RestoreMsg, RestorePeers},
    routes::{Routes, RoutesMsg, RoutingMode},
    services::{Balancing, Services, ServicesMsg},
    sockets::{Sockets, SocketsPeers},
    state::{IdentityTable, NumberedLabels},
    workloads::{Workloads, WorkloadsMsg},
};

/// Capacity of a supervisor's mailbox, messages: every endpoint that a node can have may tell it
/// two things at once.
const SUPERVISOR_CAPACITY: usize = 2 * 65_536;

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
pub struct ColonySettings {
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
    /// What the node says of itself in the cluster, if one is followed; `None` is nothing.
    pub publish: Option<PublishSettings>,
}

/// What the life before left, as far as supervisors need it from their first moment.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// Numbers of identities.
    pub identities: IdentityTable,
    /// Which writing of them that is.
    pub identities_generation: u32,
    /// What the kernel holds.
    pub kernel: KernelSnapshot,
}

/// The supervisors of one node.
#[derive(Clone)]
pub struct Colony {
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
    pub nodes: Option<Ref<NodesMsg>>,
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

impl Colony {
    /// Brings all supervisors to life. They do nothing before they are told to.
    pub fn spawn(
        host: &Host,
        ports: &Ports,
        mut settings: ColonySettings,
        inheritance: &Inheritance,
    ) -> Self {
        let kernel = Rc::new(InOrder::new(Rc::clone(&ports.kernel), host));
        let ports = Ports { kernel, ..ports.clone() };
        let (kernel, disk) = (&ports.kernel, &ports.disk);
        let families = settings.policy.families;
        let cluster = settings.cluster.as_str();
        let name = |name: &str| name.to_owned();
        let (late_auditor, watch) = late::watch(settings.schedule.sweep);
        let ipam = host.spawn(name("ipam"), SUPERVISOR_CAPACITY, Ipam::factory(settings.pools));
        let by_objects = ports.cluster.clone().filter(|_| {
            settings.identity_allocation == allocator::Mode::Crd && ports.kvstore.is_none()
        });
        let remote = match ports.kvstore.is_some() || by_objects.is_some() {
            true => Inherited::of(inheritance),
            false => Inherited::default(),
        };
        let mapped = prefixes(&inheritance.kernel);
        // What a lost table does not say of prefixes, the kernel does.
        let mut numbers = inheritance.identities.clone();
        numbers.keep_ports(|id| remote.named_ports.contains_key(&id));
        numbers.local.extend(mapped.iter().map(|(prefix, &id)| {
            let labels = reserved::prefix_labels(prefix, families);
            NumberedLabels { id, labels }
        }));
        let identities = Identities::factory(
            Rc::clone(disk),
            (cluster, settings.kvstore.cluster_id),
            families,
            &numbers,
            inheritance.identities_generation,
        );
        let identities = host.spawn(name("identities"), SUPERVISOR_CAPACITY, identities);
        let ipcache = Ipcache::factory(Rc::clone(kernel), watch.clone());
        let ipcache = host.spawn(name("ipcache"), SUPERVISOR_CAPACITY, ipcache);
        let build_queue = BuildQueue::factory(settings.permits);
        let build_queue = host.spawn(name("build-queue"), SUPERVISOR_CAPACITY, build_queue);
        // Who follows the cluster tells these two, and they ask it.
        let late_cluster = Late::<Ref<ClusterMsg>>::default();
        let follows = ports.cluster.is_some();
        let workloads = {
            let late = late_cluster.clone();
            let node = settings.kvstore.node.as_str();
            Workloads::factory(cluster, node, move || follows.then(|| late.get()))
        };
        let workloads = host.spawn(name("workloads"), SUPERVISOR_CAPACITY, workloads);
        let conntrack = Conntrack::factory(Rc::clone(kernel), settings.conntrack_interval);
        let conntrack = host.spawn(name("conntrack"), SUPERVISOR_CAPACITY, conntrack);
        let late = Late::<Ref<EndpointsMsg>>::default();
        let sockets = settings.sockets.then(|| {
            let (late, kernel) = (late.clone(), Rc::clone(kernel));
            let peers = move || SocketsPeers { kernel: Rc::clone(&kernel), endpoints: late.get() };
            host.spawn(name("sockets"), SUPERVISOR_CAPACITY, Sockets::factory(peers))
        });
        let health_checks = ports.health_listeners.clone().map(|listeners| {
            let health_checks = HealthChecks::factory(listeners);
            host.spawn(name("health-checks"), SUPERVISOR_CAPACITY, health_checks)
        });
        let services = {
            let settings = services_settings(&settings, &ports);
            let found = inheritance.kernel.services.clone();
            let (sockets, health) = (sockets.clone(), health_checks.clone());
            let (kernel, watch) = (Rc::clone(kernel), watch.clone());
            Services::factory(kernel, settings, found, sockets, health, watch)
        };
        let services = host.spawn(name("services"), SUPERVISOR_CAPACITY, services);
        let devices = Devices::factory(Rc::clone(kernel), settings.devices.clone(), watch.clone());
        let devices = host.spawn(name("devices"), SUPERVISOR_CAPACITY, devices);
        let in_cluster = follows || ports.kvstore.is_some();
        let routes = Routes::factory(Rc::clone(kernel), routes_settings(&settings, in_cluster));
        let routes = host.spawn(name("routes"), SUPERVISOR_CAPACITY, routes);
        let hearers = NodeHearers {
            ipcache: ipcache.clone(),
            services: services.clone(),
            devices: devices.clone(),
            routes: routes.clone(),
        };
        let node = Node::factory(
            Rc::clone(kernel),
            hearers,
            settings.node.clone(),
            &inheritance.kernel.lxc,
            watch.clone(),
        );
        let node = host.spawn(name("node"), SUPERVISOR_CAPACITY, node);

        let mesh_settings = mesh_settings(&settings);
        let late_session = Late::<Option<Ref<SessionMsg>>>::default();
        let late_policy = Late::<Ref<PolicyMsg>>::default();
        let of_nodes = nodes::inherited_identities(&inheritance.kernel, &inheritance.identities);
        let nodes = in_cluster.then(|| {
            let (late, late_policy) = (late_session.clone(), late_policy.clone());
            let (ipcache, identities) = (ipcache.clone(), identities.clone());
            let routes = routes.clone();
            let peers = move || NodesPeers {
                ipcache: ipcache.clone(),
                identities: identities.clone(),
                policy: late_policy.get(),
                session: late.get(),
                routes: routes.clone(),
            };
            let mapped = nodes::inherited(&inheritance.kernel);
            let settings = nodes_settings(&settings, follows);
            let nodes = Nodes::factory(peers, settings, mapped, &of_nodes);
            host.spawn(name("nodes"), SUPERVISOR_CAPACITY, nodes)
        });

        // These two know each other.
        let policy_peers = {
            let (late, identities, ipcache) = (late.clone(), identities.clone(), ipcache.clone());
            let late_cluster = late_cluster.clone();
            move || PolicyPeers {
                endpoints: late.get(),
                identities: identities.clone(),
                ipcache: ipcache.clone(),
                cluster: follows.then(|| late_cluster.get()),
            }
        };
        let known = reserved::identities()
            .chain(reserved::well_known(cluster, reserved::OPERATOR_NAMESPACE))
            .chain(remote.identities.clone())
            .chain(of_nodes.clone());
        let repository = Repository::new(settings.policy.clone());
        let named_ports = remote.named_ports.clone();
        let policy = Policies::factory(policy_peers, repository, known, mapped, named_ports);
        let policy = host.spawn(name("policy"), SUPERVISOR_CAPACITY, policy);
        late_policy.set(policy.clone());
        let late_restore = Late::<Ref<RestoreMsg>>::default();
        let publisher = ports.cluster.clone().zip(settings.publish).map(|(cluster, publish)| {
            settings.follow.further = publish.feeds();
            let (late, late_restore) = (late.clone(), late_restore.clone());
            let peers = move || PublisherPeers {
                cluster: Rc::clone(&cluster),
                restore: late_restore.get(),
                endpoints: late.get(),
            };
            let publisher = Publisher::factory(peers, publish);
            host.spawn(name("publisher"), SUPERVISOR_CAPACITY, publisher)
        });
        let late_crd = Late::<CrdActors>::default();
        if by_objects.is_some() {
            let shared = [
                (Feed::CiliumIdentities, Hearer::Allocator),
                (Feed::CiliumEndpoints, Hearer::Addresses),
            ];
            settings.follow.further.extend(shared);
        }
        // As Cilium does: where there is a store, nodes meet there.
        let feed = if ports.kvstore.is_some() { Feed::Node } else { Feed::CiliumNode };
        let of_services = [Feed::Services, Feed::Node, Feed::Ingresses, Feed::Workloads];
        settings.follow.further.extend(of_services.map(|feed| (feed, Hearer::Services)));
        settings.follow.further.extend([(feed, Hearer::Nodes), (Feed::Node, Hearer::Host)]);
        let cluster = ports.cluster.clone().map(|cluster| {
            let (policy, workloads) = (policy.clone(), workloads.clone());
            let (publisher, shares) = (publisher.clone(), by_objects.is_some());
            let (late_crd, nodes) = (late_crd.clone(), nodes.clone());
            let services = services.clone();
            let peers = move || ClusterPeers {
                cluster: Rc::clone(&cluster),
                policy: policy.clone(),
                workloads: workloads.clone(),
                publisher: publisher.clone(),
                shared: shares.then(|| late_crd.get()).map(|it| (it.allocator, it.addresses)),
                nodes: nodes.clone(),
                services: Some(services.clone()),
            };
            let supervisor = ClusterSupervisor::factory(peers, settings.follow);
            let supervisor = host.spawn(name("cluster"), SUPERVISOR_CAPACITY, supervisor);
            late_cluster.set(supervisor.clone());
            supervisor
        });
        // Mailboxes of new cells are empty.
        let _ = identities.tell(IdentityMsg::Subscribe(policy.clone()));
        let carried = inheritance.kernel.config.values().map(|row| row.identity).collect();
        let _ = identities.tell(IdentityMsg::Withhold(carried));
        let _ = identities.tell(IdentityMsg::Inherit(of_nodes.into_keys().collect()));

        let endpoint_settings = Settings {
            label_filter: settings.label_filter,
            options: settings.options,
            policy_rows_max: settings.policy.rows_max as usize,
        };
        let endpoint_settings = Rc::new(endpoint_settings);
        let peers = {
            let (late, ports) = (late.clone(), ports.clone());
            let (identities, policy, build_queue, ipcache, ipam) = (
                identities.clone(),
                policy.clone(),
                build_queue.clone(),
                ipcache.clone(),
                ipam.clone(),
            );
            move || Peers {
                kernel: Rc::clone(&ports.kernel),
                disk: Rc::clone(&ports.disk),
                identities: identities.clone(),
                policy: policy.clone(),
                build_queue: build_queue.clone(),
                ipcache: ipcache.clone(),
                ipam: ipam.clone(),
                endpoints: late.get(),
                settings: Rc::clone(&endpoint_settings),
                watch: watch.clone(),
            }
        };
        let auditor_peers = {
            let (late, kernel) = (late.clone(), Rc::clone(kernel));
            let (ipam, identities) = (ipam.clone(), identities.clone());
            let notices = ports.notices.clone();
            move || AuditorPeers {
                kernel: Rc::clone(&kernel),
                endpoints: late.get(),
                ipam: ipam.clone(),
                identities: identities.clone(),
                notices: notices.clone(),
            }
        };
        let auditor = Auditor::factory(auditor_peers);
        let auditor = host.spawn(name("auditor"), SUPERVISOR_CAPACITY, auditor);
        late_auditor.set(auditor.clone());
        let endpoints =
            Endpoints::factory(peers, workloads.clone(), auditor.clone(), settings.schedule);
        let endpoints = host.spawn(name("endpoints"), SUPERVISOR_CAPACITY, endpoints);
        late.set(endpoints.clone());
        if let Some(publisher) = &publisher {
            let announcer = Announcer::Publisher(publisher.clone());
            let _ = endpoints.tell(EndpointsMsg::AnnounceTo(announcer));
        }
        let _ = ipcache.tell(IpcacheMsg::Restore(inheritance.kernel.ipcache.clone()));
        if nodes.is_some() {
            let reply = Reply::to(|_| {});
            let entries = nodes::inherited_entries(&inheritance.kernel);
            let _ = ipcache.tell(IpcacheMsg::Upsert { entries, reply });
        }
        let peers = AddressesPeers {
            session: None,
            endpoints: endpoints.clone(),
            identities: identities.clone(),
            policy: policy.clone(),
            ipcache: ipcache.clone(),
        };
        let (mut kvstore, mut crd) = (None, None);
        if let Some((store, nodes)) = ports.kvstore.as_ref().zip(nodes.as_ref()) {
            kvstore = Some(KvActors::spawn(host, store, settings.kvstore, peers, remote, nodes));
        } else if let Some((objects, follower)) = by_objects.zip(cluster.clone()) {
            let settings = settings.kvstore;
            let actors = CrdActors::spawn(host, &objects, follower, settings, &peers, remote);
            late_crd.set(actors.clone());
            crd = Some(actors);
        }

        let addresses = kvstore.as_ref().map(|it| &it.addresses);
        let addresses = addresses.or_else(|| crd.as_ref().map(|it| &it.addresses));
        let mesh = ports.clusters.clone().zip(addresses.cloned()).zip(nodes.clone());
        let mesh = mesh.map(|((clusters, addresses), nodes)| {
            let peers = MeshPeers { clusters, addresses, nodes, services: services.clone() };
            host.spawn(
                name("clustermesh"),
                SUPERVISOR_CAPACITY,
                Mesh::factory(peers, mesh_settings),
            )
        });
        late_session.set(kvstore.as_ref().map(|kvstore| kvstore.session.clone()));

        let restore_peers = RestorePeers {
            kernel: Rc::clone(kernel),
            disk: Rc::clone(disk),
            endpoints: endpoints.clone(),
            ipam: ipam.clone(),
            ipcache: ipcache.clone(),
            identities: identities.clone(),
            policy: policy.clone(),
            workloads: workloads.clone(),
            node: node.clone(),
            conntrack: conntrack.clone(),
            auditor: auditor.clone(),
        };
        let restore = Restore::factory(restore_peers);
        let restore = host.spawn(name("restore"), SUPERVISOR_CAPACITY, restore);
        late_restore.set(restore.clone());
        let host = host.clone();
        Self {
            host,
            endpoints,
            ipam,
            identities,
            ipcache,
            policy,
            build_queue,
            cluster,
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

/// The prefixes that rules of an earlier life mapped, with their numbers.
fn prefixes(kernel: &KernelSnapshot) -> BTreeMap<IpNet, IdentityId> {
    let rows = kernel.ipcache.iter().map(|(&prefix, row)| (prefix, row.identity));
    rows.filter(|(_, id)| id.scope() == Scope::LocalCidr).collect()
}
