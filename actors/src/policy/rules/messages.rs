//! Messages to the owner of the policy, and what it answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ClauseOrigin, DerivedFilter, Enforcement, PacketExplained, PacketQuestion, PolicyError,
    PolicyStatus, Subject,
};
use crate::{
    host::{Lane, Message, Reply},
    model::{EndpointId, IdentityId, Manifest, NamedPorts, PolicyRows},
    policy::identity::Identity,
};

/// What an endpoint is to enforce.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointPolicy {
    /// Counts every change of rules and of what they select; starts at 1.
    pub revision: u64,
    /// Rows of its policy map.
    pub rows: Arc<PolicyRows>,
    /// Whether rules decide what comes to it: what none allows is dropped, or rules have an order.
    pub ingress_enforced: bool,
    /// Whether rules decide what it sends.
    pub egress_enforced: bool,
}

/// The repository as people see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PolicyView {
    /// Its revision.
    pub revision: u64,
    /// How each policy stands.
    pub policies: Vec<PolicyStatus>,
}

/// What the owner of the policy can be told.
pub enum PolicyMsg {
    /// These sources changed; only policies are looked at. The first of these messages holds all
    /// that is known at start, and policy is computed once it is taken in.
    Manifests(Vec<Manifest>),
    /// These identities are about to have addresses: every endpoint's policy must know them
    /// first. Answered with the revision once that is so.
    Learn {
        /// The identities.
        identities: Vec<Identity>,
        /// Endpoints that have one of these, with the names of their ports.
        identity_users: Vec<IdentityUser>,
        /// Where the answer goes.
        reply: Reply<u64>,
    },
    /// Addresses of other nodes are about to have these identities, or ports of these names: every endpoint that enforces a
    /// policy must know them first, also one whose policy an earlier run left. Not to be asked
    /// before policies are [ready](Self::Ready).
    Acquaint {
        /// The identities.
        identities: Vec<Identity>,
        /// All names of other nodes' ports that those of an identity have, new or not.
        named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
        /// Where the answer goes; there is none if not all endpoints came to know them.
        reply: Reply<()>,
    },
    /// An endpoint has only that identity, or none because it is gone: names of its ports count
    /// for no other any more.
    BearsOnly {
        /// The endpoint.
        endpoint: EndpointId,
        /// Its identity.
        identity: Option<IdentityId>,
    },
    /// No address has that identity any more.
    Forget(IdentityId),
    /// What an endpoint is to enforce. Waits for the first manifests.
    Resolve {
        /// The endpoint.
        subject: Subject,
        /// Where the answer goes.
        reply: Reply<Arc<EndpointPolicy>>,
    },
    /// The same for an endpoint whose policy the kernel holds: answered with none while the cluster's
    /// policies are not known, and told of the change once they are.
    ResolveOrKeep {
        /// The endpoint.
        subject: Subject,
        /// Where the answer goes.
        reply: Reply<Option<Arc<EndpointPolicy>>>,
    },
    /// Answered once the first policies are known.
    Ready(Reply<()>),
    /// Show the repository.
    Show {
        /// Every endpoint, to count what is selected.
        endpoints: Vec<Subject>,
        /// Where the answer goes.
        reply: Reply<PolicyView>,
    },
    /// What keeps policies from being, for an endpoint, what their authors wrote.
    Remarks {
        /// The endpoint.
        subject: Subject,
        /// Where the answer goes.
        reply: Reply<Vec<String>>,
    },
    /// Documents that were refused.
    Refused(Reply<Vec<RefusedPolicy>>),
    /// The rules that apply to an endpoint, one filter for each port.
    Derived {
        /// The endpoint.
        subject: Subject,
        /// Where the answer goes.
        reply: Reply<Vec<DerivedFilter>>,
    },
    /// Every policy in force, as it was written.
    Written(Reply<WrittenPolicies>),
    /// Selectors and whom they select now.
    Selectors {
        /// Selectors of subjects, or else of peers.
        subjects: bool,
        /// Where the answer goes.
        reply: Reply<Vec<PolicySelector>>,
    },
    /// What becomes of a packet at an endpoint, and why.
    Explain {
        /// The packet.
        question: PacketQuestion,
        /// Where the answer goes.
        reply: Reply<PacketExplained>,
    },
    /// The clauses behind each cookie of every computed policy.
    Origins(Reply<BTreeMap<u32, Vec<ClauseOrigin>>>),

    /// Endpoints are to be held to policy at other times than before, until the agent's end.
    Enforcement {
        /// When.
        enforcement: Enforcement,
        /// Answered once that is taken in; [`Self::Idle`] says when it is in force.
        reply: Reply<()>,
    },
    /// Answered once no change is under way or waits.
    Idle(Reply<()>),
}

impl Message for PolicyMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Manifests(_) => "Manifests",
            Self::Learn { .. } => "Learn",
            Self::Acquaint { .. } => "Acquaint",
            Self::BearsOnly { .. } => "BearsOnly",
            Self::Forget(_) => "Forget",
            Self::Resolve { .. } => "Resolve",
            Self::ResolveOrKeep { .. } => "ResolveOrKeep",
            Self::Ready(_) => "Ready",
            Self::Show { .. } => "Show",
            Self::Remarks { .. } => "Remarks",
            Self::Refused(_) => "Refused",
            Self::Derived { .. } => "Derived",
            Self::Written(_) => "Written",
            Self::Selectors { .. } => "Selectors",
            Self::Explain { .. } => "Explain",
            Self::Origins(_) => "Origins",
            Self::Enforcement { .. } => "Enforcement",
            Self::Idle(_) => "Idle",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::Resolve { .. } | Self::ResolveOrKeep { .. } | Self::Ready(_) => Lane::Request,
            Self::Show { .. } | Self::Derived { .. } => Lane::Request,
            Self::Remarks { .. } | Self::Refused(_) | Self::Explain { .. } => Lane::Request,
            Self::Written(_) | Self::Selectors { .. } | Self::Origins(_) => Lane::Request,
            _ => Lane::Control,
        }
    }
}

/// An endpoint that has an identity, and the names of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityUser {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The identity.
    pub identity: IdentityId,
    /// Names of the endpoint's ports.
    pub named_ports: NamedPorts,
}

/// Every policy in force, as it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenPolicies {
    /// Revision of the policy.
    pub revision: u64,
    /// The rules, by source and name.
    pub rules: Vec<WrittenRule>,
}

/// One `spec` of a policy, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenRule {
    /// Where it is from, by Cilium's label keys.
    pub labels: BTreeMap<String, String>,
    /// The rule.
    pub value: Value,
}

/// A selector of the rules, and whom it selects now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySelector {
    /// The selector, in Cilium's notation.
    pub selector: String,
    /// Whom it selects.
    pub identities: BTreeSet<IdentityId>,
    /// How many clauses, or rules for a subject, use it.
    pub users: usize,
}

/// A document that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPolicy {
    /// Why.
    pub error: PolicyError,
    /// Whether an earlier version of it is in force.
    pub earlier_in_force: bool,
}
