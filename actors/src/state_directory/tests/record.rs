//! Tests: records keep their content and the fields of other agents, in both file forms.

use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::sample;
use crate::{
    model::{IdentityId, Labels, Mac},
    state_directory::{EndpointRecord, StateError},
};

fn from_value(value: &Value) -> Result<EndpointRecord, StateError> {
    EndpointRecord::from_json("7/ep_config.json", value.to_string().as_bytes())
}

#[test]
fn both_forms_give_back_the_record() {
    let record = sample(7, 3);
    assert_eq!(EndpointRecord::from_json("f", &record.to_json()).unwrap(), record);
    assert_eq!(
        EndpointRecord::from_header("f", &record.to_header(&record.to_json())).unwrap(),
        record
    );
}

#[test]
fn has_the_keys_that_other_agents_know() {
    let value: Value = serde_json::from_slice(&sample(7, 3).to_json()).unwrap();
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let known = "CiliumEndpointUID ContainerIfName ContainerName ContainerNetnsPath DNSHistory \
                 DNSRules DNSRulesV2 DNSZombies DatapathConfiguration DisableLegacyIdentifiers \
                 DockerEndpointID DockerNetworkID ID IPv4 IPv4IPAMPool IPv6 IPv6IPAMPool IfIndex \
                 IfName K8sNamespace K8sPodName K8sUID LXCMAC NetnsCookie NodeMAC OpLabels Options \
                 ParentIfIndex Properties SecLabel Volvox dockerID";
    assert_eq!(keys, known.split_whitespace().collect::<Vec<_>>());
    assert_eq!(value["LXCMAC"], "02:4a:00:00:00:07");
    assert_eq!(
        value["SecLabel"]["labels"]["app"],
        json!({"key": "app", "value": "gull", "source": "k8s"})
    );
    assert_eq!(value["DNSHistory"], json!([]));
    assert_eq!(value["Properties"], json!({}));
}

#[test]
fn takes_another_agent_s_record_and_keeps_its_fields() {
    let record = from_value(&json!({
        "ID": 7, "IPv4": "10.7.0.7", "IPv6": "", "LXCMAC": "", "DNSRules": null,
        "OpLabels": {"Custom": null, "OrchestrationIdentity": {}},
        "Options": {"map": null},
        "Elsewhere": {"deep": [1, null, 2.5]}, "ZoneID": 4
    }))
    .unwrap();
    assert_eq!((record.generation, record.ipv6, record.mac), (0, None, Mac::default()));
    let again = EndpointRecord { generation: 1, ..record };
    let value: Value = serde_json::from_slice(&again.to_json()).unwrap();
    assert_eq!(value["Elsewhere"], json!({"deep": [1, null, 2.5]}));
    assert_eq!(value["ZoneID"], 4);
}

#[test]
fn without_an_identity_it_is_init() {
    for value in [json!({"ID": 7}), json!({"ID": 7, "SecLabel": null})] {
        let record = from_value(&value).unwrap();
        assert_eq!(record.security.id, IdentityId::INIT);
        assert_eq!(record.security.labels, Labels::reserved("init"));
    }
}

#[test]
fn an_error_names_file_field_and_remedy() {
    for (value, words) in [
        (json!({"ID": 70_000}), "field ID: invalid value: integer `70000`"),
        (json!({"ID": 0}), "field ID: an endpoint's number is 1 to 65535"),
        (json!({"ID": 7, "IPv4": "10.7.0.300"}), "field IPv4: \"10.7.0.300\": invalid IPv4"),
        (json!({"ID": 7, "LXCMAC": "02:zz"}), "field LXCMAC: \"02:zz\" is not a MAC address"),
        (json!({"ID": 7, "IfIndex": -1}), "field IfIndex: invalid value: integer `-1`"),
        (json!({"ID": 7, "SecLabel": {"id": "x"}}), "field SecLabel.id: invalid type: string"),
    ] {
        let error = from_value(&value).unwrap_err().to_string();
        assert!(error.starts_with("7/ep_config.json: "), "{error}");
        assert!(error.contains(words), "{error}");
        assert!(error.contains("recreate the pod"), "{error}");
    }
}

#[test]
fn reads_the_header_of_older_agents() {
    let data = BASE64_STANDARD.encode(r#"{"ID":31,"IPv4":"10.7.0.31","SecLabel":null}"#);
    let version = BASE64_STANDARD.encode("{\"Version\":\"1.5\"}");
    let text =
        format!("/*\n * something\r\n * CILIUM_BASE64_{version}:{data}\r\n */\n#define X 1\n");
    let record = EndpointRecord::from_header("31/lxc_config.h", text.as_bytes()).unwrap();
    assert_eq!((record.id.0, record.generation), (31, 0));

    for (text, words) in [
        ("/* nothing */", "no line holds"),
        (" * CILIUM_BASE64_abc", "no colon"),
        (" * CILIUM_BASE64_a:b:c", "more than one colon"),
        (" * CILIUM_BASE64_YQ==:e30*", "no base64"),
        (" * CILIUM_BASE64_YQ==:e30", "no base64"),
    ] {
        let error = EndpointRecord::from_header("31/lxc_config.h", text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = EndpointRecord::from_json("f", &bytes);
        let _ = EndpointRecord::from_header("f", &bytes);
        let marked = [b" * CILIUM_BASE64_".as_slice(), &bytes].concat();
        let _ = EndpointRecord::from_header("f", &marked);
    }

    #[test]
    fn any_text_survives_both_forms(name in ".*", id in 1..u16::MAX, number in any::<f64>()) {
        let mut record = sample(id, 1);
        record.container_name = name.clone();
        record.foreign.insert("Elsewhere".to_owned(), json!([name, number]));
        let read = EndpointRecord::from_json("f", &record.to_json()).unwrap();
        prop_assert_eq!(&read.container_name, &record.container_name);
        let header = record.to_header(&record.to_json());
        let text = std::str::from_utf8(&header).unwrap();
        prop_assert_eq!(text.matches("*/").count(), 1);
        prop_assert_eq!(EndpointRecord::from_header("f", &header).unwrap(), read);
    }
}
