//! Reads what other clusters say of addresses and identities. A cluster can speak only of its own:
//! what else it says is refused and logged.

use std::{collections::BTreeSet, sync::Arc};

use ipnet::IpNet;

use crate::{
    cluster::{
        allocator::{Entry, Renewed, read_pair},
        kvstore::{Owner, Update, Whose, prefix_of},
        origins::{ClusterOrigin, Clusters, Reported},
    },
    model::{ClusterId, IdentityId, Labels, SharedPorts},
    policy::identity::reserved::CLUSTER,
    ports::{Change, Pair},
};

/// What other clusters of a mesh say of addresses and of identities.
#[derive(Debug)]
pub(super) struct Others(Clusters<ReportedCluster>);

#[derive(Debug, Default)]
struct ReportedCluster {
    id: ClusterId,
    addresses: Reported<IpNet, Owner>,
    identities: Reported<IdentityId, ()>,
}

impl Others {
    pub(super) fn new(meshed: bool) -> Self {
        Self(Clusters::new(meshed))
    }

    /// These are read now; prefixes and identities of which others spoke.
    pub(super) fn configure(&mut self, names: BTreeSet<Arc<str>>) -> (Vec<IpNet>, Vec<Renewed>) {
        let gone = self.0.configure(names);
        let prefixes = gone.iter().flat_map(|(_, said)| said.addresses.keys().copied());
        let identities = gone.iter().flat_map(|(_, said)| said.identities.keys());
        (prefixes.collect(), identities.map(|&id| (id, None)).collect())
    }

    /// Takes in what a cluster says of addresses; the prefixes that this is about.
    pub(super) fn addresses(
        &mut self,
        origin: &ClusterOrigin,
        update: Update,
        ports: &mut SharedPorts,
    ) -> Vec<IpNet> {
        let Some(said) = self.0.of(&origin.cluster) else { return Vec::new() };
        if !said.addresses.heeds(origin.generation) {
            return Vec::new();
        }
        said.id = origin.id;
        let mut about = Vec::with_capacity(update.changes.len());
        for change in update.changes {
            let (key, owner) = match change {
                Change::Put(pair) => {
                    let owner = owner(origin, &pair, ports);
                    (pair.key, owner)
                }
                Change::Delete(key) => (key, None),
            };
            if let Ok(prefix) = prefix_of(&key, &origin.addresses) {
                said.addresses.set(prefix, owner);
                about.push(prefix);
            }
        }
        if update.listed {
            about.extend(said.addresses.listed());
        }
        about
    }

    /// Takes in what a cluster says of identities.
    pub(super) fn identities(&mut self, origin: &ClusterOrigin, update: Update) -> Vec<Renewed> {
        let Some(said) = self.0.of(&origin.cluster) else { return Vec::new() };
        if !said.identities.heeds(origin.generation) {
            return Vec::new();
        }
        let entry = |change| read_pair(change, &origin.identities);
        let entries = update.changes.into_iter().filter_map(entry);
        let mut renewed: Vec<Renewed> = entries.filter_map(|it| labels(origin, it)).collect();
        for (id, labels) in &renewed {
            said.identities.set(*id, labels.as_ref().map(|_| ()));
        }
        if update.listed {
            renewed.extend(said.identities.listed().into_iter().map(|id| (id, None)));
        }
        renewed
    }

    /// Whose they say that a prefix is. Of several the first by name counts, whoever spoke first.
    pub(super) fn claim(&self, prefix: &IpNet) -> Option<Owner> {
        self.0.iter().find_map(|(_, said)| said.addresses.get(prefix)).cloned()
    }

    /// Whether all who may know of an identity have said whose addresses are. `own` is this
    /// cluster, and whether it has.
    pub(super) fn have_said(&self, id: IdentityId, own: (ClusterId, bool)) -> bool {
        let (own, own_listed) = own;
        if own.hands_out(id) {
            return own_listed;
        }
        let listed = |said: &ReportedCluster| said.addresses.is_listed();
        (own_listed && self.0.all(listed))
            || self.0.iter().any(|(_, said)| said.id.hands_out(id) && listed(said))
    }

    /// How many addresses and identities each of them names.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Arc<str>, (usize, usize))> {
        let count = |said: &ReportedCluster| (said.addresses.len(), said.identities.len());
        self.0.iter().map(move |(name, said)| (Arc::clone(name), count(said)))
    }
}

/// Whom a pair names, if that cluster can say so: an identity of its own, or a fixed one that is not
/// this node's to say.
fn owner(origin: &ClusterOrigin, pair: &Pair, ports: &mut SharedPorts) -> Option<Owner> {
    let cluster = &*origin.cluster;
    let whose = match Whose::read(pair, &origin.addresses) {
        // A pod's or a node's: a cluster has no say in whose the rest of the world is.
        Ok((prefix, _)) if prefix.prefix_len() < prefix.max_prefix_len() => {
            let key = &pair.key;
            tracing::warn!(cluster, key, "a prefix of a cluster is not known: it is no address");
            return None;
        }
        Ok((_, whose)) => whose,
        Err(error) => {
            tracing::warn!(cluster, %error, "an address of a cluster is not known");
            return None;
        }
    };
    let is_fixed = |id: IdentityId| {
        id.is_reserved() && ![IdentityId::HOST, IdentityId::KUBE_APISERVER].contains(&id)
    };
    let id = whose.id;
    if origin.id.hands_out(id) || is_fixed(id) {
        return Some(whose.owner(&pair.key, ports));
    }
    let (key, number) = (&pair.key, origin.id);
    tracing::warn!(
        cluster, key, identity = %id,
        "an address of a cluster is not known: its identity is none of cluster number {number}"
    );
    None
}

/// What an entry makes of an identity, if that cluster can say so.
fn labels(origin: &ClusterOrigin, (id, entry): (IdentityId, Entry)) -> Option<Renewed> {
    let cluster = &*origin.cluster;
    if !origin.id.hands_out(id) {
        let number = origin.id;
        tracing::warn!(cluster, identity = %id, "it is none of cluster number {number}");
        return None;
    }
    let labels = entry.labels().filter(|labels| {
        let is_theirs = is_of(labels, cluster);
        if !is_theirs {
            tracing::warn!(
                cluster, identity = %id, %labels,
                "identity of a cluster is not known: its labels do not name that cluster"
            );
        }
        is_theirs
    });
    Some((id, labels.cloned()))
}

fn is_of(labels: &Labels, cluster: &str) -> bool {
    labels.get(CLUSTER).is_some_and(|label| &*label.value == cluster)
}
