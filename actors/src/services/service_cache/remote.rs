//! What other clusters share.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use super::{messages::RemoteChange, refused::RefusedServiceObject, source_object::Name};
use crate::services::service_cache::RemoteService;

/// Services of other clusters.
#[derive(Debug, Default)]
pub(super) struct RemoteServices {
    services: BTreeMap<Name, BTreeMap<Arc<str>, RemoteService>>,
    /// Why what clusters write of services cannot be read.
    unreadable: BTreeMap<(Name, Arc<str>), String>,
    /// Clusters that are configured, once that was said, and whether each named all it has.
    clusters: Option<BTreeMap<Arc<str>, bool>>,
}

impl RemoteServices {
    /// What they say of a service, by the names of the clusters.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = &RemoteService> + Clone {
        self.services.get(name).into_iter().flat_map(BTreeMap::values)
    }

    /// Whether a cluster may mean to share more of a service than it is known to. Who that is nobody can say:
    /// all stay whom an earlier run had and nobody named.
    pub(super) fn may_share_more(&self, name: &Name) -> bool {
        let first = (Rc::clone(name), Arc::from(""));
        self.unreadable.range(first..).next().is_some_and(|((of, _), _)| of == name)
    }

    /// What cannot be read, with the clusters.
    pub(super) fn refused(&self) -> impl Iterator<Item = (String, RefusedServiceObject)> {
        self.unreadable.iter().map(|((name, cluster), problem)| {
            let refused = RefusedServiceObject {
                object: format!("Service {name}"),
                path: format!("services/v1/{cluster}/{name}"),
                problem: problem.clone(),
                remedy: "see what writes that key into the store of that cluster".to_owned(),
            };
            (format!("cluster {cluster}"), refused)
        })
    }

    /// Whether each cluster that is configured named all it has.
    pub(super) fn is_listed(&self) -> bool {
        self.clusters.as_ref().is_some_and(|all| all.values().all(|listed| *listed))
    }

    /// These are configured now; the services that change by it.
    pub(super) fn configured(&mut self, clusters: BTreeSet<Arc<str>>) -> BTreeSet<Name> {
        let before = self.clusters.take().unwrap_or_default();
        let listed = |name: &Arc<str>| before.get(name).copied().unwrap_or(false);
        let now: BTreeMap<_, _> =
            clusters.into_iter().map(|name| (Arc::clone(&name), listed(&name))).collect();
        let mut changed = BTreeSet::new();
        self.services.retain(|name, by_cluster| {
            let all = by_cluster.len();
            by_cluster.retain(|cluster, _| now.contains_key(cluster));
            if by_cluster.len() != all {
                changed.insert(Rc::clone(name));
            }
            !by_cluster.is_empty()
        });
        self.unreadable.retain(|(name, cluster), _| {
            let stays = now.contains_key(cluster);
            if !stays {
                changed.insert(Rc::clone(name));
            }
            stays
        });
        self.clusters = Some(now);
        changed
    }

    /// A cluster says this; the services that change by it. One that is not configured any more says
    /// nothing.
    pub(super) fn apply(
        &mut self,
        cluster: &Arc<str>,
        changes: Vec<RemoteChange>,
        listed: bool,
    ) -> BTreeSet<Name> {
        let Some(is_listed) = self.clusters.as_mut().and_then(|all| all.get_mut(cluster)) else {
            return BTreeSet::new();
        };
        *is_listed |= listed;
        let mut changed = BTreeSet::new();
        for ((namespace, name), service) in changes {
            let name: Name = format!("{namespace}/{name}").into();
            let place = (Rc::clone(&name), Arc::clone(cluster));
            let service = match service {
                Ok(service) => service,
                Err(problem) => {
                    self.unreadable.insert(place, problem);
                    continue;
                }
            };
            self.unreadable.remove(&place);
            let by_cluster = self.services.entry(Rc::clone(&name)).or_default();
            match service {
                Some(service) => drop(by_cluster.insert(Arc::clone(cluster), service)),
                None => drop(by_cluster.remove(cluster)),
            }
            if by_cluster.is_empty() {
                self.services.remove(&name);
            }
            changed.insert(name);
        }
        changed
    }
}
