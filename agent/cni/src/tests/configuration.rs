//! Tests: what the plugin reads, and in which shape it answers; wrong input is refused by name.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::scene::play;
use crate::{CniVersion, Command, ErrorCode, Invocation, NetworkConfig, result::AddResult};

fn minimal() -> Value {
    json!({"cniVersion": "1.0.0", "name": "volvox", "type": "volvox-cni"})
}

#[track_caller]
fn refused(config: impl ToString, command: Command, code: ErrorCode, word: &str) {
    let error = NetworkConfig::parse(config.to_string().as_bytes(), command).unwrap_err();
    assert_eq!(error.code, code, "{error}");
    assert!(error.to_string().contains(word), "{error} does not name {word}");
}

#[test]
fn a_minimal_configuration_has_the_defaults() {
    let config = NetworkConfig::parse(minimal().to_string().as_bytes(), Command::Add).unwrap();
    assert_eq!(config.socket.to_str(), Some("/var/run/cilium/cilium.sock"));
    assert_eq!(config.delete_queue.to_str(), Some("/var/run/cilium/deleteQueue"));
    assert!(!config.debug && config.log_file.is_none());
}

#[test]
fn a_key_of_the_wrong_type_is_named() {
    for key in [
        "cniVersion",
        "name",
        "type",
        "socket-path",
        "delete-queue",
        "enable-debug",
        "log-file",
        "log-format",
        "ipam",
        "dns",
        "chaining-mode",
        "prevResult",
        "cni.dev/valid-attachments",
    ] {
        let mut config = minimal();
        config[key] = json!(7);
        refused(config, Command::Add, ErrorCode::Decode, key);
    }
    let mut config = minimal();
    config["cni.dev/valid-attachments"] = json!([{"containerID": "a"}]);
    refused(config, Command::Add, ErrorCode::Decode, "ifname");
    let mut config = minimal();
    config["prevResult"] = json!({"ips": [{"address": "10.0.0.1/99"}]});
    refused(config, Command::Del, ErrorCode::Decode, "prevResult.ips.address");
}

#[test]
fn what_cannot_be_obeyed_is_refused() {
    let with = |key: &str, value: Value| {
        let mut config = minimal();
        config[key] = value;
        config
    };
    let add = Command::Add;
    refused(with("ipam", json!({"type": "host-local"})), add, ErrorCode::UnsupportedField, "ipam");
    let chaining = |mode: &str| with("chaining-mode", json!(mode));
    refused(chaining("multus"), add, ErrorCode::UnsupportedField, "generic-veth");
    for mode in ["generic-veth", "aws-cni", "azure", "flannel"] {
        refused(chaining(mode), add, ErrorCode::InvalidConfig, "none came before");
    }
    for mode in ["", "none", "portmap"] {
        NetworkConfig::parse(chaining(mode).to_string().as_bytes(), add).unwrap();
    }
    refused(with("prevResult", json!({})), add, ErrorCode::InvalidConfig, "first plugin");
    refused(with("name", json!("")), add, ErrorCode::InvalidConfig, "name");
    refused(with("type", json!("bridge")), add, ErrorCode::InvalidConfig, "volvox-cni");
    refused(with("log-format", json!("xml")), add, ErrorCode::InvalidConfig, "xml");
    let harmless = with("ipam", json!({})).to_string();
    NetworkConfig::parse(harmless.as_bytes(), add).unwrap();
}

#[test]
fn rubbish_on_standard_input_is_told_in_one_line() {
    for rubbish in ["", "{", "[]", "null", "\u{0}", "{\"cniVersion\":\"1.0.0\"", "7"] {
        refused(rubbish, Command::Add, ErrorCode::Decode, "configuration");
    }
    let deep = "[".repeat(100_000);
    refused(deep, Command::Add, ErrorCode::Decode, "configuration");
}

#[test]
fn versions_and_commands_fit_together() {
    let with = |version: &str| json!({"cniVersion": version, "name": "volvox"});
    for old in ["0.1.0", "0.2.0", "1.2.0", "one"] {
        refused(with(old), Command::Add, ErrorCode::IncompatibleVersion, old);
    }
    refused(json!({"name": "x"}), Command::Add, ErrorCode::IncompatibleVersion, "0.1.0");
    for (version, check, gc) in [
        ("0.3.0", false, false),
        ("0.3.1", false, false),
        ("0.4.0", true, false),
        ("1.0.0", true, false),
        ("1.1.0", true, true),
    ] {
        let accepts =
            |command| NetworkConfig::parse(with(version).to_string().as_bytes(), command).is_ok();
        assert!(accepts(Command::Add) && accepts(Command::Del), "{version}");
        assert_eq!((accepts(Command::Check), accepts(Command::Gc)), (check, gc), "{version}");
        assert_eq!(accepts(Command::Status), gc, "{version}");
    }
}

