//! Objects between their source and their subscriber: held until they may go on, and again while
//! the subscriber's mailbox is full.

use std::collections::BTreeSet;

use serde_json::Value;

use super::peers::ClusterPeers;
use crate::{
    cluster::{
        addresses::AddressesMsg, allocator::AllocatorMsg, own_prefixes::OwnPrefixesMsg,
        publish::PublisherMsg, remote_nodes::RemoteNodesMsg, subscriber::Subscriber,
    },
    endpoints::workloads::WorkloadsMsg,
    host::{Message, Ref},
    model::{ApiObject, Feed, Manifest},
    policy::rules::PolicyMsg,
    ports::ObjectKey,
    services::service_cache::{ClusterObject, ServicesMsg},
};

/// What was not handed on yet, in order.
pub(super) struct PendingNews {
    news: SubscriberNews,
    /// Whether it may be handed on: whoever gets it takes the first for all there is.
    pub(super) released: bool,
    /// Whether the first was handed on, which may hold nothing.
    pub(super) begun: bool,
    /// Policies that name services.
    naming: BTreeSet<String>,
    /// Whether all services are here. Without them a policy that names some would deny what it
    /// allows.
    pub(super) services_known: bool,
}

/// The same as each one takes it.
enum SubscriberNews {
    /// Each object is a source of its own to who reads manifests.
    Manifests(Vec<Manifest>),
    /// To the others, also whether there can be such objects at all, and whether that was said.
    Objects { objects: Vec<(ObjectKey, Option<ApiObject>)>, defined: bool, said: bool },
    /// To the owner of services, of which resource each is.
    OfServices(Vec<ClusterObject>),
}

impl PendingNews {
    pub(super) fn new(subscriber: Subscriber) -> Self {
        let news = match subscriber {
            Subscriber::Policies | Subscriber::Workloads => SubscriberNews::Manifests(Vec::new()),
            Subscriber::Publisher
            | Subscriber::Allocator
            | Subscriber::Addresses
            | Subscriber::Nodes
            | Subscriber::Prefixes
            | Subscriber::Pools
            | Subscriber::Host => {
                SubscriberNews::Objects { objects: Vec::new(), defined: false, said: false }
            }
            Subscriber::Services => SubscriberNews::OfServices(Vec::new()),
        };
        let naming = BTreeSet::new();
        Self { news, released: false, begun: false, naming, services_known: false }
    }

    /// Adds objects of a source.
    pub(super) fn add(&mut self, name: &'static str, added: Vec<(ObjectKey, Option<ApiObject>)>) {
        match &mut self.news {
            SubscriberNews::Manifests(manifests) => {
                for (key, value) in added {
                    let source = format!("{name}/{key}");
                    if !value.as_ref().is_some_and(names_services) {
                        self.naming.remove(&source);
                    } else if self.naming.insert(source.clone())
                        && self.begun
                        && !self.services_known
                    {
                        tracing::warn!(policy = source, "it waits for services, which it names");
                    }
                    manifests.push(Manifest { source, objects: Ok(Vec::from_iter(value)) });
                }
            }
            SubscriberNews::Objects { objects, .. } => objects.extend(added),
            SubscriberNews::OfServices(objects) => {
                objects.extend(added.into_iter().map(|(key, value)| (name, key, value)));
            }
        }
    }

    /// Whether a policy names services.
    pub(super) fn names_services(&self) -> bool {
        !self.naming.is_empty()
    }

    /// All objects of its source are here, or there can be none: this waits for no other source.
    pub(super) fn synced(&mut self, is_defined: bool) {
        if let SubscriberNews::Objects { defined, said, .. } = &mut self.news {
            self.released = true;
            *said &= *defined == is_defined;
            *defined = is_defined;
        }
    }

    /// Whether all that there is was handed on once.
    pub(super) fn has_told(&self) -> bool {
        self.begun && !matches!(self.news, SubscriberNews::Objects { defined: false, .. })
    }

