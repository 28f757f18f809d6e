//! Turns a request for an endpoint into the specification that actors use. Every length and label
//! is checked here.

use volvox_actors::{
    endpoints::endpoint::EndpointSpec,
    model::{EndpointId, EndpointKind, Labels, Mac, NamedPorts},
};
use volvox_inspect::http::ApiError;
use volvox_rest::models::EndpointChangeRequest;

/// Longest name of an interface, in bytes.
const IFNAME_BYTES_MAX: usize = 15;
/// Longest container id that is kept in the kernel, in bytes.
const CONTAINER_ID_BYTES_MAX: usize = 80;
/// Longest names in Kubernetes, in bytes.
const NAMESPACE_BYTES_MAX: usize = 63;
const POD_BYTES_MAX: usize = 253;
const UID_BYTES_MAX: usize = 40;
/// Longest of any other text, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// How many labels an endpoint may come with.
const LABELS_MAX: usize = 256;

/// The endpoint that a request means, every member checked.
pub(super) fn endpoint_spec(request: EndpointChangeRequest) -> Result<EndpointSpec, ApiError> {
    check_lengths(&request)?;
    Ok(EndpointSpec {
        kind: EndpointKind::Pod,
        id: (request.id > 0).then_some(EndpointId(request.id)),
        addresses: request.addressing.addresses(),
        ipv4_pool: request.addressing.ipv4_pool_name,
        ipv6_pool: request.addressing.ipv6_pool_name,
        mac: single("mac", request.mac)?,
        node_mac: single("host-mac", request.host_mac)?,
        ifindex: request.interface_index,
        parent_ifindex: request.parent_interface_index,
        labels: given_labels("labels", &request.labels)?,
        netns_cookie: netns_cookie(&request.netns_cookie)?,
        container_id: request.container_id,
        container_name: request.container_name,
        container_netns_path: request.container_netns_path,
        container_ifname: request.container_interface_name,
        ifname: request.interface_name,
        namespace: request.k8s_namespace,
        pod_name: request.k8s_pod_name,
        pod_uid: request.k8s_uid,
        datapath_configuration: request.datapath_configuration,
        properties: request.properties,
        // Its pod's manifest tells.
        named_ports: NamedPorts::new(),
    })
}

/// Labels of a member of a request.
pub(super) fn parse_labels(field: &str, texts: &[String]) -> Result<Labels, ApiError> {
    if texts.len() > LABELS_MAX {
        return Err(ApiError::bad_request(format!(
            "{field}: {} labels are more than the {LABELS_MAX} that are accepted",
            texts.len()
        )));
    }
    Labels::parse(texts.iter().map(String::as_str))
        .map_err(|error| ApiError::bad_request(format!("{field}: {error}")))
}

/// Labels that an endpoint is to have. Reserved ones stand for the node, the world and the like:
/// no caller makes a pod one of these.
pub(super) fn given_labels(field: &str, texts: &[String]) -> Result<Labels, ApiError> {
    let labels = parse_labels(field, texts)?;
    let reserved = labels.iter().find(|label| label.source == "reserved").map(ToString::to_string);
    match reserved {
        Some(label) => Err(ApiError::bad_request(format!(
            "{field}: not allowed to add the reserved label {label}: choose another source"
        ))),
        None => Ok(labels),
    }
}

fn check_lengths(request: &EndpointChangeRequest) -> Result<(), ApiError> {
    for (field, text, bytes_max) in [
        ("container-id", &request.container_id, CONTAINER_ID_BYTES_MAX),
        ("container-name", &request.container_name, TEXT_BYTES_MAX),
        ("container-netns-path", &request.container_netns_path, TEXT_BYTES_MAX),
        ("container-interface-name", &request.container_interface_name, IFNAME_BYTES_MAX),
        ("interface-name", &request.interface_name, IFNAME_BYTES_MAX),
        ("k8s-namespace", &request.k8s_namespace, NAMESPACE_BYTES_MAX),
        ("k8s-pod-name", &request.k8s_pod_name, POD_BYTES_MAX),
        ("k8s-uid", &request.k8s_uid, UID_BYTES_MAX),
    ] {
        if text.len() > bytes_max {
            return Err(ApiError::bad_request(format!(
                "{field}: {} bytes are more than the {bytes_max} that fit",
                text.len()
            )));
        }
        if text.contains('\0') {
            return Err(ApiError::bad_request(format!("{field}: a NUL byte is not allowed")));
        }
    }
    Ok(())
}

