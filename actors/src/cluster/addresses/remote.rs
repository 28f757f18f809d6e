//! Desired and realised mappings of other nodes' addresses, and the next step between them. No
//! messages are sent from here: the actor does that.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use ipnet::IpNet;

use super::{
    InheritedAddresses,
    ends::{Ends, Via},
    messages::AddressMapping,
    names::RemoteNamedPorts,
    remote_identities::RemoteIdentities,
    row::Row,
};
use crate::{
    cluster::kvstore::Owner,
    model::{IdentityId, Labels, Tunnel},
    policy::identity::{Introduction, Numbered},
};

#[cfg(test)]
mod tests;

/// So many rows the ipcache is told at once, and so often before it has answered: it prepares some
/// while the kernel takes others.
const ROWS_AT_ONCE: usize = 8192;
const TOLD_AHEAD: usize = 2;

/// Addresses of other nodes' endpoints: what the cluster says, what is in force, and what lies
/// between.
#[derive(Debug, Default)]
pub(super) struct RemoteAddresses {
    rows: BTreeMap<IpNet, Row>,
    /// How many rows are desired, and how many are mapped.
    desired: usize,
    mapped: usize,
    held: RemoteIdentities,
    /// What the cluster says that numbers stand for, and what policies know them to stand for.
    labels: Numbered,
    meanings: BTreeMap<IdentityId, Arc<Labels>>,
    names: RemoteNamedPorts,
    ends: Ends,
    /// Prefixes to be looked at; their rows say so, too.
    due: Vec<IpNet>,
    /// What the ipcache is to be told, newest last; their rows are under way.
    to_map: VecDeque<AddressMapping>,
    /// How often the ipcache was told and has not answered.
    reported: usize,
    /// Prefixes whose identity nobody knows yet, or that stands for something else here.
    stalled: BTreeMap<IdentityId, BTreeSet<IpNet>>,
    /// Prefixes of which the ipcache has not confirmed what it was told: it is told again later.
    unconfirmed: BTreeSet<IpNet>,
    listed: bool,
    /// Policies can learn of identities.
    ready: bool,
}

/// The next thing to be done. An identity, with the names of its ports, is known to every policy
/// before an address has it, and forgotten after the last one lost it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    Adopt(Introduction),
    Unmap(Vec<IpNet>),
    Release(Vec<IdentityId>),
}

impl RemoteAddresses {
    /// What an earlier run mapped, and the identities among it that policies know already. Which
    /// address had which of their ports is not known: each had all.
    pub(super) fn inherited(inherited: InheritedAddresses) -> Self {
        let InheritedAddresses { rows: mapped, identities, named_ports } = inherited;
        let given = mapped.values().map(|&(id, _)| id);
        let held = RemoteIdentities::inherited(identities.keys().copied(), given);
        let meanings = identities.into_iter().map(|(id, labels)| (id, Arc::new(labels))).collect();
        let count = mapped.len();
        let mut names = RemoteNamedPorts::inherited(named_ports);
        let mut ends = Ends::default();
        let row = |(prefix, (id, tunnel))| {
            let said = names.known(id).map(|ports| (id, Arc::clone(ports)));
            said.iter().cloned().for_each(|said| names.say(said));
            let mapped_via = ends.number(tunnel);
            (prefix, Row { mapped: Some(id), mapped_via, said, ..Row::default() })
        };
        let rows = mapped.into_iter().map(row).collect();
        Self { rows, mapped: count, held, meanings, names, ends, ..Self::default() }
    }

    /// What is said of a prefix now; `ours` if this cluster itself says it.
    pub(super) fn want(&mut self, prefix: IpNet, owner: Option<Owner>, ours: bool) {
        let row = self.rows.entry(prefix).or_default();
        row.ours = ours;
        let identity = owner.as_ref().map(|owner| owner.identity);
        let tunnel = owner.as_ref().map_or(Tunnel::NONE, |owner| owner.tunnel);
        row.desired_via = self.ends.number(tunnel);
        let said = owner.and_then(|owner| Some((owner.identity, owner.named_ports?)));
        if row.said != said {
            if let Some(before) = std::mem::replace(&mut row.said, said.clone()) {
                self.names.keep(prefix, before);
            }
            said.into_iter().for_each(|said| self.names.say(said));
        }
        let before = std::mem::replace(&mut row.desired, identity);
        // Not at once: what is said together may be of one address again.
        if !std::mem::replace(&mut row.due, true) {
            self.due.push(prefix);
        }
        self.desired += usize::from(identity.is_some());
        self.desired -= usize::from(before.is_some());
        if let Some(before) = before
            && let Some(stalled) = self.stalled.get_mut(&before)
        {
            stalled.remove(&prefix);
            if stalled.is_empty() {
                self.stalled.remove(&before);
            }
        }
        self.unconfirmed.remove(&prefix);
    }

