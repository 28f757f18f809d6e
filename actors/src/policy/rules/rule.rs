//! The form that every policy object is read into: policies, rules, clauses and ports. The peers of a clause
//! are in `peer.rs`.

use std::{collections::BTreeSet, fmt, sync::Arc};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ClauseAction, PolicyRank, RankedRule, Selector, Unsupported, peer::Peer, ports::PortRange,
};
use crate::model::{Direction, Labels};

/// Kinds of policy objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PolicyKind {
    /// Cilium's, for one namespace.
    CiliumNetworkPolicy,
    /// Cilium's, for the cluster.
    CiliumClusterwideNetworkPolicy,
    /// Kubernetes' own.
    NetworkPolicy,
    /// Cilium's groups of prefixes, which policies name.
    CiliumCIDRGroup,
    /// That of Kubernetes' network-policy-api, for the cluster, in tiers before and after the others.
    ClusterNetworkPolicy,
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A policy object's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PolicyName {
    /// Its kind.
    pub kind: PolicyKind,
    /// Its namespace, `None` for the cluster.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl PolicyName {
    /// The labels by which Cilium names its rules.
    pub fn rule_labels(&self) -> Vec<String> {
        let label = |key: &str, value: &str| format!("k8s:io.cilium.k8s.policy.{key}={value}");
        let mut labels =
            vec![label("derived-from", &self.kind.to_string()), label("name", &self.name)];
        labels.extend(self.namespace.as_ref().map(|namespace| label("namespace", namespace)));
        labels
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A policy object as it was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Its name.
    pub name: PolicyName,
    /// Its rules, one for each of `spec` and `specs`.
    pub rules: Vec<Rule>,
    /// The prefixes, if it is a group of such.
    pub group: Option<CidrGroup>,
    /// What of it is not supported yet.
    pub unsupported: Vec<Unsupported>,
    /// `spec` and `specs` as they were written.
    pub written: Vec<Value>,
}

impl Policy {
    /// Every way in which its clauses select peers, each with the path of the clause.
    pub(super) fn peers(&self) -> impl Iterator<Item = (&str, &Peer)> {
        let clauses = self.rules.iter().flat_map(|rule| &rule.clauses);
        clauses.flat_map(|clause| {
            let peers = match &clause.peers {
                ClausePeers::Any => &[],
                ClausePeers::Of(peers) => peers.as_slice(),
            };
            peers.iter().map(|peer| (clause.origin.path.as_str(), peer))
        })
    }

    /// The same, to put in what they come to.
    pub(super) fn peers_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        let clauses = self.rules.iter_mut().flat_map(|rule| &mut rule.clauses);
        clauses.flat_map(|clause| match &mut clause.peers {
            ClausePeers::Any => &mut [],
            ClausePeers::Of(peers) => peers.as_mut_slice(),
        })
    }
}

/// Whom a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Endpoints of these labels; never the node itself.
    Endpoints(Selector),
    /// The node itself, if it is labelled so.
    Nodes(Selector),
}

impl Bound {
    /// Whether an endpoint with these labels is one of them.
    pub fn includes(&self, labels: &Labels) -> bool {
        let is_node = labels.has_reserved("host");
        match self {
            Self::Endpoints(selector) => !is_node && selector.matches(labels),
            Self::Nodes(selector) => is_node && selector.matches(labels),
        }
    }

    /// The labels that they have.
    pub fn selector(&self) -> &Selector {
        match self {
            Self::Endpoints(selector) | Self::Nodes(selector) => selector,
        }
    }
}

/// Whom a rule is for, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whom it binds; nobody if it is for nodes and these are not held to policy.
    pub subject: Option<Bound>,
    /// Whether what no rule allows to them is dropped.
    pub default_deny_ingress: bool,
    /// Whether what no rule allows from them is dropped.
    pub default_deny_egress: bool,
    /// When its clauses are asked.
    pub rank: PolicyRank,
    /// What it allows and denies; in a tier of its own the first that is about a packet decides.
    pub clauses: Vec<Clause>,
}

impl Rule {
    /// Whether what no rule allows is dropped.
    pub fn default_deny(&self, direction: Direction) -> bool {
        match direction {
            Direction::Ingress => self.default_deny_ingress,
            Direction::Egress => self.default_deny_egress,
        }
    }
}

/// One allowance or denial: these peers, on these ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The way the packet goes, seen from the subject.
    pub direction: Direction,
    /// What it says.
    pub action: ClauseAction,
    /// The other side.
    pub peers: ClausePeers,
    /// Protocols and destination ports.
    pub ports: ClausePorts,
    /// Where it is written.
    pub origin: Arc<ClauseOrigin>,
}

impl Clause {
    /// The names of its ports, each with its protocol.
    pub(super) fn port_names(&self) -> impl Iterator<Item = (&str, u8)> {
        let ports = match &self.ports {
            ClausePorts::Any => &[],
            ClausePorts::Of(ports) => ports.as_slice(),
        };
        ports.iter().filter_map(|port| match port {
            PortMatch::Named { name, protocol } => Some((name.as_str(), *protocol)),
            PortMatch::Range(_) => None,
        })
    }
}

/// The other side of a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClausePeers {
    /// Everybody, known or not.
    Any,
    /// Whoever one of these selects; nobody if there is none.
    Of(Vec<Peer>),
}

/// Protocols and destination ports of a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClausePorts {
    /// Every protocol, also those without ports.
    Any,
    /// Whatever one of these covers; nothing if there is none.
    Of(Vec<PortMatch>),
}

/// One protocol and the ports that are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortMatch {
    /// By number; for ICMP the type.
    Range(PortRange),
    /// By the name that the receiving pod gives to a port of its own.
    Named {
        /// The name, lower case.
        name: String,
        /// IP protocol number.
        protocol: u8,
    },
}

/// Where a clause is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClauseOrigin {
    /// File, or whatever else the policy came from.
    pub source: String,
    /// The policy.
    pub policy: PolicyName,
    /// The way the packet goes.
    pub direction: Direction,
    /// Path of the clause, `spec.ingressDeny[0]`.
    pub path: String,
    /// What it is in its tier, if that has an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranked: Option<RankedRule>,
}

impl fmt::Display for ClauseOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.source, self.policy, self.path)?;
        self.ranked.as_ref().map_or(Ok(()), |ranked| write!(f, " ({ranked})"))
    }
}

/// What a CiliumCIDRGroup holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CidrGroup {
    /// Its labels.
    pub labels: Labels,
    /// Its prefixes.
    pub nets: BTreeSet<IpNet>,
}
