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

use super::{model::NAMESPACE, node::Node, quarantine::Quarantine};

/// Services that there may be.
pub(super) const SERVICES: u8 = 4;
/// Backends that each may have, all of the same few.
pub(super) const BACKENDS: u8 = 6;
/// The node's own address, of which no packets are looked at but those to services.
const HOST: &str = "203.0.113.1";

/// Which backends a service has, a bit each; none at all is no service.
pub(super) type Members = Option<u8>;

/// Where a service is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    /// At its own address.
    Service,
    /// At the node's, by an Ingress.
    Ingress,
}

/// What services were since the node was last at rest, newest last.
#[derive(Default)]
pub(super) struct Served {
    versions: BTreeMap<u8, Vec<Members>>,
    /// Whether an Ingress led to each.
    ingresses: BTreeMap<u8, Vec<bool>>,
    /// Numbers of the frontends that there are.
    ids: BTreeMap<Frontend, ServiceId>,
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
    pub(super) fn service(&mut self, number: u8, members: Members, told: bool) {
        let name = format!("service-{number}");
        let documents = members.map(|members| documents(number, members).to_vec());
        self.world.manifests.insert(name.clone(), documents.unwrap_or_default());
        self.oracle.borrow_mut().served.becomes(number, members);
        self.changed(name, told);
    }

    /// An Ingress leads to a service from now on, or does not.
    pub(super) fn ingress(&mut self, number: u8, there: bool, told: bool) {
        let name = format!("ingress-{number}");
        let documents = if there { vec![ingress_document(number)] } else { Vec::new() };
        self.world.manifests.insert(name.clone(), documents);
        self.oracle.borrow_mut().served.leads(number, there);
        self.changed(name, told);
    }
}

/// If a manifest is of a service or of an Ingress, all objects that it may have.
pub(super) fn all_of(name: &str) -> Option<Vec<Value>> {
    let (kind, number) = name.split_once('-')?;
    let number = number.parse().ok()?;
    match kind {
        "service" => Some(documents(number, 0).to_vec()),
        "ingress" => Some(vec![ingress_document(number)]),
        _ => None,
    }
}

/// The objects of a service, and of who serves it, on two slices.
fn documents(number: u8, members: u8) -> [Value; 3] {
    let name = format!("service-{number}");
    let slice = |part: u8| {
        let all = bits(members).filter(|bit| bit % 2 == part);
        let endpoints: Vec<_> = all.map(|bit| json!({ "addresses": [backend(bit)] })).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{name}-{part}"), "namespace": NAMESPACE,
                "labels": { "kubernetes.io/service-name": name },
            },
            "addressType": "IPv4", "ports": [{ "port": 8080 }], "endpoints": endpoints,
        })
    };
    let Frontend { at: L4Address { address, port, .. }, .. } = frontend(number, Face::Service);
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "clusterIPs": [address], "ports": [{ "port": port }] },
    });
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

fn backend(bit: u8) -> String {
    format!("10.1.0.{}", bit + 1)
}

fn frontend(number: u8, face: Face) -> Frontend {
    let address = match face {
        Face::Service => std::net::Ipv4Addr::new(10, 96, 0, number).into(),
        Face::Ingress => host(),
    };
    frontend_at(address, number)
}

fn frontend_at(address: IpAddr, number: u8) -> Frontend {
    let at = L4Address { address, port: 80 + u16::from(number), transport: Transport::TCP };
    Frontend { at, scope: LookupScope::External }
}

fn bits(members: u8) -> impl Iterator<Item = u8> {
    (0..BACKENDS).filter(move |bit| members >> bit & 1 == 1)
}

/// Who serves by a bit.
pub(super) fn place(bit: u8) -> L4Address {
    let address = backend(bit).parse().expect("an address");
    L4Address { address, port: 8080, transport: Transport::TCP }
}

fn places(members: u8) -> BTreeSet<L4Address> {
    bits(members).map(place).collect()
}

/// Those of them who have new connections: if nobody has, all have.
fn not_quarantined(all: BTreeSet<L4Address>, services: &KernelServices) -> BTreeSet<L4Address> {
    let kept = services.backends.values().filter(|it| it.state == BackendState::Quarantined);
    let kept: BTreeSet<_> = kept.map(|it| it.at).collect();
    let others: BTreeSet<_> = all.difference(&kept).copied().collect();
    if others.is_empty() { all } else { others }
}

