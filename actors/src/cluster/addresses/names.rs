//! Tracks the named ports of other nodes' pods: what addresses say, and what policies know of it.
//! An address waits for its mapping until policies know its names.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;

use crate::model::{IdentityId, NamedPorts};

/// Names of ports that an address has by an identity.
pub(super) type IdentityNamedPorts = (IdentityId, Arc<NamedPorts>);

/// Names of ports of other nodes' pods. All addresses of an identity count: policies know what any
/// of them says, and what one said before for as long as it may be in force.
#[derive(Debug, Default)]
pub(super) struct RemoteNamedPorts {
    /// How many addresses of an identity say the same; most identities have one set for all.
    said: BTreeMap<IdentityId, Vec<(Arc<NamedPorts>, usize)>>,
    /// What addresses said that are something else by now, and may still be in force so.
    before: BTreeMap<IpNet, Vec<IdentityNamedPorts>>,
    /// What policies know, or knew before they were told something else.
    known: BTreeMap<IdentityId, Arc<NamedPorts>>,
    /// What policies were told and may know: nobody has said that they do.
    telling: BTreeMap<IdentityId, Arc<NamedPorts>>,
    /// Identities of which policies may know too little or too much.
    changed: BTreeSet<IdentityId>,
}

impl RemoteNamedPorts {
    /// What policies know from an earlier run.
    pub(super) fn inherited(known: BTreeMap<IdentityId, Arc<NamedPorts>>) -> Self {
        Self { known, ..Self::default() }
    }

    /// What policies know of an identity.
    pub(super) fn known(&self, id: IdentityId) -> Option<&Arc<NamedPorts>> {
        self.known.get(&id)
    }

    /// An address says this.
    pub(super) fn say(&mut self, (id, ports): IdentityNamedPorts) {
        let all = self.said.entry(id).or_default();
        match all.iter_mut().find(|(known, _)| *known == ports) {
            Some((_, count)) => *count += 1,
            None => {
                all.push((ports, 1));
                self.changed.insert(id);
            }
        }
    }

    /// One address less says this.
    pub(super) fn take_back(&mut self, (id, ports): IdentityNamedPorts) {
        let Some(all) = self.said.get_mut(&id) else { return };
        let Some(at) = all.iter().position(|(known, _)| *known == ports) else { return };
        all[at].1 -= 1;
        if all[at].1 == 0 {
            all.swap_remove(at);
            self.changed.insert(id);
        }
        if all.is_empty() {
            self.said.remove(&id);
        }
    }

    /// An address said this before: it counts until that is [settled](Self::settle).
    pub(super) fn keep(&mut self, prefix: IpNet, said: IdentityNamedPorts) {
        self.before.entry(prefix).or_default().push(said);
    }

    /// An address is in force as it is now, or not at all.
    pub(super) fn settle(&mut self, prefix: &IpNet) {
        let before = self.before.remove(prefix);
        before.into_iter().flatten().for_each(|said| self.take_back(said));
    }

    /// Whether policies know what an address says, and will once they have heard what they are told.
    pub(super) fn knows(&self, (id, ports): &IdentityNamedPorts) -> bool {
        let has = |known: &Arc<NamedPorts>| {
            let has = |(name, ports): (&String, &BTreeSet<_>)| {
                known.get(name).is_some_and(|known| known.is_superset(ports))
            };
            known == ports || ports.iter().all(has)
        };
        self.known.get(id).is_some_and(has) && self.telling.get(id).is_none_or(has)
    }

    /// What policies are to know of those that may be told to them, where they know something else.
    pub(super) fn due(
        &mut self,
        may_be_told: impl Fn(IdentityId) -> bool,
    ) -> BTreeMap<IdentityId, Arc<NamedPorts>> {
        let mut due = BTreeMap::new();
        let (said, known, telling) = (&self.said, &self.known, &self.telling);
        self.changed.retain(|&id| {
            let now = said.get(&id).map(|sets| union(sets));
            if now.as_ref() == known.get(&id) && !telling.contains_key(&id) {
                return false;
            }
            if may_be_told(id) {
                due.insert(id, now.unwrap_or_default());
            }
            true
        });
        due
    }

