//! Objects and values as they are packaged.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use super::*;
use crate::{objects::template, settings::Place, values::defaults};

fn values(set: &[&str]) -> Values {
    let mut values = Values::default();
    set.iter().for_each(|text| values.set(text).unwrap());
    values.check().unwrap();
    values
}

fn refused(set: &[&str]) -> String {
    let mut values = Values::default();
    let mut all = set.iter().map(|text| values.set(text)).collect::<Result<Vec<_>, _>>().map(drop);
    if all.is_ok() {
        all = values.check();
    }
    all.unwrap_err().to_string()
}

fn made(values: &Values, kind: &str) -> Value {
    objects(values).into_iter().find(|it| it["kind"] == kind).unwrap()
}

fn template_of(values: &Values) -> Value {
    made(values, "DaemonSet")["spec"]["template"].take()
}

#[test]
fn every_file_is_one_definition_of_its_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<String> =
        files.map(|file| file.into_string().unwrap().replace(".yaml", ".cilium.io")).collect();
    let named = definitions();
    let names = named.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
    assert_eq!(names.collect::<BTreeSet<_>>(), files);
    assert_eq!(named.len(), DEFINITIONS.len());
}

#[test]
fn every_value_has_a_default_of_its_kind() {
    let all = defaults();
    let mut values = Values::default();
    values.merge(&serde_norway::to_string(&all).unwrap()).unwrap();
    values.check().unwrap();
    assert_eq!(values.all(), all);
    assert_eq!(objects(&values), objects(&Values::default()));
    assert_eq!(
        all["image"],
        json!({ "repository": "volvox-agent", "tag": "0.1.0", "pullPolicy": "IfNotPresent" })
    );
    assert_eq!(all["extraConfig"]["log-format"], "json");
    assert_eq!(all["bpf"]["ctTcpMax"], 262_144);
}

/// Without values the objects are what the template says, with labels and what is the agent's
/// default besides.
#[test]
fn defaults_are_what_the_template_says() {
    let mut made = objects(&Values::default());
    made.retain(|it| it["kind"] != "CustomResourceDefinition");
    assert_eq!(made.len(), template().len());
    for (made, template) in made.iter_mut().zip(template()) {
        for label in [MANAGED_BY, PART_OF] {
            assert_eq!(made["metadata"]["labels"][label], "volvox");
            made["metadata"]["labels"].as_object_mut().unwrap().remove(label);
        }
        if template["metadata"]["labels"].is_null() {
            made["metadata"].as_object_mut().unwrap().remove("labels");
        }
        if made["kind"] == "ConfigMap" {
            let told = template["data"].as_object().unwrap();
            made["data"].as_object_mut().unwrap().retain(|key, _| told.contains_key(key));
        }
        if made["kind"] == "DaemonSet" || made["kind"] == "Deployment" {
            let template = &mut made["spec"]["template"];
            template["metadata"].as_object_mut().unwrap().remove("annotations");
            let spec = template["spec"].as_object_mut().unwrap();
            for list in ["initContainers", "containers"] {
                for container in
                    spec.get_mut(list).into_iter().filter_map(|it| it.as_array_mut()).flatten()
                {
                    container.as_object_mut().unwrap().remove("imagePullPolicy");
                }
            }
        }
        assert_eq!(*made, template);
    }
}

