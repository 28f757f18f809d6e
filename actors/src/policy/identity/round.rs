//! One write of the identity table: it picks numbers for questions and answers them afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use ipnet::IpNet;

use super::{
    Identity, IdentityError,
    allocations::{Changes, IdentityAllocations},
    moves::Moves,
    numbers::row,
    tables::Tables,
    uses::InUse,
};
use crate::{
    host::Reply,
    model::{IdentityId, Labels, NamedPorts},
    policy::identity::Introduction,
    ports::FsOp,
    state_directory::{IdentityChanges, IdentityTable, NumberedPorts},
};

type LabelsReply = Reply<Result<Identity, IdentityError>>;
type AdoptReply = Reply<Result<BTreeSet<IdentityId>, IdentityError>>;
type PrefixesReply = Reply<Result<BTreeMap<IpNet, IdentityId>, IdentityError>>;

/// How many identities of other nodes are kept beside the table before it is written anew.
const CHANGES_MAX: usize = 256;

/// A question that may need a new number.
pub(super) enum Question {
    Labels {
        labels: Arc<Labels>,
        before: Option<IdentityId>,
        reply: LabelsReply,
    },
    /// The same with the number that the cluster gave.
    Numbered {
        labels: Arc<Labels>,
        id: IdentityId,
        before: Option<IdentityId>,
        reply: LabelsReply,
    },
    Prefixes {
        desired: BTreeSet<IpNet>,
        reply: PrefixesReply,
    },
    Adopt {
        desired: Introduction,
        reply: AdoptReply,
    },
}

/// Questions that are answered together, once the table with their numbers is on disk.
pub(super) struct Round {
    pub(super) draft: Tables,
    /// Who waits for whose number, and what of it is new.
    moves: Moves,
    waits: Vec<(IdentityId, IdentityId)>,
    /// Numbers that labels could be given.
    arrived: BTreeSet<IdentityId>,
    generation: u32,
    changes: Option<Changes>,
    labels: Vec<(IdentityId, Arc<Labels>, LabelsReply)>,
    prefixes: Vec<(BTreeMap<IpNet, IdentityId>, PrefixesReply)>,
    adopted: Vec<(BTreeSet<IdentityId>, AdoptReply)>,
    named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
    /// Numbers that the cluster gave.
    pub(super) given: BTreeMap<IdentityId, Arc<Labels>>,
}

impl Round {
    /// Finds a number for each; who gets none is told.
    pub(super) fn begin(allocations: &IdentityAllocations, questions: Vec<Question>) -> Self {
        let mut round = Self {
            draft: allocations.tables.clone(),
            moves: allocations.moves.clone(),
            waits: Vec::new(),
            arrived: BTreeSet::new(),
            generation: allocations.generation,
            changes: allocations.changes.clone(),
            labels: Vec::new(),
            prefixes: Vec::new(),
            adopted: Vec::new(),
            named_ports: BTreeMap::new(),
            given: BTreeMap::new(),
        };
        let mut spared = BTreeSet::new();
        // Those that are adopted last: what the others change concerns the whole table.
        let (adoptions, others): (Vec<_>, Vec<_>) =
            questions.into_iter().partition(|it| matches!(it, Question::Adopt { .. }));
        for question in others {
            round.add(question, allocations, &mut spared);
        }
        let whole = !round.draft.same_as(&allocations.tables);
        for question in adoptions {
            round.add(question, allocations, &mut spared);
        }
        round.draft.forget_surplus(InUse { uses: &allocations.uses, spared: &spared });
        if whole || !round.draft.same_as(&allocations.tables) {
            round.renew(allocations, whole);
        }
        round
    }

    /// Counts one more writing: of the table, or of what became of it if that is short.
    fn renew(&mut self, allocations: &IdentityAllocations, whole: bool) {
        let adopted = self.adopted.iter().flat_map(|(had, _)| had);
        let adopted = adopted.filter(|&&id| allocations.tables.labels(id) != self.draft.labels(id));
        let adopted: Vec<_> = adopted
            .filter_map(|&id| Some((id, Arc::clone(self.draft.cluster.labels(id)?))))
            .collect();
        if let (false, Some(changes)) = (whole, &mut self.changes) {
            changes.adopted.extend(adopted);
            changes.named_ports.append(&mut self.named_ports);
            changes.generation = changes.generation.wrapping_add(1);
            if changes.adopted.len().max(changes.named_ports.len()) <= CHANGES_MAX {
                return;
            }
        }
        self.generation = allocations.generation.wrapping_add(1);
        self.changes = Some(Changes::default());
    }

    fn add(
        &mut self,
        question: Question,
        allocations: &IdentityAllocations,
        spared: &mut BTreeSet<IdentityId>,
    ) {
        let uses = &allocations.uses;
        let in_use = InUse { uses, spared };
        match question {
            // Nobody waits for the answer: no number is spent on it.
            Question::Labels { reply, .. } if reply.is_closed() => {}
            Question::Labels { labels, before, reply } => {
                match self.draft.cluster.assign(&labels, before, in_use) {
                    Ok(id) => {
                        spared.insert(id);
                        self.labels.push((id, labels, reply));
                    }
                    Err(error) => reply.send(Err(error)),
                }
            }
            Question::Numbered { labels, id, before, reply } => {
                self.given.insert(id, Arc::clone(&labels));
                match self.number(&labels, id, before, in_use) {
                    Ok(id) => {
                        spared.insert(id);
                        self.labels.push((id, labels, reply));
                    }
                    Err(error) => reply.send(Err(error)),
                }
            }
            Question::Adopt { mut desired, reply } => {
                let mut had = BTreeSet::new();
                for (&id, labels) in &desired.identities {
                    if self.draft.assign_exactly(labels, id, InUse { uses, spared }) {
                        spared.insert(id);
                        had.insert(id);
                    }
                }
                desired.only(&had);
                for (id, ports) in desired.named_ports {
                    if allocations.tables.named_ports(id) != Some(&ports) {
                        self.draft.name_ports(id, Arc::clone(&ports));
                        self.named_ports.insert(id, ports);
                    }
                }
                self.adopted.push((had, reply));
            }
            Question::Prefixes { desired, reply } => {
                match self.draft.assign_prefixes(&desired, in_use) {
                    Ok(numbers) => {
                        spared.extend(numbers.values());
                        self.prefixes.push((numbers, reply));
                    }
                    Err(error) => reply.send(Err(error)),
                }
            }
        }
    }