/// A frame from such an address is dropped by every bridge and stack.
fn single(field: &str, mac: Mac) -> Result<Mac, ApiError> {
    match mac.0[0] & 1 {
        0 => Ok(mac),
        _ => Err(ApiError::bad_request(format!(
            "{field}: {mac} is a group's address: that of one interface is expected"
        ))),
    }
}

fn netns_cookie(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        ApiError::bad_request(format!("netns-cookie: {text:?} is not a decimal number of 64 bits"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::extract::read_json;

    fn spec(value: &Value) -> Result<EndpointSpec, ApiError> {
        endpoint_spec(read_json(value.to_string().as_bytes())?)
    }

    #[test]
    fn reads_what_a_plugin_sends() {
        let spec = spec(&json!({
            "id": 0, "container-id": "ab01", "container-interface-name": "eth0",
            "interface-name": "lxc1", "interface-index": 7, "mac": "02:00:00:00:00:01",
            "host-mac": "02:00:00:00:00:02", "addressing": {"ipv4": "10.0.0.7"},
            "state": "waiting-for-identity", "sync-build-endpoint": true,
            "netns-cookie": "18446744073709551615", "datapath-configuration": {"x": 1},
            "labels": ["k8s:app=web"], "k8s-namespace": "default", "k8s-pod-name": "web",
            "docker-endpoint-id": "ignored",
        }))
        .unwrap();
        assert_eq!(spec.id, None);
        assert_eq!(spec.ifindex, 7);
        assert_eq!(spec.netns_cookie, u64::MAX);
        assert_eq!(spec.addresses.ipv4, Some("10.0.0.7".parse().unwrap()));
        assert_eq!(spec.labels.to_texts(), ["k8s:app=web"]);
        assert_eq!(spec.datapath_configuration, json!({"x": 1}));
        assert_eq!(spec.pod().as_deref(), Some("default/web"));
    }

    #[test]
    fn an_absent_list_of_labels_is_empty() {
        assert!(spec(&json!({"labels": null})).unwrap().labels.is_empty());
    }

    #[test]
    fn names_the_member_that_is_wrong() {
        for (value, says) in [
            (json!({"id": 65536}), "id: "),
            (json!({"id": -3}), "id: "),
            (json!({"addressing": {"ipv4": "fd00::1"}}), "addressing.ipv4: \"fd00::1\""),
            (json!({"mac": "02:00"}), "mac: \"02:00\" is not a MAC address"),
            (json!({"host-mac": "x"}), "host-mac: "),
            (json!({"interface-index": -1}), "interface-index: "),
            (json!({"netns-cookie": "0x1"}), "netns-cookie: \"0x1\""),
            (json!({"interface-name": "a".repeat(16)}), "interface-name: 16 bytes"),
            (json!({"k8s-pod-name": "a\0b"}), "k8s-pod-name: a NUL"),
            (json!({"labels": ["k8s:=x"]}), "labels: label \"k8s:=x\" has no key"),
            (json!({"labels": ["a", 7]}), "labels[1]: "),
            (json!({"labels": ["reserved:host"]}), "reserved label reserved:host"),
            (json!({"mac": "01:00:5e:00:00:01"}), "mac: 01:00:5e:00:00:01 is a group's"),
            (json!({"labels": ["x".repeat(1 << 20)]}), "labels: a label of 1048576 bytes"),
            (json!({"labels": vec!["a"; 257]}), "labels: 257 labels"),
        ] {
            let error = spec(&value).unwrap_err();
            assert_eq!(error.status.as_u16(), 400);
            assert!(error.text.contains(says), "{:?} lacks {says:?}", error.text);
        }
    }
}
