//! Services of the node: what packets to each find, at every step.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde_json::{Value, json};
use volvox_actors_simulated::{
    model::{Frontend, L4Address, LookupScope, ServiceId, Transport},
    ports::{BackendState, Link},
    testing::{KernelServices, Landing, MemoryKernel},
};

use super::{
    members::{Members, at, places},
    model::NAMESPACE,
    node::Node,
    quarantine::Quarantine,
};

/// Services that there may be.
pub(super) const SERVICES: u8 = 4;
/// The node's own address, of which no packets are looked at but those to services.
const HOST: &str = "203.0.113.1";

/// Where load balancers ask for services: this and the number of each that they ask for.
const HEALTH_PORT: u16 = 32_000;

/// Where a service is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    /// At its own address.
    Service,
    /// At the node's, by an Ingress.
    Ingress,
    /// The same for who is on the node, where it is not the same.
    Inside,
}

/// What services were since the node was last at rest, newest last.
#[derive(Default)]
pub(super) struct Served {
    /// Who was listed for each; nobody at all is no service.
    versions: BTreeMap<u8, Vec<Option<Members>>>,
    /// Whether an Ingress led to each.
    ingresses: BTreeMap<u8, Vec<bool>>,
    /// Numbers of the frontends that there are.
    ids: BTreeMap<Frontend, ServiceId>,
    /// Who may have connections by each, as packets found it and it was listed ever since.
    connected: BTreeMap<Frontend, BTreeSet<L4Address>>,
    /// Addresses that the node has besides.
    pub(super) hosts: BTreeSet<IpAddr>,
    pub(super) quarantine: Quarantine,
}

/// The address that the node always has.
pub(super) fn host() -> IpAddr {
    HOST.parse().expect("an address")
}

/// The node has its address.
pub(super) fn plug_host(kernel: &MemoryKernel) {
    let addresses = vec![format!("{HOST}/24").parse().expect("an address")];
    let link = Link { ifindex: 2, name: "eth0".to_owned(), addresses, ..Link::default() };
    kernel.tamper(|state| state.plug(link));
}

impl Node {
    /// A service has other backends, comes, or goes.
    pub(super) fn service(&mut self, number: u8, members: Option<Members>, reported: bool) {
        let name = format!("service-{number}");
        let documents = members.map(|members| documents(number, members).to_vec());
        self.world.manifests.insert(name.clone(), documents.unwrap_or_default());
        self.oracle.borrow_mut().served.becomes(number, members);
        self.changed(name, reported);
    }

    /// An Ingress leads to a service from now on, or does not.
    pub(super) fn ingress(&mut self, number: u8, there: bool, reported: bool) {
        let name = format!("ingress-{number}");
        let documents = if there { vec![ingress_document(number)] } else { Vec::new() };
        self.world.manifests.insert(name.clone(), documents);
        self.oracle.borrow_mut().served.leads(number, there);
        self.changed(name, reported);
    }
}

/// If a manifest is of a service or of an Ingress, all objects that it may have.
pub(super) fn all_of(name: &str) -> Option<Vec<Value>> {
    let (kind, number) = name.split_once('-')?;
    let number = number.parse().ok()?;
    match kind {
        "service" => Some(documents(number, Members::all()).to_vec()),
        "ingress" => Some(vec![ingress_document(number)]),
        _ => None,
    }
}

/// The objects of a service, and of who serves it, on two slices.
fn documents(number: u8, members: Members) -> [Value; 3] {
    let name = format!("service-{number}");
    let slice = |part: u8| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{name}-{part}"), "namespace": NAMESPACE,
                "labels": { "kubernetes.io/service-name": name },
            },
            "addressType": "IPv4", "ports": [{ "port": 8080 }],
            "endpoints": members.endpoints(part),
        })
    };
    let Frontend { at: L4Address { address, port, .. }, .. } = frontend(number, Face::Service);
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "clusterIPs": [address], "ports": [{ "port": port }] },
    });
    if is_local(number) {
        service["spec"]["type"] = json!("LoadBalancer");
        service["spec"]["externalTrafficPolicy"] = json!("Local");
        service["spec"]["healthCheckNodePort"] = json!(HEALTH_PORT + u16::from(number));
    }
    [service, slice(0), slice(1)]
}