#[test]
fn a_result_has_the_shape_of_its_version() {
    let result = AddResult {
        host_name: "lxc1".into(),
        host_mac: "02:00:00:00:00:01".parse().unwrap(),
        ifname: "eth0".into(),
        mac: "02:00:00:00:00:02".parse().unwrap(),
        mtu: 1450,
        sandbox: "/run/netns/a".into(),
        addresses: vec![
            ("10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap()),
            ("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap()),
        ],
        routers: ["10.0.0.1", "fd00::1"].map(|router| router.parse().unwrap()).into(),
        dns: serde_json::from_value(json!({"nameservers": ["10.0.0.53"]})).unwrap(),
    };
    for version in CniVersion::ALL {
        let json = result.to_json(version);
        assert_eq!(json["cniVersion"], version.as_str());
        assert_eq!(json["dns"]["nameservers"][0], "10.0.0.53");
        let before_1_0 = version < CniVersion::V1_0_0;
        assert_eq!(json["ips"][0].get("version"), before_1_0.then_some(&json!("4")), "{version:?}");
        assert_eq!(json["ips"][1].get("version"), before_1_0.then_some(&json!("6")), "{version:?}");
        let since_1_1 = version >= CniVersion::V1_1_0;
        assert_eq!(json["interfaces"][1].get("mtu").is_some(), since_1_1, "{version:?}");
        assert_eq!(json["routes"][3].get("mtu").is_some(), since_1_1, "{version:?}");
    }
    assert_eq!(
        result.to_json(CniVersion::V1_0_0),
        json!({
            "cniVersion": "1.0.0",
            "interfaces": [
                {"name": "lxc1", "mac": "02:00:00:00:00:01"},
                {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/a"},
            ],
            "ips": [
                {"address": "10.0.0.2/32", "gateway": "10.0.0.1", "interface": 1},
                {"address": "fd00::2/128", "gateway": "fd00::1", "interface": 1},
            ],
            "routes": [
                {"dst": "10.0.0.1/32"}, {"dst": "0.0.0.0/0", "gw": "10.0.0.1"},
                {"dst": "fd00::1/128"}, {"dst": "::/0", "gw": "fd00::1"},
            ],
            "dns": {"nameservers": ["10.0.0.53"]},
        })
    );
}

#[test]
fn the_version_command_needs_neither_agent_nor_network() {
    play(async |scene| {
        let env = BTreeMap::from([("CNI_COMMAND".to_owned(), "VERSION".to_owned())]);
        let answer = scene.call_with(&env, &json!({"cniVersion": "0.4.0"})).await.unwrap().unwrap();
        assert_eq!(answer["cniVersion"], "0.4.0");
        let supported = json!(["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]);
        assert_eq!(answer["supportedVersions"], supported);
    });
}

fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_missing_or_wrong_parameter_is_named() {
    let good = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "a-1"),
        ("CNI_NETNS", "/run/netns/a"),
        ("CNI_IFNAME", "eth0"),
    ];
    Invocation::parse(&environment(&good)).unwrap();
    for (key, value) in [
        ("CNI_COMMAND", ""),
        ("CNI_COMMAND", "add"),
        ("CNI_CONTAINERID", ""),
        ("CNI_CONTAINERID", "-a"),
        ("CNI_CONTAINERID", "../a"),
        ("CNI_NETNS", ""),
        ("CNI_IFNAME", ""),
        ("CNI_IFNAME", "eth0/1"),
        ("CNI_IFNAME", "eth0:1"),
        ("CNI_IFNAME", "sixteen-letters-"),
        ("CNI_IFNAME", ".."),
        ("CNI_IFNAME", "net%d"),
        ("CNI_IFNAME", "all"),
        ("CNI_ARGS", "K8S_POD_NAME"),
    ] {
        let mut env = environment(&good);
        env.insert(key.to_owned(), value.to_owned());
        let error = Invocation::parse(&env).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidEnvironment, "{error}");
        assert!(error.msg.contains(key), "{error} does not name {key}");
    }
}

/// Each command: what it does not need is not looked at, and goes nowhere.
#[test]
fn what_a_command_does_not_need_is_not_read() {
    let rubbish =
        [("CNI_CONTAINERID", "#/../a:b"), ("CNI_IFNAME", "eth0/1:%d"), ("CNI_NETNS", "x")];
    for command in ["STATUS", "GC", "VERSION"] {
        let mut env = environment(&rubbish);
        env.insert("CNI_COMMAND".to_owned(), command.to_owned());
        let invocation = Invocation::parse(&env).unwrap();
        assert_eq!((invocation.container_id.as_str(), invocation.ifname.as_str()), ("", ""));
    }
    for command in ["ADD", "CHECK", "DEL"] {
        let mut env = environment(&rubbish);
        env.insert("CNI_COMMAND".to_owned(), command.to_owned());
        Invocation::parse(&env).unwrap_err();
    }
}

#[test]
fn an_error_is_told_as_the_specification_wants() {
    let error = NetworkConfig::parse(b"{", Command::Add).unwrap_err();
    let json = error.to_json(NetworkConfig::version_of(br#"{"cniVersion":"0.4.0"}"#));
    assert_eq!((&json["cniVersion"], &json["code"]), (&json!("0.4.0"), &json!(6)));
    assert!(json["msg"].is_string() && json["details"].is_string());
}

proptest! {
    #[test]
    fn no_input_makes_it_panic(stdin in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,80}") {
        let version = NetworkConfig::version_of(&stdin);
        prop_assert_eq!(version, CniVersion::LATEST);
        drop(NetworkConfig::parse(&stdin, Command::Gc));
        let mut config = minimal();
        config["log-format"] = json!(text);
        drop(NetworkConfig::parse(config.to_string().as_bytes(), Command::Add));
        let env = environment(&[("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", &text),
            ("CNI_IFNAME", &text), ("CNI_NETNS", &text), ("CNI_ARGS", &text)]);
        if let Ok(invocation) = Invocation::parse(&env) {
            prop_assert!(invocation.ifname.len() <= 15 && !invocation.ifname.contains('/'));
            prop_assert!(invocation.container_id.is_ascii());
        }
    }
}
