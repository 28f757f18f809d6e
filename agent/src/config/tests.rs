//! Tests: defaults, the order of the layers, and that wrong settings are refused by name and place.

use std::{
    collections::BTreeMap, ffi::OsString, fs, os::unix::fs::symlink, path::Path, time::Duration,
};

use tempfile::TempDir;

use super::*;

type Environment<'a> = &'a [(&'a str, &'a str)];

fn load_with(arguments: &[&str], environment: Environment<'_>) -> Result<Loaded, ConfigError> {
    let environment: BTreeMap<_, _> = environment.iter().copied().collect();
    let arguments = [&["volvox-agent"], arguments].concat();
    load(arguments, |name| environment.get(name).map(OsString::from))
}

fn settings(arguments: &[&str]) -> Config {
    load_with(arguments, &[]).unwrap().config
}

fn refusal(arguments: &[&str]) -> String {
    load_with(arguments, &[]).unwrap_err().to_string()
}

/// A directory of settings as a kubelet mounts a ConfigMap.
fn config_map(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("..2024_01")).unwrap();
    symlink("..2024_01", dir.path().join("..data")).unwrap();
    for (name, value) in files {
        fs::write(dir.path().join("..2024_01").join(name), value).unwrap();
        symlink(format!("..data/{name}"), dir.path().join(name)).unwrap();
    }
    dir
}

#[test]
fn the_flags_are_well_formed() {
    command().debug_assert();
    let help = command().render_long_help().to_string();
    assert!(help.contains("--state-dir <DIR>"), "{help}");
    assert!(!help.contains("--restore"), "it is hidden");
}

#[test]
fn defaults_are_those_of_the_original() {
    let config = settings(&[]);
    assert_eq!(config.run_dir.to_str(), Some("/var/run/cilium"));
    assert_eq!(config.bpf_root.to_str(), Some("/sys/fs/bpf"));
    assert_eq!((config.enable_ipv4, config.enable_ipv6, config.restore), (true, true, true));
    assert_eq!((config.endpoint_queue_size, config.agent_health_port), (25, 9879));
    assert_eq!(config.endpoint_gc_interval, Duration::from_secs(300));
    assert_eq!((config.ipv4_range, config.routing_mode), (Range::Auto, RoutingMode::Tunnel));
    assert_eq!(config.static_cnp_path, None);
    assert_eq!(config.metrics.prometheus_serve_addr, MetricsAddress::default());
    assert_eq!((config.labels, config.api_rate_limit), (vec![], RateLimits::default()));
    let shown = serde_json::to_value(Config::defaults()).unwrap();
    assert_eq!(shown["RunDir"], "/var/run/cilium");
    assert_eq!(shown["IdentityChangeGracePeriod"], 5_000_000_000_u64);
    assert_eq!((&shown["EnableIPv6"], &shown["RegisterCRDs"]), (&true.into(), &false.into()));
    assert_eq!(shown["EnableHealthCheckNodePort"], true);
    assert_eq!(shown["LBSockTerminateAllProtos"], false);
    // Cilium's agent says none, and its chart medium, which is what clusters run.
    assert_eq!(shown["MonitorAggregation"], "Medium");
    assert_eq!(shown["MonitorAggregationInterval"], 5_000_000_000_u64);
    assert_eq!(shown["MonitorAggregationFlags"], 7);
}

#[test]
fn the_nodes_address_is_one_or_auto() {
    let config = settings(&["--ipv4-node", "192.0.2.7"]);
    let given = "192.0.2.7".parse().unwrap();
    assert_eq!(config.ipv4_node, NodeAddress::Given(given));
    assert_eq!(config.ipv6_node, NodeAddress::Auto);
    let shown = serde_json::to_value(config).unwrap();
    assert_eq!(
        (&shown["IPv4NodeAddr"], &shown["IPv6NodeAddr"]),
        (&"192.0.2.7".into(), &"auto".into())
    );
    let refusal = refusal(&["--ipv6-node", "192.0.2.7"]);
    assert!(refusal.contains("--ipv6-node") && refusal.contains("write auto"), "{refusal}");
}

