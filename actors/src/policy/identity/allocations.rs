//! The state that the owner of identities keeps through a crash: stored tables, uses and disputes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;

use super::{Identity, cidr, moves::Moves, numbered::Numbered, tables::Tables, uses::Uses};
use crate::{
    model::{ClusterId, Families, IdentityId, Labels, NamedPorts},
    mutants::{Mutant, mutated},
    state_directory::IdentityTable,
};

/// What is known of identities and safe on disk.
#[derive(Debug)]
pub(super) struct IdentityAllocations {
    pub(super) fixed: Numbered,
    pub(super) tables: Tables,
    pub(super) uses: Uses,
    /// Numbers in use that stand for other labels in the cluster: nobody else is given them.
    pub(super) disputed: BTreeSet<IdentityId>,
    /// Those of them whose labels wait for their number in the cluster.
    pub(super) moves: Moves,
    /// Which writing of the table is on disk.
    pub(super) generation: u32,
    /// What became of the table since this agent wrote it; none before it did.
    pub(super) changes: Option<Changes>,
    /// Numbers that the last desired prefixes use.
    prefixes: BTreeSet<IdentityId>,
}

/// Other nodes' identities that are on disk beside the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    pub(super) adopted: BTreeMap<IdentityId, Arc<Labels>>,
    /// Names of ports, those that are none any more among them.
    pub(super) named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
    /// Which writing of them is on disk.
    pub(super) generation: u32,
}

impl IdentityAllocations {
    /// Nobody uses any number yet; those given back long ago are still the first to be reused.
    pub(super) fn new(
        (cluster, cluster_id): (&str, ClusterId),
        stored: &IdentityTable,
        generation: u32,
        families: Families,
    ) -> Self {
        let tables = Tables::new(stored, families, cluster_id);
        let retired = stored.retired.iter().copied().filter(|&id| tables.labels(id).is_some());
        let rest = tables.iter().map(|(id, _)| id);
        let uses = Uses::all_unused(retired.chain(rest));
        let fixed = Numbered::fixed(cluster);
        let (disputed, moves, prefixes) = Default::default();
        Self { fixed, tables, uses, disputed, moves, generation, changes: None, prefixes }
    }

    /// A number of a set of labels that can be given without writing: it is stored, and `draft`,
    /// the table that is being written, leaves it. `None` also if it is to move to `before`.
    pub(super) fn settled(
        &self,
        labels: &Labels,
        before: Option<IdentityId>,
        draft: Option<&Tables>,
    ) -> Option<IdentityId> {
        let stands = |&id: &IdentityId| self.tables.cluster.stands(id, labels);
        // Of several the one that it had, or that endpoints of this node have.
        let rank = |&id: &IdentityId| (self.uses.local(id) > 0, self.uses.of(id) > 0);
        let most_used = self.tables.cluster.all_of(labels).max_by_key(rank);
        let id = before.filter(stands).or(most_used)?;
        let stays = draft.is_none_or(|draft| draft.cluster.stands(id, labels));
        let moves = self.uses.of(id) == 0
            && before.is_some_and(|before| before != id && self.tables.cluster.is_free(before));
        (stays && !moves).then_some(id)
    }

    /// The same where numbers are given here: of several numbers that a cluster gave these labels they
    /// have one, that of the endpoint that asked first.
    pub(super) fn settled_here(
        &self,
        labels: &Labels,
        before: Option<IdentityId>,
        draft: Option<&Tables>,
    ) -> Option<IdentityId> {
        let is_used = |&id: &IdentityId| self.uses.local(id) > 0;
        let used = self.tables.cluster.all_of(labels).find(is_used);
        self.settled(labels, used.or(before), draft)
    }

    /// The same where the cluster hands numbers out: one that nobody uses may be somebody else's
    /// there by now, unless it is what an endpoint had before.
    pub(super) fn settled_in_cluster(
        &self,
        labels: &Labels,
        before: Option<IdentityId>,
        draft: Option<&Tables>,
    ) -> Option<IdentityId> {
        let before = before.filter(|&id| self.tables.cluster.stands(id, labels));
        let id = self.settled(labels, before, draft)?;
        let ours = self.uses.of(id) > 0 || before == Some(id);
        (ours && !self.disputed.contains(&id)).then_some(id)
    }

    /// The number that a set of labels has on this node, whatever the cluster says of it.
    pub(super) fn current(
        &self,
        labels: &Labels,
        before: Option<IdentityId>,
    ) -> Option<IdentityId> {
        let in_use = |id: &IdentityId| self.uses.of(*id) > 0;
        let mut all = self.tables.cluster.all_of(labels).filter(in_use);
        before.filter(|&id| in_use(&id) && self.tables.cluster.stands(id, labels)).or(all.next())
    }

    /// Takes a reference; the identity as it is then.
    pub(super) fn take(&mut self, id: IdentityId, labels: &Arc<Labels>) -> Identity {
        self.uses.take(id);
        self.show(id, labels)
    }

    /// An earlier run mapped addresses of other nodes to it.
    pub(super) fn adopt_known(&mut self, id: IdentityId) {
        if self.tables.cluster.labels(id).is_some() {
            self.uses.adopt(id);
        }
    }

    /// Restored endpoints had it.
    pub(super) fn withhold(&mut self, id: IdentityId) {
        let known = self.tables.cluster.labels(id).is_some();
        if known && !mutated(Mutant::RestoredNotWithheld) {
            self.uses.withhold(id);
        }
    }

    /// These are the prefixes in use from now on.
    pub(super) fn use_prefixes(&mut self, numbers: &BTreeMap<IpNet, IdentityId>) {
        let new: BTreeSet<_> = numbers.values().copied().collect();
        let old = std::mem::replace(&mut self.prefixes, new.clone());
        new.difference(&old).for_each(|&id| self.uses.take(id));
        for &id in old.difference(&new) {
            self.uses.give_back(id);
        }
    }

    /// Puts in force what is now on disk: a table, and what became of it.
    pub(super) fn commit(&mut self, tables: Tables, generation: u32, changes: Option<Changes>) {
        let before = std::mem::replace(&mut self.tables, tables);
        self.generation = generation;
        self.changes = changes;
        if self.tables.lost_since(&before) {
            self.uses.forget_unknown(|id| self.tables.labels(id).is_some());
        }
    }

    pub(super) fn get(&self, id: IdentityId) -> Option<Identity> {
        let labels = self.fixed.labels(id).or_else(|| self.tables.labels(id))?;
        Some(self.show(id, labels))
    }

    pub(super) fn list(&self) -> Vec<Identity> {
        self.fixed.iter().chain(self.tables.iter()).map(|(id, l)| self.show(id, l)).collect()
    }

    fn show(&self, id: IdentityId, labels: &Arc<Labels>) -> Identity {
        let prefix = cidr::prefix(labels);
        Identity { id, labels: Arc::clone(labels), prefix, references: self.uses.local(id) }
    }
}
