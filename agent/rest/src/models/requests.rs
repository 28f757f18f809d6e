//! Shapes of what a caller sends to have endpoints made, changed and deleted.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use volvox_actors::model::Mac;

use super::{AddressPair, is_default, null_is_default};

/// Body of `PUT` and `PATCH /endpoint/{id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EndpointChangeRequest {
    /// The endpoint's number; 0 lets the agent choose.
    pub id: u16,
    /// The container's identifier.
    #[serde(skip_serializing_if = "is_default")]
    pub container_id: String,
    /// The container's name, if it has one.
    #[serde(skip_serializing_if = "is_default")]
    pub container_name: String,
    /// The interface's name inside the container.
    #[serde(skip_serializing_if = "is_default")]
    pub container_interface_name: String,
    /// File that names the container's network namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub container_netns_path: String,
    /// Cookie of that namespace, decimal.
    #[serde(skip_serializing_if = "is_default")]
    pub netns_cookie: String,
    /// The host side's name.
    #[serde(skip_serializing_if = "is_default")]
    pub interface_name: String,
    /// The host side's number.
    #[serde(skip_serializing_if = "is_default")]
    pub interface_index: u32,
    /// Number of the interface below, 0 if none.
    #[serde(skip_serializing_if = "is_default")]
    pub parent_interface_index: u32,
    /// The container's Ethernet address.
    #[serde(skip_serializing_if = "is_default")]
    pub mac: Mac,
    /// The host side's Ethernet address.
    #[serde(skip_serializing_if = "is_default")]
    pub host_mac: Mac,
    /// Its addresses, allocated before.
    pub addressing: AddressPair,
    /// Kubernetes namespace.
    #[serde(rename = "k8s-namespace", skip_serializing_if = "is_default")]
    pub k8s_namespace: String,
    /// Kubernetes pod name.
    #[serde(rename = "k8s-pod-name", skip_serializing_if = "is_default")]
    pub k8s_pod_name: String,
    /// Kubernetes pod UID.
    #[serde(rename = "k8s-uid", skip_serializing_if = "is_default")]
    pub k8s_uid: String,
    /// Labels, each `source:key=value`.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub labels: Vec<String>,
    /// State desired; `waiting-for-identity` for a new endpoint.
    #[serde(skip_serializing_if = "is_default")]
    pub state: String,
    /// Whether the answer waits until the datapath is in place.
    pub sync_build_endpoint: bool,
    /// Cilium's datapath configuration object, kept as it comes.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub datapath_configuration: Value,
    /// Cilium's properties object, kept as it comes.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub properties: Value,
}

/// Body of `DELETE /endpoint`, and of an entry of the delete queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EndpointBatchDeleteRequest {
    /// Every endpoint of this container is to go.
    pub container_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_request_reads_back_and_leaves_out_what_is_empty() {
        let request = EndpointChangeRequest {
            container_id: "c0ffee".into(),
            mac: Mac([2, 0, 0, 0, 0, 1]),
            addressing: AddressPair { ipv4: Some([10, 0, 0, 7].into()), ..Default::default() },
            k8s_pod_name: "web".into(),
            sync_build_endpoint: true,
            ..Default::default()
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            text,
            r#"{"id":0,"container-id":"c0ffee","mac":"02:00:00:00:00:01","addressing":{"ipv4":"10.0.0.7"},"k8s-pod-name":"web","sync-build-endpoint":true}"#
        );
        assert_eq!(serde_json::from_str::<EndpointChangeRequest>(&text).unwrap(), request);
    }
}
