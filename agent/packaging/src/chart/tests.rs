//! The chart gives the objects that `volvox install` applies: its templates are filled in by a small
//! interpreter of exactly the expressions that occur in them.

use volvox_inspect::manifests;

use super::*;
use crate::{
    Values,
    objects::{hash as config_hash, sha256},
    values::go_text,
};

/// The service that releases the chart, which is Helm in a cluster.
const SERVICE: &str = "volvox";

/// Go's text/template, as far as the chart uses it.
fn fill(text: &str, values: &Value) -> String {
    let mut filled = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = within(line, "{{- if .Values.", " }}") {
            let is_set = !matches!(go_text(at(values, name)).as_str(), "" | "map[]" | "[]");
            if !is_set {
                let end = lines.by_ref().find(|line| *line == "{{- end }}");
                assert!(end.is_some(), "{line} has no end");
            }
        } else if let Some(pair) = within(line, "{{- if ne .Values.", "\" }}") {
            let (name, other) = pair.split_once(" \"").unwrap();
            if go_text(at(values, name)) == other {
                assert!(lines.by_ref().any(|line| line == "{{- end }}"), "{line} has no end");
            }
        } else if let Some(name) = within(line, "{{- range $key, $value := .Values.", " }}") {
            let inside = lines.next().unwrap();
            assert_eq!(lines.next(), Some("{{- end }}"));
            for (key, value) in at(values, name).as_object().unwrap() {
                let line = inside.replace("{{ $key }}", key);
                let line = line.replace("{{ $value | quote }}", &quoted(&go_text(value)));
                let _ = writeln!(filled, "{line}");
            }
        } else if let Some(put) = within(line, "{{- toYaml .Values.", " }}") {
            let (name, indent) = put.split_once(" | nindent ").unwrap();
            let indent = " ".repeat(indent.parse().unwrap());
            for line in yaml(at(values, name)).lines() {
                let _ = writeln!(filled, "{indent}{line}");
            }
        } else if line != "{{- end }}" {
            let _ = writeln!(filled, "{}", expressions(line, values));
        }
    }
    filled
}

fn within<'a>(line: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    line.strip_prefix(begin)?.strip_suffix(end)
}

fn expressions(line: &str, values: &Value) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{{ ") {
        let (expression, behind) = after.split_once(" }}").unwrap();
        text.push_str(before);
        text.push_str(&value_of(expression, values));
        rest = behind;
    }
    text + rest
}

