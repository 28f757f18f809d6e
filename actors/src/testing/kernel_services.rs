//! The memory kernel's load-balancing maps, and where a packet to a frontend would go by them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use ipnet::IpNet;

use crate::{
    model::{BackendId, Frontend, L4Address, ServiceId},
    ports::{
        BackendRow, BackendState, KernelOp, MaglevTable, MemberKey, ServiceKeys, ServiceRows,
        ServiceTables, SlotKey, SlotRow, UnusedNumbers,
    },
};

/// The maps that balance load, in memory.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the maps are those of ServiceTables")]
pub struct KernelServices {
    pub unused: UnusedNumbers,
    pub slots: BTreeMap<SlotKey, SlotRow>,
    pub backends: BTreeMap<(BackendId, bool), BackendRow>,
    pub members: BTreeMap<(MemberKey, bool), BackendRow>,
    pub mistaken: BTreeMap<(BackendId, bool), L4Address>,
    pub reverse_nat: BTreeMap<(ServiceId, bool), SocketAddr>,
    pub affinity: BTreeSet<(BackendId, ServiceId)>,
    pub ranges: BTreeSet<(ServiceId, IpNet)>,
    pub maglev: BTreeMap<(ServiceId, bool), Vec<(BackendId, L4Address)>>,
    pub room: usize,
}

/// What becomes of a packet to a frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landing {
    /// There is no such service.
    NoService,
    /// It has no backend.
    NoBackend,
    /// It lands at one of these.
    At(BTreeSet<L4Address>),
    /// Some row that it needs is not there, or contradicts another.
    Broken(String),
}

impl KernelServices {
    /// What a restart would read.
    pub fn tables(&self) -> ServiceTables {
        ServiceTables {
            unused: self.unused,
            slots: self.slots.iter().map(|(key, row)| (*key, *row)).collect(),
            backends: self.backends.iter().map(|((id, _), row)| (*id, *row)).collect(),
            members: self.members.iter().map(|((key, _), row)| (*key, *row)).collect(),
            mistaken: self.mistaken.iter().map(|((id, _), at)| (*id, *at)).collect(),
            reverse_nat: self.reverse_nat.iter().map(|((id, _), at)| (*id, *at)).collect(),
            affinity: self.affinity.iter().copied().collect(),
            ranges: self.ranges.iter().copied().collect(),
            maglev: self.maglev.keys().copied().collect(),
            foreign: Vec::new(),
            room: self.room,
        }
    }

    /// Tables of Maglev that are not of these backends.
    pub(super) fn differing_tables(&self, all: &[MaglevTable]) -> Vec<(ServiceId, bool)> {
        let differs = |(id, is_ipv4, backends): &&MaglevTable| {
            self.maglev.get(&(*id, *is_ipv4)) != Some(backends)
        };
        all.iter().filter(differs).map(|(id, is_ipv4, _)| (*id, *is_ipv4)).collect()
    }

    /// Where a new connection to a frontend may land.
    pub fn landing(&self, frontend: Frontend) -> Landing {
        let Some(first) = self.slots.get(&(frontend, 0)) else { return Landing::NoService };
        let is_ipv4 = frontend.at.address.is_ipv4();
        if self.reverse_nat.get(&(first.id, is_ipv4)) != Some(&frontend.at.socket()) {
            return Landing::Broken(format!("replies of {frontend} are not translated back"));
        }
        let mut all = BTreeSet::new();
        // Who is quarantined is used if there is nobody else.
        let used = if first.count > 0 { first.count } else { first.quarantined };
        for slot in 1..=used {
            let Some(row) = self.slots.get(&(frontend, slot)) else {
                return Landing::Broken(format!("slot {slot} of {frontend} is empty"));
            };
            let Some(backend) = self.backends.get(&(BackendId(row.word), is_ipv4)) else {
                return Landing::Broken(format!("{frontend} leads to nobody: {}", row.word));
            };
            let member = self.members.get(&((first.id, BackendId(row.word)), is_ipv4));
            if member.map(|it| it.at) != Some(backend.at) {
                return Landing::Broken(format!("{} is no member of {frontend}", backend.at));
            }
            all.insert(backend.at);
        }
        if all.is_empty() { Landing::NoBackend } else { Landing::At(all) }
    }

