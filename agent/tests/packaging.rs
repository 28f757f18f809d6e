//! The systemd unit and the DaemonSet say what the agent understands, and mount what it uses.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use serde_json::Value;
use volvox_actors::cluster::resources::{further, resources};
use volvox_agent::{
    config::{Config, Loaded, load},
    stop::STOP_MAX,
};
use volvox_cni::CONFLIST_FILE;
use volvox_inspect::manifests::objects;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Parses arguments as the agent does, with settings of a ConfigMap in a directory.
fn settings(arguments: &[&str], config_map: &BTreeMap<String, String>) -> Loaded {
    let dir = tempfile::tempdir().expect("a directory for the test");
    for (key, value) in config_map {
        fs::write(dir.path().join(key), value).expect("a setting is written");
    }
    let dir = dir.path().display().to_string();
    let arguments = arguments.iter().map(|argument| match argument.split_once('=') {
        Some(("--config-dir", _)) => format!("--config-dir={dir}"),
        _ => (*argument).to_owned(),
    });
    let line = std::iter::once("volvox-agent".to_owned()).chain(arguments);
    load(line, |_| None).unwrap_or_else(|error| panic!("{error}"))
}

/// Sections of a unit: name to settings, each with all its values.
fn unit() -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let mut sections: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let mut section = String::new();
    for line in read("volvox-agent.service").lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let values = sections.entry(section.clone()).or_default();
            values.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    sections
}

#[test]
fn the_unit_starts_the_agent_with_flags_it_knows() {
    let unit = unit();
    let service = &unit["Service"];
    let mut words = service["ExecStart"][0].split_whitespace();
    assert_eq!(words.next(), Some("/usr/bin/volvox-agent"));
    let arguments: Vec<&str> = words.collect();
    let loaded = settings(&arguments, &BTreeMap::new());
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let conflist = loaded.config.cni.write_cni_conf_when_ready.unwrap();
    assert_eq!(conflist.file_name().unwrap(), CONFLIST_FILE);
}

#[test]
fn the_unit_restarts_the_agent_and_leaves_what_it_made() {
    let unit = unit();
    let service = &unit["Service"];
    assert_eq!(service["Restart"], ["always"]);
    assert_eq!(service["KillMode"], ["process"], "nothing but the agent is told to stop");
    assert_eq!(service["RuntimeDirectoryPreserve"], ["yes"], "state must outlive a restart");
    assert_eq!(unit["Unit"]["StartLimitIntervalSec"], ["0"], "systemd must never give up");
    let defaults = Config::defaults();
    let below = |parent: &str, key: &str| Path::new(parent).join(&service[key][0]);
    assert_eq!(below("/var/run", "RuntimeDirectory"), defaults.run_dir);
    assert_eq!(below("/var/lib", "StateDirectory"), defaults.lib_dir);
}

#[test]
fn whoever_ends_the_agent_waits_longer_than_it_takes() {
    let unit = unit();
    let seconds = unit["Service"]["TimeoutStopSec"][0].strip_suffix('s').unwrap();
    assert!(Duration::from_secs(seconds.parse().unwrap()) > STOP_MAX);
    let all = objects(&read("daemonset.yaml")).unwrap();
    let pod = &object(&all, "DaemonSet")["spec"]["template"]["spec"];
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(Duration::from_secs(grace) > STOP_MAX);
}

fn object<'a>(all: &'a [Value], kind: &str) -> &'a Value {
    all.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn the_daemon_set_starts_the_agent_with_settings_it_knows() {
    let all = objects(&read("daemonset.yaml")).unwrap();
    let data = object(&all, "ConfigMap")["data"].as_object().unwrap();
    let data =
        data.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect();
    let pod = &object(&all, "DaemonSet")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments: Vec<&str> =
        container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let loaded = settings(&arguments, &data);
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!(pod["hostNetwork"], true);
    for probe in ["livenessProbe", "readinessProbe"] {
        let port = &container[probe]["httpGet"]["port"];
        assert_eq!(*port, loaded.config.agent_health_port, "{probe}");
    }
}