#[test]
fn values_go_where_they_belong() {
    let values = values(&[
        "namespace=net,image.repository=registry:5000/volvox,image.tag=1.2,image.pullPolicy=Always",
        "k8sServiceHost=api.example,k8sServicePort=6443",
        "k8s.apiServerURLs=https://10.0.0.1:6443 https://10.0.0.2:6443",
        "cluster.name=b,cluster.id=7,ipv6.enabled=true,routingMode=native",
        "cni.confPath=/etc/k0s/cni,cni.binPath=/var/lib/cni/bin",
        "nodeSelector.pool=a,nodeSelector.kubernetes\\.io/os=null",
        "resources.limits.memory=1Gi,resources.limits.cpu=2,updateStrategy.rollingUpdate.maxUnavailable=2",
        "podAnnotations.a=b,podLabels.team=net,extraConfig.log-format=text,extraConfig.mtu-x=1\\,2",
    ]);
    let set = made(&values, "DaemonSet");
    assert_eq!(set["metadata"]["namespace"], "net");
    assert_eq!(made(&values, "ClusterRoleBinding")["subjects"][0]["namespace"], "net");
    assert_eq!(set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], 2);
    let pod = &set["spec"]["template"];
    let labels = json!({ "k8s-app": "volvox", "team": "net" });
    assert_eq!(pod["metadata"]["labels"], labels);
    assert_eq!(pod["metadata"]["annotations"]["a"], "b");
    let pod = &pod["spec"];
    for container in [&pod["initContainers"][0], &pod["initContainers"][1], &pod["containers"][0]] {
        assert_eq!(container["image"], "registry:5000/volvox:1.2");
        assert_eq!(container["imagePullPolicy"], "Always");
    }
    assert_eq!(pod["nodeSelector"], json!({ "pool": "a" }));
    let agent = &pod["containers"][0];
    assert_eq!(agent["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(agent["resources"]["limits"]["cpu"], "2", "the server takes no number");
    assert_eq!(agent["resources"]["requests"]["cpu"], "50m");
    let variables = agent["env"].as_array().unwrap();
    assert_eq!(variables[1], json!({ "name": "KUBERNETES_SERVICE_HOST", "value": "api.example" }));
    assert_eq!(variables[2], json!({ "name": "KUBERNETES_SERVICE_PORT", "value": "6443" }));
    let paths: Vec<_> = pod["volumes"].as_array().unwrap().iter().collect();
    let path = |name: &str| {
        let volume = paths.iter().find(|it| it["name"] == name).unwrap();
        volume["hostPath"]["path"].clone()
    };
    assert_eq!(
        (path("cni-conf"), path("cni-bin")),
        (json!("/etc/k0s/cni"), json!("/var/lib/cni/bin"))
    );
    let data = &made(&values, "ConfigMap")["data"];
    for (key, value) in [
        ("cluster-name", "b"),
        ("cluster-id", "7"),
        ("k8s-api-server", "https://10.0.0.1:6443 https://10.0.0.2:6443"),
        ("enable-ipv6", "true"),
        ("routing-mode", "native"),
        ("log-format", "text"),
        ("mtu-x", "1,2"),
        ("procfs", "/host/proc"),
    ] {
        assert_eq!(data[key], value, "{key}");
    }
    assert!(data["devices"].is_null(), "what is empty is the agent's default");
}

#[test]
fn the_runtimes_socket_is_mounted_only_where_it_is_followed() {
    let of = |set: &[&str]| {
        let values = values(set);
        let pod = template_of(&values)["spec"].clone();
        let named = |list: &Value| {
            let list = list.as_array().unwrap().iter();
            list.filter(|it| it["name"] == "container-runtime").cloned().collect::<Vec<_>>()
        };
        let data = made(&values, "ConfigMap")["data"].clone();
        let mounts = named(&pod["containers"][0]["volumeMounts"]);
        (named(&pod["volumes"]), mounts, data["container-runtime-endpoint"].clone())
    };
    for set in ["debug.enabled=true", "containerRuntime.socketPath=/run/k3s/containerd/c.sock"] {
        assert_eq!(of(&[set]), (vec![], vec![], Value::Null), "{set}");
    }
    let (volumes, mounts, flag) = of(&[
        "containerRuntime.integration=containerd",
        "containerRuntime.socketPath=/run/k3s/containerd/containerd.sock",
    ]);
    assert_eq!(volumes[0]["hostPath"]["path"], "/run/k3s/containerd");
    assert_eq!((&mounts[0]["mountPath"], volumes.len()), (&json!("/run/k3s/containerd"), 1));
    assert_eq!((&mounts[0]["readOnly"], mounts.len()), (&json!(true), 1));
    assert_eq!(flag, "/run/k3s/containerd/containerd.sock");
    let (_, mounts, flag) = of(&["containerRuntime.integration=containerd"]);
    assert_eq!(mounts[0]["mountPath"], "/run/containerd");
    assert_eq!(flag, "/run/containerd/containerd.sock");
}

#[test]
fn the_operator_asks_the_same_server_and_comes_from_the_same_registry() {
    let values = values(&[
        "namespace=net,operator.replicas=1,operator.image.repository=registry:5000/operator",
        "operator.image.tag=1.2,image.tag=1.3,image.pullPolicy=Always,debug.enabled=true",
        "k8sServiceHost=api.example,k8sServicePort=6443",
    ]);
    let deployment = made(&values, "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 1);
    let (pod, agents) = (&deployment["spec"]["template"], template_of(&values));
    assert_eq!(pod["metadata"]["annotations"], agents["metadata"]["annotations"]);
    let operator = &pod["spec"]["containers"][0];
    assert_eq!(operator["image"], "registry:5000/operator:1.2");
    assert_eq!(operator["imagePullPolicy"], "Always");
    let variables = operator["env"].as_array().unwrap();
    assert_eq!(variables[0]["name"], "POD_NAME");
    assert_eq!(variables[1]["name"], "VOLVOX_K8S_NAMESPACE");
    assert_eq!(variables[2], json!({ "name": "KUBERNETES_SERVICE_HOST", "value": "api.example" }));
    let all = objects(&values);
    let named = |it: &&Value| it["metadata"]["name"] == "volvox-operator";
    let kinds: Vec<_> = all.iter().filter(named).map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Deployment"
        ]
    );
    for object in all.iter().filter(named) {
        let place = &object["metadata"]["namespace"];
        assert!(place.is_null() || place == "net", "{object}");
        let subject = &object["subjects"][0]["namespace"];
        assert!(subject.is_null() || subject == "net", "{object}");
    }
    assert_eq!(all.last().unwrap()["kind"], "DaemonSet", "what its pods need is there before them");
}