    /// Hands on what may be; whether a full mailbox wants it later.
    pub(super) fn hand_on(
        &mut self,
        feed: Feed,
        subscriber: Subscriber,
        peers: &ClusterPeers,
    ) -> bool {
        if !self.released {
            return false;
        }
        let waiting = self.put_aside();
        let nothing = self.begun && self.news.is_nothing();
        let refused = !nothing && self.news.hand_on(feed, subscriber, peers);
        self.begun |= !refused;
        if let SubscriberNews::Manifests(manifests) = &mut self.news {
            manifests.extend(waiting);
        }
        refused
    }

    /// Takes out the policies that wait for services. What was of them before stays in force.
    fn put_aside(&mut self) -> Vec<Manifest> {
        match &mut self.news {
            SubscriberNews::Manifests(manifests) if !self.services_known => {
                manifests.extract_if(.., |it| self.naming.contains(&it.source)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether an object is a policy that names services.
fn names_services(object: &ApiObject) -> bool {
    // No policy of Kubernetes' own does.
    let ApiObject::Json(object) = object else { return false };
    let many = object.get("specs").and_then(Value::as_array).into_iter().flatten();
    let mut rules = object.get("spec").into_iter().chain(many).flat_map(|spec| {
        let sides = ["egress", "egressDeny"].into_iter();
        sides.filter_map(|side| spec.get(side)?.as_array()).flatten()
    });
    rules.any(|rule| rule.get("toServices").is_some())
}

impl SubscriberNews {
    fn is_nothing(&self) -> bool {
        match self {
            Self::Manifests(manifests) => manifests.is_empty(),
            Self::Objects { objects, said, .. } => objects.is_empty() && *said,
            Self::OfServices(objects) => objects.is_empty(),
        }
    }

    fn hand_on(&mut self, feed: Feed, subscriber: Subscriber, peers: &ClusterPeers) -> bool {
        match self {
            Self::Manifests(manifests) => {
                let all = std::mem::take(manifests);
                let back = match subscriber {
                    Subscriber::Policies => match refused(&peers.policy, PolicyMsg::Manifests(all))
                    {
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
            Self::OfServices(objects) => {
                let Some(services) = &peers.services else { return false };
                let all = ServicesMsg::Objects { feed, objects: std::mem::take(objects) };
                let Some(ServicesMsg::Objects { objects: back, .. }) = refused(services, all)
                else {
                    return false;
                };
                *objects = back;
                true
            }
            Self::Objects { objects, defined, said } => {
                let (all, defined) = (std::mem::take(objects), *defined);
                let back = tell_objects(feed, subscriber, peers, all, defined);
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
    subscriber: Subscriber,
    peers: &ClusterPeers,
    objects: Vec<(ObjectKey, Option<ApiObject>)>,
    defined: bool,
) -> Option<Vec<(ObjectKey, Option<ApiObject>)>> {
    match subscriber {
        Subscriber::Allocator => {
            let (allocator, _) = peers.shared.as_ref()?;
            match refused(allocator, AllocatorMsg::Objects { objects, defined })? {
                AllocatorMsg::Objects { objects, .. } => Some(objects),
                _ => None,
            }
        }
        Subscriber::Addresses => {
            let (_, addresses) = peers.shared.as_ref()?;
            match refused(addresses, AddressesMsg::Objects { objects, defined })? {
                AddressesMsg::Objects { objects, .. } => Some(objects),
                _ => None,
            }
        }
        Subscriber::Host => match refused(&peers.workloads, WorkloadsMsg::Nodes(objects))? {
            WorkloadsMsg::Nodes(objects) => Some(objects),
            _ => None,
        },
        Subscriber::Pools => match refused(&peers.workloads, WorkloadsMsg::Pools(objects))? {
            WorkloadsMsg::Pools(objects) => Some(objects),
            _ => None,
        },
        Subscriber::Prefixes => {
            let prefixes = peers.prefixes.as_ref()?;
            match refused(prefixes, OwnPrefixesMsg::Objects { objects, defined })? {
                OwnPrefixesMsg::Objects { objects, .. } => Some(objects),
                _ => None,
            }
        }
        Subscriber::Nodes => {
            let nodes = peers.nodes.as_ref()?;
            match refused(nodes, RemoteNodesMsg::Objects { feed, objects, defined })? {
                RemoteNodesMsg::Objects { objects, .. } => Some(objects),
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
