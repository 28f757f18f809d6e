use serde_json::Value;

use super::{Feed, actor::ClusterPeers};
use crate::{
    policy::PolicyMsg,
    ports::ObjectKey,
    workloads::{Manifest, WorkloadsMsg},
};

/// What was not handed on yet, in order.
#[derive(Default)]
pub(super) struct Held {
    manifests: Vec<Manifest>,
    /// Whether it may be handed on: whoever gets it takes the first for all there is.
    pub(super) released: bool,
    /// Whether the first was handed on, which may hold nothing.
    pub(super) begun: bool,
}

impl Held {
    /// Adds objects of a source; each is a source of its own to whoever gets it.
    pub(super) fn add(&mut self, name: &str, objects: Vec<(ObjectKey, Option<Value>)>) {
        self.manifests.extend(objects.into_iter().map(|(key, value)| Manifest {
            source: format!("{name}/{key}"),
            objects: Ok(Vec::from_iter(value)),
        }));
    }

    /// Hands on what may be; whether a full mailbox wants it later.
    pub(super) fn hand_on(&mut self, feed: Feed, peers: &ClusterPeers) -> bool {
        if !self.released || (self.begun && self.manifests.is_empty()) {
            return false;
        }
        let manifests = std::mem::take(&mut self.manifests);
        let back = match feed {
            Feed::Policies => match peers.policy.tell(PolicyMsg::Manifests(manifests)) {
                Err(full) if !full.gone => match full.msg {
                    PolicyMsg::Manifests(manifests) => Some(manifests),
                    _ => None,
                },
                _ => None,
            },
            Feed::Workloads => match peers.workloads.tell(WorkloadsMsg::Manifests(manifests)) {
                Err(full) if !full.gone => match full.msg {
                    WorkloadsMsg::Manifests(manifests) => Some(manifests),
                    _ => None,
                },
                _ => None,
            },
        };
        match back {
            Some(manifests) => self.manifests = manifests,
            None => self.begun = true,
        }
        !self.begun || !self.manifests.is_empty()
    }
}
