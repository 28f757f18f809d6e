//! Who follows the container runtime: what it knows of containers, and how far a round is.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use super::RuntimeFollowerView;
use crate::{
    endpoints::{
        endpoint::EndpointSpec,
        supervisor::{Abandoned, EndpointsMsg},
    },
    host::{Lent, Ref, Retry, Survives, Time, TimerId},
    ports::{ContainerRuntime, Watch},
    restore::RestoreMsg,
};

/// Whom who follows the container runtime talks to.
#[derive(Clone)]
pub struct RuntimeFollowerPeers {
    /// The runtime.
    pub runtime: Rc<dyn ContainerRuntime>,
    /// The supervisor of endpoints.
    pub endpoints: Ref<EndpointsMsg>,
    /// The supervisor of restoring.
    pub restore: Ref<RestoreMsg>,
}

/// Follows the container runtime.
pub struct RuntimeFollower {
    pub(super) peers: RuntimeFollowerPeers,
    /// Outlives a crash: what the runtime had is not said again.
    pub(super) known: Lent<RuntimeKnowledge>,
    pub(super) watch: Option<Watch>,
    pub(super) tries: Retry,
    /// Since when it is followed.
    pub(super) followed: Option<Time>,
    pub(super) silence: Option<TimerId>,
    pub(super) round: RoundState,
    /// What this connection said of endpoints' containers.
    pub(super) verdicts: BTreeMap<String, ContainerVerdict>,
    /// What the last look at interfaces found.
    pub(super) found: Abandoned,
}

/// What is known of a runtime beyond a connection to it.
#[derive(Default)]
pub(super) struct RuntimeKnowledge {
    /// Containers of endpoints that it had: of others it can say nothing.
    pub(super) own: BTreeSet<String>,
    /// Containers that it spoke of lately, and when: an endpoint may come later than the news of its end.
    pub(super) spoken_of: BTreeMap<String, Time>,
    pub(super) view: RuntimeFollowerView,
    /// The number of the last connection: what an earlier one told may come yet.
    pub(super) number: u64,
}

/// What the runtime said of an endpoint's container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerVerdict {
    Runs,
    /// It had it, and it runs no more since then.
    Gone(Time),
    /// It never had it.
    Stranger,
}

/// How far a round is, and when the next one is.
#[derive(Default)]
pub(super) struct RoundState {
    /// One is under way.
    pub(super) under_way: bool,
    /// The runtime spoke of these meanwhile.
    pub(super) doubted: BTreeSet<String>,
    /// How often this connection listed all, and when it does so next.
    pub(super) lists: u64,
    pub(super) list_at: Time,
    /// When the next round is.
    pub(super) timer: Option<(Time, TimerId)>,
    /// Endpoints by container.
    pub(super) homes: BTreeMap<String, Vec<Arc<EndpointSpec>>>,
}

impl RuntimeFollower {
    /// Makes each life of who follows the container runtime.
    pub fn factory(
        peers: impl Fn() -> RuntimeFollowerPeers + 'static,
    ) -> impl FnMut() -> Self + 'static {
        let known = Survives::<RuntimeKnowledge>::default();
        move || Self {
            peers: peers(),
            known: known.lend(),
            watch: None,
            tries: Retry::default(),
            followed: None,
            silence: None,
            round: RoundState::default(),
            verdicts: BTreeMap::new(),
            found: Abandoned::default(),
        }
    }

    /// How it goes.
    pub(super) fn view(&self) -> RuntimeFollowerView {
        let count = |meant: fn(&ContainerVerdict) -> bool| {
            self.verdicts.values().filter(|it| meant(it)).count()
        };
        RuntimeFollowerView {
            containers: count(|it| *it == ContainerVerdict::Runs),
            strangers: count(|it| *it == ContainerVerdict::Stranger),
            gone: count(|it| matches!(it, ContainerVerdict::Gone(_))),
            living: self.found.living,
            ..self.known.view.clone()
        }
    }
}