    /// Backends that connections may have.
    pub fn alive(&self) -> BTreeSet<L4Address> {
        let may = |row: &&BackendRow| row.state != BackendState::Maintenance;
        self.backends.values().filter(may).map(|row| row.at).collect()
    }

    /// Does a step that is about them.
    pub(super) fn change(&mut self, op: &KernelOp) {
        match op {
            KernelOp::PutServices(rows) => self.put(rows),
            KernelOp::DeleteServices(keys) => self.delete(keys),
            _ => {}
        }
    }

    fn put(&mut self, rows: &ServiceRows) {
        match rows {
            ServiceRows::Unused(unused) => self.unused = *unused,
            ServiceRows::Slots(all) => self.slots.extend(all.iter().copied()),
            ServiceRows::Backends(all) => {
                for (id, row) in all {
                    let key = (*id, row.at.address.is_ipv4());
                    self.mistaken.remove(&key);
                    self.backends.insert(key, *row);
                }
            }
            ServiceRows::Members(all) => {
                let rows = all.iter().map(|(key, row)| ((*key, row.at.address.is_ipv4()), *row));
                self.members.extend(rows);
            }
            ServiceRows::ReverseNat(all) => {
                self.reverse_nat.extend(all.iter().map(|(id, at)| ((*id, at.is_ipv4()), *at)));
            }
            ServiceRows::AffinityMatches(all) => self.affinity.extend(all.iter().copied()),
            ServiceRows::SourceRanges(all) => self.ranges.extend(all.iter().copied()),
            ServiceRows::Maglev(all) => {
                for (id, is_ipv4, backends) in all {
                    self.maglev.insert((*id, *is_ipv4), backends.clone());
                }
            }
        }
    }

    fn delete(&mut self, keys: &ServiceKeys) {
        match keys {
            ServiceKeys::Slots(all) => self.slots.retain(|it, _| !all.contains(it)),
            ServiceKeys::Backends(all) => {
                self.backends.retain(|it, _| !all.contains(it));
                self.mistaken.retain(|it, _| !all.contains(it));
            }
            ServiceKeys::Members(all) => self.members.retain(|it, _| !all.contains(it)),
            ServiceKeys::ReverseNat(all) => {
                self.reverse_nat.retain(|it, _| !all.contains(it));
            }
            ServiceKeys::AffinityMatches(all) => self.affinity.retain(|it| !all.contains(it)),
            ServiceKeys::SourceRanges(all) => self.ranges.retain(|it| !all.contains(it)),
            ServiceKeys::Maglev(all) => self.maglev.retain(|it, _| !all.contains(it)),
        }
    }
}

/// The first half of a batch of rows.
pub(super) fn half(op: &KernelOp) -> Option<KernelOp> {
    fn first<T: Clone>(all: &[T]) -> Vec<T> {
        all[..all.len() / 2].to_vec()
    }
    Some(match op {
        KernelOp::PutServices(rows) => KernelOp::PutServices(match rows {
            ServiceRows::Unused(_) => return None,
            ServiceRows::Slots(all) => ServiceRows::Slots(first(all)),
            ServiceRows::Backends(all) => ServiceRows::Backends(first(all)),
            ServiceRows::Members(all) => ServiceRows::Members(first(all)),
            ServiceRows::ReverseNat(all) => ServiceRows::ReverseNat(first(all)),
            ServiceRows::AffinityMatches(all) => ServiceRows::AffinityMatches(first(all)),
            ServiceRows::SourceRanges(all) => ServiceRows::SourceRanges(first(all)),
            ServiceRows::Maglev(all) => ServiceRows::Maglev(first(all)),
        }),
        KernelOp::DeleteServices(keys) => KernelOp::DeleteServices(match keys {
            ServiceKeys::Slots(all) => ServiceKeys::Slots(first(all)),
            ServiceKeys::Backends(all) => ServiceKeys::Backends(first(all)),
            ServiceKeys::Members(all) => ServiceKeys::Members(first(all)),
            ServiceKeys::ReverseNat(all) => ServiceKeys::ReverseNat(first(all)),
            ServiceKeys::AffinityMatches(all) => ServiceKeys::AffinityMatches(first(all)),
            ServiceKeys::SourceRanges(all) => ServiceKeys::SourceRanges(first(all)),
            ServiceKeys::Maglev(all) => ServiceKeys::Maglev(first(all)),
        }),
        _ => return None,
    })
}