#[test]
fn the_stronger_word_counts() {
    let dir = config_map(&[("mtu", "1401\n"), ("cluster-name", "a"), ("cluster-id", "1")]);
    let flag = format!("--config-dir={}", dir.path().display());
    let environment: Environment<'_> = &[
        ("CILIUM_CLUSTER_NAME", "b"),
        ("CILIUM_CLUSTER_ID", "2"),
        ("VOLVOX_CLUSTER_ID", "3"),
        ("CILIUM_LOG_LEVEL", ""),
    ];
    let config = load_with(&[&flag, "--cluster-id=4"], environment).unwrap().config;
    assert_eq!((config.mtu, config.cluster_name.as_str(), config.cluster_id), (1401, "b", 4));
    let config = load_with(&[&flag], environment).unwrap().config;
    assert_eq!((config.cluster_id, config.log_level), (3, LogLevel::Info));
}

#[test]
fn the_environment_may_name_the_directory() {
    let dir = config_map(&[("mtu", "1402")]);
    let path = dir.path().to_str().unwrap();
    let loaded = load_with(&[], &[("CILIUM_CONFIG_DIR", path)]).unwrap();
    assert_eq!((loaded.config.mtu, loaded.config.config_dir.as_deref()), (1402, Some(dir.path())));
}

#[test]
fn switches_and_values_are_read_as_go_programs_do() {
    let config = settings(&["--debug", "--enable-ipv6=f", "--endpoint-gc-interval", "1m30s"]);
    assert_eq!((config.debug, config.enable_ipv6), (true, false));
    assert!(settings(&["--register-crds"]).register_crds);
    assert_eq!(config.effective_log_level(), LogLevel::Debug);
    assert_eq!(config.endpoint_gc_interval, Duration::from_secs(90));
    assert_eq!(settings(&["--labels", "k8s:app !k8s:b,c"]).labels, ["k8s:app", "!k8s:b", "c"]);
    let config = settings(&["--monitor-aggregation=Max", "--monitor-aggregation-flags=all"]);
    assert_eq!(config.monitor_aggregation, MonitorAggregation::Maximum);
    assert_eq!(config.monitor_aggregation_flags, TcpFlags(255));
}

#[test]
fn metrics_are_served_beyond_loopback_only_to_whoever_shows_who_they_are() {
    let served = |flags: &[&str]| {
        let metrics = settings(flags).metrics;
        metrics.address(metrics.prometheus_serve_addr).map(|address| address.to_string())
    };
    assert_eq!(served(&[]), None);
    assert_eq!(served(&["--prometheus-serve-addr=:9962"]).as_deref(), Some("127.0.0.1:9962"));
    let tokens = "--prometheus-token-review=true";
    let server = "--k8s-api-server=https://192.0.2.1:6443";
    let everywhere = served(&["--prometheus-serve-addr=:9962", tokens, server]);
    assert_eq!(everywhere.as_deref(), Some("[::]:9962"));
    let files = ["--prometheus-tls-cert-file=/c", "--prometheus-tls-key-file=/k"];
    let clients = "--prometheus-tls-client-ca-files=/a";
    let one = "--prometheus-serve-addr=192.0.2.9:9962";
    assert_eq!(served(&[one, files[0], files[1], clients]).as_deref(), Some("192.0.2.9:9962"));
    for (flags, words) in [
        (&[one][..], "--prometheus-token-review"),
        // It is hidden from who listens, and given to whoever asks.
        (&[one, files[0], files[1]], "--prometheus-token-review"),
        (&["--hubble-metrics-server=0.0.0.0:9965"], "--prometheus-token-review"),
        (&[files[0]], "name both"),
        (&[clients], "--prometheus-tls-cert-file"),
        (&[tokens], "no API server"),
        (&["--prometheus-serve-addr=9962"], "write it like :9962"),
        (&["--prometheus-serve-addr=:9879"], "--agent-health-port"),
        (&["--prometheus-serve-addr=:9965", "--hubble-metrics-server=:9965"], "choose another"),
        (&["--hubble-metrics=flow"], "--enable-hubble=true"),
        (&["--enable-hubble=true", "--hubble-metrics=flows"], "\"flows\" is no metric"),
    ] {
        let text = refusal(flags);
        assert!(text.contains(words), "{flags:?}: {text}");
    }
}

