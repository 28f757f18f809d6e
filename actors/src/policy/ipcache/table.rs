//! Desired and realised state of every ipcache row, and the next batch between the two.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

use super::{
    IpcacheEntry, IpcacheSource,
    batch::{IpcacheBatch, RowsOutcome},
    claims::PrefixClaims,
};
use crate::{
    model::IdentityScope,
    mutants::{Mutant, mutated},
    ports::{AddressNews, AgentNews, IpcacheRow, KernelDone, KernelError},
};

/// What is desired, what the kernel has, and what lies between.
#[derive(Debug, Default)]
pub(super) struct IpcacheTable {
    pub(super) lines: BTreeMap<IpNet, PrefixEntry>,
    /// How many rows the kernel has, as far as known.
    realised: usize,
    /// Prefixes whose row in the kernel is not known: a write of them failed.
    uncertain: BTreeSet<IpNet>,
    /// Prefixes to be looked at for the next batch; their lines say so, too.
    due: Vec<IpNet>,
    /// Prefixes whose write failed, to be tried again later.
    put_off: BTreeSet<IpNet>,
    pub(super) under_way: IpcacheBatch,
    /// Which sweep through the kernel's rows was the last, from 1.
    pub(super) round: u8,
    /// Whether it is under way, and prefixes whose rows were removed meanwhile.
    pub(super) sweeping: bool,
    pub(super) left: BTreeSet<IpNet>,
    /// Every source has said what it knows.
    pruned: bool,
    /// Whether additions found no room: removals that need not wait for them go next.
    full: bool,
}

/// One prefix. There are many of them.
#[derive(Debug, Default)]
pub(super) struct PrefixEntry {
    claims: PrefixClaims,
    /// The kernel's row, as far as known.
    pub(super) realised: Option<IpcacheRow>,
    pub(super) due: bool,
    /// In which sweep its row was seen last, or was written.
    pub(super) seen: u8,
}

impl PrefixEntry {
    /// The row that is desired, if the kernel does not have it.
    fn lacking(&self, uncertain: bool) -> Option<IpcacheRow> {
        let desired = self.claims.first().map(IpcacheEntry::row);
        desired.filter(|desired| uncertain || self.realised.as_ref() != Some(desired))
    }

    /// What is said of it now, or else what an earlier run left.
    fn shown(&self) -> Option<IpcacheEntry> {
        let restored = |row: &IpcacheRow| IpcacheEntry {
            tunnel: row.tunnel.into(),
            ..IpcacheEntry::of(row.identity, IpcacheSource::Restored)
        };
        self.claims.first().copied().or(self.realised.as_ref().map(restored))
    }

    /// Whether the kernel has a row that nobody wants.
    fn is_surplus(&self, uncertain: bool) -> bool {
        self.claims.first().is_none() && (uncertain || self.realised.is_some())
    }
}

impl IpcacheTable {
    /// What the kernel has. Rules put its prefixes there: the policy takes them back when no rule
    /// names them any more.
    pub(super) fn restore(&mut self, rows: BTreeMap<IpNet, IpcacheRow>) {
        for (prefix, row) in rows {
            let line = self.lines.entry(prefix).or_default();
            if row.identity.scope() == IdentityScope::LocalCidr {
                line.claims.put(IpcacheEntry::of(row.identity, IpcacheSource::Policy));
            }
            self.realised += usize::from(line.realised.replace(row).is_none());
        }
    }

    pub(super) fn put(&mut self, prefix: IpNet, entry: IpcacheEntry) {
        let prefix = prefix.trunc();
        let line = self.lines.entry(prefix).or_default();
        line.claims.put(entry);
        if !std::mem::replace(&mut line.due, true) {
            self.due.push(prefix);
        }
        self.put_off.remove(&prefix);
    }

    pub(super) fn remove(&mut self, prefix: IpNet, source: IpcacheSource) {
        let prefix = prefix.trunc();
        let line = self.lines.get_mut(&prefix);
        let named = line.is_some_and(|line| line.claims.remove(source));
        // What could not be removed before is no answer to who asks again. What an earlier run
        // mapped for an endpoint goes with it, also if it named nothing yet: nobody else has its
        // addresses.
        if named || self.is_open(&prefix) || matches!(source, IpcacheSource::Endpoint(_)) {
            self.touch(prefix);
        }
    }

