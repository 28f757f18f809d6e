//! What is new is read; then services are given what they wish by it.

use std::rc::Rc;

use crate::services::{
    health_checks::HealthCheck,
    service_cache::{
        ServiceSource,
        claims::{RowsByFamily, Stores},
        expand::DesiredService,
        object::Spec,
        reported::ServiceReports,
        source_object::Name,
        state::{ServiceCacheState, ServiceNews},
    },
};

/// How much is looked at before others have their turn: objects read, or services given what they
/// wish.
const AT_ONCE: usize = 256;
/// Label of a Node that says in which zone it is.
const ZONE: &str = "topology.kubernetes.io/zone";

impl ServiceCacheState {
    /// Looks at some of what is new; whether there is more. Services are given what they wish once
    /// all that was said has been read: half of a list is no list.
    pub(super) fn proceed(&mut self, node: &str) -> bool {
        for _ in 0..AT_ONCE {
            match self.news.pop_front() {
                Some(news) => self.read(news, node),
                None => match self.changed.pop_first() {
                    Some(name) => {
                        let wanted = self.give(&name);
                        self.make_way(wanted);
                    }
                    None if !self.doubtful.is_empty() => {
                        self.changed.append(&mut self.doubtful);
                        self.all_others_given = true;
                    }
                    None => {
                        self.all_others_given = false;
                        self.prune();
                        if self.changed.is_empty() {
                            self.backends.forget_unlisted();
                        }
                        return !self.changed.is_empty();
                    }
                },
            }
        }
        true
    }

    fn read(&mut self, news: ServiceNews, node: &str) {
        let (reported, changed) = (&mut self.reported, &mut self.changed);
        match news {
            ServiceNews::Object(("nodes", _, object)) => {
                let node = match object {
                    Some(object) => match object.into_node() {
                        Some(node) => Some(node),
                        None => return,
                    },
                    None => None,
                };
                let labels = node.map(|it| it.metadata.labels.clone().unwrap_or_default());
                let zone =
                    labels.as_ref().and_then(|all| all.get(ZONE)).map(|it| it.as_str().into());
                if labels.is_some() && self.surroundings.labels != labels {
                    self.surroundings.labels = labels;
                    let is_of_some = |spec: &Spec| {
                        spec.annotated.as_ref().is_some_and(|it| !it.nodes.is_empty())
                    };
                    let of_some = reported.services().filter(|(_, spec)| is_of_some(spec));
                    changed.extend(of_some.map(|(name, _)| Rc::clone(name)));
                }
                if self.surroundings.zone != zone {
                    self.surroundings.zone = zone;
                    self.all_changed();
                }
            }
            ServiceNews::Object((_, key, Some(object))) => {
                reported.apply_object(&self.cluster, &key, &object, node, changed);
            }
            ServiceNews::Object((resource, key, None)) => {
                reported.forget_object(&self.cluster, resource, &key, changed);
            }
            ServiceNews::Manifest(manifest) => reported.apply(manifest, node, changed),
            ServiceNews::Synced(source) => {
                // Of those that are missing now one can say so.
                if self.awaited.remove(&source) {
                    changed.extend(reported.missing().cloned());
                    if source == ServiceSource::Mesh {
                        // Those of other clusters are known now.
                        let global = reported.services().filter(|(_, spec)| spec.sharing.is_global);
                        changed.extend(global.map(|(name, _)| Rc::clone(name)));
                    }
                }
            }
        }
    }

    pub(super) fn all_changed(&mut self) {
        self.changed.extend(self.reported.services().map(|(name, _)| Rc::clone(name)));
    }

    /// Gives a service what its sources say; what there was no room for.
    fn give(&mut self, name: &Name) -> RowsByFamily {
        let said = self.reported.said(name);
        let remote = self.remote.of(name);
        self.undecided.remove(name);
        let wish = match said.and_then(|said| Some((said, said.spec()?))) {
            Some((said, spec)) => match self.surroundings.serves(spec) {
                Some(true) => self.surroundings.expand(spec, said, remote, &self.backends),
                Some(false) => DesiredService::default(),
                None => {
                    self.undecided.insert(Rc::clone(name));
                    return RowsByFamily::default();
                }
            },
            None if self.awaited.contains(&ServiceSource::Cluster) => DesiredService::default(),
            None => DesiredService::of_nobody(said),
        };
        if self.is_doubtful(&wish) {
            self.doubtful.insert(Rc::clone(name));
            return RowsByFamily::default();
        }
        let asked = wish.health;
        let is_global =
            said.and_then(ServiceReports::spec).is_some_and(|spec| spec.sharing.is_global);
        if self.backends.has_heirs() {
            // Fewer may be held than before.
            self.pruned.backends = None;
        }
        let keeps = (is_global && self.may_come_from_elsewhere(name))
            || self.reported.refusals().hold_members(name);
        let mut stores = Stores {
            table: &mut self.table,
            backends: &mut self.backends,
            room: self.room,
            keeps,
            wanted: RowsByFamily::default(),
        };
        self.claims.give(name, wish, &mut stores, &mut self.changed);
        let wanted = stores.wanted;
        if let Some(health) = &mut self.health {
            // Where there was no room for it nobody is reached.
            let serves = self.claims.serves(name);
            let unserved = |check| HealthCheck { local_endpoints: 0, ..check };
            health.set(name, asked.map(|check| if serves { check } else { unserved(check) }));
        }
        wanted
    }

    /// Whether other clusters may mean to share more of a service than they are known to.
    fn may_come_from_elsewhere(&self, name: &Name) -> bool {
        self.awaited.contains(&ServiceSource::Mesh) || self.remote.may_share_more(name)
    }

    /// Whether a service wants what seems to have been another's before this life.
    fn is_doubtful(&self, wish: &DesiredService) -> bool {
        if self.all_others_given || self.pruned.frontends.is_some() {
            return false;
        }
        let ids = wish.backends.keys().filter_map(|at| self.backends.id(at)).collect();
        wish.frontends.iter().any(|(at, _)| self.table.is_left_by_another(at, &ids))
    }
}
