//! The policy engine: manifests are read into rules, and for an endpoint rules become rows of its
//! policy map. All of it is pure but [`Policies`], the actor that owns the repository.
//!
//! [`Repository::apply`] takes the documents of a source, [`Repository::resolver`] makes
//! endpoints' rows, [`lookup()`] says what the datapath makes of them.
//!
//! A denial wins over every allowance, whichever is narrower. What no rule allows is dropped once a
//! rule with default deny selects the endpoint; otherwise it passes. Before and after stand the tiers of
//! ClusterNetworkPolicy, in which rules have an order: see `tiers`.

mod acquaint;
mod actor;
mod answers;
mod behind;
mod change;
mod cookie;
mod departures;
mod derived;
mod difference;
mod error;
mod explain;
mod fit;
mod groups;
mod identities;
mod identity_users;
mod knowledge;
mod lookup;
mod messages;
mod misfit;
mod named;
mod news;
mod ordered_fit;
mod packet;
mod parse;
mod peer;
mod ports;
mod progress;
mod rank;
mod remarks;
mod repository;
mod requester;
mod resolve;
mod resolved;
mod resolver;
mod rounds;
mod rows;
mod rule;
mod rule_index;
mod same_priority;
mod selector;
mod service_facts;
mod services;
mod settings;
mod show;
mod table;
mod tiers;
mod touched;
mod users;

#[cfg(test)]
mod tests;

pub use actor::{Policies, PoliciesStatus, PolicyPeers};
pub use departures::{Departure, DepartureMeaning};
pub use derived::DerivedFilter;
pub use difference::Difference;
pub use error::{Effect, PolicyError, Unsupported};
pub use fit::{fit, opens};
pub use groups::MissingGroup;
pub use identities::{IdentityView, PeerFacts};
pub use lookup::{Verdict, lookup};
pub use messages::{
    EndpointPolicy, IdentityUser, PolicyMsg, PolicySelector, PolicyView, RefusedPolicy,
    WrittenPolicies, WrittenRule,
};
pub use news::{AwaitedEndpoints, InheritResult, PolicyNews, Reached, Successors};
pub use packet::{
    Misfit, NearestRule, PacketExplained, PacketFate, PacketQuestion, RulePart, SelectingPolicy,
};
pub use parse::{RefusedDocument, namespace_selector, parse, pod_selector};
pub use peer::{
    CidrMatch, GroupMatch, GroupSelector, Peer, ServiceBy, ServiceMatch, ServiceName,
    ServiceSelector,
};
pub use ports::{PortPrefix, PortRange, protocol};
pub use rank::{ClauseAction, PolicyRank, PolicyTier, RankedRule};
pub use repository::{ApplyReport, PolicyStatus, Repository, UnresolvedPort};
pub use resolved::{Resolved, Subject};
pub use resolver::Resolver;
pub use rule::{
    Bound, CidrGroup, Clause, ClauseOrigin, ClausePeers, ClausePorts, Policy, PolicyKind,
    PolicyName, PortMatch, Rule,
};
pub use same_priority::same_priority_remark;
pub use selector::{Requirement, Selector, SelectorKey, Test};
pub use services::{KnownServices, MissingService};
pub use settings::{Enforcement, OwnCluster, PolicySettings};
pub use touched::{Changed, Touched};
