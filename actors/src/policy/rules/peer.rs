//! The other side of a clause: the ways to select peers, by labels, prefixes, groups and services.

use std::{collections::BTreeSet, fmt};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::Selector;

/// One way to select peers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// By labels.
    Labels(Selector),
    /// By address outside the cluster.
    Cidr(CidrMatch),
    /// By the prefixes of groups.
    Group(GroupMatch),
    /// By the pods and addresses of services.
    Service(ServiceMatch),
}

impl Peer {
    /// Each prefix that it names, with its exceptions.
    pub(super) fn cidrs(&self) -> Vec<&CidrMatch> {
        match self {
            Self::Labels(_) => Vec::new(),
            Self::Cidr(cidr) => vec![cidr],
            Self::Group(group) => group.nets.iter().collect(),
            Self::Service(service) => service.peers.iter().flat_map(Self::cidrs).collect(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Labels(selector) => selector.fmt(f),
            Self::Cidr(cidr) => cidr.fmt(f),
            Self::Group(group) => group.fmt(f),
            Self::Service(service) => service.fmt(f),
        }
    }
}

/// A prefix without some of its parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CidrMatch {
    /// The prefix.
    pub net: IpNet,
    /// Its parts that are not meant.
    pub except: BTreeSet<IpNet>,
}

impl CidrMatch {
    /// Whether all of `prefix` is meant, provided it is not cut by an exception.
    pub fn selects(&self, prefix: &IpNet) -> bool {
        self.net.contains(prefix) && !self.except.iter().any(|except| except.contains(prefix))
    }
}

impl fmt::Display for CidrMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cidr:{}", self.net)?;
        let except = self.except.iter().map(IpNet::to_string).collect::<Vec<_>>().join(",");
        if except.is_empty() { Ok(()) } else { write!(f, " except {except}") }
    }
}

/// The prefixes of some groups, without some of their parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupMatch {
    /// Which groups.
    pub which: GroupSelector,
    /// Parts that are not meant, of whichever prefix has them.
    pub except: BTreeSet<IpNet>,
    /// What that comes to now.
    pub nets: BTreeSet<CidrMatch>,
}

/// How a clause names groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupSelector {
    /// The one of that name.
    Name(String),
    /// All whose labels it selects.
    Labels(Selector),
}

impl fmt::Display for GroupMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.which {
            GroupSelector::Name(name) => write!(f, "cidrgroup:{name}")?,
            GroupSelector::Labels(selector) => write!(f, "cidrgroup:{selector}")?,
        }
        let except = self.except.iter().map(IpNet::to_string).collect::<Vec<_>>().join(",");
        if except.is_empty() { Ok(()) } else { write!(f, " except {except}") }
    }
}

/// Which service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The services that a clause names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceMatch {
    /// Which.
    pub which: ServiceSelector,
    /// Those that there are now.
    pub services: BTreeSet<ServiceName>,
    /// The pods and addresses that they come to.
    pub peers: BTreeSet<Peer>,
}

/// How a clause names services.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceSelector {
    /// Those of this namespace, or of every one.
    pub namespace: Option<String>,
    /// Which of these.
    pub by: ServiceBy,
}

/// Which services of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceBy {
    /// The one of that name.
    Name(String),
    /// All whose labels it selects.
    Labels(Selector),
}

impl fmt::Display for ServiceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or("*");
        match &self.by {
            ServiceBy::Name(name) => write!(f, "{namespace}/{name}"),
            ServiceBy::Labels(selector) => write!(f, "{namespace}/{selector}"),
        }
    }
}

impl fmt::Display for ServiceMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service:{}", self.which)?;
        if self.services.is_empty() { f.write_str(" (there is none)") } else { Ok(()) }
    }
}
