//! Who is behind addresses and numbers, now and at the time of each flow that is kept.
//!
//! Flows are kept as records of numbers. Who had an address then is looked up when somebody asks, so a
//! name that goes stays known for as long as flows may tell of it; also over a kill of the agent.

mod file;
mod versions;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

pub use self::file::NamesFileError;
use self::versions::Versions;
use crate::messages::{FlowEndpoint, FlowPolicy, FlowService};

/// Rules that a record's cookie names.
pub type Policies = Arc<Vec<FlowPolicy>>;

/// What the agent knows at a moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// This node's endpoints, by each of their addresses.
    pub endpoints: BTreeMap<IpAddr, Arc<FlowEndpoint>>,
    /// Labels of identities.
    pub identities: BTreeMap<u32, Arc<Vec<String>>>,
    /// The identity of addresses and prefixes, and pods of other nodes.
    pub prefixes: BTreeMap<IpNet, Remote>,
    /// Services by where they are reached.
    pub services: BTreeMap<(IpAddr, u16), FlowService>,
    /// What cookies name.
    pub policies: BTreeMap<u32, Policies>,
    /// Interfaces of the node.
    pub interfaces: BTreeMap<u32, String>,
}

/// What is known of an address elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Its identity.
    pub identity: u32,
}

/// What this node is called.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster: String,
    /// Its labels, `key=value`.
    pub labels: Vec<String>,
    /// The version that is told.
    pub version: String,
}

impl Node {
    /// The name of a node as flows have it: with its cluster unless that is `default`.
    pub fn flow_name(&self) -> String {
        match self.cluster.as_str() {
            "" | "default" => self.name.clone(),
            cluster => format!("{cluster}/{}", self.name),
        }
    }
}

/// Names of now and of before.
#[derive(Debug, Default)]
pub struct Names {
    node: Node,
    flow_name: String,
    endpoints: Versions<IpAddr, Arc<FlowEndpoint>>,
    identities: Versions<u32, Arc<Vec<String>>>,
    policies: Versions<u32, Policies>,
    prefixes: BTreeMap<IpNet, Remote>,
    /// Lengths of the prefixes, the longest first.
    lengths: [Vec<u8>; 2],
    services: BTreeMap<(IpAddr, u16), FlowService>,
    interfaces: BTreeMap<u32, String>,
    changed: bool,
}

impl Names {
    /// Nothing is known yet, but what the node is called.
    pub fn new(node: Node) -> Self {
        Self { flow_name: node.flow_name(), node, ..Self::default() }
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Its name as flows have it.
    pub fn flow_name(&self) -> &str {
        &self.flow_name
    }

    /// Takes in what is so now.
    pub fn update(&mut self, now: u64, snapshot: Snapshot) {
        let Snapshot { endpoints, identities, prefixes, services, policies, interfaces } = snapshot;
        self.changed |= self.endpoints.update(now, endpoints);
        self.changed |= self.identities.update(now, identities);
        self.changed |= self.policies.update(now, policies);
        if prefixes != self.prefixes {
            let lengths = |v4: bool| {
                let of = prefixes.keys().filter(|prefix| prefix.addr().is_ipv4() == v4);
                let all: BTreeSet<u8> = of.map(IpNet::prefix_len).collect();
                all.into_iter().rev().collect()
            };
            self.lengths = [lengths(true), lengths(false)];
            self.prefixes = prefixes;
        }
        (self.services, self.interfaces) = (services, interfaces);
    }

    /// The same for endpoints alone.
    pub fn update_endpoints(&mut self, now: u64, all: BTreeMap<IpAddr, Arc<FlowEndpoint>>) {
        self.changed |= self.endpoints.update(now, all);
    }

    /// Forgets names that no flow since then can have.
    pub fn forget_before(&mut self, oldest: u64) {
        self.endpoints.forget_before(oldest);
        self.identities.forget_before(oldest);
        self.policies.forget_before(oldest);
    }

    /// Whether an endpoint of this node has that address now.
    pub fn has_endpoint(&self, address: IpAddr) -> bool {
        self.endpoints.now(&address).is_some()
    }

    /// Namespaces of this node's endpoints.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let all = self.endpoints.all_now().map(|endpoint| endpoint.namespace.as_str());
        all.filter(|namespace| !namespace.is_empty()).collect()
    }

    /// Pods of this node, `NAMESPACE/NAME`.
    pub(crate) fn pods(&self) -> BTreeSet<String> {
        let pods = self.endpoints.all_now().filter(|endpoint| !endpoint.pod_name.is_empty());
        pods.map(|pod| format!("{}/{}", pod.namespace, pod.pod_name)).collect()
    }

    /// Who had an address at that time. `identity` is what the datapath says, 0 if nothing.
    pub fn endpoint(&self, address: IpAddr, time: u64, identity: u32) -> FlowEndpoint {
        let mut found = match self.endpoints.at(&address, time) {
            Some(endpoint) => FlowEndpoint::clone(endpoint),
            None => FlowEndpoint { cluster_name: String::new(), ..FlowEndpoint::default() },
        };
        let is_local = found.id != 0;
        let own = found.identity;
        found.identity = match (identity, own) {
            (0, 0) => self.identity_of(address),
            (0, own) => own,
            (said, _) => said,
        };
        if found.identity != own || found.labels.is_empty() {
            self.label(&mut found, time);
        }
        if !is_local {
            // What an identity's labels say of whoever has it is true of a pod elsewhere, too.
            let of = |key: &str| {
                let mut labels = found.labels.iter();
                labels
                    .find_map(|label| Some(label.strip_prefix(key)?.strip_prefix('=')?.to_owned()))
            };
            let namespace = of("k8s:io.kubernetes.pod.namespace").unwrap_or_default();
            let cluster = of("k8s:io.cilium.k8s.policy.cluster").unwrap_or_default();
            (found.namespace, found.cluster_name) = (namespace, cluster);
        }
        found
    }

    fn label(&self, endpoint: &mut FlowEndpoint, time: u64) {
        let labels = self.identities.at(&endpoint.identity, time);
        endpoint.labels = match labels {
            Some(labels) => labels.to_vec(),
            None => Vec::new(),
        };
        if endpoint.identity >> 24 == 1 {
            only_longest_prefix(&mut endpoint.labels);
        }
    }

    /// The identity of an address by the ipcache, 0 if it has none.
    pub fn identity_of(&self, address: IpAddr) -> u32 {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        let found = lengths.iter().find_map(|length| {
            let prefix = IpNet::new(address, *length).ok()?.trunc();
            self.prefixes.get(&prefix)
        });
        found.map_or(0, |remote| remote.identity)
    }

    /// The service that is reached there.
    pub fn service(&self, address: IpAddr, port: u16) -> Option<&FlowService> {
        self.services.get(&(address, port))
    }

    /// An interface's name.
    pub fn interface(&self, index: u32) -> Option<&str> {
        self.interfaces.get(&index).map(String::as_str)
    }

    /// The policies that a cookie named at that time.
    pub fn policies(&self, cookie: u32, time: u64) -> &[FlowPolicy] {
        self.policies.at(&cookie, time).map_or(&[], |all| all)
    }
}

/// Of labels that are prefixes only the longest says who it is.
fn only_longest_prefix(labels: &mut Vec<String>) {
    let length = |label: &String| -> Option<u8> {
        label.strip_prefix("cidr:")?.rsplit_once('/')?.1.parse().ok()
    };
    let longest = labels.iter().filter_map(length).max();
    labels.retain(|label| !label.starts_with("cidr:") || length(label) == longest);
}

#[cfg(test)]
mod tests;