    /// Whether this cluster itself says whose a prefix is.
    pub(super) fn is_ours(&self, prefix: &IpNet) -> bool {
        self.rows.get(prefix).is_some_and(|row| row.ours)
    }

    /// All that this cluster has was said.
    pub(super) fn listed(&mut self) {
        self.listed = true;
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Addresses that nobody names go, if all have spoken who may know of their identity.
    pub(super) fn settle(&mut self, have_said: impl Fn(IdentityId) -> bool) {
        for (&prefix, row) in &mut self.rows {
            let is_over = row.desired.is_none() && row.mapped.is_none_or(&have_said);
            if is_over && !std::mem::replace(&mut row.due, true) {
                self.due.push(prefix);
            }
        }
    }

    /// What the cluster says of an identity now.
    pub(super) fn renew(&mut self, id: IdentityId, labels: Option<Arc<Labels>>) {
        self.labels.remove(id);
        if let Some(labels) = labels {
            self.labels.insert(id, labels);
        }
        let stalled = self.stalled.remove(&id);
        self.look_at(stalled.into_iter().flatten());
    }

    /// What the cluster says that a number stands for.
    pub(super) fn labels_of(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        self.labels.labels(id)
    }

    /// The number that labels have in the cluster: of several the lowest.
    pub(super) fn number_of(&self, labels: &Labels) -> Option<IdentityId> {
        self.labels.all_of(labels).min()
    }

    /// Policies can learn of identities from now on.
    pub(super) fn policies_ready(&mut self) {
        self.ready = true;
        self.resume();
    }

    /// What could not go on is looked at again.
    pub(super) fn resume(&mut self) {
        let stalled = std::mem::take(&mut self.stalled);
        self.look_at(stalled.into_values().flatten());
        let unconfirmed = std::mem::take(&mut self.unconfirmed);
        self.look_at(unconfirmed);
    }

    fn look_at(&mut self, prefixes: impl IntoIterator<Item = IpNet>) {
        for prefix in prefixes {
            if let Some(row) = self.rows.get_mut(&prefix)
                && !std::mem::replace(&mut row.due, true)
            {
                self.due.push(prefix);
            }
        }
    }

    pub(super) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty() || !self.unconfirmed.is_empty()
    }

    /// The node of that number.
    pub(super) fn tunnel(&self, via: Via) -> Tunnel {
        self.ends.of(via)
    }

    /// What the ipcache is to be told next.
    pub(super) fn next_rows(&mut self) -> Option<Vec<AddressMapping>> {
        let count = self.to_map.len().min(ROWS_AT_ONCE);
        if count == 0 || self.reported >= TOLD_AHEAD {
            return None;
        }
        self.reported += 1;
        Some(self.to_map.drain(..count).collect())
    }

    /// The next thing to be done besides telling the ipcache.
    pub(super) fn next(&mut self) -> Option<Work> {
        let (mut adopt, mut unmap) = (BTreeMap::new(), Vec::new());
        let mut due = std::mem::take(&mut self.due);
        due.retain(|&prefix| {
            let Some(row) = self.rows.get_mut(&prefix) else { return false };
            // Policies know it as what an earlier numbering had: nobody is mapped to that.
            let other = row.desired.is_some_and(|id| {
                let known = self.meanings.get(&id).zip(self.labels.labels(id));
                known.is_some_and(|(known, said)| known != said)
            });
            if let Some(id) = row.may_have(&self.held, &self.names).filter(|_| !other) {
                row.begin(id, &mut self.held);
                self.to_map.push_back((prefix, id, row.desired_via));
            }
            row.due = match row.desired {
                // It is looked at again once that is over.
                _ if row.under_way => false,
                Some(id) if other && row.mapped == Some(id) => {
                    unmap.push(prefix);
                    true
                }
                Some(id) if other => {
                    self.stalled.entry(id).or_default().insert(prefix);
                    false
                }
                Some(id) if row.is_mapped(id) => {
                    self.names.settle(&prefix);
                    false
                }
                // What its ports are called is on its way to policies.
                Some(id) if self.held.has(id) && self.ready => true,
                Some(id) => match self.labels.labels(id) {
                    Some(labels) if self.ready => {
                        adopt.entry(id).or_insert_with(|| Arc::clone(labels));
                        true
                    }
                    _ => {
                        self.stalled.entry(id).or_default().insert(prefix);
                        false
                    }
                },
                None if row.may_be_mapped() => {
                    unmap.push(prefix);
                    true
                }
                None => {
                    self.names.settle(&prefix);
                    row.said.take().into_iter().for_each(|said| self.names.take_back(said));
                    self.rows.remove(&prefix);
                    return false;
                }
            };
            row.due
        });
        self.due = due;
        let may_be_told = |id| self.ready && (self.held.has(id) || adopt.contains_key(&id));
        let names = self.names.due(may_be_told);
        if !adopt.is_empty() || !names.is_empty() {
            self.names.tell(&names);
            return Some(Work::Adopt(Introduction { identities: adopt, named_ports: names }));
        }
        if !unmap.is_empty() {
            return Some(Work::Unmap(unmap));
        }
        // What an earlier run knew stays until the cluster has said what there is, and names that
        // policies know of somebody go before.
        if !self.listed {
            return None;
        }
        let idle: Vec<_> = self.held.idle().filter(|&id| self.names.known(id).is_none()).collect();
        (!idle.is_empty()).then_some(Work::Release(idle))
    }

