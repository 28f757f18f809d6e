//! Addresses of services have a row for the ports that nobody serves there: what is sent to one is refused
//! on this node, and never leaves it. The node's own addresses have none.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{dense::Dense, shape::Shape};
use crate::{
    model::{Frontend, L4Address, LookupScope, Transport},
    mutants::{Mutant, mutated},
    ports::{SlotKey, SlotRow, service_flags},
};

/// An address of services.
#[derive(Debug)]
pub(super) struct Address {
    /// How many frontends it has.
    frontends: u32,
    /// Whether the kernel has its row; nobody knows after a batch that failed.
    pub(super) kernel: Option<bool>,
}

/// What a sweep saw of them.
#[derive(Debug, Default)]
pub(super) struct SeenWildcards {
    /// Addresses with a row as it is to be, and with another one.
    pub(super) right: BTreeSet<IpAddr>,
    pub(super) wrong: BTreeSet<IpAddr>,
    /// Their rows are written or removed meanwhile: what is seen of them says nothing.
    pub(super) skipped: BTreeSet<IpAddr>,
}

/// All such addresses.
#[derive(Debug, Default)]
pub(super) struct Wildcards {
    pub(super) addresses: Dense<IpAddr, Address>,
    /// The node's own, once they are known: no row is made before.
    own: Option<BTreeSet<IpAddr>>,
    pub(super) due: BTreeSet<IpAddr>,
    pub(super) flying: BTreeMap<IpAddr, bool>,
    /// Rows of each family, IPv6 first.
    rows: [usize; 2],
    /// Those that go without a row, as there is no room.
    starving: BTreeSet<IpAddr>,
    /// What a sweep under way saw.
    pub(super) seen: Option<SeenWildcards>,
}

/// Rows to be written and to be removed.
pub(super) type DueWildcardRows = (Vec<(SlotKey, SlotRow)>, Vec<SlotKey>);

/// Whether a row of the kernel's map is such a row.
pub(super) fn is_one((frontend, slot): &SlotKey) -> bool {
    let Frontend { at: L4Address { port, transport, .. }, scope } = frontend;
    (*port, *transport, *scope, *slot) == (0, Transport::ANY, LookupScope::External, 0)
}

fn key(address: IpAddr) -> SlotKey {
    let at = L4Address { address, port: 0, transport: Transport::ANY };
    (Frontend { at, scope: LookupScope::External }, 0)
}

/// Whether a frontend's address is the service's at all ports.
fn is_whole(frontend: &Frontend, shape: &Shape) -> bool {
    let of_node = service_flags::NODE_PORT | service_flags::HOST_PORT;
    frontend.scope == LookupScope::External && shape.flags & of_node == 0
}

impl Wildcards {
    /// The kernel has this one from an earlier run.
    pub(super) fn inherit(&mut self, address: IpAddr) {
        let row = Address { frontends: 0, kernel: Some(true) };
        self.addresses.entry(address).or_insert(row).kernel = Some(true);
        self.rows[usize::from(address.is_ipv4())] += 1;
    }

    /// Somebody else put a row there: it goes, unless it is one that is desired.
    pub(super) fn take_foreign(&mut self, address: IpAddr) {
        let new = Address { frontends: 0, kernel: Some(false) };
        self.addresses.entry(address).or_insert(new).kernel = None;
        self.rows[usize::from(address.is_ipv4())] += 1;
        self.due.insert(address);
    }

    /// All of an earlier run is known: rows of addresses that are no service's go.
    pub(super) fn inherited(&mut self) {
        let nobodys = self.addresses.iter().filter(|(_, row)| row.frontends == 0);
        self.due.extend(nobodys.map(|(address, _)| *address));
    }

    /// These are the node's own addresses.
    pub(super) fn set_own(&mut self, own: &BTreeSet<IpAddr>) {
        let before = self.own.replace(own.clone());
        match before {
            None => {
                let is_other = |(address, row): &(&IpAddr, &Address)| {
                    own.contains(address) || row.kernel != Some(true)
                };
                let others = self.addresses.iter().filter(is_other);
                self.due.extend(others.map(|(address, _)| *address));
            }
            Some(before) => {
                let changed = before.symmetric_difference(own);
                self.due.extend(changed.filter(|it| self.addresses.contains_key(it)));
            }
        }
    }