fn ingress_document(number: u8) -> Value {
    let port = frontend(number, Face::Ingress).at.port;
    let service = json!({ "name": format!("service-{number}"), "port": { "number": port } });
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": format!("ingress-{number}"), "namespace": NAMESPACE },
        "spec": { "defaultBackend": { "service": service } },
    })
}

/// Whether clients outside reach a service at backends of the node only; each node is asked then.
fn is_local(number: u8) -> bool {
    number % 2 == 1
}

fn frontend(number: u8, face: Face) -> Frontend {
    let address = match face {
        Face::Service => std::net::Ipv4Addr::new(10, 96, 0, number).into(),
        Face::Ingress | Face::Inside => host(),
    };
    frontend_at(address, number, face)
}

fn frontend_at(address: IpAddr, number: u8, face: Face) -> Frontend {
    let at = L4Address { address, port: 80 + u16::from(number), transport: Transport::TCP };
    let scope = if face == Face::Inside { LookupScope::Internal } else { LookupScope::External };
    Frontend { at, scope }
}

impl Face {
    /// Whether it leads to backends of the node only.
    fn is_local(self, number: u8) -> bool {
        self == Self::Ingress && is_local(number)
    }
}

/// Who is quarantined.
fn quarantined(services: &KernelServices) -> u8 {
    let all = services.backends.values().filter(|it| it.state == BackendState::Quarantined);
    at(all.map(|it| it.at))
}

impl Served {
    fn becomes(&mut self, number: u8, members: Option<Members>) {
        let versions = self.versions.entry(number).or_insert_with(|| vec![None]);
        versions.retain(|version| *version != members);
        versions.push(members);
        self.quarantine.keep(self.steady());
    }

    /// Backends that some service had all the time since the node was last at rest.
    pub(super) fn steady(&self) -> u8 {
        let listed = |members: &Option<Members>| members.map_or(0, Members::listed);
        let of = |all: &Vec<_>| all.iter().map(listed).fold(u8::MAX, |all, some| all & some);
        self.versions.values().map(of).fold(0, |all, some| all | some)
    }

    fn leads(&mut self, number: u8, there: bool) {
        let versions = self.ingresses.entry(number).or_insert_with(|| vec![false]);
        versions.retain(|version| *version != there);
        versions.push(there);
    }

    /// The kernel forgot all: there is none before the agent has heard of any.
    pub(super) fn forget(&mut self) {
        self.ids.clear();
        self.connected.clear();
        for versions in self.versions.values_mut().filter(|it| !it.contains(&None)) {
            versions.insert(0, None);
        }
        self.quarantine.keep(0);
    }

    /// All of them go.
    pub(super) fn end(&mut self) {
        let all: Vec<u8> = self.versions.keys().copied().collect();
        all.into_iter().for_each(|number| self.becomes(number, None));
        let all: Vec<u8> = self.ingresses.keys().copied().collect();
        all.into_iter().for_each(|number| self.leads(number, false));
    }

    /// Everything is in force: only the newest counts from now on.
    pub(super) fn rest(&mut self) {
        for versions in self.versions.values_mut() {
            versions.drain(..versions.len() - 1);
        }
        for versions in self.ingresses.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }

