//! Shape of an endpoint and of its parts: labels, options, names, addresses, log, health. Its
//! policy has a shape of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use volvox_actors::{
    endpoints::endpoint::{EndpointView, LogEntry},
    model::{EndpointKind, Mac},
    policy::rules::protocol,
};

use super::{AddressPair, EndpointPolicy, Identity, OptionTexts, Timestamp, option_texts};

/// An endpoint. Members that are absent from what is read are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    /// Its number.
    pub id: u16,
    /// What its user wants of it.
    pub spec: EndpointConfiguration,
    /// How it is.
    pub status: EndpointStatus,
}

/// What its user can set of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EndpointConfiguration {
    /// Labels that its user added.
    pub label_configuration: LabelConfiguration,
    /// Options by name.
    pub options: OptionTexts,
}

/// Labels that its user added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelConfiguration {
    /// The labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<String>,
}

/// How an endpoint is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are named for what they are")]
pub struct EndpointStatus {
    /// Always empty: actors do what controllers did.
    pub controllers: Vec<Value>,
    pub external_identifiers: ExternalIdentifiers,
    pub health: EndpointHealth,
    pub identity: Identity,
    pub labels: LabelStatus,
    /// The newest entry.
    pub log: Vec<StatusChange>,
    #[serde(rename = "namedPorts", skip_serializing_if = "Vec::is_empty")]
    pub named_ports: Vec<NamedPort>,
    pub networking: Networking,
    pub policy: EndpointPolicy,
    pub realized: EndpointConfiguration,
    pub state: String,
}

/// A port that its pod gave a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamedPort {
    /// The name, lower case.
    pub name: String,
    /// The number.
    pub port: u16,
    /// `TCP`, `UDP`, `SCTP`.
    pub protocol: String,
}

/// Names that others have for an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are named for what they are")]
pub struct ExternalIdentifiers {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cni_attachment_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub k8s_namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub k8s_pod_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cep_name: String,
    /// `namespace/pod`; `/` outside Kubernetes.
    pub pod_name: String,
}

/// An endpoint's labels, by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct LabelStatus {
    /// Labels that do not count for its identity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<String>,
    /// Labels that its user disabled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<String>,
    /// Labels that its user added.
    pub realized: LabelConfiguration,
    /// Labels that make its identity.
    pub security_relevant: Vec<String>,
}

/// Answer to `GET /endpoint/{id}/labels`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LabelsAnswer {
    /// What its user wants.
    pub spec: LabelConfiguration,
    /// What is.
    pub status: LabelStatus,
}

/// Answer to `GET /endpoint/{id}/config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigurationAnswer {
    /// What is.
    pub realized: EndpointConfiguration,
}

/// One entry of an endpoint's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusChange {
    /// `OK`, `Warning` or `Failed`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// The state it was in then.
    pub state: String,
    /// When.
    pub timestamp: Timestamp,
}

/// An endpoint's place in the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are named for what they are")]
pub struct Networking {
    pub addressing: Vec<AddressPair>,
    pub container_interface_name: String,
    pub host_mac: Mac,
    pub interface_index: u32,
    pub interface_name: String,
    pub mac: Mac,
}

/// Answer to `GET /endpoint/{id}/healthz`; each text one of `OK`, `Bootstrap`, `Pending`,
/// `Warning`, `Failure`, `Disabled`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHealth {
    /// Whether its programs are in place.
    pub bpf: String,
    /// Whether its policy is.
    pub policy: String,
    /// Whether it has an interface.
    pub connected: bool,
    /// All of it together.
    pub overall_health: String,
}

impl Endpoint {
    /// An endpoint as the API shows it; options that it does not set are as in `defaults`.
    pub fn new(view: &EndpointView, defaults: &BTreeMap<String, i64>) -> Self {
        let configuration = EndpointConfiguration::new(view, defaults);
        Self {
            id: view.id.0,
            spec: configuration.clone(),
            status: EndpointStatus {
                controllers: Vec::new(),
                external_identifiers: ExternalIdentifiers::new(view),
                health: endpoint_health(view),
                identity: Identity::of(view),
                labels: LabelStatus::new(view),
                log: view.log.iter().take(1).map(StatusChange::new).collect(),
                named_ports: named_ports(view),
                networking: Networking::new(view),
                policy: EndpointPolicy::new(view),
                realized: configuration,
                state: view.api_state().to_owned(),
            },
        }
    }
}

fn named_ports(view: &EndpointView) -> Vec<NamedPort> {
    let all = view.spec.named_ports.iter();
    let ports = all.flat_map(|(name, ports)| ports.iter().map(move |port| (name, port)));
    ports
        .map(|(name, &(number, port))| NamedPort {
            name: name.clone(),
            port,
            protocol: protocol::name(number),
        })
        .collect()
}

impl EndpointConfiguration {
    /// What is set of an endpoint; options that it does not set are as in `defaults`.
    pub fn new(view: &EndpointView, defaults: &BTreeMap<String, i64>) -> Self {
        Self {
            label_configuration: LabelConfiguration { user: view.user_labels.0.to_texts() },
            options: option_texts(defaults, &view.options),
        }
    }
}

impl ExternalIdentifiers {
    fn new(view: &EndpointView) -> Self {
        let spec = &view.spec;
        Self {
            // Nothing is attached to the node itself.
            cni_attachment_id: match spec.kind {
                EndpointKind::Pod => spec.attachment_id(),
                EndpointKind::Host | EndpointKind::Health => String::new(),
            },
            container_id: spec.container_id.clone(),
            container_name: spec.container_name.clone(),
            k8s_namespace: spec.namespace.clone(),
            k8s_pod_name: spec.pod_name.clone(),
            cep_name: spec.pod().unwrap_or_default(),
            pod_name: format!("{}/{}", spec.namespace, spec.pod_name),
        }
    }
}

/// An endpoint's health.
pub fn endpoint_health(view: &EndpointView) -> EndpointHealth {
    let health = view.health();
    // The names of the marks are the variants' own.
    EndpointHealth {
        bpf: format!("{:?}", health.bpf),
        connected: health.connected,
        overall_health: format!("{:?}", health.overall_health),
        policy: format!("{:?}", health.policy),
    }
}

impl LabelStatus {
    /// An endpoint's labels.
    pub fn new(view: &EndpointView) -> Self {
        Self {
            derived: view.info_labels.to_texts(),
            disabled: view.user_labels.1.to_texts(),
            realized: LabelConfiguration { user: view.user_labels.0.to_texts() },
            security_relevant: view.identity_labels.to_texts(),
        }
    }
}

impl StatusChange {
    /// An entry of an endpoint's log.
    pub fn new(entry: &LogEntry) -> Self {
        Self {
            code: entry.code.to_owned(),
            message: entry.message.to_string(),
            state: entry.state.name().to_owned(),
            timestamp: Timestamp::from_nanos(entry.wall),
        }
    }
}

impl Networking {
    fn new(view: &EndpointView) -> Self {
        let spec = &view.spec;
        Self {
            addressing: vec![AddressPair {
                ipv4: spec.addresses.ipv4,
                ipv4_pool_name: spec.ipv4_pool.clone(),
                ipv6: spec.addresses.ipv6,
                ipv6_pool_name: spec.ipv6_pool.clone(),
                ..AddressPair::default()
            }],
            container_interface_name: spec.container_ifname.clone(),
            host_mac: spec.node_mac,
            interface_index: spec.ifindex,
            interface_name: spec.ifname.clone(),
            mac: spec.mac,
        }
    }
}