    /// A frontend becomes something else.
    pub(super) fn change(
        &mut self,
        frontend: &Frontend,
        before: Option<&Shape>,
        now: Option<&Shape>,
    ) {
        let counts = |shape: Option<&Shape>| shape.is_some_and(|shape| is_whole(frontend, shape));
        let at = frontend.at.address;
        match (counts(before), counts(now)) {
            (false, true) => {
                let new = Address { frontends: 0, kernel: Some(false) };
                let address = self.addresses.entry(at).or_insert(new);
                address.frontends += 1;
                if address.frontends == 1 {
                    self.due.insert(at);
                }
            }
            (true, false) => {
                let Some(address) = self.addresses.get_mut(&at) else { return };
                address.frontends = address.frontends.saturating_sub(1);
                if address.frontends == 0 {
                    self.starving.remove(&at);
                    self.due.insert(at);
                }
            }
            _ => {}
        }
    }

    /// Rows that a family has, or may have.
    pub(super) fn rows(&self, is_ipv4: bool) -> usize {
        self.rows[usize::from(is_ipv4)]
    }

    /// Addresses without a row, as there is no room.
    pub(super) fn without(&self) -> usize {
        self.starving.len()
    }

    /// Takes no more memory than is needed.
    pub(super) fn pack(&mut self) {
        self.addresses.pack();
    }

    /// What is to be written and removed where the services themselves take so many rows of each family.
    /// Where there is no room for all, services come first.
    pub(super) fn begin(&mut self, taken: [usize; 2], room: usize) -> DueWildcardRows {
        let (mut puts, mut deletes) = (Vec::new(), Vec::new());
        if room == 0 || (0..2).any(|family| taken[family] + self.rows[family] < room) {
            self.due.append(&mut self.starving);
        }
        for address in std::mem::take(&mut self.due) {
            let Some(row) = self.addresses.get(&address) else { continue };
            let is_own = match &self.own {
                Some(own) => own.contains(&address),
                // What is there may stay till then.
                None => row.kernel == Some(false),
            };
            let desired = row.frontends > 0 && !is_own && !mutated(Mutant::UnservedPortsLeave);
            let family = usize::from(address.is_ipv4());
            let has = row.kernel != Some(false);
            if desired && !has && room > 0 && taken[family] + self.rows[family] >= room {
                self.starving.insert(address);
                continue;
            }
            match (desired, row.kernel) {
                (true, Some(true)) => continue,
                (false, Some(false)) => {
                    if row.frontends == 0 {
                        self.addresses.remove(&address);
                    }
                    continue;
                }
                (true, _) => puts.push((key(address), SlotRow::default())),
                (false, _) => deletes.push(key(address)),
            }
            self.rows[family] += usize::from(desired && !has);
            self.fly(address, desired);
        }
        (puts, deletes)
    }

    fn fly(&mut self, address: IpAddr, desired: bool) {
        self.flying.insert(address, desired);
        if let Some(seen) = &mut self.seen {
            seen.skipped.insert(address);
        }
    }

    /// Rows that go because services need their room: as many as are too much.
    pub(super) fn give_way(&mut self, taken: [usize; 2], room: usize) -> Vec<SlotKey> {
        let excess = |family: usize| (taken[family] + self.rows[family]).saturating_sub(room);
        let mut excess = [excess(0), excess(1)];
        if room == 0 || excess == [0, 0] {
            return Vec::new();
        }
        let mut gone = Vec::new();
        for (address, row) in self.addresses.iter().filter(|(_, row)| row.kernel != Some(false)) {
            let family = usize::from(address.is_ipv4());
            if excess[family] > 0 && !self.flying.contains_key(address) && row.frontends > 0 {
                excess[family] -= 1;
                gone.push(*address);
            }
        }
        for address in &gone {
            self.fly(*address, false);
            self.due.insert(*address);
        }
        gone.into_iter().map(key).collect()
    }

    /// The batch under way ended.
    pub(super) fn end(&mut self, done: bool) {
        for (address, desired) in std::mem::take(&mut self.flying) {
            let Some(row) = self.addresses.get_mut(&address) else { continue };
            row.kernel = done.then_some(desired);
            let is_gone = done && !desired;
            self.rows[usize::from(address.is_ipv4())] -= usize::from(is_gone);
            if !done || (row.frontends > 0) != desired {
                self.due.insert(address);
            } else if is_gone {
                self.addresses.remove(&address);
            }
        }
    }
}
