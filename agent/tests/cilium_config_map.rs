//! A ConfigMap that Cilium's chart writes by default is taken as it is: each key is obeyed, passed
//! over because another program reads it, or named.

use std::fs;

use volvox_agent::config::{Loaded, load};

/// All keys of a default install of Cilium 1.19 with their values.
const DEFAULTS: &str = include_str!("cilium-config.txt");

/// What this agent does not have and a default install of Cilium does.
const ABSENT: [&str; 4] = [
    "enable-drift-checker=true",
    "enable-dynamic-config=true",
    "enable-l7-proxy=true",
    "node-port-bind-protection=true",
];

fn defaults() -> impl Iterator<Item = (&'static str, &'static str)> {
    DEFAULTS.lines().map(|line| line.split_once('=').expect("a key and its value"))
}

fn loaded(changed: &[(&'static str, &'static str)]) -> Loaded {
    let dir = tempfile::tempdir().expect("a directory for the test");
    for (key, value) in defaults().chain(changed.iter().copied()) {
        fs::write(dir.path().join(key), value).expect("a setting is written");
    }
    let dir = format!("--config-dir={}", dir.path().display());
    load(["volvox-agent".to_owned(), dir], |_| None).unwrap_or_else(|error| panic!("{error}"))
}

/// What the warnings say, without the directory in front of those that a file of it causes.
fn said(loaded: &Loaded) -> Vec<&str> {
    loaded
        .warnings
        .iter()
        .map(|it| match it.split_once(": ") {
            Some((place, said)) if place.starts_with("--config-dir ") => said,
            _ => it,
        })
        .collect()
}

#[test]
fn a_default_install_is_taken_and_what_is_absent_is_named() {
    assert_eq!(defaults().count(), 154);
    let loaded = loaded(&[]);
    let said = said(&loaded);
    let (named, rest) = said.split_at(ABSENT.len());
    for (remark, absent) in named.iter().zip(ABSENT) {
        assert!(remark.starts_with(&format!("{absent} is not supported: ")), "{remark}");
    }
    // Nothing is unknown.
    assert!(matches!(rest, [tuning] if tuning.starts_with("without effect here")), "{rest:?}");
    let config = &loaded.config;
    assert!(!config.kube_proxy.replacement, "a kube-proxy goes on serving");
    assert!(!config.enable_ipv6 && config.enable_ipv4 && config.procfs.ends_with("host/proc"));
    assert_eq!(config.monitor_aggregation_interval.as_secs(), 5);
}

#[test]
fn what_is_switched_on_or_unknown_is_named_and_limits_may_be_json() {
    let loaded = loaded(&[
        ("enable-wireguard", "true"),
        ("cni-chaining-mode", "portmap"),
        ("api-rate-limit", r#"{"endpoint-create":"rate-limit:0.5/s,rate-burst:4"}"#),
        ("kvstore-opt", r#"{"etcd.config": "/var/lib/etcd-config/etcd.config"}"#),
        ("enable-something-new", "true"),
    ]);
    let said = said(&loaded).join("\n");
    for words in [
        "enable-wireguard=true is not supported: traffic between nodes is not encrypted",
        "not known to this agent and ignored: enable-something-new",
        "--kvstore-opt has no effect without --kvstore=etcd",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(loaded.config.api_rate_limit.0["endpoint-create"].burst, Some(4));
    assert!(loaded.config.kvstore_opt.config.is_some());
    assert_eq!(loaded.config.cni.mode_name(), "portmap");
}
