//! The status of another cluster for users: whether it is reached, read and complete.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use crate::{
    cluster::{kvstore::WatcherView, origins::RemoteKind},
    model::ClusterId,
};

/// How another cluster stands.
#[derive(Clone, Debug, Serialize)]
pub struct RemoteView {
    /// Its name.
    pub cluster: Arc<str>,
    /// Its number, once it is read.
    pub id: Option<ClusterId>,
    /// Whether its store is a copy that has several clusters.
    pub cached: bool,
    /// Whether it says when all of a kind is written.
    pub synced_canaries: bool,
    /// Why it is not read.
    pub problem: Option<String>,
    /// Services that it shares.
    pub services: usize,
    /// Who follows what it says of itself, unless that does not answer.
    pub config: Option<WatcherView>,
    /// Those who follow what else it says, each unless it does not answer.
    pub watchers: BTreeMap<RemoteKind, Option<WatcherView>>,
}

impl RemoteView {
    fn all_watchers(&self) -> impl Iterator<Item = &Option<WatcherView>> {
        [&self.config].into_iter().chain(self.watchers.values())
    }

    /// Whether its store answers.
    pub fn is_connected(&self) -> bool {
        let answers =
            |it: &Option<WatcherView>| it.as_ref().is_some_and(|it| it.unreachable.is_none());
        self.all_watchers().all(answers)
    }

    /// What it says that does not answer.
    pub fn unreachable(&self) -> Option<&str> {
        let mut all = self.all_watchers().flatten();
        all.find_map(|it| Some(it.unreachable.as_ref()?.error.as_str()))
    }

    /// Whether all of that was listed once.
    pub fn is_listed(&self, kind: RemoteKind) -> bool {
        self.watchers.get(&kind).and_then(Option::as_ref).is_some_and(|it| it.lists > 0)
    }

    /// Whether all it has is known, and followed.
    pub fn is_ready(&self) -> bool {
        let listed = RemoteKind::ALL.into_iter().all(|kind| self.is_listed(kind));
        self.problem.is_none() && self.is_connected() && listed
    }
}
