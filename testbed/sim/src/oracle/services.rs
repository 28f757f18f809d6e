//! Packets to services: what each finds, at every step and at rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use volvox_actors_simulated::{
    model::{Frontend, L4Address, ServiceId},
    ports::{BackendRow, BackendState},
    testing::{KernelServices, Landing},
};

use super::quarantine::Quarantine;
use crate::model::{
    NAMESPACE,
    service_members::{Members, at, places},
    services::{Face, HEALTH_PORT, ServiceVersions, frontend, frontend_at},
};

/// Services as the model has them, and what packets found of them.
#[derive(Default)]
pub(crate) struct ServiceChecks {
    /// What should be.
    pub(crate) expected: ServiceVersions,
    /// Numbers of the frontends that there are.
    ids: BTreeMap<Frontend, ServiceId>,
    /// Who may have connections by each, as packets found it and it was listed ever since.
    connected: BTreeMap<Frontend, BTreeSet<L4Address>>,
    /// Addresses that the node has besides.
    pub(crate) hosts: BTreeSet<IpAddr>,
    pub(crate) quarantine: Quarantine,
}

/// Who is quarantined.
fn quarantined(services: &KernelServices) -> u8 {
    let all = services.backends.values().filter(|it| it.state == BackendState::Quarantined);
    at(all.map(|it| it.at))
}

impl ServiceChecks {
    /// A service has other backends, comes, or goes.
    pub(crate) fn becomes(&mut self, number: u8, members: Option<Members>) {
        self.expected.becomes(number, members);
        self.quarantine.keep(self.expected.steady());
    }

    /// The kernel forgot all: there is none before the agent has heard of any.
    pub(crate) fn forget(&mut self) {
        self.ids.clear();
        self.connected.clear();
        self.expected.forget();
        self.quarantine.keep(0);
    }

    /// All of them go.
    pub(crate) fn end(&mut self) {
        self.expected.end();
        self.quarantine.keep(self.expected.steady());
    }

    /// Everything is in force: only the newest counts from now on.
    pub(crate) fn rest(&mut self) {
        self.expected.rest();
    }

    /// What is wrong, if anything is: a packet finds half a frontend, or somebody whom no version
    /// names, or a number moved.
    pub(crate) fn wrong(&mut self, services: &KernelServices) -> Option<String> {
        let faces: Vec<_> = self.expected.faces().collect();
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
                // Who left may have connections still.
                BackendState::Terminating => true,
                BackendState::Maintenance => is_of(listed),
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
    pub(crate) fn lacks(&self, services: &KernelServices) -> Option<String> {
        let (mut slots, mut backends, quarantined) = (0, 0, quarantined(services));
        let mut addresses = BTreeSet::new();
        for (number, face, versions) in self.expected.faces() {
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
        // Who left every service may have connections still, and no new ones.
        let (listed, gone): (Vec<&BackendRow>, Vec<_>) =
            there.values().partition(|row| places(backends).contains(&row.at));
        let left = rows.len() != slots
            || listed.len() != backends.count_ones() as usize
            || gone.iter().any(|row| row.state != BackendState::Terminating)
            || reverse_nat.len() != firsts;
        left.then(|| format!("rows of services are left over: {services:?}"))
    }

    /// What load balancers hear otherwise at rest.
    pub(crate) fn health_checks_lack(
        &self,
        heard: &[(u16, String, usize)],
        services: &KernelServices,
    ) -> Option<String> {
        let quarantined = quarantined(services);
        let check = |(number, newest): (u8, Option<Members>)| {
            let healthy = newest?.healthy(quarantined);
            let service = format!("{NAMESPACE}/service-{number}");
            Some((HEALTH_PORT + u16::from(number), service, healthy))
        };
        let expected: Vec<_> = self.expected.asked().filter_map(check).collect();
        (heard != expected).then(|| format!("load balancers hear {heard:?}, not {expected:?}"))
    }
}