    /// Marks the rows of the kernel that nobody names.
    pub(super) fn prune(&mut self) {
        self.pruned = true;
        for (&prefix, line) in &mut self.lines {
            line.claims.remove(IpcacheSource::Restored);
            let unnamed = line.realised.is_some() && line.claims.first().is_none();
            if unnamed && !std::mem::replace(&mut line.due, true) {
                self.due.push(prefix);
            }
        }
    }

    /// What was put off is due again.
    pub(super) fn resume(&mut self) {
        for prefix in std::mem::take(&mut self.put_off) {
            self.touch(prefix);
        }
    }

    /// The answer to the batch under way will never come.
    pub(super) fn lose_batch(&mut self) {
        for prefix in std::mem::take(&mut self.under_way).prefixes() {
            self.uncertain.insert(prefix);
            self.touch(prefix);
        }
        self.full = false;
        self.resume();
    }

    /// The difference between what is desired and what the kernel has; it is under way from now on.
    pub(super) fn next_batch(&mut self) -> Option<&IpcacheBatch> {
        if std::mem::take(&mut self.full) {
            self.make_room();
        }
        if self.under_way.is_empty() {
            self.take_due();
        }
        (!self.under_way.is_empty()).then_some(&self.under_way)
    }

    /// Removals that need not wait for additions. Where one of the two is within the other, an address
    /// would meanwhile have neither the old nor the new identity: those wait.
    fn make_room(&mut self) {
        let (mut puts, mut deletes) = (BTreeSet::new(), BTreeSet::new());
        for &prefix in self.due.iter().chain(&self.put_off) {
            let Some(line) = self.lines.get(&prefix) else { continue };
            let uncertain = self.uncertain.contains(&prefix);
            if line.lacking(uncertain).is_some() {
                puts.insert(prefix);
            } else if line.is_surplus(uncertain) {
                deletes.insert(prefix);
            }
        }
        deletes.retain(|prefix| {
            let mut around = std::iter::successors(prefix.supernet(), IpNet::supernet);
            let within = puts.range(prefix..).next().is_some_and(|put| prefix.contains(put));
            !within && !around.any(|wider| puts.contains(&wider))
        });
        self.due.retain(|prefix| !deletes.contains(prefix));
        self.put_off.retain(|prefix| !deletes.contains(prefix));
        for prefix in &deletes {
            self.lines.entry(*prefix).or_default().due = false;
            self.spoil(prefix);
        }
        let deletes: Vec<IpNet> = deletes.into_iter().collect();
        let makes_room = !deletes.is_empty();
        self.under_way = IpcacheBatch { puts: Vec::new(), deletes, makes_room };
    }

    fn take_due(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        due.sort_unstable();
        for prefix in due {
            let Some(line) = self.lines.get_mut(&prefix) else { continue };
            line.due = false;
            line.seen = self.round;
            let uncertain = self.uncertain.contains(&prefix);
            if let Some(desired) = line.lacking(uncertain) {
                self.under_way.puts.push((prefix, desired));
            } else if line.is_surplus(uncertain) {
                self.under_way.deletes.push(prefix);
            } else if line.claims.first().is_none() {
                self.lines.remove(&prefix);
            }
        }
        // A prefix is never there without the exceptions from it: if the kernel takes a part only,
        // what a rule leaves out must not pass for what it names.
        let width = |prefix: &IpNet| prefix.max_prefix_len() - prefix.prefix_len();
        self.under_way.puts.sort_by_key(|(prefix, _)| width(prefix));
    }

    /// Takes in how the batch under way ended; how additions and removals fared.
    pub(super) fn written(
        &mut self,
        done: Result<KernelDone, KernelError>,
    ) -> (RowsOutcome, RowsOutcome) {
        let batch = std::mem::take(&mut self.under_way);
        let (puts, deletes) = batch.fates(done);
        for (prefix, row) in batch.puts {
            self.settle(prefix, Some(row), &puts);
        }
        for prefix in batch.deletes {
            self.settle(prefix, None, &deletes);
            if self.sweeping {
                self.left.insert(prefix);
            }
        }
        self.full = puts.found_no_room();
        if batch.makes_room && deletes == RowsOutcome::Written {
            self.resume();
        }
        (puts, deletes)
    }