    /// Policies are told this.
    pub(super) fn tell(&mut self, ports: &BTreeMap<IdentityId, Arc<NamedPorts>>) {
        self.telling.extend(ports.iter().map(|(&id, ports)| (id, Arc::clone(ports))));
    }

    /// Policies are not told of this identity after all.
    pub(super) fn spare(&mut self, id: IdentityId) {
        self.telling.remove(&id);
    }

    /// Policies know this.
    pub(super) fn learned(&mut self, ports: BTreeMap<IdentityId, Arc<NamedPorts>>) {
        for (id, ports) in ports {
            self.telling.remove(&id);
            match ports.is_empty() {
                true => self.known.remove(&id),
                false => self.known.insert(id, ports),
            };
        }
    }
}

/// Whatever any of them says.
fn union(sets: &[(Arc<NamedPorts>, usize)]) -> Arc<NamedPorts> {
    if let [(only, _)] = sets {
        return Arc::clone(only);
    }
    let mut all = NamedPorts::new();
    for (name, ports) in sets.iter().flat_map(|(ports, _)| ports.iter()) {
        all.entry(name.clone()).or_default().extend(ports);
    }
    Arc::new(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: IdentityId = IdentityId(300);

    fn ports(number: u16) -> Arc<NamedPorts> {
        Arc::new(NamedPorts::from([("http".to_owned(), [(6, number)].into())]))
    }

    /// Tells policies what is due: the numbers of the name.
    fn tell(names: &mut RemoteNamedPorts) -> Option<Vec<u16>> {
        let due = names.due(|_| true);
        names.learned(due.clone());
        assert!(names.due(|_| true).is_empty());
        let numbers = due.get(&WEB)?.values().flatten().map(|(_, number)| *number);
        Some(numbers.collect())
    }

    #[test]
    fn a_name_counts_until_the_last_address_that_says_it_is_settled() {
        let mut names = RemoteNamedPorts::default();
        names.say((WEB, ports(80)));
        assert!(!names.knows(&(WEB, ports(80))) && names.due(|_| false).is_empty());
        assert_eq!(tell(&mut names), Some(vec![80]));
        names.say((WEB, ports(80)));
        assert_eq!(tell(&mut names), None);
        names.say((WEB, ports(81)));
        assert!(!names.knows(&(WEB, ports(81))) && names.knows(&(WEB, ports(80))));
        assert_eq!(tell(&mut names), Some(vec![80, 81]));
        assert!(names.knows(&(WEB, ports(81))));
        names.take_back((WEB, ports(80)));
        assert_eq!(tell(&mut names), None);
        // The last one says something else by now.
        let prefix: IpNet = "10.9.0.1/32".parse().unwrap();
        names.keep(prefix, (WEB, ports(80)));
        assert_eq!(tell(&mut names), None);
        names.settle(&prefix);
        assert_eq!(tell(&mut names), Some(vec![81]));
        names.take_back((WEB, ports(81)));
        assert_eq!(tell(&mut names), Some(vec![]));
        assert!(names.said.is_empty() && names.known.is_empty() && names.changed.is_empty());
    }

    #[test]
    fn what_policies_are_told_may_be_what_they_know() {
        let mut names = RemoteNamedPorts::default();
        [80, 81].into_iter().for_each(|number| names.say((WEB, ports(number))));
        assert_eq!(tell(&mut names), Some(vec![80, 81]));
        names.take_back((WEB, ports(81)));
        let fewer = names.due(|_| true);
        names.tell(&fewer);
        assert!(names.knows(&(WEB, ports(80))) && !names.knows(&(WEB, ports(81))));
        // Nobody has said that they heard: they are told again, also if all is as it was.
        names.say((WEB, ports(81)));
        assert!(!names.knows(&(WEB, ports(81))));
        assert_eq!(tell(&mut names), Some(vec![80, 81]));
        assert!(names.knows(&(WEB, ports(81))) && names.telling.is_empty());
    }
}