impl Served {
    fn becomes(&mut self, number: u8, members: Members) {
        let versions = self.versions.entry(number).or_insert_with(|| vec![None]);
        versions.retain(|version| *version != members);
        versions.push(members);
        self.quarantine.keep(&self.steady());
    }

    /// Backends that some service had all the time since the node was last at rest.
    pub(super) fn steady(&self) -> BTreeSet<u8> {
        let of = |versions: &Vec<Members>| {
            bits(versions.iter().fold(u8::MAX, |all, members| all & members.unwrap_or_default()))
        };
        self.versions.values().flat_map(of).collect()
    }

    fn leads(&mut self, number: u8, there: bool) {
        let versions = self.ingresses.entry(number).or_insert_with(|| vec![false]);
        versions.retain(|version| *version != there);
        versions.push(there);
    }

    /// The kernel forgot all: there is none before the agent has heard of any.
    pub(super) fn forget(&mut self) {
        self.ids.clear();
        for versions in self.versions.values_mut().filter(|it| !it.contains(&None)) {
            versions.insert(0, None);
        }
        self.quarantine.keep(&BTreeSet::new());
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
    fn faces(&self) -> impl Iterator<Item = (u8, Face, Vec<Members>)> {
        let services = self.versions.iter();
        let services = services.map(|(number, all)| (*number, Face::Service, all.clone()));
        let ingresses = self.ingresses.iter().map(|(number, led)| {
            let members = self.versions.get(number).map_or(&[None][..], Vec::as_slice);
            let behind = |led: &bool| {
                let led = *led;
                members.iter().map(move |members| members.filter(|_| led))
            };
            (*number, Face::Ingress, led.iter().flat_map(behind).collect())
        });
        services.chain(ingresses)
    }

    /// What is wrong, if anything is: a packet finds half a frontend, or somebody whom no version
    /// names, or a number moved.
    pub(super) fn wrong(&mut self, services: &KernelServices) -> Option<String> {
        let faces: Vec<_> = self.faces().collect();
        for (number, face, versions) in faces {
            let frontend = frontend(number, face);
            let landing = services.landing(frontend);
            let is_it = |members: &Members| match (members, &landing) {
                (None, Landing::NoService) => true,
                (Some(members), Landing::At(all)) => all.is_subset(&places(*members)),
                // Slices come one after the other.
                (Some(_), Landing::NoBackend) => versions.len() > 1 || *members == Some(0),
                _ => false,
            };
            let of_two = |all: &BTreeSet<L4Address>| {
                let named = versions.iter().flatten().flat_map(|it| places(*it));
                all.is_subset(&named.collect())
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

    /// The same at rest: just what the newest version says, and nothing more.
    pub(super) fn lacks(&self, services: &KernelServices) -> Option<String> {
        let (mut slots, mut backends) = (0, BTreeSet::new());
        for (number, face, versions) in self.faces() {
            let newest = versions.last().copied().flatten();
            let wanted = match newest.map(places) {
                None => Landing::NoService,
                Some(members) if members.is_empty() => Landing::NoBackend,
                Some(members) => Landing::At(not_quarantined(members, services)),
            };
            let hosts = self.hosts.iter().filter(|it| face == Face::Ingress && it.is_ipv4());
            let hosts = hosts.map(|&address| frontend_at(address, number));
            for frontend in hosts.chain([frontend(number, face)]) {
                let landing = services.landing(frontend);
                if landing != wanted {
                    return Some(format!("{face:?} {frontend} is {landing:?}, not {wanted:?}"));
                }
                if let Some(members) = newest {
                    slots += 1 + members.count_ones() as usize;
                    backends.extend(places(members));
                }
            }
        }
        let KernelServices { slots: rows, backends: there, reverse_nat, .. } = services;
        let firsts = rows.keys().filter(|(_, slot)| *slot == 0).count();
        let left =
            rows.len() != slots || there.len() != backends.len() || reverse_nat.len() != firsts;
        left.then(|| format!("rows of services are left over: {services:?}"))
    }
}