    /// The number that labels have in the cluster. While others of this node have it, who also are to
    /// leave it, they keep what they have; in a ring of such waits one set of labels goes aside.
    fn number(
        &mut self,
        labels: &Arc<Labels>,
        id: IdentityId,
        before: Option<IdentityId>,
        in_use: InUse<'_>,
    ) -> Result<IdentityId, IdentityError> {
        if self.draft.assign_exactly(labels, id, in_use) {
            self.arrived.insert(id);
            return Ok(id);
        }
        let has = |&id: &IdentityId| in_use.has(id) && self.draft.cluster.stands(id, labels);
        let current = before.into_iter().chain(self.draft.cluster.all_of(labels));
        let current: Vec<_> = current.filter(has).collect();
        for from in current {
            self.await_move(from, id);
            if !self.moves.is_in_ring(from) {
                return Ok(from);
            }
        }
        let aside = self.draft.cluster.bind_another(labels, in_use)?;
        self.await_move(aside, id);
        Ok(aside)
    }

    fn await_move(&mut self, from: IdentityId, to: IdentityId) {
        self.moves.wait(from, to);
        self.waits.push((from, to));
    }

    /// How many numbers are waited for, in words.
    pub(super) fn why(&self) -> String {
        let (labels, prefixes) = (self.labels.len(), self.prefixes.len());
        let adopted: usize = self.adopted.iter().map(|(ids, _)| ids.len()).sum();
        let adopted = match adopted {
            0 => String::new(),
            count => format!(", {count} identities of other nodes"),
        };
        format!("the numbers of {labels} label sets and {prefixes} sets of prefixes{adopted}")
    }

    /// What has to be on disk before anybody is answered; nothing if no number is new.
    pub(super) fn writes(&self, allocations: &IdentityAllocations) -> Vec<FsOp> {
        if self.generation == allocations.generation {
            let before = allocations.changes.as_ref().map(|changes| changes.generation);
            let changed = self.changes.as_ref().filter(|it| Some(it.generation) != before);
            return changed.map(|changes| changes.save(self.generation)).into_iter().collect();
        }
        let table = self.draft.to_stored(&allocations.uses);
        let mut ops = vec![IdentityTable::SLOTS.save(&table, self.generation)];
        if !self.draft.same_local_as(&allocations.tables) {
            // Plain data: serialising it cannot fail.
            let bytes = serde_json::to_vec(&table.local).unwrap_or_default();
            ops.push(FsOp::Write { path: PathBuf::from(IdentityTable::CILIUM_LOCAL), bytes });
        }
        ops
    }

    /// Puts the draft in force; the answers are left to be given when nothing is borrowed.
    pub(super) fn finish(self, allocations: &mut IdentityAllocations) -> Vec<Box<dyn FnOnce()>> {
        allocations.commit(self.draft, self.generation, self.changes);
        let mut answers: Vec<Box<dyn FnOnce()>> = Vec::new();
        for (id, labels, reply) in self.labels {
            if reply.is_closed() {
                allocations.uses.retire(id);
            } else {
                let identity = allocations.take(id, &labels);
                answers.push(Box::new(move || reply.send(Ok(identity))));
            }
        }
        for (had, reply) in self.adopted {
            if reply.is_closed() {
                had.into_iter().for_each(|id| allocations.uses.retire(id));
            } else {
                had.iter().for_each(|&id| allocations.uses.adopt(id));
                answers.push(Box::new(move || reply.send(Ok(had))));
            }
        }
        self.arrived.into_iter().for_each(|id| allocations.moves.arrived(id));
        for (from, to) in self.waits {
            allocations.moves.wait(from, to);
        }
        for (numbers, reply) in self.prefixes {
            allocations.use_prefixes(&numbers);
            answers.push(Box::new(move || reply.send(Ok(numbers))));
        }
        answers
    }

    /// Nothing could be stored: nobody gets anything.
    pub(super) fn fail(self, error: &IdentityError) {
        for (_, _, reply) in self.labels {
            reply.send(Err(error.clone()));
        }
        for (_, reply) in self.prefixes {
            reply.send(Err(error.clone()));
        }
        for (_, reply) in self.adopted {
            reply.send(Err(error.clone()));
        }
    }
}

impl Changes {
    /// Writes them for that writing of the table.
    fn save(&self, table: u32) -> FsOp {
        let cluster = self.adopted.iter().map(|(&id, labels)| row(id, labels)).collect();
        let named_ports = self.named_ports.iter().map(|(&id, ports)| (id, ports));
        let named_ports = NumberedPorts::group(named_ports);
        let changes = IdentityChanges { table, cluster, named_ports };
        IdentityChanges::SLOTS.save(&changes, self.generation)
    }
}