#[test]
fn what_is_wrong_is_named_with_what_to_write() {
    for (set, words) in [
        (&["ipam.mod=x"][..], "there is no value ipam.mod: did you mean ipam.mode?"),
        (&["hubble.relay.enabled=true"], "there is no value hubble.relay.enabled"),
        (&["ipv6.enabled=yes"], "ipv6.enabled is yes: write true or false"),
        (&["ipam.mode=eni"], "ipam.mode is eni: write kubernetes or cluster-pool or multi-pool"),
        (&["cluster.id=256"], "cluster.id is 256: write a number, at most 255"),
        (&["cluster.id=2"], "set cluster.name, too"),
        (&["tolerations=x"], "write it into a file for --values"),
        (&["nodeSelector.a.b=c"], "write nodeSelector.a\\.b"),
        (&["ipv4.enabled=false"], "so is ipv6.enabled"),
        (&["k8sServiceHost=a"], "go together"),
        (&["k8sServiceHost=a,k8sServicePort=x"], "write a port"),
        (
            &["k8s.apiServerURLs=https://a:1 b:1"],
            "k8s.apiServerURLs is b:1: write URLs as https://HOST:PORT, separated by spaces",
        ),
        (&["k8s.apiServerURLs=https://:1"], "is https://:1: write URLs"),
        (&["k8s.apiServerURLs=https://a:1 https://a:1/"], "is https://a:1/: it is named twice"),
        (&["extraConfig.k8s-api-server=https://a:1"], "set k8s.apiServerURLs instead"),
        (&["extraConfig.enable-ipv6=true"], "set ipv6.enabled instead"),
        (&["extraConfig.procfs=/p"], "belongs to the pod's mounts"),
        (&["podLabels.k8s-app=x"], "by which the pods are found"),
        (&["image.tag="], "image.tag is empty: it may not be empty"),
        (&["cni.confPath=etc"], "write a path that begins with /"),
        (&["containerRuntime.integration=crio"], "write none or containerd"),
        (&["containerRuntime.socketPath=containerd.sock"], "write a path as /run/containerd/"),
        (&["containerRuntime.socketPath=/run/../etc/c.sock"], "write a path as /run/containerd/"),
        (&["containerRuntime.socketPath=/c.sock"], "in a directory of its own"),
        (&["containerRuntime.socketPath=/run/c.sock"], "in a directory of its own"),
        (&["extraConfig.container-runtime-endpoint=/c"], "set containerRuntime.socketPath instead"),
        (&["debug"], "write NAME=VALUE"),
    ] {
        let refused = refused(set);
        assert!(refused.contains(words), "{set:?}: {refused}");
    }
    let file = |text: &str| Values::default().merge(text).unwrap_err().to_string();
    assert!(file("ipam: {mod: x}").contains("did you mean ipam.mode?"));
    assert!(file("image: {tag: 1.10}").contains("image.tag is 1.1: write it in quotes"));
    assert!(file("- a").contains("it is no map"));
    assert!(file("{").contains("cannot be read"));
    assert!(file("tolerations: {}").contains("write a list"));
}

