//! What services mean: where each is reached, and who may be behind it, in every version that there was
//! since the node was last at rest.

use std::{collections::BTreeMap, net::IpAddr};

use volvox_actors_simulated::model::{Frontend, L4Address, LookupScope, Transport};

use super::service_members::Members;

/// Services that there may be.
pub(crate) const SERVICES: u8 = 4;

/// The node's own address, of which no packets are looked at but those to services.
pub(crate) const HOST: &str = "203.0.113.1";

/// Where load balancers ask for services: this and the number of each that they ask for.
pub(crate) const HEALTH_PORT: u16 = 32_000;

/// Where a service is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    /// At its own address.
    Service,
    /// At the node's, by an Ingress.
    Ingress,
    /// The same for who is on the node, where it is not the same.
    Inside,
}

impl Face {
    /// Whether it leads to backends of the node only.
    pub(crate) fn is_local(self, number: u8) -> bool {
        self == Self::Ingress && is_local(number)
    }
}

/// The address that the node always has.
pub(crate) fn host() -> IpAddr {
    HOST.parse().expect("an address")
}

/// Whether clients outside reach a service at backends of the node only; each node is asked then.
pub(crate) fn is_local(number: u8) -> bool {
    number % 2 == 1
}

/// Where a service is reached.
pub(crate) fn frontend(number: u8, face: Face) -> Frontend {
    let address = match face {
        Face::Service => std::net::Ipv4Addr::new(10, 96, 0, number).into(),
        Face::Ingress | Face::Inside => host(),
    };
    frontend_at(address, number, face)
}

/// Where it is reached at another address of the node.
pub(crate) fn frontend_at(address: IpAddr, number: u8, face: Face) -> Frontend {
    let at = L4Address { address, port: 80 + u16::from(number), transport: Transport::TCP };
    let scope = if face == Face::Inside { LookupScope::Internal } else { LookupScope::External };
    Frontend { at, scope }
}

/// What services were since the node was last at rest, newest last.
#[derive(Default)]
pub(crate) struct ServiceVersions {
    /// Who was listed for each; nobody at all is no service.
    versions: BTreeMap<u8, Vec<Option<Members>>>,
    /// Whether an Ingress led to each.
    ingresses: BTreeMap<u8, Vec<bool>>,
}

impl ServiceVersions {
    /// A service has other backends, comes, or goes.
    pub(crate) fn becomes(&mut self, number: u8, members: Option<Members>) {
        let versions = self.versions.entry(number).or_insert_with(|| vec![None]);
        versions.retain(|version| *version != members);
        versions.push(members);
    }

    /// Backends that some service had all the time since the node was last at rest.
    pub(crate) fn steady(&self) -> u8 {
        let listed = |members: &Option<Members>| members.map_or(0, Members::listed);
        let of = |all: &Vec<_>| all.iter().map(listed).fold(u8::MAX, |all, some| all & some);
        self.versions.values().map(of).fold(0, |all, some| all | some)
    }

    /// An Ingress leads to a service from now on, or does not.
    pub(crate) fn leads(&mut self, number: u8, there: bool) {
        let versions = self.ingresses.entry(number).or_insert_with(|| vec![false]);
        versions.retain(|version| *version != there);
        versions.push(there);
    }

    /// The kernel forgot all: each service is none before the agent has heard of it.
    pub(crate) fn forget(&mut self) {
        for versions in self.versions.values_mut().filter(|it| !it.contains(&None)) {
            versions.insert(0, None);
        }
    }

    /// All of them go.
    pub(crate) fn end(&mut self) {
        let all: Vec<u8> = self.versions.keys().copied().collect();
        all.into_iter().for_each(|number| self.becomes(number, None));
        let all: Vec<u8> = self.ingresses.keys().copied().collect();
        all.into_iter().for_each(|number| self.leads(number, false));
    }

    /// Everything is in force: only the newest counts from now on.
    pub(crate) fn rest(&mut self) {
        for versions in self.versions.values_mut() {
            versions.drain(..versions.len() - 1);
        }
        for versions in self.ingresses.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }

    /// What may be behind each face of a service, newest last. Service and Ingress are two objects:
    /// either may be heard of first.
    pub(crate) fn faces(&self) -> impl Iterator<Item = (u8, Face, Vec<Option<Members>>)> {
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

    /// Services that load balancers ask for at each node, with the newest that is listed for each.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (u8, Option<Members>)> {
        let asked = self.versions.iter().filter(|(number, _)| is_local(**number));
        asked.map(|(number, versions)| (*number, versions.last().copied().flatten()))
    }
}