#[test]
fn the_longest_time_out_of_a_cluster_counts() {
    assert_eq!(settings(&[]).sync_timeout(), Duration::from_secs(300));
    for flag in ["k8s-sync-timeout", "crd-wait-timeout", "allocator-list-timeout"] {
        let config = settings(&[&format!("--{flag}=10m")]);
        assert_eq!(config.sync_timeout(), Duration::from_secs(600));
    }
}

#[test]
fn a_flag_that_is_given_twice_is_refused_by_name() {
    for (arguments, flag) in [
        (["--mtu=1400", "--mtu=1500"], "'--mtu <BYTES>'"),
        (["--debug", "--debug=false"], "'--debug[=<BOOL>]'"),
        (["--state-dir=/a", "--state-dir=/b"], "'--state-dir <DIR>'"),
    ] {
        let text = refusal(&arguments);
        assert!(text.contains(flag) && text.contains("multiple times"), "{text}");
    }
    // What is said elsewhere is no contradiction: the command line counts more.
    let config = load_with(&["--mtu=1400"], &[("VOLVOX_MTU", "1500")]).unwrap().config;
    assert_eq!(config.mtu, 1400);
}

#[test]
fn lists_may_be_given_in_pieces() {
    let environment: Environment<'_> = &[("VOLVOX_LABELS", "k8s:other")];
    let arguments = [
        "--labels=k8s:app,!k8s:b",
        "--labels=c",
        "--api-rate-limit=endpoint-create=rate-burst:4",
        "--api-rate-limit=endpoint-list=rate-burst:5",
        "--monitor-aggregation-flags=syn",
        "--monitor-aggregation-flags=rst,ack",
    ];
    let config = load_with(&arguments, environment).unwrap().config;
    assert_eq!(config.labels, ["k8s:app", "!k8s:b", "c"]);
    let limits: Vec<_> =
        config.api_rate_limit.0.iter().map(|(call, limit)| (call.as_str(), limit.burst)).collect();
    assert_eq!(limits, [("endpoint-create", Some(4)), ("endpoint-list", Some(5))]);
    assert_eq!(config.monitor_aggregation_flags, TcpFlags(2 | 4 | 16));
}

#[test]
fn api_servers_are_a_list_that_is_checked() {
    let servers = |arguments: &[&str]| settings(arguments).k8s_api_server.unwrap().to_string();
    assert_eq!(servers(&["--k8s-api-server=https://10.0.0.1:6443"]), "https://10.0.0.1:6443");
    let both = "https://10.0.0.1:6443,https://10.0.0.2:6443";
    assert_eq!(servers(&["--k8s-api-server", both]), both);
    let (one, other) = both.split_once(',').unwrap();
    let pieces = [format!("--k8s-api-server={one}"), format!("--k8s-api-server-urls={other}")];
    assert_eq!(servers(&[&pieces[0], &pieces[1]]), both);
    let shown = serde_json::to_value(settings(&["--k8s-api-server", both])).unwrap();
    assert_eq!(shown["K8sAPIServer"], both);

    // As Cilium's chart writes them, and by which name it does.
    let dir = config_map(&[("k8s-api-server-urls", &format!("{one} {other}"))]);
    let flag = format!("--config-dir={}", dir.path().display());
    let loaded = load_with(&[&flag], &[]).unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!(loaded.config.api_server().unwrap().servers, both.parse().unwrap());
    let environment: Environment<'_> = &[("CILIUM_K8S_API_SERVER_URLS", other)];
    let config = load_with(&[&flag], environment).unwrap().config;
    assert_eq!(config.k8s_api_server, other.parse().ok());

    for (text, words) in [
        ("", "has an empty entry: write URL,URL"),
        ("https://a:1,,https://b:1", "has an empty entry: write URL,URL"),
        ("https://a:1,ftp://b", "\"ftp://b\" is no URL of an API server"),
        ("https://a:1,https://a:1/", "\"https://a:1/\" is named twice: drop one of the two"),
    ] {
        let said = refusal(&[&format!("--k8s-api-server={text}")]);
        assert!(said.contains("--k8s-api-server") && said.contains(words), "{said}");
    }
    let said = refusal(&["--k8s-api-server=https://a:1", "--k8s-api-server=https://a:1"]);
    assert!(said.contains("--k8s-api-server") && said.contains("is named twice"), "{said}");
    let dir = config_map(&[("k8s-api-server-urls", "https://a:1,ftp://b")]);
    let said = refusal(&[&format!("--config-dir={}", dir.path().display())]);
    assert!(said.contains("k8s-api-server-urls says") && said.contains("ftp://b"), "{said}");
}

