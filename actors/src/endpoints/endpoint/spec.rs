//! What an endpoint is made of, from its creation to its deletion, and how that goes to and from
//! its state file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    model::{Addresses, EndpointId, EndpointKind, Labels, Mac, NamedPorts},
    ports::RuntimePod,
    state_directory::EndpointRecord,
};

/// What every runtime calls the first interface of a container.
const FIRST_INTERFACE: &str = "eth0";

/// What is said of an endpoint when it is made, and what stays true until it is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointSpec {
    /// What it stands for.
    #[serde(default)]
    pub kind: EndpointKind,
    /// Number desired; `None` leaves the choice to the agent.
    pub id: Option<EndpointId>,
    /// The container's identifier, hexadecimal.
    pub container_id: String,
    /// The container's name.
    pub container_name: String,
    /// Path of the container's network namespace, if it was told.
    pub container_netns_path: String,
    /// The interface's name inside the container.
    pub container_ifname: String,
    /// Host-side interface's name.
    pub ifname: String,
    /// Host-side interface.
    pub ifindex: u32,
    /// Interface below the host side, 0 if none.
    pub parent_ifindex: u32,
    /// The endpoint's Ethernet address.
    pub mac: Mac,
    /// The host side's Ethernet address.
    pub node_mac: Mac,
    /// Its addresses.
    pub addresses: Addresses,
    /// Pool of the IPv4 address.
    pub ipv4_pool: String,
    /// Pool of the IPv6 address.
    pub ipv6_pool: String,
    /// Labels it came with, all of them; which count for the identity is decided by a filter.
    pub labels: Labels,
    /// Names of its pod's ports.
    pub named_ports: NamedPorts,
    /// Kubernetes namespace.
    pub namespace: String,
    /// Kubernetes pod name.
    pub pod_name: String,
    /// Kubernetes pod UID.
    pub pod_uid: String,
    /// Cookie of the container's network namespace, 0 if not known.
    pub netns_cookie: u64,
    /// Cilium's datapath configuration object, kept as it came.
    pub datapath_configuration: Value,
    /// Cilium's properties object, kept as it came.
    pub properties: Value,
}

impl EndpointSpec {
    /// Kubernetes' name, `namespace/pod`; `None` outside Kubernetes.
    pub fn pod(&self) -> Option<String> {
        (!self.pod_name.is_empty()).then(|| format!("{}/{}", self.namespace, self.pod_name))
    }

    /// Whether its pod is `namespace/name`.
    pub fn is_pod(&self, pod: &str) -> bool {
        let name = pod.strip_prefix(self.namespace.as_str()).and_then(|it| it.strip_prefix('/'));
        !self.pod_name.is_empty() && name == Some(self.pod_name.as_str())
    }

    /// Whether nobody named its pod, or its pod is this one and its UID is not known. What CNI said is not
    /// overruled.
    pub fn lacks(&self, pod: &RuntimePod) -> bool {
        let is_same = (&self.namespace, &self.pod_name) == (&pod.namespace, &pod.name);
        self.pod_name.is_empty() || (is_same && self.pod_uid.is_empty() && !pod.uid.is_empty())
    }

    /// Its host-side interface in words, as far as it is known.
    pub fn interface(&self) -> String {
        match (self.ifname.as_str(), self.ifindex) {
            ("", 0) => "an interface that nothing names".to_owned(),
            ("", number) => format!("interface number {number}"),
            (name, 0) => format!("interface {name}"),
            (name, number) => format!("interface {name} (number {number})"),
        }
    }

    /// Container and interface: what CNI calls an attachment.
    pub fn attachment_id(&self) -> String {
        format!("{}:{}", self.container_id, self.container_ifname)
    }

    /// Whether its attachment is `container:interface`. A record of an older version names no
    /// interface: a container had one then.
    pub fn is_attachment(&self, attachment: &str) -> bool {
        let interface = attachment.strip_prefix(self.container_id.as_str());
        let interface = interface.and_then(|it| it.strip_prefix(':'));
        let unnamed = self.container_ifname.is_empty() && !self.container_id.is_empty();
        interface == Some(self.container_ifname.as_str())
            || (unnamed && interface == Some(FIRST_INTERFACE))
    }

