use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::{
    IpcacheEntry, Source,
    batch::{Batch, Fate},
    claims::Claims,
};
use crate::{
    model::Scope,
    mutants::{Mutant, mutated},
    ports::{IpcacheRow, KernelDone, KernelError},
};

/// What is wanted, what the kernel has, and what lies between.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    wanted: Claims,
    /// The kernel's rows, as far as known.
    realised: BTreeMap<IpNet, IpcacheRow>,
    /// Prefixes whose row in the kernel is not known: a write of them failed.
    uncertain: BTreeSet<IpNet>,
    /// Prefixes to be looked at for the next batch.
    due: BTreeSet<IpNet>,
    /// Prefixes whose write failed, to be tried again later.
    put_off: BTreeSet<IpNet>,
    under_way: Batch,
}

impl Ledger {
    /// What the kernel has. Rules put its prefixes there: the policy takes them back when no rule
    /// names them any more.
    pub(super) fn restore(&mut self, rows: BTreeMap<IpNet, IpcacheRow>) {
        for (&prefix, row) in &rows {
            if row.identity.scope() == Scope::LocalCidr {
                let entry = IpcacheEntry { identity: row.identity, source: Source::Policy };
                self.wanted.put(prefix, entry);
            }
        }
        self.realised = rows;
    }

    pub(super) fn put(&mut self, prefix: IpNet, entry: IpcacheEntry) {
        let prefix = prefix.trunc();
        self.wanted.put(prefix, entry);
        self.touch(prefix);
    }

    pub(super) fn remove(&mut self, prefix: IpNet, source: Source) {
        let prefix = prefix.trunc();
        let named = self.wanted.remove(prefix, source);
        // What could not be removed before is no answer to who asks again. What an earlier life
        // mapped for an endpoint goes with it, also if it named nothing yet: nobody else has its
        // addresses.
        if named || self.is_open(&prefix) || matches!(source, Source::Endpoint(_)) {
            self.touch(prefix);
        }
    }

    /// Marks the rows of the kernel that nobody names.
    pub(super) fn prune(&mut self) {
        let unnamed = self.realised.keys().filter(|prefix| self.wanted.of(prefix).is_none());
        self.due.extend(unnamed);
    }

    /// What was put off is due again.
    pub(super) fn resume(&mut self) {
        self.due.append(&mut self.put_off);
    }

    /// The answer to the batch under way will never come.
    pub(super) fn lose_batch(&mut self) {
        for prefix in std::mem::take(&mut self.under_way).prefixes() {
            self.uncertain.insert(prefix);
            self.due.insert(prefix);
        }
        self.resume();
    }

    /// The difference between what is wanted and what the kernel has; it is under way from now on.
    pub(super) fn next_batch(&mut self) -> Option<&Batch> {
        for prefix in std::mem::take(&mut self.due) {
            let realised = self.realised.get(&prefix);
            let uncertain = self.uncertain.contains(&prefix);
            match self.wanted.of(&prefix).map(|entry| IpcacheRow::of(entry.identity)) {
                Some(wanted) if uncertain || realised != Some(&wanted) => {
                    self.under_way.puts.push((prefix, wanted));
                }
                None if uncertain || realised.is_some() => self.under_way.deletes.push(prefix),
                _ => {}
            }
        }
        // A prefix is never there without the exceptions from it: if the kernel takes a part only,
        // what a rule leaves out must not pass for what it names.
        let width = |prefix: &IpNet| prefix.max_prefix_len() - prefix.prefix_len();
        self.under_way.puts.sort_by_key(|(prefix, _)| width(prefix));
        (!self.under_way.is_empty()).then_some(&self.under_way)
    }

    /// Takes in how the batch under way ended; how additions and removals fared.
    pub(super) fn written(&mut self, done: Result<KernelDone, KernelError>) -> (Fate, Fate) {
        let batch = std::mem::take(&mut self.under_way);
        let (puts, deletes) = batch.fates(done);
        for (prefix, row) in batch.puts {
            self.settle(prefix, Some(row), &puts);
        }
        for prefix in batch.deletes {
            self.settle(prefix, None, &deletes);
        }
        (puts, deletes)
    }

    pub(super) fn list(&self) -> BTreeMap<IpNet, IpcacheEntry> {
        let restored = self.realised.iter().map(|(&prefix, row)| {
            (prefix, IpcacheEntry { identity: row.identity, source: Source::Restored })
        });
        let mut all: BTreeMap<_, _> = restored.collect();
        all.extend(self.wanted.iter().map(|(&prefix, entry)| (prefix, *entry)));
        all
    }

    /// Rows the kernel has, rows that still differ.
    pub(super) fn counts(&self) -> (usize, usize) {
        let open = self.due.len() + self.put_off.len() + self.under_way.prefixes().count();
        (self.realised.len(), open)
    }

    /// Whether its removal was begun, and may have failed or still fail.
    fn is_open(&self, prefix: &IpNet) -> bool {
        self.put_off.contains(prefix) || self.under_way.deletes.binary_search(prefix).is_ok()
    }

    fn touch(&mut self, prefix: IpNet) {
        self.put_off.remove(&prefix);
        self.due.insert(prefix);
    }

    fn settle(&mut self, prefix: IpNet, row: Option<IpcacheRow>, fate: &Fate) {
        match fate {
            Fate::Written => {
                self.uncertain.remove(&prefix);
                match row {
                    Some(row) => self.realised.insert(prefix, row),
                    None => self.realised.remove(&prefix),
                };
                return;
            }
            Fate::Unknown(_) => {
                self.uncertain.insert(prefix);
            }
            Fate::Untouched(_) => {}
        }
        // What somebody asked for meanwhile is due already.
        if !self.due.contains(&prefix) && !mutated(Mutant::IpcacheNotRetried) {
            self.put_off.insert(prefix);
        }
    }
}