#[test]
fn the_dashboard_is_on_loopback_or_nowhere() {
    let address =
        |arguments: &[&str]| settings(arguments).dashboard_addr.0.map(|it| it.to_string());
    assert_eq!(address(&[]).as_deref(), Some("127.0.0.1:9880"));
    assert_eq!(address(&["--dashboard-addr=:9990"]).as_deref(), Some("127.0.0.1:9990"));
    assert_eq!(address(&["--dashboard-addr="]), None);
    let refused = refusal(&["--dashboard-addr=0.0.0.0:9880"]);
    assert!(refused.contains("--dashboard-addr") && refused.contains(":9880"), "{refused}");
}

#[test]
fn the_verb_stands_anywhere() {
    for arguments in [["uninstall", "--bpf-root=/b"], ["--bpf-root=/b", "uninstall"]] {
        let loaded = load_with(&arguments, &[]).unwrap();
        assert_eq!(loaded.verb, Verb::Uninstall);
        assert_eq!(loaded.config.bpf_root.to_str(), Some("/b"));
    }
    assert_eq!(load_with(&[], &[]).unwrap().verb, Verb::Run);
}

#[test]
fn an_unknown_flag_is_refused_by_name_with_a_suggestion() {
    let text = refusal(&["--bpf-rot=/b"]);
    assert!(text.contains("'--bpf-rot'") && text.contains("'--bpf-root'"), "{text}");
    let text = refusal(&["--hubble-redact-enabled=true"]);
    assert!(text.contains("'--hubble-redact-enabled'"), "{text}");
    let text = refusal(&["start"]);
    assert!(text.contains("'start'"), "{text}");
}

#[test]
fn an_unknown_key_of_a_directory_is_a_warning() {
    let dir = config_map(&[("enable-hubbel", ":4244"), ("tofqdns_min-ttl", "0"), ("labels", "")]);
    let loaded = load_with(&["--config-dir", dir.path().to_str().unwrap()], &[]).unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].ends_with("ignored: enable-hubbel, tofqdns_min-ttl"));
}

#[test]
fn a_wrong_value_is_blamed_on_where_it_stands() {
    let dir = config_map(&[("enable-policy", "sometimes"), ("mtu", "1500")]);
    let flag = format!("--config-dir={}", dir.path().display());
    let text = refusal(&[&flag]);
    assert!(text.contains("/enable-policy says enable-policy=\"sometimes\""), "{text}");
    assert!(text.contains("possible values: default, always, never"), "{text}");
    let error = load_with(&[], &[("CILIUM_IDENTITY_CHANGE_GRACE_PERIOD", "soon")]).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("environment variable CILIUM_IDENTITY_CHANGE"), "{text}");
    assert!(text.contains("write it like 10m0s"), "{text}");
    let text = refusal(&["--config-dir=/does/not/exist"]);
    assert!(text.contains("/does/not/exist cannot be read: No such file"), "{text}");
}

#[test]
fn wrong_values_on_the_command_line_name_flag_and_form() {
    for (argument, words) in [
        ("--enable-ipv4=maybe", "write true or false"),
        ("--ipv4-range=10.0.0.0", "write auto, 10.1.0.0/16"),
        ("--ipv6-range=fe80::/64", "which no pod can have"),
        ("--mtu=70000", "70000 is not in 0..=65535"),
        ("--endpoint-queue-size=0", "0 is not in 1..=65536"),
        ("--bpf-map-dynamic-size-ratio=NaN", "a number from 0 to 1"),
        ("--api-rate-limit=endpoint-make=rate-limit:1/s", "no call that can be limited"),
        ("--conntrack-gc-interval=-5s", "it is negative"),
        ("--monitor-aggregation-interval=500ms", "whole seconds are expected"),
        ("--monitor-aggregation-flags=syn,x", "\"x\" is no TCP flag"),
        ("--kvstore=consul", "possible values: etcd, etcd-rs, embedded"),
        ("--kvstore-opt=etcd.adress=x", "\"etcd.adress\" is no option of etcd"),
        ("--kvstore-lease-ttl=25h", "1s to 24h are expected"),
        ("--container-runtime-endpoint=containerd.sock", "write it like /run/containerd"),
    ] {
        let text = refusal(&[argument]);
        let flag = argument.split('=').next().unwrap();
        assert!(text.contains(flag) && text.contains(words), "{text}");
    }
}