    /// Whether it is what its pod is known by, not a further interface of it.
    pub fn is_first_interface(&self) -> bool {
        matches!(self.container_ifname.as_str(), "" | FIRST_INTERFACE)
    }
}

impl EndpointSpec {
    /// Takes over what another description says of the interface; what it leaves empty stays.
    pub(super) fn merge(&mut self, other: Self) {
        fn take<T: Default + PartialEq>(mine: &mut T, other: T) {
            if other != T::default() {
                *mine = other;
            }
        }
        take(&mut self.container_id, other.container_id);
        take(&mut self.container_name, other.container_name);
        take(&mut self.container_netns_path, other.container_netns_path);
        take(&mut self.container_ifname, other.container_ifname);
        take(&mut self.ifname, other.ifname);
        take(&mut self.ifindex, other.ifindex);
        take(&mut self.parent_ifindex, other.parent_ifindex);
        take(&mut self.mac, other.mac);
        take(&mut self.node_mac, other.node_mac);
        take(&mut self.namespace, other.namespace);
        take(&mut self.pod_name, other.pod_name);
        take(&mut self.pod_uid, other.pod_uid);
        take(&mut self.netns_cookie, other.netns_cookie);
    }
}

/// The parts of a state file that an endpoint is made of.
impl From<&EndpointRecord> for EndpointSpec {
    fn from(record: &EndpointRecord) -> Self {
        let labels = &record.labels;
        let counted = labels.orchestration_identity.iter().chain(labels.orchestration_info.iter());
        // What its user switched off is still said of it.
        let all: Labels = counted.chain(labels.disabled.iter()).cloned().collect();
        // Mostly all of them make its identity, and are held once.
        let same = all == record.security.labels;
        let spec = Self {
            kind: record.kind(),
            id: Some(record.id),
            container_id: record.container_id.clone(),
            container_name: record.container_name.clone(),
            container_netns_path: record.container_netns_path.clone(),
            container_ifname: record.container_ifname.clone(),
            ifname: record.ifname.clone(),
            ifindex: record.ifindex,
            parent_ifindex: record.parent_ifindex,
            mac: record.mac,
            node_mac: record.node_mac,
            addresses: Addresses { ipv4: record.ipv4, ipv6: record.ipv6 },
            ipv4_pool: record.ipv4_pool.clone(),
            ipv6_pool: record.ipv6_pool.clone(),
            labels: if same { record.security.labels.clone() } else { all },
            named_ports: record.named_ports.clone(),
            namespace: record.namespace.clone(),
            pod_name: record.pod_name.clone(),
            pod_uid: record.pod_uid.clone(),
            netns_cookie: record.netns_cookie,
            datapath_configuration: Value::Object(record.datapath_configuration.clone()),
            properties: Value::Object(record.properties.clone()),
        };
        spec.of_its_kind()
    }
}

/// The parts of a state file that come from what the endpoint is made of.
impl From<&EndpointSpec> for EndpointRecord {
    fn from(spec: &EndpointSpec) -> Self {
        let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
        Self {
            container_name: spec.container_name.clone(),
            container_id: spec.container_id.clone(),
            container_netns_path: spec.container_netns_path.clone(),
            ifname: spec.ifname.clone(),
            ifindex: spec.ifindex,
            parent_ifindex: spec.parent_ifindex,
            container_ifname: spec.container_ifname.clone(),
            mac: spec.mac,
            ipv6: spec.addresses.ipv6,
            ipv6_pool: spec.ipv6_pool.clone(),
            ipv4: spec.addresses.ipv4,
            ipv4_pool: spec.ipv4_pool.clone(),
            node_mac: spec.node_mac,
            pod_name: spec.pod_name.clone(),
            namespace: spec.namespace.clone(),
            pod_uid: spec.pod_uid.clone(),
            named_ports: spec.named_ports.clone(),
            datapath_configuration: object(&spec.datapath_configuration),
            netns_cookie: spec.netns_cookie,
            properties: object(&spec.properties),
            ..Self::default()
        }
    }
}
