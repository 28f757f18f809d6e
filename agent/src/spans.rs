//! Spans of the start, by the names of Cilium's scopes; `cilium_agent_bootstrap_seconds` shows them. What a
//! restart does to endpoints, the report of the restart says.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use volvox_actors::{
    cluster::{api_server::ClusterMsg, kvstore::WatcherMsg},
    host::{AskError, Clock, Time},
    model::Feed,
    node_supervisor::NodeSupervisor,
};
use volvox_system::SystemClock;

/// How long the store and the API server may take to tell what they have: as long as Cilium's agent waits.
/// What comes later the agent takes as well, but the span ended in failure.
const SYNC_PATIENCE: Duration = Duration::from_secs(180);
/// What the agent has to know of the cluster.
const FEEDS: [Feed; 4] = [Feed::Policies, Feed::Services, Feed::Workloads, Feed::Node];

/// A part of the start that Cilium has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// From the first step until new pods may come.
    Overall,
    /// From the first step until all actors live and the API answers.
    InitDaemon,
    /// Ports to the world and all actors.
    DaemonInit,
    /// Who serves.
    InitApi,
    /// Programs at the node's devices, where new pods wait for these.
    BpfBase,
    /// What the store has.
    KvstoreInit,
    /// What the API server has.
    K8sInit,
}

impl Scope {
    const fn name(self) -> &'static str {
        match self {
            Self::Overall => "overall",
            Self::InitDaemon => "initDaemon",
            Self::DaemonInit => "daemonInit",
            Self::InitApi => "initAPI",
            Self::BpfBase => "bpfBase",
            Self::KvstoreInit => "kvstoreInit",
            Self::K8sInit => "k8sInit",
        }
    }
}

/// A span that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its scope, as Cilium calls it.
    pub scope: &'static str,
    /// How long it took.
    pub took: Duration,
    /// Whether what was to be done was done.
    pub success: bool,
}

/// All spans of this start, to be noted and looked at from any thread.
#[derive(Clone, Debug)]
pub struct Spans {
    began: Time,
    ended: Arc<Mutex<BTreeMap<Scope, Span>>>,
}

impl Spans {
    /// Of a start that began then.
    pub fn of(began: Time) -> Self {
        Self { began, ended: Arc::default() }
    }

    /// One that began then ends now. Only its first end counts.
    pub fn end(&self, scope: Scope, since: Time, success: bool) {
        let span = Span { scope: scope.name(), took: SystemClock.now().since(since), success };
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).entry(scope).or_insert(span);
    }

    /// One that began with the start ends now.
    pub fn end_from_start(&self, scope: Scope, success: bool) {
        self.end(scope, self.began, success);
    }

    /// Those that have ended.
    pub fn all(&self) -> Vec<Span> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }

    /// Waits for what the store and the API server have, if there are any. To be called on the actors'
    /// thread.
    pub fn follow(&self, node_supervisor: &NodeSupervisor) {
        let (host, since) = (&node_supervisor.host, SystemClock.now());
        let listed = "what it has, once, to say how long that took";
        if let Some(kvstore) = &node_supervisor.kvstore {
            let ask = |it| host.ask(it, SYNC_PATIENCE, listed, WatcherMsg::Await);
            let asked = host.outside("start", || kvstore.watchers.each_ref().map(ask));
            actix::spawn(self.clone().await_all(Scope::KvstoreInit, since, asked));
        }
        if let Some(cluster) = &node_supervisor.cluster {
            let ask = |feed| {
                let await_sync = |reply| ClusterMsg::AwaitSync(feed, reply);
                host.ask(cluster, SYNC_PATIENCE, listed, await_sync)
            };
            let asked = host.outside("start", || FEEDS.map(ask));
            actix::spawn(self.clone().await_all(Scope::K8sInit, since, asked));
        }
    }

    /// Ends a span once all these have come, or one did not.
    async fn await_all<A: Future<Output = Result<(), AskError>>>(
        self,
        scope: Scope,
        since: Time,
        asked: impl IntoIterator<Item = A>,
    ) {
        let mut success = true;
        for answer in asked {
            success &= answer.await.is_ok();
        }
        self.end(scope, since, success);
    }
}
