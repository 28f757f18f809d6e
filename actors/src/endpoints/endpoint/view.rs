//! What others may see of an endpoint: its state, its health and its realised state in the kernel.
//! A view is a copy; the endpoint's actor owns the state behind it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Serialize;

use super::{Announcement, EndpointSpec, EndpointState, Log, Lost, OwnRows};
use crate::{
    host::Time,
    model::{EndpointId, IdentityId, Labels, PolicyRows, drift::Drift},
    policy::rules::Subject,
    ports::Attachment,
};

/// One mark of an endpoint's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum HealthState {
    /// As it should be.
    OK,
    /// Not yet known.
    Bootstrap,
    /// Work is under way.
    Pending,
    /// The last work failed; the datapath still does what it did before.
    Warning,
    /// The datapath does not do what is desired.
    Failure,
    /// Nothing to be healthy about.
    Disabled,
}

/// An endpoint's health, as its state and last build say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthView {
    /// The programs.
    pub bpf: HealthState,
    /// The policy.
    pub policy: HealthState,
    /// Whether its interface is up and programmed.
    pub connected: bool,
    /// The worst of all.
    pub overall_health: HealthState,
}

/// What the kernel is known to do for an endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Realised {
    /// Revision of the policy repository that its policy map shows: it allows nothing else.
    pub policy_revision: u64,
    /// The newest revision of which it shows all: an older one while its map has no room.
    pub whole_revision: u64,
    /// Labels whose policy that is: for a moment not those that it has now.
    pub labels: Arc<Labels>,
    /// Rows of its policy map.
    pub policy: Arc<PolicyRows>,
    /// What runs at its hooks.
    pub attachment: Attachment,
    /// Whether ingress is enforced.
    pub ingress_enforced: bool,
    /// Whether egress is enforced.
    pub egress_enforced: bool,
}

/// How often an endpoint was built since the agent's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildCounts {
    /// Builds that succeeded.
    pub builds: u64,
    /// How long the last build took, whatever came of it.
    pub last_build: Duration,
    /// Builds that failed.
    pub failures: u64,
    /// How many of the last ones did, one after the other.
    pub failures_in_a_row: u32,
}

/// Everything that may be seen of an endpoint, as it was when it last changed.
#[derive(Clone, Debug)]
pub struct EndpointView {
    /// Its number.
    pub id: EndpointId,
    /// Where it stands.
    pub state: EndpointState,
    /// Whether its last build failed.
    pub failing: bool,
    /// Whether the kernel answered its last step by a refusal.
    pub refused: bool,
    /// What keeps it from being served, by what was seen last at its interface.
    pub lost: Option<Lost>,
    /// Whether its policy map has no room for all of its policy. That is no failure which others
    /// need wait for: what is taken away is in force.
    pub short: bool,
    /// What it was made of.
    pub spec: Arc<EndpointSpec>,
    /// Its identity.
    pub identity: IdentityId,
    /// The labels behind its identity.
    pub identity_labels: Arc<Labels>,
    /// Labels that do not count for its identity.
    pub info_labels: Arc<Labels>,
    /// Labels that its user added, and those that its user disabled.
    pub user_labels: (Arc<Labels>, Arc<Labels>),
    /// Options, by Cilium's names; 0 is disabled.
    pub options: Arc<BTreeMap<String, i64>>,
    /// What the kernel does for it.
    pub realised: Arc<Realised>,
    /// Its last log entries.
    pub log: Log,
    /// How often it was built.
    pub counts: BuildCounts,
    /// The error of the last build, if it failed.
    pub last_error: Option<Arc<str>>,
    /// When it last changed its state.
    pub since: Time,
    /// What somebody else had changed in the kernel, and its last build put right.
    pub drift: Arc<[Drift]>,
}

impl EndpointView {
    /// How an endpoint looks before it has said anything of itself.
    pub(crate) fn seed(id: EndpointId, spec: &EndpointSpec, state: EndpointState) -> Self {
        Self {
            id,
            state,
            failing: false,
            refused: false,
            lost: None,
            short: false,
            spec: Arc::new(spec.clone()),
            identity: IdentityId::INIT,
            identity_labels: Arc::default(),
            info_labels: Arc::default(),
            user_labels: Default::default(),
            options: Arc::default(),
            realised: Arc::default(),
            log: Log::default(),
            counts: BuildCounts::default(),
            last_error: None,
            since: Time::default(),
            drift: Arc::from([]),
        }
    }

    /// Whom its policy is for.
    pub fn subject(&self) -> Subject {
        let labels = Arc::clone(&self.identity_labels);
        Subject { labels, named_ports: self.spec.named_ports.clone() }
    }

    /// Whether nothing was done for the endpoint between the two.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let of = |view: &Self| {
            let BuildCounts { builds, failures, .. } = view.counts;
            (view.state, builds, failures, view.identity, view.since)
        };
        of(self) == of(other)
            && Arc::ptr_eq(&self.spec, &other.spec)
            && Arc::ptr_eq(&self.realised.policy, &other.realised.policy)
    }

    /// What other nodes are told of it.
    pub fn announcement(&self) -> Announcement {
        let (id, state, identity) = (self.id, self.state, self.identity);
        Announcement { id, state, identity, spec: Arc::clone(&self.spec) }
    }

    /// What the kernel is to hold of it, besides its policy.
    pub fn own_rows(&self) -> OwnRows {
        OwnRows::of(self.id, &self.spec, self.identity, &self.options)
    }

    /// Its health.
    pub fn health(&self) -> HealthView {
        use HealthState::{Bootstrap, Disabled, Failure, OK, Pending, Warning};
        let mark = match self.state {
            EndpointState::Ready if self.lost.is_some() => Failure,
            EndpointState::Ready if self.failing => Warning,
            EndpointState::Ready => OK,
            EndpointState::Regenerating
            | EndpointState::WaitingToRegenerate
            | EndpointState::Disconnecting => Pending,
            EndpointState::WaitingForIdentity => Bootstrap,
            EndpointState::Restoring => Pending,
            EndpointState::Disconnected | EndpointState::Invalid => Disabled,
        };
        HealthView {
            bpf: mark,
            policy: mark,
            connected: !matches!(mark, Disabled) && self.lost.is_none(),
            overall_health: mark,
        }
    }

    /// Whether it is ready, and the kernel does what is desired as far as that was seen.
    pub fn serves(&self) -> bool {
        self.state == EndpointState::Ready && !self.failing && self.lost.is_none()
    }

    /// Its state as the API names it: one whose last build failed, or that is not served, is
    /// `not-ready`.
    pub fn api_state(&self) -> &'static str {
        if self.state == EndpointState::Ready && !self.serves() {
            "not-ready"
        } else {
            self.state.name()
        }
    }
}
