//! Groups of prefixes: a clause names them, a CiliumCIDRGroup says what they are, and the
//! repository brings the two together whenever either changes.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CidrMatch, Peer, Policy,
    peer::{GroupMatch, GroupSelector},
    rule::CidrGroup,
};

/// The groups of all sources, by name. Where two have one name, the first source's is meant.
pub(super) type Groups = BTreeMap<String, CidrGroup>;

impl GroupMatch {
    /// What it comes to, given these groups. One that is not there has no prefix.
    fn resolve(&self, groups: &Groups) -> BTreeSet<CidrMatch> {
        let is_meant = |(name, group): &(&String, &CidrGroup)| match &self.which {
            GroupSelector::Name(desired) => *name == desired,
            GroupSelector::Labels(selector) => selector.matches(&group.labels),
        };
        let nets = groups.iter().filter(is_meant).flat_map(|(_, group)| &group.nets);
        let left = nets.filter(|net| !self.except.iter().any(|except| except.contains(*net)));
        left.map(|net| {
            let except = self.except.iter().filter(|except| net.contains(*except));
            CidrMatch { net: *net, except: except.copied().collect() }
        })
        .collect()
    }
}

impl Policy {
    fn group_matches(&self) -> impl Iterator<Item = (&str, &GroupMatch)> {
        self.peers().filter_map(|(path, peer)| match peer {
            Peer::Group(group) => Some((path, group)),
            _ => None,
        })
    }

    /// Whether a clause of it names groups.
    pub(super) fn names_groups(&self) -> bool {
        self.group_matches().next().is_some()
    }

    /// Groups that it names and that there are not, each with the clause.
    pub(super) fn missing_groups(&self, groups: &Groups) -> Vec<MissingGroup> {
        let named = self.group_matches().filter_map(|(path, group)| match &group.which {
            GroupSelector::Name(name) => Some((path, name)),
            GroupSelector::Labels(_) => None,
        });
        named
            .filter(|(_, name)| !groups.contains_key(*name))
            .map(|(path, name)| MissingGroup { name: name.clone(), path: path.to_owned() })
            .collect()
    }

    /// Puts in what its groups come to; whether that is anything new.
    pub(super) fn resolve_groups(&mut self, groups: &Groups) -> bool {
        let mut changed = false;
        for peer in self.peers_mut() {
            if let Peer::Group(group) = peer {
                let now = group.resolve(groups);
                changed |= group.nets != now;
                group.nets = now;
            }
        }
        changed
    }
}

/// A group that a clause names and that there is not: it has no prefix.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MissingGroup {
    /// Its name.
    pub name: String,
    /// Path of the clause.
    pub path: String,
}
