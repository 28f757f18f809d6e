use serde_json::Value;

use super::{Feed, actor::ClusterPeers};
use crate::{
    policy::PolicyMsg,
    ports::ObjectKey,
    publish::PublisherMsg,
    workloads::{Manifest, WorkloadsMsg},
};

/// What was not handed on yet, in order.
pub(super) struct Held {
    news: News,
    /// Whether it may be handed on: whoever gets it takes the first for all there is.
    pub(super) released: bool,
    /// Whether the first was handed on, which may hold nothing.
    pub(super) begun: bool,
}

/// The same as each one takes it.
enum News {
    /// Each object is a source of its own to who reads manifests.
    Manifests(Vec<Manifest>),
    /// To who publishes, also whether there can be such objects at all, and whether that was said.
    Objects { objects: Vec<(ObjectKey, Option<Value>)>, defined: bool, said: bool },
}

impl Held {
    pub(super) fn new(feed: Feed) -> Self {
        let news = match feed.gates_policies() {
            true => News::Manifests(Vec::new()),
            false => News::Objects { objects: Vec::new(), defined: false, said: false },
        };
        Self { news, released: false, begun: false }
    }

    /// Adds objects of a source.
    pub(super) fn add(&mut self, name: &str, added: Vec<(ObjectKey, Option<Value>)>) {
        match &mut self.news {
            News::Manifests(manifests) => {
                manifests.extend(added.into_iter().map(|(key, value)| Manifest {
                    source: format!("{name}/{key}"),
                    objects: Ok(Vec::from_iter(value)),
                }));
            }
            News::Objects { objects, .. } => objects.extend(added),
        }
    }

    /// All objects of its source are here, or there can be none: who publishes waits for no other
    /// source.
    pub(super) fn synced(&mut self, is_defined: bool) {
        if let News::Objects { defined, said, .. } = &mut self.news {
            self.released = true;
            *said &= *defined == is_defined;
            *defined = is_defined;
        }
    }

    /// Hands on what may be; whether a full mailbox wants it later.
    pub(super) fn hand_on(&mut self, feed: Feed, peers: &ClusterPeers) -> bool {
        if !self.released || (self.begun && self.news.is_nothing()) {
            return false;
        }
        let refused = self.news.hand_on(feed, peers);
        self.begun |= !refused;
        refused
    }
}

impl News {
    fn is_nothing(&self) -> bool {
        match self {
            Self::Manifests(manifests) => manifests.is_empty(),
            Self::Objects { objects, said, .. } => objects.is_empty() && *said,
        }
    }

    fn hand_on(&mut self, feed: Feed, peers: &ClusterPeers) -> bool {
        match self {
            Self::Manifests(manifests) => {
                let all = std::mem::take(manifests);
                let back = match feed {
                    Feed::Policies => match peers.policy.tell(PolicyMsg::Manifests(all)) {
                        Err(full) if !full.gone => match full.msg {
                            PolicyMsg::Manifests(all) => Some(all),
                            _ => None,
                        },
                        _ => None,
                    },
                    _ => match peers.workloads.tell(WorkloadsMsg::Manifests(all)) {
                        Err(full) if !full.gone => match full.msg {
                            WorkloadsMsg::Manifests(all) => Some(all),
                            _ => None,
                        },
                        _ => None,
                    },
                };
                let refused = back.is_some();
                *manifests = back.unwrap_or_default();
                refused
            }
            Self::Objects { objects, defined, said } => {
                let Some(publisher) = &peers.publisher else { return false };
                let all = std::mem::take(objects);
                let msg = PublisherMsg::Objects { feed, objects: all, defined: *defined };
                let back = match publisher.tell(msg) {
                    Err(full) if !full.gone => match full.msg {
                        PublisherMsg::Objects { objects, .. } => Some(objects),
                        _ => None,
                    },
                    _ => None,
                };
                *said = back.is_none();
                *objects = back.unwrap_or_default();
                !*said
            }
        }
    }
}
