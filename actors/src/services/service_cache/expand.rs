//! From what is said of a service to its frontends and the backends behind each.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    rc::Rc,
    sync::Arc,
};

use ipnet::IpNet;

use super::{
    annotations::{Affinity, Exposed},
    backends::Backends,
    balancing::{Algorithm, Balancing},
    listed::{Listed, alike, can_serve, each, first, known, near, retained},
    object::{ServicePort, Spec},
    reported::ServiceReports,
    slice::{EndpointCondition, SlicePort},
};
use crate::{
    model::{Families, Frontend, L4Address, LookupScope, Transport},
    ports::{BackendState, service_flags as flags},
    services::{health_checks::HealthCheck, service_cache::RemoteService},
};

/// Where the upper 8 bits of a frontend's first word begin, which say how a backend is chosen.
const ALGORITHM_SHIFT: u32 = 24;

/// What a node is to services.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    pub(super) families: Families,
    pub(super) balancing: Balancing,
    /// The labels of its Node, once that was heard of.
    pub(super) labels: Option<BTreeMap<String, String>>,
    /// The node's own addresses.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// The zone that it is in.
    pub(super) zone: Option<Arc<str>>,
}

impl Surroundings {
    /// Whether this node is one of those that serve a service; none if nobody knows yet.
    pub(super) fn serves(&self, spec: &Spec) -> Option<bool> {
        let nodes = spec.annotated.as_ref().map(|it| &*it.nodes).unwrap_or_default();
        if nodes.is_empty() {
            return Some(true);
        }
        let labels = self.labels.as_ref()?;
        Some(nodes.iter().all(|it| it.is_met(labels)))
    }
}

/// What a service comes to on this node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DesiredService {
    pub(super) frontends: Vec<(Frontend, DesiredFrontend)>,
    /// Everyone who is listed, also who is not used, and how at best.
    pub(super) backends: BTreeMap<L4Address, BackendState>,
    /// Which Ingress wants a frontend, if one does.
    pub(super) ingresses: BTreeMap<Frontend, Rc<str>>,
    /// Where load balancers ask for it, if they do.
    pub(super) health: Option<HealthCheck>,
    /// What of it cannot be had, and why.
    pub(super) problems: Vec<String>,
}

impl DesiredService {
    /// A service that is not there, or that this node does not serve: Ingresses may lead there.
    pub(super) fn of_nobody(said: Option<&ServiceReports>) -> Self {
        let problem = |ingress: &str| {
            format!(
                "Ingress {ingress} leads to it, and there is no such service to be served: make \
                 it, or change the Ingress"
            )
        };
        let ingresses = said.into_iter().flat_map(ServiceReports::entries);
        Self { problems: ingresses.map(|(name, _)| problem(name)).collect(), ..Self::default() }
    }
}

/// What a frontend is to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DesiredFrontend {
    /// Algorithm and time of affinity, as they stand in the first slot.
    pub(super) word: u32,
    pub(super) flags: u16,
    /// Who is used.
    pub(super) backends: Vec<L4Address>,
    /// Who is listed besides, and keeps what it has.
    pub(super) retained: Vec<(L4Address, BackendState)>,
    /// Who may use it; everyone if nobody is named.
    pub(super) ranges: Box<[IpNet]>,
}

impl DesiredFrontend {
    /// Whether clients stay with their backends.
    pub(super) fn has_affinity(&self) -> bool {
        self.flags & flags::AFFINITY != 0
    }
}

/// What kind of address leads to the service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrontendKind {
    Cluster,
    NodePort,
    External,
    Balancer,
    Ingress,
    HostPort,
}

impl FrontendKind {
    fn flags(self) -> u16 {
        match self {
            Self::Cluster => 0,
            Self::NodePort => flags::NODE_PORT | flags::ROUTABLE,
            Self::External | Self::Ingress => flags::EXTERNAL_IP | flags::ROUTABLE,
            Self::Balancer => flags::LOAD_BALANCER | flags::ROUTABLE,
            Self::HostPort => flags::HOST_PORT | flags::ROUTABLE,
        }
    }
}

