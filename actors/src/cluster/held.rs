use serde_json::Value;

use super::{Feed, actor::ClusterPeers};
use crate::{
    addresses::AddressesMsg,
    allocator::AllocatorMsg,
    host::{Message, Ref},
    nodes::NodesMsg,
    policy::PolicyMsg,
    ports::ObjectKey,
    publish::PublisherMsg,
    workloads::{Manifest, WorkloadsMsg},
};

/// Who hears of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hearer {
    /// The owner of the policy.
    Policies,
    /// The keeper of pods and namespaces.
    Workloads,
    /// Who keeps what this node says of itself.
    Publisher,
    /// The owner of the cluster's identities.
    Allocator,
    /// The owner of the cluster's addresses.
    Addresses,
    /// The owner of the cluster's nodes.
    Nodes,
}

impl Hearer {
    /// Who always hears of what is always followed.
    pub(super) fn of(feed: Feed) -> Option<Self> {
        match feed {
            Feed::Policies => Some(Self::Policies),
            Feed::Workloads => Some(Self::Workloads),
            _ => None,
        }
    }
}

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
    /// To the others, also whether there can be such objects at all, and whether that was said.
    Objects { objects: Vec<(ObjectKey, Option<Value>)>, defined: bool, said: bool },
}

impl Held {
    pub(super) fn new(hearer: Hearer) -> Self {
        let news = match hearer {
            Hearer::Policies | Hearer::Workloads => News::Manifests(Vec::new()),
            Hearer::Publisher | Hearer::Allocator | Hearer::Addresses | Hearer::Nodes => {
                News::Objects { objects: Vec::new(), defined: false, said: false }
            }
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

    /// All objects of its source are here, or there can be none: this waits for no other source.
    pub(super) fn synced(&mut self, is_defined: bool) {
        if let News::Objects { defined, said, .. } = &mut self.news {
            self.released = true;
            *said &= *defined == is_defined;
            *defined = is_defined;
        }
    }

    /// Whether all that there is was handed on once.
    pub(super) fn has_told(&self) -> bool {
        self.begun && !matches!(self.news, News::Objects { defined: false, .. })
    }

    /// Hands on what may be; whether a full mailbox wants it later.
    pub(super) fn hand_on(&mut self, feed: Feed, hearer: Hearer, peers: &ClusterPeers) -> bool {
        if !self.released || (self.begun && self.news.is_nothing()) {
            return false;
        }
        let refused = self.news.hand_on(feed, hearer, peers);
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

    fn hand_on(&mut self, feed: Feed, hearer: Hearer, peers: &ClusterPeers) -> bool {
        match self {
            Self::Manifests(manifests) => {
                let all = std::mem::take(manifests);
                let back = match hearer {
                    Hearer::Policies => match refused(&peers.policy, PolicyMsg::Manifests(all)) {
                        Some(PolicyMsg::Manifests(all)) => Some(all),
                        _ => None,
                    },
                    _ => match refused(&peers.workloads, WorkloadsMsg::Manifests(all)) {
                        Some(WorkloadsMsg::Manifests(all)) => Some(all),
                        _ => None,
                    },
                };
                let later = back.is_some();
                *manifests = back.unwrap_or_default();
                later
            }
            Self::Objects { objects, defined, said } => {
                let (all, defined) = (std::mem::take(objects), *defined);
                let back = tell_objects(feed, hearer, peers, all, defined);
                *said = back.is_none();
                *objects = back.unwrap_or_default();
                !*said
            }
        }
    }
}

/// Tells who hears of objects; gives them back if a mailbox is full.
fn tell_objects(
    feed: Feed,
    hearer: Hearer,
    peers: &ClusterPeers,
    objects: Vec<(ObjectKey, Option<Value>)>,
    defined: bool,
) -> Option<Vec<(ObjectKey, Option<Value>)>> {
    match hearer {
        Hearer::Allocator => {
            let (allocator, _) = peers.shared.as_ref()?;
            match refused(allocator, AllocatorMsg::Objects { objects, defined })? {
                AllocatorMsg::Objects { objects, .. } => Some(objects),
                _ => None,
            }
        }
        Hearer::Addresses => {
            let (_, addresses) = peers.shared.as_ref()?;
            match refused(addresses, AddressesMsg::Objects { objects, defined })? {
                AddressesMsg::Objects { objects, .. } => Some(objects),
                _ => None,
            }
        }
        Hearer::Nodes => {
            let nodes = peers.nodes.as_ref()?;
            match refused(nodes, NodesMsg::Objects { feed, objects, defined })? {
                NodesMsg::Objects { objects, .. } => Some(objects),
                _ => None,
            }
        }
        _ => {
            let publisher = peers.publisher.as_ref()?;
            match refused(publisher, PublisherMsg::Objects { feed, objects, defined })? {
                PublisherMsg::Objects { objects, .. } => Some(objects),
                _ => None,
            }
        }
    }
}

/// Tells somebody; the message again if the mailbox is full.
fn refused<M: Message>(to: &Ref<M>, msg: M) -> Option<M> {
    match to.tell(msg) {
        Err(full) if !full.gone => Some(full.msg),
        _ => None,
    }
}
