//! Settings from each place where they can be said.

use super::*;

fn loaded(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Settings, String> {
    let arguments = ["volvox-operator"].iter().chain(arguments).map(OsString::from);
    let get = |name: &str| {
        variables.iter().find(|(it, _)| *it == name).map(|(_, value)| OsString::from(value))
    };
    load(arguments, get).map_err(|error| error.to_string())
}

#[test]
fn a_config_map_of_cilium_is_read() {
    let dir = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("cluster-pool-ipv4-cidr", "10.1.0.0/16 10.2.0.0/16"),
        ("cluster-pool-ipv4-mask-size", "25\n"),
        ("identity-gc-interval", "15m0s"),
        ("operator-prometheus-serve-addr", ":9963"),
        ("enable-ipv6", "false"),
        ("ipam", "cluster-pool"),
        ("bpf-lb-map-max", "65536"),
        ("nodes-gc-interval", ""),
        ("set-cilium-node-taints", "true"),
        ("agent-not-ready-taint-key", "example.org/wait"),
    ] {
        fs::write(dir.path().join(name), value).unwrap();
    }
    let argument = format!("--config-dir={}", dir.path().display());
    let settings = loaded(&[&argument], &[]).unwrap();
    assert_eq!(settings.pools.cluster_pool_ipv4_mask_size, 25);
    assert_eq!(settings.operator_prometheus_serve_addr.port(), 9963);
    let marks = settings.marks();
    assert_eq!(
        (marks.taint.as_str(), marks.namespace.as_str()),
        ("example.org/wait", "kube-system")
    );
    assert!(marks.sets_taint && marks.removes_taint && marks.says_up);
    let range = |text| PoolRange::new(text, 25).unwrap();
    let pools = ClusterPools::new(vec![range("10.1.0.0/16"), range("10.2.0.0/16")]);
    assert_eq!(settings.pools().unwrap(), pools.unwrap());
    // Later layers win, and say what they were.
    let variables = [("CILIUM_NODES_GC_INTERVAL", "1m"), ("VOLVOX_NODES_GC_INTERVAL", "2m")];
    let settings = loaded(&[&argument], &variables).unwrap();
    assert_eq!(settings.collector().nodes, Duration::from_secs(120));
    let settings = loaded(&[&argument, "--nodes-gc-interval=0"], &variables).unwrap();
    assert_eq!(settings.collector().nodes, Duration::ZERO);
    fs::write(dir.path().join("identity-gc-interval"), "soon").unwrap();
    let error = loaded(&[&argument], &[]).unwrap_err();
    assert!(error.contains("identity-gc-interval says --identity-gc-interval=soon"), "{error}");
    fs::write(dir.path().join("identity-gc-interval"), "").unwrap();
    fs::write(dir.path().join("ipam"), "eni").unwrap();
    assert!(loaded(&[&argument], &[]).unwrap().pools().unwrap().is_empty());
}

#[test]
fn multi_pool_is_taken_from_the_directory_with_the_pools_to_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let pools = "default=ipv4-cidrs:10.0.0.0/8,172.16.0.0/12;ipv4-mask-size:24";
    for (name, value) in [("ipam", "multi-pool"), ("auto-create-cilium-pod-ip-pools", pools)] {
        fs::write(dir.path().join(name), value).unwrap();
    }
    let argument = format!("--config-dir={}", dir.path().display());
    let made = |settings: Settings| match settings.prefixes() {
        Ok(PrefixSource::MultiPool(new)) => new,
        other => panic!("{other:?}"),
    };
    let all = |text: &str| NewPodPool::read_all(text).unwrap();
    assert_eq!(made(loaded(&[&argument], &[]).unwrap()), all(pools));
    // What is said on the command line takes the place of that, and adds up.
    let blue = "blue=ipv4-cidrs:10.1.0.0/16;ipv4-mask-size:26";
    let red = "red=ipv6-cidrs:fd00::/104;ipv6-mask-size:112";
    let said = [blue, red].map(|it| format!("--auto-create-cilium-pod-ip-pools={it}"));
    let own = loaded(&[&argument, &said[0], &said[1]], &[]).unwrap();
    assert_eq!(made(own), all(&format!("{blue},{red}")));
    let wrong = loaded(&["--ipam=multi-pool", "--auto-create-cilium-pod-ip-pools=blue"], &[]);
    let error = wrong.unwrap().prefixes().unwrap_err().to_string();
    assert!(error.contains("--auto-create-cilium-pod-ip-pools: \"blue\" names no pool"), "{error}");
}