    /// These identities cannot be had for now: their addresses wait.
    pub(super) fn refused(&mut self, ids: &BTreeSet<IdentityId>) {
        if ids.is_empty() {
            return;
        }
        ids.iter().for_each(|&id| self.names.spare(id));
        self.due.retain(|prefix| {
            let Some(row) = self.rows.get_mut(prefix) else { return false };
            match row.desired.filter(|id| ids.contains(id)) {
                Some(id) => self.stalled.entry(id).or_default().insert(*prefix),
                None => return true,
            };
            row.due = false;
            false
        });
    }

    /// What the ipcache was told of these may or may not be in force: whoever they were is still
    /// somebody.
    pub(super) fn unconfirmed(&mut self, prefixes: impl IntoIterator<Item = IpNet>) {
        self.reported -= 1;
        for prefix in prefixes {
            if let Some(row) = self.rows.get_mut(&prefix) {
                (row.under_way, row.due) = (false, false);
                self.unconfirmed.insert(prefix);
            }
        }
        self.due.retain(|prefix| self.rows.get(prefix).is_some_and(|row| row.due));
    }

    /// No answer will come to what the ipcache was told.
    pub(super) fn lose_answers(&mut self) {
        if std::mem::take(&mut self.reported) == 0 && self.to_map.is_empty() {
            return;
        }
        self.to_map.clear();
        for (&prefix, row) in self.rows.iter_mut().filter(|(_, row)| row.under_way) {
            row.under_way = false;
            if !std::mem::replace(&mut row.due, true) {
                self.due.push(prefix);
            }
        }
    }

    /// Every policy knows these.
    pub(super) fn learned(&mut self, introduction: Introduction) {
        self.names.learned(introduction.named_ports);
        for (id, labels) in introduction.identities {
            self.held.learned(id);
            self.meanings.insert(id, labels);
        }
    }

    /// The ipcache is told to give these up.
    pub(super) fn unmapping(&mut self, prefixes: &[IpNet]) {
        self.reported += 1;
        for prefix in prefixes {
            let Some(row) = self.rows.get_mut(prefix) else { continue };
            row.under_way = true;
            let Some(id) = row.mapped.take() else { continue };
            self.mapped -= 1;
            if row.attempted.contains(&id) {
                self.held.leave(id);
            } else {
                row.attempt(id);
            }
        }
    }

    /// These are in force.
    pub(super) fn mapped(&mut self, rows: Vec<AddressMapping>) {
        self.reported -= 1;
        for (prefix, id, via) in rows {
            let Some(row) = self.rows.get_mut(&prefix) else { continue };
            row.under_way = false;
            let before = row.mapped.replace(id);
            row.mapped_via = via;
            let mut others = std::mem::take(&mut row.attempted).into_vec();
            self.mapped += usize::from(before.is_none());
            // What was attempted is counted already.
            match others.iter().position(|attempted| *attempted == id) {
                Some(place) => drop(others.swap_remove(place)),
                None => self.held.enter(id),
            }
            before.into_iter().chain(others).for_each(|other| self.held.leave(other));
            match row.desired {
                Some(id) if row.is_mapped(id) => self.names.settle(&prefix),
                // Something else is desired by now.
                _ if !std::mem::replace(&mut row.due, true) => self.due.push(prefix),
                _ => {}
            }
        }
    }

    /// These are in force no more.
    pub(super) fn unmapped(&mut self, prefixes: &[IpNet]) {
        self.reported -= 1;
        for prefix in prefixes {
            let Some(row) = self.rows.get_mut(prefix) else { continue };
            row.under_way = false;
            let attempted = std::mem::take(&mut row.attempted);
            attempted.into_iter().for_each(|id| self.held.leave(id));
        }
    }

    pub(super) fn released(&mut self, ids: &[IdentityId]) {
        for &id in ids {
            self.held.released(id);
            self.meanings.remove(&id);
        }
    }

    /// Addresses that the cluster names, those in force, those that wait, and whether all were
    /// named.
    pub(super) fn counts(&self) -> (usize, usize, usize, bool) {
        let stalled: usize = self.stalled.values().map(BTreeSet::len).sum();
        (self.desired, self.mapped, stalled + self.unconfirmed.len(), self.listed)
    }
}