#[test]
fn values_that_are_kept_give_the_same_objects() {
    let mut one =
        values(&["k8sServicePort=6443,k8sServiceHost=::1,nodeSelector.a=null,extraConfig.x=true"]);
    one.merge("tolerations: [{key: a, operator: Exists}]\nresources: {limits: null}\n").unwrap();
    assert!(template_of(&one)["spec"]["containers"][0]["resources"]["limits"].is_null());
    let record = record(&one);
    let mut other = Values::default();
    other.merge(record["data"]["values.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(objects(&one), objects(&other));
    assert!(one.differences(&other).is_empty());
    other.set("k8sServiceHost=null").unwrap();
    assert!(!other.has("k8sServiceHost"));
    other.set("k8sServiceHost=::1").unwrap();
    other.merge("resources: null").unwrap();
    assert_eq!(one.differences(&other), ["resources"]);
    assert!(one.has("k8sServiceHost") && !one.has("image.tag"));
}

#[test]
fn each_change_of_settings_changes_the_pods() {
    let hash = |set: &[&str]| template_of(&values(set))["metadata"]["annotations"][HASH].clone();
    let first = hash(&[]);
    assert_eq!(first, hash(&["podLabels.a=b"]));
    assert_ne!(first, hash(&["debug.enabled=true"]));
    assert_ne!(first, hash(&["extraConfig.a=b"]));
    assert_ne!(first, hash(&["extraConfig.log-format=null"]));
}

#[test]
fn every_key_of_the_template_is_a_value_or_a_mount() {
    let more = defaults()["extraConfig"].as_object().unwrap().len();
    let data = template().into_iter().find(|it| it["kind"] == "ConfigMap").unwrap()["data"].take();
    let flags = SETTINGS.iter().filter(|it| match it.place {
        Place::Flag(flag) => !data[flag].is_null(),
        _ => false,
    });
    let mounted = objects::MOUNTED.len();
    assert_eq!(data.as_object().unwrap().len(), more + flags.count() + mounted);
}

#[test]
fn older_servers_get_what_they_know() {
    let mut old = objects(&Values::default());
    for_server(&mut old, 30);
    assert_eq!(old, objects(&Values::default()));
    for_server(&mut old, 29);
    assert!(!format!("{old:?}").contains("appArmorProfile"));
    assert!(format!("{old:?}").contains("container.apparmor.security.beta.kubernetes.io/agent"));
}

#[test]
fn the_guide_lists_every_value() {
    let all = defaults();
    let rows = SETTINGS.iter().map(|it| {
        let value = it.name.split('.').fold(&all, |value, key| &value[key]);
        let default = match value {
            Value::String(text) if text.is_empty() => "–".to_owned(),
            Value::String(text) => format!("`{text}`"),
            Value::Array(items) if items.is_empty() => "–".to_owned(),
            Value::Object(members) if members.is_empty() => "–".to_owned(),
            value => format!("`{value}`"),
        };
        format!("| `{}` | {default} | {} |\n", it.name, it.meaning)
    });
    let table: String = rows.collect();
    let table = format!("| value | default | meaning |\n|---|---|---|\n{table}");
    assert!(include_str!("../../docs/install.md").contains(&table), "put this there:\n{table}");
}