    /// What the batch under way changes: additions, then removals.
    pub(super) fn news(&self) -> [Vec<AgentNews>; 2] {
        let shown = |row: &IpcacheRow| AddressNews {
            identity: row.identity,
            node: row.tunnel,
            key: row.key,
        };
        let had =
            |prefix| self.lines.get(prefix).and_then(|line| line.realised.as_ref()).map(shown);
        let puts = self.under_way.puts.iter().map(|(prefix, row)| AgentNews::Address {
            prefix: *prefix,
            now: shown(row),
            before: had(prefix).filter(|before| *before != shown(row)),
            deleted: false,
        });
        let deletes = self.under_way.deletes.iter().map(|prefix| AgentNews::Address {
            prefix: *prefix,
            now: had(prefix).unwrap_or_default(),
            before: None,
            deleted: true,
        });
        [puts.collect(), deletes.collect()]
    }

    /// Whose an address is: by the longest prefix that holds it, as the datapath looks it up.
    pub(super) fn find(&self, address: IpAddr) -> Option<(IpNet, IpcacheEntry)> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (0..=longest).rev().find_map(|length| {
            let prefix = IpNet::new(address, length).ok()?.trunc();
            Some((prefix, self.lines.get(&prefix)?.shown()?))
        })
    }

    pub(super) fn list(&self) -> BTreeMap<IpNet, IpcacheEntry> {
        let all = self.lines.iter();
        all.filter_map(|(&prefix, line)| Some((prefix, line.shown()?))).collect()
    }

    /// Rows the kernel has, rows that still differ.
    pub(super) fn counts(&self) -> (usize, usize) {
        let open = self.due.len() + self.put_off.len() + self.under_way.prefixes().count();
        (self.realised, open)
    }

    /// Whether its removal was begun, and may have failed or still fail.
    fn is_open(&self, prefix: &IpNet) -> bool {
        self.put_off.contains(prefix) || self.under_way.deletes.binary_search(prefix).is_ok()
    }

    /// Whether its write failed, and is to be tried again.
    pub(super) fn is_put_off(&self, prefix: &IpNet) -> bool {
        self.put_off.contains(prefix) || self.uncertain.contains(prefix)
    }

    /// Somebody else changed a row, or removed it: what is desired is written again. What nobody
    /// named yet stays as the run before had it.
    pub(super) fn doubt(&mut self, prefix: IpNet, row: Option<IpcacheRow>) {
        let (round, pruned) = (self.round, self.pruned);
        let line = self.lines.entry(prefix).or_default();
        let before = std::mem::replace(&mut line.realised, row);
        line.seen = round;
        if let Some(before) = before.filter(|_| !pruned && line.claims.first().is_none()) {
            let tunnel = before.tunnel.into();
            let entry = IpcacheEntry::of(before.identity, IpcacheSource::Restored);
            line.claims.put(IpcacheEntry { tunnel, ..entry });
        }
        self.realised = self.realised + usize::from(row.is_some()) - usize::from(before.is_some());
        self.uncertain.insert(prefix);
        self.touch(prefix);
    }

    /// The kernel has a row that nobody named: it goes, if nobody will.
    pub(super) fn take_in(&mut self, prefix: IpNet, row: IpcacheRow) {
        let line = PrefixEntry { realised: Some(row), seen: self.round, ..PrefixEntry::default() };
        self.lines.insert(prefix, line);
        self.realised += 1;
        if self.pruned {
            self.touch(prefix);
        }
    }

    fn touch(&mut self, prefix: IpNet) {
        self.put_off.remove(&prefix);
        if !std::mem::replace(&mut self.lines.entry(prefix).or_default().due, true) {
            self.due.push(prefix);
        }
    }

    fn settle(&mut self, prefix: IpNet, row: Option<IpcacheRow>, fate: &RowsOutcome) {
        let line = self.lines.entry(prefix).or_default();
        match fate {
            RowsOutcome::Written => {
                self.uncertain.remove(&prefix);
                self.realised += usize::from(row.is_some());
                let before = std::mem::replace(&mut line.realised, row);
                self.realised -= usize::from(before.is_some());
                if !line.due && line.realised.is_none() && line.claims.first().is_none() {
                    self.lines.remove(&prefix);
                }
                return;
            }
            RowsOutcome::Unknown(_) => {
                self.uncertain.insert(prefix);
            }
            RowsOutcome::Untouched(_) => {}
        }
        // What somebody asked for meanwhile is due already.
        if !line.due && !mutated(Mutant::IpcacheNotRetried) {
            self.put_off.insert(prefix);
        }
    }
}