impl Surroundings {
    /// The node's own addresses, and those that stand for all of them: nobody on the node may have a
    /// port of these for himself, and the node reaches itself by them.
    fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let all = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        self.addresses.iter().copied().chain(all)
    }

    fn has(&self, address: &IpAddr) -> bool {
        if address.is_ipv4() { self.families.ipv4 } else { self.families.ipv6 }
    }

    /// What a service comes to. `remote` is what other clusters say of it, if it wants that.
    pub(super) fn expand<'a>(
        &self,
        spec: &Spec,
        said: &ServiceReports,
        remote: impl Iterator<Item = &'a RemoteService> + Clone,
        backends: &Backends,
    ) -> DesiredService {
        let mut wish = DesiredService::default();
        if spec.ports.is_empty() && !spec.cluster.is_empty() {
            wish.problems
                .push("it has no ports, so that nobody reaches it: give it one".to_owned());
        }
        wish.problems.extend(said.strangers());
        wish.problems.extend(self.not_obeyed(spec));
        for port in &spec.ports {
            let mut members = self.members(said, port);
            if spec.sharing.is_global {
                members.extend(remote.clone().flat_map(|it| self.remote_members(it, port)));
            }
            members.sort_unstable_by_key(|(at, listed)| (*at, listed.serving));
            members.dedup_by_key(|(at, _)| *at);
            let members: Vec<_> = known(members, port, backends).collect();
            let before = wish.frontends.len();
            self.frontends(spec, port, said, &members, &mut wish);
            let new = wish.frontends[before..].iter().map(|(at, _)| at.at.address.is_ipv4());
            let families: BTreeSet<bool> = new.collect();
            // To whom nothing leads takes no room.
            for (at, listed) in
                members.iter().filter(|(at, _)| families.contains(&at.address.is_ipv4()))
            {
                let state = wish.backends.entry(*at).or_insert(BackendState::Maintenance);
                *state = listed.state().min(*state);
            }
        }
        wish.health = self.health(spec, said, backends);
        for (ingress, entry) in said.entries() {
            if self.balancing.inside_only {
                wish.problems.push(format!(
                    "Ingress {ingress} leads to it, and nothing is served at addresses of the node: \
                     start the agent with --kube-proxy-replacement=true, or let a controller serve it"
                ));
            } else if !spec.ports.iter().any(|port| entry.means(port)) {
                wish.problems.push(format!(
                    "Ingress {ingress} leads to its port {}, and it has no such port of TCP: \
                     correct one of the two",
                    entry.port()
                ));
            }
        }
        wish
    }

    /// Annotations that do nothing.
    fn not_obeyed(&self, spec: &Spec) -> Vec<String> {
        let Some(annotated) = &spec.annotated else { return Vec::new() };
        let ignored = annotated.ignored.iter();
        let mut all: Vec<_> = ignored
            .map(|name| format!("its annotation {name} is not obeyed: remove it, or do without"))
            .collect();
        let Balancing { algorithm, direct, .. } = self.balancing;
        let mut unheeded = |name, flag| {
            all.push(format!(
                "its annotation service.cilium.io/{name} is not obeyed: start the agent with --{flag}"
            ));
        };
        if annotated.algorithm.is_some() && !algorithm.by_annotation {
            unheeded("lb-algorithm", "bpf-lb-algorithm-annotation");
        }
        if annotated.direct.is_some() && !direct.by_annotation {
            unheeded("forwarding-mode", "bpf-lb-mode-annotation");
        }
        all
    }

    /// What load balancers are told who ask: how many pods of this node take new connections, whatever
    /// ports they serve. Each has an address of each family.
    fn health(
        &self,
        spec: &Spec,
        said: &ServiceReports,
        backends: &Backends,
    ) -> Option<HealthCheck> {
        let port =
            Some(spec.health_port).filter(|port| *port > 0 && !self.balancing.inside_only)?;
        let members = |port| known(self.members(said, port), port, backends);
        let ready = spec.ports.iter().flat_map(members);
        let ready: Vec<_> =
            ready.filter(|(_, it)| it.serving == EndpointCondition::Ready).collect();
        // Where nobody else is left, anywhere, who is quarantined serves.
        let all = ready.iter().all(|(_, it)| it.quarantined);
        let here = ready.iter().filter(|(_, it)| it.local && (all || !it.quarantined));
        let here: BTreeSet<IpAddr> = here.map(|(at, _)| at.address).collect();
        let of_ipv4 = here.iter().filter(|address| address.is_ipv4()).count();
        Some(HealthCheck { port, local_endpoints: of_ipv4.max(here.len() - of_ipv4) })
    }

    /// Who is listed for a port.
    fn members<'a>(
        &'a self,
        said: &'a ServiceReports,
        port: &'a ServicePort,
    ) -> Vec<(L4Address, Listed<'a>)> {
        let mut all = Vec::new();
        for slice in said.slices() {
            let is_it =
                |of: &&SlicePort| of.name == port.name && alike(of.transport, port.transport);
            for of in slice.ports.iter().filter(is_it) {
                let at = |address| L4Address { address, port: of.port, transport: of.transport };
                let members = slice.members.iter().filter(|it| self.has(&it.address));
                all.extend(members.map(|it| (at(it.address), Listed::of(it))));
            }
        }
        all
    }

    fn remote_members<'a>(
        &self,
        remote: &'a RemoteService,
        port: &ServicePort,
    ) -> impl Iterator<Item = (L4Address, Listed<'a>)> {
        let (name, port_transport) = (port.name.clone(), port.transport);
        let families = self.families;
        let has = move |it: &IpAddr| if it.is_ipv4() { families.ipv4 } else { families.ipv6 };
        let shared = remote.backends.iter().filter(|_| remote.shared);
        shared.filter(move |(address, _)| has(address)).filter_map(move |(&address, ports)| {
            let of = ports.get(&*name)?;
            let transport = Transport::named(&of.protocol);
            let transport = transport.filter(|it| alike(*it, port_transport))?;
            let at = L4Address { address, port: of.port, transport };
            Some((at, Listed::elsewhere()))
        })
    }

    fn frontends(
        &self,
        spec: &Spec,
        port: &ServicePort,
        said: &ServiceReports,
        members: &[(L4Address, Listed<'_>)],
        wish: &mut DesiredService,
    ) {
        let mut all: Vec<(FrontendKind, IpAddr, u16)> = Vec::new();
        let only = spec.annotated.as_ref().and_then(|it| it.exposed);
        let exposes = |kind| only.is_none_or(|only| only == kind);
        for &address in &spec.cluster {
            match self.addresses.contains(&address) {
                true => wish.problems.push(format!(
                    "{address} is an address of this node, and no service's: give the service another"
                )),
                false if exposes(Exposed::Cluster) => {
                    all.push((FrontendKind::Cluster, address, port.port));
                }
                false => {}
            }
        }
        all.extend(spec.external.iter().map(|it| (FrontendKind::External, *it, port.port)));
        let balancers = spec.balancers.iter().filter(|_| exposes(Exposed::Balancer));
        all.extend(balancers.map(|it| (FrontendKind::Balancer, *it, port.port)));
        let of_family = |it: &&IpAddr| spec.cluster.iter().any(|own| own.is_ipv4() == it.is_ipv4());
        if port.node_port > 0 && exposes(Exposed::NodePort) {
            let own = self.own_addresses().filter(|it| of_family(&it));
            all.extend(own.map(|it| (FrontendKind::NodePort, it, port.node_port)));
        }
        let host = spec.ports.iter().position(|it| it == port).and_then(|at| spec.hosts.get(at));
        if let Some(host) = host {
            let own = self.host_port_addresses(host.as_ref(), port, &mut wish.problems);
            let is_led =
                |own: &IpAddr| members.iter().any(|(to, _)| to.address.is_ipv4() == own.is_ipv4());
            let own = own.into_iter().filter(is_led);
            all.extend(own.map(|it| (FrontendKind::HostPort, it, port.port)));
        }
        let ingress = said.entries().find(|(_, entry)| entry.means(port)).map(|(name, _)| name);
        if ingress.is_some() {
            // One without a head is of both families.
            let own = self.addresses.iter().filter(|it| spec.cluster.is_empty() || of_family(it));
            let own = own.filter(|it| !all.iter().any(|(_, at, to)| (at, *to) == (*it, port.port)));
            let own: Vec<_> = own.map(|it| (FrontendKind::Ingress, *it, port.port)).collect();
            all.extend(own);
        }
        if self.balancing.inside_only {
            all.retain(|(kind, ..)| *kind == FrontendKind::Cluster);
        }
        for (kind, address, number) in all.into_iter().filter(|(_, it, _)| self.has(it)) {
            let transport =
                if kind == FrontendKind::Ingress { Transport::TCP } else { port.transport };
            for at in each(L4Address { address, port: number, transport }, transport) {
                let before = wish.frontends.len();
                self.scopes(spec, kind, at, members, wish);
                if let Some(name) = ingress.filter(|_| kind == FrontendKind::Ingress) {
                    let new = wish.frontends[before..].iter();
                    wish.ingresses.extend(new.map(|(at, _)| (*at, Rc::clone(name))));
                }
            }
        }
    }

    /// Where on the node a pod is reached that wants a port of it, at `host` or everywhere.
    fn host_port_addresses(
        &self,
        host: Option<&IpAddr>,
        port: &ServicePort,
        problems: &mut Vec<String>,
    ) -> Vec<IpAddr> {
        let is_it = |own: &IpAddr| match host {
            None => true,
            Some(host) if host.is_unspecified() => host.is_ipv4() == own.is_ipv4(),
            Some(host) => host == own,
        };
        let own: Vec<_> = self.own_addresses().filter(is_it).collect();
        if let (Some(host), true) = (host, own.is_empty()) {
            let number = port.port;
            problems.push(format!(
                "{host}, where its port {number} is expected, is no address of this node: name one \
                 that is, or none"
            ));
        }
        own
    }

    /// A frontend, or two where packets from inside go elsewhere than those from outside.
    fn scopes(
        &self,
        spec: &Spec,
        kind: FrontendKind,
        at: L4Address,
        members: &[(L4Address, Listed<'_>)],
        wish: &mut DesiredService,
    ) {
        let outside = kind != FrontendKind::Cluster;
        // The policy for packets from inside is about the address inside.
        let two = outside && spec.external_local;
        let annotated = spec.annotated.as_deref();
        let mut bits = kind.flags();
        let mut set = |is: bool, bit| bits |= if is { bit } else { 0 };
        set(spec.affinity > 0, flags::AFFINITY);
        set(!outside && spec.internal_local, flags::INTERNAL_LOCAL);
        set(!outside && self.balancing.external_cluster_ip, flags::ROUTABLE);
        set(outside && spec.external_local, flags::EXTERNAL_LOCAL);
        set(two, flags::TWO_SCOPES);
        let direct = annotated.and_then(|it| it.direct).unwrap_or(self.balancing.direct.usual);
        set(
            kind.flags() & flags::ROUTABLE != 0 && self.balancing.direct.by_annotation && direct,
            flags::DSR,
        );
        let is_ranged = matches!(kind, FrontendKind::Balancer | FrontendKind::External)
            && !spec.ranges.is_empty();
        let ranges = match is_ranged {
            true => spec
                .ranges
                .iter()
                .filter(|it| it.addr().is_ipv4() == at.address.is_ipv4())
                .copied()
                .collect(),
            false => Box::default(),
        };
        set(is_ranged, flags::SOURCE_RANGE);
        set(is_ranged && annotated.is_some_and(|it| it.denies), flags::DENY_RANGE);
        let own = annotated.and_then(|it| it.algorithm);
        let own = own.filter(|_| self.balancing.algorithm.by_annotation);
        let algorithm = own.unwrap_or(self.balancing.algorithm.usual);
        let algorithm = if outside { algorithm } else { Algorithm::Random };
        let word = (algorithm as u32) << ALGORITHM_SHIFT | spec.affinity;
        let affinity = annotated.map(|it| it.affinity).unwrap_or_default();
        let mut add = |scope, local| {
            let backends = self.used(at, members, (local, affinity));
            let retained = retained(at, members, &backends);
            let ranges = ranges.clone();
            let desired = DesiredFrontend { word, flags: bits, backends, retained, ranges };
            wish.frontends.push((Frontend { at, scope }, desired));
        };
        if two {
            // The other one leads to it.
            add(LookupScope::Internal, false);
            add(LookupScope::External, true);
        } else {
            add(LookupScope::External, !outside && spec.internal_local);
        }
    }

    /// Who is used of those who are listed: of the frontend's family, on this node if only such are
    /// desired, of the clusters that come first, for clients of this node, or of this zone, if each says
    /// for whose. Who is quarantined
    /// and would be used is among them, and keeps nobody away who is farther. Who ends is used only
    /// if there is nobody else.
    fn used(
        &self,
        at: L4Address,
        members: &[(L4Address, Listed<'_>)],
        (local, affinity): (bool, Affinity),
    ) -> Vec<L4Address> {
        let can = |(to, it): &&(L4Address, Listed<'_>)| can_serve(at, to) && (!local || it.local);
        let first = first(members.iter().filter(can), affinity);
        let can =
            |it: &&(L4Address, Listed<'_>)| can(it) && first.is_none_or(|far| it.1.far == far);
        let of = |serving| members.iter().filter(can).filter(move |(_, it)| it.serving == serving);
        let choose = |all: Vec<_>| match local {
            true => all,
            false => near(&all, |it| it.here)
                .or_else(|| near(&all, |it| it.is_for(self.zone.as_ref()?)))
                .unwrap_or(all),
        };
        let ready = || of(EndpointCondition::Ready);
        let mut used = choose(ready().collect());
        if used.iter().any(|(_, it)| it.quarantined) {
            used.retain(|(_, it)| it.quarantined);
            used.extend(choose(ready().filter(|(_, it)| !it.quarantined).collect()));
        }
        if used.is_empty() {
            used = of(EndpointCondition::Ending).collect();
        }
        used.into_iter().map(|(to, _)| *to).collect()
    }
}