fn value_of(expression: &str, values: &Value) -> String {
    let mut parts = expression.split(" | ");
    let first = parts.next().unwrap();
    let variable = |word: &str| match word.strip_prefix(".Values.") {
        Some(name) => go_text(at(values, name)),
        None => panic!("{word} in {expression}"),
    };
    let mut value = match first.strip_prefix("printf ") {
        Some(call) => {
            let (format, words) = call[1..].split_once("\" ").unwrap();
            let mut words = words.split(' ');
            let mut pieces = format.split("%v");
            let mut text = pieces.next().unwrap().to_owned();
            for piece in pieces {
                text.push_str(&variable(words.next().unwrap()));
                text.push_str(piece);
            }
            assert_eq!(words.next(), None);
            text.replace("\\n", "\n").replace("%%", "%")
        }
        None if first == ".Release.Service" => SERVICE.to_owned(),
        None if first.starts_with("dir ") => {
            variable(&first[4..]).rsplit_once('/').unwrap().0.to_owned()
        }
        None => variable(first),
    };
    for function in parts {
        value = match function {
            "toJson" => at(values, first.strip_prefix(".Values.").unwrap()).to_string(),
            "trimAll \"\\\"\"" => value.trim_matches('"').to_owned(),
            "quote" => quoted(&value),
            "sha256sum" => sha256(&value),
            function => panic!("{function} in {expression}"),
        };
    }
    value
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The objects of the chart's templates, filled in with values over those of the chart.
fn charted(values: &Values) -> Vec<Value> {
    let files = chart("0.1.0");
    let templates = files.iter().filter(|it| it.path.starts_with("templates/"));
    let all = values.all();
    templates
        .flat_map(|file| {
            let text = fill(&file.text, &all);
            manifests::objects(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
        })
        .collect()
}

fn installed(values: &Values) -> Vec<Value> {
    let all = values.all();
    rendered(&all, &Marks { manager: SERVICE.to_owned(), hash: config_hash(&all) })
}

#[test]
fn the_chart_gives_what_is_installed() {
    let values = Values::default();
    assert_eq!(charted(&values), installed(&values));
    let mut values = Values::default();
    for text in [
        "namespace=net,image.repository=registry:5000/volvox,image.tag=1.2,image.pullPolicy=Always",
        "k8sServiceHost=fd00::1,k8sServicePort=6443,cluster.name=b,cluster.id=7",
        "k8s.apiServerURLs=https://10.0.0.1:6443 https://10.0.0.2:6443",
        "ipv6.enabled=true,routingMode=native,ipv4NativeRoutingCIDR=10.0.0.0/8,devices=eth0\\,eth1",
        "cni.confPath=/etc/k0s,cni.binPath=/opt/k0s,priorityClassName=,bpf.ctTcpMax=1000000",
        "extraConfig.log-format=null,extraConfig.labels=k8s:a !b,extraConfig.debug-x=true",
        "nodeSelector.kubernetes\\.io/os=null,podAnnotations.a/b=c: d,podLabels.team=net",
        "ipam.operator.autoCreateCiliumPodIPPools=a=ipv4-cidrs:10.0.0.0/8;ipv4-mask-size:24",
        "containerRuntime.integration=containerd,containerRuntime.socketPath=/run/k3s/containerd/containerd.sock",
    ] {
        values.set(text).unwrap();
    }
    let file = "tolerations: []\nimagePullSecrets: [{name: pull}]\nextraArgs: [--debug, \"--mtu=1\"]\n\
                extraEnv: [{name: A, value: \"1\"}]\nupdateStrategy: {type: OnDelete, rollingUpdate: null}\n\
                affinity: {nodeAffinity: {a: [1, {b: c}]}}\nresources: {limits: null}\n\
                extraVolumes: [{name: etcd, secret: {secretName: etcd}}]\n\
                extraVolumeMounts: [{name: etcd, mountPath: /etcd, readOnly: true}]\n\
                operator: {extraVolumes: [{name: etcd, secret: {secretName: etcd}}],\n\
                extraVolumeMounts: [{name: etcd, mountPath: /etcd, readOnly: true}]}\n";
    values.merge(file).unwrap();
    let objects = installed(&values);
    assert_eq!(charted(&values), objects);
    assert_ne!(objects, installed(&Values::default()));
    for kind in ["DaemonSet", "Deployment"] {
        let pod =
            &objects.iter().find(|it| it["kind"] == kind).unwrap()["spec"]["template"]["spec"];
        let last = |list: &Value| list.as_array().unwrap().last().unwrap()["name"].clone();
        let (volume, mount) = (last(&pod["volumes"]), last(&pod["containers"][0]["volumeMounts"]));
        assert_eq!((volume, mount), ("etcd".into(), "etcd".into()), "{kind}");
    }
    // Both know the runtime's socket, or both do not.
    for (integration, count) in [("containerd", 3), ("none", 0)] {
        let mut values = Values::default();
        values.set(&format!("containerRuntime.integration={integration}")).unwrap();
        assert_eq!(charted(&values), installed(&values));
        let all = Value::Array(charted(&values)).to_string();
        assert_eq!(all.matches("/run/containerd").count(), count, "{all}");
    }
}

#[test]
fn pools_are_said_as_a_map_or_as_the_flag_says_them() {
    const NAME: &str = "auto-create-cilium-pod-ip-pools";
    let said = |values: &Values| {
        let objects = installed(values);
        assert_eq!(charted(values), objects);
        let map = objects.iter().find(|it| it["kind"] == "ConfigMap").unwrap();
        map["data"][NAME].as_str().map(str::to_owned)
    };
    let mut values = Values::default();
    assert_eq!(said(&values), None);
    let file =
        "ipam: {operator: {autoCreateCiliumPodIPPools: {default: {ipv4: {cidrs: [10.0.0.0/8]}}}}}";
    values.merge(file).unwrap();
    values.set("ipam.operator.autoCreateCiliumPodIPPools.default.ipv4.maskSize=24").unwrap();
    let read: Value = serde_json::from_str(&said(&values).unwrap()).unwrap();
    let ipv4 = serde_json::json!({ "cidrs": ["10.0.0.0/8"], "maskSize": 24 });
    assert_eq!(read, serde_json::json!({ "default": { "ipv4": ipv4 } }));
    let text = "default=ipv4-cidrs:10.0.0.0/8;ipv4-mask-size:24";
    values.set(&format!("ipam.operator.autoCreateCiliumPodIPPools={text}")).unwrap();
    assert_eq!(said(&values).as_deref(), Some(text));
    let error = values.merge("ipam: {operator: {autoCreateCiliumPodIPPools: 7}}").unwrap_err();
    assert!(error.to_string().contains("write a map, or the text"), "{error}");
}

#[test]
fn the_charts_values_are_the_defaults() {
    let files = chart("1.2.3");
    let text = |path: &str| &files.iter().find(|it| it.path == path).unwrap().text;
    let read = manifests::objects(text("values.yaml")).unwrap();
    assert_eq!(read, [defaults()]);
    assert!(text("Chart.yaml").contains("version: 1.2.3\n"));
    assert_eq!(files.iter().filter(|it| it.path.starts_with("crds/")).count(), 11);
    assert!(files.iter().all(|it| it.path.ends_with(".yaml") && !it.text.is_empty()));
    for mark in [BEGIN, END, MANAGER_MARK, HASH_MARK] {
        assert!(files.iter().all(|it| !it.text.contains(mark)), "{mark}");
    }
}