    /// What may be behind each face of a service, newest last. Service and Ingress are two objects:
    /// either may be heard of first.
    fn faces(&self) -> impl Iterator<Item = (u8, Face, Vec<Option<Members>>)> {
        let services = self.versions.iter();
        let services = services.map(|(number, all)| (*number, Face::Service, all.clone()));
        let ingresses = self.ingresses.iter().flat_map(|(number, led)| {
            let members = self.versions.get(number).map_or(&[None][..], Vec::as_slice);
            let behind = |led: &bool| {
                let led = *led;
                members.iter().map(move |members| members.filter(|_| led))
            };
            let all: Vec<_> = led.iter().flat_map(behind).collect();
            let inside = is_local(*number).then(|| (*number, Face::Inside, all.clone()));
            [(*number, Face::Ingress, all)].into_iter().chain(inside)
        });
        services.chain(ingresses)
    }

    /// What is wrong, if anything is: a packet finds half a frontend, or somebody whom no version
    /// names, or a number moved.
    pub(super) fn wrong(&mut self, services: &KernelServices) -> Option<String> {
        let faces: Vec<_> = self.faces().collect();
        for (number, face, versions) in faces {
            let frontend = frontend(number, face);
            if let Some(cut) = self.cut(frontend, &versions, services) {
                return Some(cut);
            }
            let landing = services.landing(frontend);
            let serving = |it: &Members| it.serving(face.is_local(number));
            let is_it = |members: &Option<Members>| match (members, &landing) {
                (None, Landing::NoService) => true,
                (Some(members), Landing::At(all)) => all.is_subset(&places(serving(members))),
                // Slices come one after the other.
                (Some(members), Landing::NoBackend) => versions.len() > 1 || serving(members) == 0,
                _ => false,
            };
            let of_two = |all: &BTreeSet<L4Address>| {
                let named = versions.iter().flatten().map(serving).fold(0, |all, some| all | some);
                all.is_subset(&places(named))
            };
            let mixed = versions.len() > 1 && matches!(&landing, Landing::At(all) if of_two(all));
            if !mixed && !versions.iter().any(is_it) {
                return Some(format!("{face:?} {number} is {landing:?}, not of {versions:?}"));
            }
            let there = services.slots.get(&(frontend, 0)).map(|row| row.id);
            match (there, self.ids.get(&frontend)) {
                (Some(id), Some(before)) if id != *before => {
                    return Some(format!("the number of {frontend} was {before}, and is {id}"));
                }
                (Some(id), _) => drop(self.ids.insert(frontend, id)),
                (None, _) => drop(self.ids.remove(&frontend)),
            }
        }
        let all: BTreeSet<_> = self.ids.values().collect();
        (all.len() < self.ids.len()).then(|| "two services have one number".to_owned())
    }

    /// A connection that lost its backend although that is listed. Whoever packets find may have some.
    fn cut(
        &mut self,
        frontend: Frontend,
        versions: &[Option<Members>],
        services: &KernelServices,
    ) -> Option<String> {
        let Some(id) = services.slots.get(&(frontend, 0)).map(|row| row.id) else {
            self.connected.remove(&frontend);
            return None;
        };
        let members = services.members.iter().filter(|((key, _), _)| key.0 == id);
        let members: BTreeSet<_> = members.map(|(_, row)| row.at).collect();
        let listed = |it: &Option<Members>| it.map_or(0, Members::listed);
        let steady = places(versions.iter().map(listed).fold(u8::MAX, |all, some| all & some));
        let connected = self.connected.entry(frontend).or_default();
        connected.retain(|at| steady.contains(at));
        if let Some(at) = connected.iter().find(|at| !members.contains(at)) {
            return Some(format!("{at} has connections by {frontend}, lists it, and is no member"));
        }
        if let Landing::At(all) = services.landing(frontend) {
            connected.extend(all.into_iter().filter(|at| steady.contains(at)));
        }
        None
    }