#[test]
fn contradictions_name_both_and_where_they_were_said() {
    for (arguments, one, other) in [
        (
            ["--enable-ipv4=false", "--enable-ipv6=false"],
            "--enable-ipv4=false",
            "--enable-ipv6=false",
        ),
        (["--keep-config", "--restore=false"], "--keep-config=true", "--restore=false"),
        (["--cluster-id=3", "--mtu=0"], "--cluster-id=3", "--cluster-name=default (the default)"),
        (["--state-dir=/a", "--lib-dir=/a"], "--state-dir=/a", "--lib-dir=/a"),
        (["--mtu=1000", "--enable-ipv6"], "--mtu=1000", "--enable-ipv6=true"),
        (["--mtu=1340", "--debug"], "--mtu=1340", "--enable-ipv6=true (the default)"),
        (
            ["--auto-direct-node-routes", "--debug"],
            "--auto-direct-node-routes=true",
            "--routing-mode=tunnel (the default)",
        ),
        (
            ["--direct-routing-skip-unreachable", "--routing-mode=native"],
            "--direct-routing-skip-unreachable=true",
            "--auto-direct-node-routes=false (the default)",
        ),
        (
            ["--prometheus-serve-addr=:99", "--agent-health-port=99"],
            "--prometheus-serve-addr=:99",
            "--agent-health-port=99",
        ),
    ] {
        let text = refusal(&arguments);
        assert!(text.starts_with(&format!("{one} contradicts {other}: ")), "{text}");
    }
    let error = load_with(&["--enable-ipv6=false"], &[("VOLVOX_ENABLE_IPV4", "false")]);
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("--enable-ipv4=false (environment variable VOLVOX_ENABLE_IPV4)"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_done_yet_is_refused_and_what_has_no_effect_is_told() {
    let text = refusal(&["--tunnel-protocol=geneve"]);
    assert!(text.starts_with("--tunnel-protocol=geneve is not possible: tunnels are"), "{text}");
    let loaded = load_with(&["--enable-ipv6=false", "--ipv6-range=fd11::/96"], &[]).unwrap();
    assert_eq!(loaded.warnings, ["--ipv6-range has no effect: --enable-ipv6 is false"]);
    let loaded = load_with(&["--routing-mode=native", "--tunnel-port=4789"], &[]).unwrap();
    assert_eq!(loaded.warnings, ["--tunnel-port has no effect: --routing-mode is native"]);
}

#[test]
fn a_store_wants_a_server_and_its_options_may_come_in_pieces() {
    let text = refusal(&["--kvstore=etcd"]);
    assert!(text.starts_with("--kvstore=etcd is not possible: no server is named"), "{text}");
    let loaded = load_with(&["--kvstore-opt=etcd.address=http://[::1]:2379"], &[]).unwrap();
    let idle = ["--kvstore-opt has no effect without --kvstore=etcd"];
    assert_eq!(loaded.warnings, idle);
    let embedded = ["--kvstore=embedded", "--kvstore-opt=etcd.address=http://[::1]:2379"];
    assert_eq!(load_with(&embedded, &[]).unwrap().warnings, idle);
    assert!(load_with(&embedded[..1], &[]).unwrap().warnings.is_empty());
    let other = ["--kvstore=etcd-rs", "--kvstore-opt=etcd.address=a:1"];
    if cfg!(feature = "etcd-rs") {
        assert_eq!(settings(&other).kvstore, Some(KvStoreKind::EtcdRs));
    } else {
        assert!(refusal(&other).contains("--features etcd-rs"));
    }
    let pieces =
        ["--kvstore=etcd", "--kvstore-opt=etcd.address=a:1", "--kvstore-opt=etcd.config=/c"];
    let options = load_with(&pieces, &[]).unwrap().config.kvstore_opt;
    let json = serde_json::to_string(&options).unwrap();
    assert_eq!(json, r#"{"etcd.address":"a:1","etcd.config":"/c"}"#);
    // As a ConfigMap has it.
    let dir = config_map(&[("kvstore", "etcd"), ("kvstore-opt", &json)]);
    let loaded = load_with(&["--config-dir", dir.path().to_str().unwrap()], &[]).unwrap();
    assert_eq!(loaded.config.kvstore_opt, options);
}

#[test]
fn identities_are_agreed_on_in_one_place() {
    let mode = |arguments: &[&str]| settings(arguments).identity_allocation_mode;
    assert_eq!(mode(&[]), IdentityAllocationMode::Kvstore);
    assert_eq!(mode(&["--identity-allocation-mode=CRD"]), IdentityAllocationMode::Crd);
    let shown = serde_json::to_value(settings(&["--identity-allocation-mode=crd"])).unwrap();
    assert_eq!(shown["IdentityAllocationMode"], "crd");
    for (others, words) in [
        (&["--enable-k8s=false"][..], "objects want a cluster"),
        (&["--kvstore=etcd", "--kvstore-opt=etcd.address=a:1"][..], "in one place"),
    ] {
        let text = refusal(&[&["--identity-allocation-mode=crd"], others].concat());
        assert!(text.contains("--identity-allocation-mode=crd") && text.contains(words), "{text}");
    }
}

#[test]
fn a_mesh_wants_a_number_and_identities_that_others_can_know() {
    let mesh = ["--clustermesh-config=/mesh", "--cluster-name=here"];
    let etcd = ["--kvstore=etcd", "--kvstore-opt=etcd.address=a:1"];
    let with = |others: &[&str]| refusal(&[&mesh[..], others].concat());
    let text = with(&etcd);
    assert!(
        text.contains("--cluster-id=0") && text.contains("--clustermesh-config=/mesh"),
        "{text}"
    );
    let text = with(&["--cluster-id=3"]);
    assert!(text.contains("no --kvstore"), "{text}");
    let text = with(&["--cluster-id=3", "--kvstore=embedded"]);
    assert!(text.contains("--kvstore=embedded"), "{text}");
    for shared in [&etcd[..], &["--identity-allocation-mode=crd"]] {
        let config = settings(&[&mesh[..], &["--cluster-id=3"], shared].concat());
        assert_eq!(config.clustermesh_config.as_deref(), Some(Path::new("/mesh")));
    }
}

#[test]
fn flows_are_shown_to_other_nodes_with_certificates_of_both_sides_only() {
    let port = "--hubble-listen-address=:4244";
    let refused = |more: &[&str]| {
        let all: Vec<_> = ["--enable-hubble=true", port].iter().chain(more).copied().collect();
        refusal(&all)
    };
    let text = refused(&["--hubble-disable-tls=false"]);
    assert!(text.contains("--hubble-tls-cert-file"), "{text}");
    let tls =
        ["--hubble-disable-tls=false", "--hubble-tls-cert-file=/c", "--hubble-tls-key-file=/k"];
    let served = |more: &[&str]| {
        let all: Vec<_> = ["--enable-hubble=true"].iter().chain(more).copied().collect();
        load_with(&all, &[]).unwrap().config.hubble.served_address()
    };
    // The agent starts all the same: a ConfigMap of Cilium's may say so.
    assert_eq!(served(&[port]), None);
    assert_eq!(served(&[&[port][..], &tls].concat()), None);
    assert!(served(&["--hubble-listen-address=127.0.0.1:4244"]).is_some());
    let mut whole = vec!["--enable-hubble=true", port, "--hubble-tls-client-ca-files=/a,/b"];
    whole.extend(tls);
    let hubble = load_with(&whole, &[]).unwrap().config.hubble;
    assert!(hubble.served_address().is_some());
    assert_eq!(hubble.listen_address.0.map(|it| it.to_string()).as_deref(), Some("[::]:4244"));
    assert_eq!(hubble.tls_client_ca_files, ["/a", "/b"]);
    let text = refusal(&["--hubble-event-buffer-capacity=4096"]);
    assert!(text.contains("say 8191, or 4095"), "{text}");
    let text = refusal(&["--hubble-monitor-events=drop,bogus"]);
    assert!(text.contains("\"bogus\"") && text.contains("policy-verdict"), "{text}");
}