#[test]
fn the_store_is_named_as_agents_name_it() {
    let none = loaded(&[], &[]).unwrap();
    assert_eq!((none.etcd().unwrap(), none.stored_identities()), (None, Duration::ZERO));
    let json = r#"{"etcd.config": "/var/lib/etcd-config/etcd.config"}"#;
    let dir = tempfile::tempdir().unwrap();
    for (name, value) in [("kvstore", "etcd"), ("kvstore-opt", json)] {
        fs::write(dir.path().join(name), value).unwrap();
    }
    let argument = format!("--config-dir={}", dir.path().display());
    let settings = loaded(&[&argument], &[]).unwrap();
    let config = settings.etcd().unwrap().unwrap().config.unwrap();
    assert_eq!(config, Path::new("/var/lib/etcd-config/etcd.config"));
    // Identities are there, as agents have it by default, and none is looked for elsewhere.
    let quarter = Duration::from_secs(15 * 60);
    assert_eq!(settings.stored_identities(), quarter);
    assert_eq!(settings.collector().identities, Duration::ZERO);
    let crd = loaded(&[&argument, "--identity-allocation-mode=crd"], &[]).unwrap();
    assert_eq!((crd.stored_identities(), crd.collector().identities), (Duration::ZERO, quarter));
    let pieces = ["--kvstore=etcd-rs", "--kvstore-opt=etcd.address=http://a:1"];
    let settings = loaded(&[&pieces[..], &["--kvstore-opt=etcd.config=/c"]].concat(), &[]);
    let options = settings.unwrap().etcd().unwrap().unwrap();
    assert_eq!(options.address.as_deref(), Some("http://a:1"));
    assert_eq!(options.config.as_deref(), Some(Path::new("/c")));
    // A stronger layer takes the place of a weaker one.
    let settings = loaded(&[&argument, "--kvstore-opt=etcd.address=http://b:1"], &[]);
    assert_eq!(settings.unwrap().etcd().unwrap().unwrap().config, None);
    let settings = loaded(&[&argument], &[("VOLVOX_KVSTORE_OPT", "etcd.address=http://c:1")]);
    let options = settings.unwrap().etcd().unwrap().unwrap();
    assert_eq!((options.address.as_deref(), options.config), (Some("http://c:1"), None));
    let error = loaded(&["--kvstore=etcd"], &[]).unwrap().etcd().unwrap_err();
    assert!(error.to_string().contains("say --kvstore-opt"), "{error}");
    assert_eq!(loaded(&["--kvstore=embedded"], &[]).unwrap().etcd().unwrap(), None);
    assert!(loaded(&["--kvstore=consul"], &[]).unwrap_err().contains("etcd"));
}

#[test]
fn several_api_servers_are_taken_from_each_place() {
    let both = "https://10.0.0.1:6443,https://10.0.0.2:6443";
    let servers = |arguments: &[&str], variables: &[(&str, &str)]| {
        loaded(arguments, variables).unwrap().access().unwrap().servers.to_string()
    };
    assert_eq!(servers(&[&format!("--k8s-api-server={both}")], &[]), both);
    let spaced = both.replace(',', " ");
    assert_eq!(servers(&[], &[("CILIUM_K8S_API_SERVER_URLS", &spaced)]), both);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("k8s-api-server-urls"), &spaced).unwrap();
    let argument = format!("--config-dir={}", dir.path().display());
    assert_eq!(servers(&[&argument], &[]), both);
    // A flag that is given twice counts by its last word, as all of them do here.
    let twice = ["--k8s-api-server=https://a:1", "--k8s-api-server=https://b:1"];
    assert_eq!(servers(&twice, &[]), "https://b:1");
}

#[test]
fn what_cannot_be_is_named() {
    let bad = |arguments: &[&str]| {
        loaded(arguments, &[])
            .and_then(|settings| settings.pools().map_err(|error| error.to_string()))
    };
    let error = bad(&["--cluster-pool-ipv4-cidr=10.0.0.0/33"]).unwrap_err();
    assert!(error.contains("--cluster-pool-ipv4-cidr") && error.contains("10.0.0.0/33"), "{error}");
    let error = bad(&["--cluster-pool-ipv4-mask-size=7"]).unwrap_err();
    assert!(error.contains("give a length from 8 to 30"), "{error}");
    assert!(bad(&["--enable-ipv4=maybe"]).is_err());
    let error = bad(&["--cilium-pod-labels=k8s-app in cilium"]).unwrap_err();
    assert!(error.contains("is no label selector"), "{error}");
    assert!(bad(&["--config-dir=/nowhere"]).unwrap_err().contains("/nowhere"));
    let error = bad(&["--k8s-api-server=https://a:1,ftp://b"]).unwrap_err();
    assert!(error.contains("--k8s-api-server") && error.contains("\"ftp://b\" is"), "{error}");
    let off = loaded(&["--disable-endpoint-crd=true"], &[]).unwrap().collector();
    assert_eq!((off.endpoints, off.identities), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn agents_are_found_where_the_installer_puts_them() {
    let variables = [("VOLVOX_K8S_NAMESPACE", "net")];
    let marks = loaded(&[], &variables).unwrap().marks();
    let mut values = volvox_packaging::Values::default();
    values.set("namespace=net").unwrap();
    let all = volvox_packaging::objects(&values);
    let agents = all.iter().find(|it| it["kind"] == "DaemonSet").unwrap();
    let labels = &agents["spec"]["template"]["metadata"]["labels"];
    let labels = serde_json::from_value(labels.clone()).unwrap();
    assert!(marks.labels.hold(&labels), "{labels:?}");
    assert_eq!(agents["metadata"]["namespace"], *marks.namespace);
    // The operator is told its namespace, where its Lease and the agents are.
    let operator = all.iter().find(|it| it["kind"] == "Deployment").unwrap();
    let pod = &operator["spec"]["template"]["spec"];
    let variables = pod["containers"][0]["env"].as_array().unwrap();
    let named = variables.iter().find(|it| it["name"] == "VOLVOX_K8S_NAMESPACE").unwrap();
    assert_eq!(named["valueFrom"]["fieldRef"]["fieldPath"], "metadata.namespace");
    let elsewhere = loaded(&["--cilium-pod-namespace=cilium"], &[]).unwrap().marks();
    assert_eq!((elsewhere.namespace.as_str(), elsewhere.sets_taint), ("cilium", false));
}