    /// What of the backends of a frontend is otherwise at rest than its service says.
    fn odd_members(
        frontend: Frontend,
        newest: Option<Members>,
        local: bool,
        services: &KernelServices,
    ) -> Option<String> {
        let first = services.slots.get(&(frontend, 0))?;
        for ((key, _), row) in services.members.iter().filter(|((key, _), _)| key.0 == first.id) {
            let (listed, unready) = newest.map_or((0, 0), |it| (it.listed(), it.unready()));
            let serving = newest.map_or(0, |it| it.serving(local));
            let is_of = |some: u8| places(some).contains(&row.at);
            let rests = row.state == BackendState::Maintenance;
            let is_right = match row.state {
                BackendState::Active | BackendState::Quarantined => is_of(serving),
                BackendState::Terminating | BackendState::Maintenance => is_of(listed),
            };
            if !is_right || rests != is_of(unready) {
                return Some(format!("{key:?} of {frontend} is {row:?}, and listed as {newest:?}"));
            }
        }
        None
    }

    /// Which addresses have a row for ports that are not served.
    fn wildcards(services: &KernelServices) -> BTreeSet<IpAddr> {
        let all = services.slots.keys().filter(|(at, slot)| (at.at.port, *slot) == (0, 0));
        all.map(|(at, _)| at.at.address).collect()
    }

    /// The same at rest: just what the newest version says, and nothing more.
    pub(super) fn lacks(&self, services: &KernelServices) -> Option<String> {
        let (mut slots, mut backends, quarantined) = (0, 0, quarantined(services));
        let mut addresses = BTreeSet::new();
        for (number, face, versions) in self.faces() {
            let newest = versions.last().copied().flatten();
            let expected = newest.map(|it| it.chosen(quarantined, face.is_local(number)));
            let expected = match expected {
                None => Landing::NoService,
                Some(0) => Landing::NoBackend,
                Some(some) => Landing::At(places(some)),
            };
            let hosts = self.hosts.iter().filter(|it| face != Face::Service && it.is_ipv4());
            let hosts = hosts.map(|&address| frontend_at(address, number, face));
            for frontend in hosts.chain([frontend(number, face)]) {
                let odd = Self::odd_members(frontend, newest, face.is_local(number), services);
                if odd.is_some() {
                    return odd;
                }
                let landing = services.landing(frontend);
                if landing != expected {
                    return Some(format!("{face:?} {frontend} is {landing:?}, not {expected:?}"));
                }
                if let Some(first) = services.slots.get(&(frontend, 0)) {
                    slots += 1 + usize::from(first.count + first.quarantined);
                    if face == Face::Service {
                        addresses.insert(frontend.at.address);
                    }
                }
            }
            backends |= newest.map_or(0, Members::listed);
        }
        let wildcards = Self::wildcards(services);
        if wildcards != addresses {
            return Some(format!("other ports are refused at {wildcards:?}, not {addresses:?}"));
        }
        slots += wildcards.len();
        let KernelServices { slots: rows, backends: there, reverse_nat, .. } = services;
        let firsts = rows.keys().filter(|(at, slot)| *slot == 0 && at.at.port != 0).count();
        let ids: BTreeSet<_> = rows.values().map(|row| row.id).collect();
        if let Some((key, _)) = services.members.keys().find(|((id, _), _)| !ids.contains(id)) {
            return Some(format!("{key:?} is a backend of no service"));
        }
        let left = rows.len() != slots
            || there.len() != backends.count_ones() as usize
            || reverse_nat.len() != firsts;
        left.then(|| format!("rows of services are left over: {services:?}"))
    }

    /// What load balancers hear otherwise at rest.
    pub(super) fn misheard(
        &self,
        heard: &[(u16, String, usize)],
        services: &KernelServices,
    ) -> Option<String> {
        let quarantined = quarantined(services);
        let check = |(number, versions): (&u8, &Vec<Option<Members>>)| {
            let healthy = versions.last().copied().flatten()?.healthy(quarantined);
            let service = format!("{NAMESPACE}/service-{number}");
            Some((HEALTH_PORT + u16::from(*number), service, healthy))
        };
        let asked = self.versions.iter().filter(|(number, _)| is_local(**number));
        let expected: Vec<_> = asked.filter_map(check).collect();
        (heard != expected).then(|| format!("load balancers hear {heard:?}, not {expected:?}"))
    }
}