#[test]
fn the_daemon_set_mounts_every_directory_that_the_agent_uses() {
    let all = objects(&read("daemonset.yaml")).unwrap();
    let set = object(&all, "DaemonSet");
    assert_eq!(
        set["spec"]["selector"]["matchLabels"],
        set["spec"]["template"]["metadata"]["labels"]
    );
    let pod = &set["spec"]["template"]["spec"];
    let volumes: Vec<&Value> =
        pod["volumes"].as_array().unwrap().iter().map(|volume| &volume["name"]).collect();
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    for mount in mounts {
        assert!(volumes.contains(&&mount["name"]), "{mount} has no volume");
    }
    let mounted = |path: &Path| {
        mounts.iter().find(|mount| path.starts_with(mount["mountPath"].as_str().unwrap()))
    };
    let config = Config::defaults();
    let Config { run_dir, lib_dir, bpf_root, socket_path, cgroup_root, .. } = &config;
    for path in [run_dir, lib_dir, bpf_root, socket_path, cgroup_root] {
        assert!(mounted(path).is_some(), "{} is not mounted", path.display());
    }
    let bpf = mounted(&config.bpf_root).unwrap();
    assert_eq!(bpf["mountPropagation"], "HostToContainer", "it sees what the host mounts");
    let host_path = |name: &Value| {
        let volumes = pod["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == *name).unwrap();
        volume["hostPath"]["path"].as_str().map(String::from)
    };
    assert_eq!(host_path(&bpf["name"]).as_deref(), Some("/sys/fs/bpf"), "pins outlive the pod");
    // What is read-only in its own /proc is mounted where the ConfigMap says.
    let data = &object(&all, "ConfigMap")["data"];
    let sysctl = Path::new(data["procfs"].as_str().unwrap()).join("sys/net");
    let place = mounted(&sysctl).unwrap();
    assert_eq!(place["mountPath"].as_str().map(Path::new), Some(&*sysctl));
    assert!(place["readOnly"] != true);
    assert_eq!(host_path(&place["name"]).as_deref(), Some("/proc/sys/net"));
}

/// Containers of the pod with their names, those that come first and end among them.
fn containers(pod: &Value) -> Vec<(&str, &Value)> {
    let all = ["initContainers", "containers"]
        .map(|list| pod[list].as_array().expect("a list of containers"));
    all.into_iter()
        .flatten()
        .map(|it| (it["name"].as_str().expect("a container has a name"), it))
        .collect()
}

#[test]
fn the_daemon_sets_containers_may_do_what_they_need_and_no_more() {
    let all = objects(&read("daemonset.yaml")).unwrap();
    let pod = &object(&all, "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert!(pod["hostPID"].is_null() && pod["hostIPC"].is_null());
    for (name, container) in containers(pod) {
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
        assert!(context["seccompProfile"].is_null(), "{name} has the pod's profile");
        assert!(container["resources"]["limits"]["memory"].is_string(), "{name}");
        // The API server refuses this of a container that is not privileged.
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mounts_for_host = mounts.iter().any(|it| it["mountPropagation"] == "Bidirectional");
        if name == "mount-bpf" {
            assert!(context["privileged"] == true && mounts_for_host);
            assert!(context["allowPrivilegeEscalation"].is_null(), "the server refuses both");
            continue;
        }
        assert!(context["privileged"].is_null() && !mounts_for_host, "{name}");
        assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
        let capabilities = &context["capabilities"];
        assert_eq!(capabilities["drop"], serde_json::json!(["ALL"]), "{name}");
        let added = match name {
            "agent" => serde_json::json!(["NET_ADMIN", "NET_RAW", "SYS_ADMIN"]),
            _ => Value::Null,
        };
        assert_eq!(capabilities["add"], added, "{name}");
    }
}

#[test]
fn the_daemon_sets_maps_do_not_grow_with_the_node() {
    let all = objects(&read("daemonset.yaml")).unwrap();
    let data = object(&all, "ConfigMap")["data"].as_object().unwrap();
    let data =
        data.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect();
    let config = settings(&["--config-dir=/etc/volvox.d"], &data).config;
    // They count as the memory of the container, which is limited alike everywhere.
    assert_eq!(config.conntrack_sizes(1 << 30), config.conntrack_sizes(1 << 40));
}

#[test]
fn the_service_account_may_do_what_the_agent_does() {
    let all = objects(&read("daemonset.yaml")).unwrap();
    let rules = object(&all, "ClusterRole")["rules"].as_array().unwrap();
    let may = |group: &str, resource: &str, verb: &str| {
        let has = |rule: &Value, list: &str, name: &str| {
            rule[list].as_array().unwrap().iter().any(|it| it == name)
        };
        rules.iter().any(|rule| {
            has(rule, "apiGroups", group)
                && has(rule, "resources", resource)
                && has(rule, "verbs", verb)
        })
    };
    let more = further("node");
    for resource in resources("node").iter().chain(&more).flat_map(|(_, forms)| forms) {
        let group = resource.api_version.split_once('/').map_or("", |(group, _)| group);
        for verb in ["list", "watch"] {
            // What it is called here may be another word, as where one resource is followed twice.
            let name = resource.path.rsplit('/').next().unwrap();
            assert!(may(group, name, verb), "{verb} {name}");
        }
    }
    for (group, resource, verb) in [
        ("", "nodes", "patch"),
        ("", "nodes/status", "patch"),
        ("cilium.io", "ciliumnodes", "create"),
        ("cilium.io", "ciliumnodes", "patch"),
        ("cilium.io", "ciliumidentities", "create"),
        ("cilium.io", "ciliumidentities", "patch"),
        ("cilium.io", "ciliumendpoints", "create"),
        ("cilium.io", "ciliumendpoints", "patch"),
        ("cilium.io", "ciliumendpoints", "delete"),
    ] {
        assert!(may(group, resource, verb), "{verb} {resource}");
    }
    for verb in ["get", "create", "patch"] {
        assert!(may("apiextensions.k8s.io", "customresourcedefinitions", verb), "{verb}");
    }
    let named = rules.iter().find_map(|rule| rule["resourceNames"].as_array());
    let brought = volvox_packaging::definitions();
    let names: Vec<&Value> = brought.iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(named.unwrap().iter().collect::<Vec<_>>(), names, "these may be replaced");
    let container = &object(&all, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"][0]["name"], "K8S_NODE_NAME");
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
}
