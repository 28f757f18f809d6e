//! Installations against an API server that keeps what it is given.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use volvox_packaging::HASH;

use crate::{
    Access, InstallError, Options, Removal, Sources, dry_run, fake::Fake, install, printed,
    uninstall, upgrade,
};

const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/volvox-config";
const RECORD: &str = "/api/v1/namespaces/kube-system/configmaps/volvox-values";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/volvox";
const SET: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/volvox";
const NODES: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ciliumnodes.cilium.io";

const NO_WAIT: Options = Options { wait: Duration::ZERO, force_conflicts: false };

fn sources(set: &[&str]) -> Sources {
    Sources { files: Vec::new(), set: set.iter().map(|it| (*it).to_owned()).collect() }
}

/// Installs; what was said comes back.
async fn installs(fake: &Fake, set: &[&str], options: &Options) -> Result<String, InstallError> {
    let mut said = String::new();
    let mut say = |line: &str| said.push_str(&format!("{line}\n"));
    install(&fake.cluster(), &sources(set), false, options, &mut say).await.map(|()| said)
}

async fn upgrades(fake: &Fake, set: &[&str], reset: bool) -> Result<String, InstallError> {
    let mut said = String::new();
    let mut say = |line: &str| said.push_str(&format!("{line}\n"));
    upgrade(&fake.cluster(), &sources(set), reset, &NO_WAIT, &mut say).await.map(|()| said)
}

async fn uninstalls(fake: &Fake, definitions: bool) -> Result<String, InstallError> {
    let removal = Removal { definitions, nodes: false, wait: Duration::from_secs(1) };
    let mut said = String::new();
    let mut say = |line: &str| said.push_str(&format!("{line}\n"));
    uninstall(&fake.cluster(), &removal, &mut say).await.map(|()| said)
}

fn hash(fake: &Fake) -> Value {
    fake.get(SET).unwrap()["spec"]["template"]["metadata"]["annotations"][HASH].clone()
}

#[tokio::test]
async fn a_second_installation_changes_nothing() {
    let fake = Fake::new("34+");
    let said = installs(&fake, &["ipv6.enabled=true"], &NO_WAIT).await.unwrap();
    assert!(said.contains("definitions: 11 created"), "{said}");
    assert!(said.contains("DaemonSet kube-system/volvox: created"), "{said}");
    assert!(
        said.contains("pods reach the API server at 192.0.2.1:6443, as the test says"),
        "{said}"
    );
    let applied = fake.applied();
    assert!(applied[..11].iter().all(|it| it.contains("customresourcedefinitions")));
    assert_eq!(applied.last().map(String::as_str), Some(SET));
    assert_eq!(fake.get(CONFIG).unwrap()["data"]["enable-ipv6"], "true");
    let before = fake.all();
    let said = installs(&fake, &["ipv6.enabled=true"], &NO_WAIT).await.unwrap();
    assert!(said.contains("DaemonSet kube-system/volvox: unchanged"), "{said}");
    assert_eq!(fake.all(), before);
    let refused = installs(&fake, &["debug.enabled=true"], &NO_WAIT).await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("other values (ipv6.enabled, debug.enabled)"), "{refused}");
    assert_eq!(fake.all(), before);
}

#[tokio::test]
async fn servers_that_are_named_are_those_that_pods_reach() {
    let agent = |fake: &Fake| fake.get(SET).unwrap()["spec"]["template"]["spec"].take();
    let fake = Fake::new("34");
    installs(&fake, &[], &NO_WAIT).await.unwrap();
    assert!(agent(&fake).to_string().contains("192.0.2.1"), "that of the kubeconfig");

    let fake = Fake::new("34");
    let urls = "https://10.0.0.1:6443 https://10.0.0.2:6443";
    let set = format!("k8s.apiServerURLs={urls}");
    let said = installs(&fake, &[&set], &NO_WAIT).await.unwrap();
    assert!(!said.contains("pods reach the API server at"), "{said}");
    assert_eq!(fake.get(CONFIG).unwrap()["data"]["k8s-api-server"], urls);
    assert!(!agent(&fake).to_string().contains("KUBERNETES_SERVICE_HOST"));
    upgrades(&fake, &[], false).await.unwrap();
    assert_eq!(fake.get(CONFIG).unwrap()["data"]["k8s-api-server"], urls);
    let refused = installs(&fake, &["k8s.apiServerURLs=a:1"], &NO_WAIT).await.unwrap_err();
    assert!(refused.to_string().contains("k8s.apiServerURLs is a:1: write URLs"), "{refused}");
}

#[tokio::test]
async fn what_others_wrote_is_named_and_not_taken() {
    let fake = Fake::new("34");
    fake.put(ROLE, json!({ "kind": "ClusterRole", "metadata": { "name": "volvox" } }));
    fake.conflict(ROLE, ".rules", "kubectl-edit");
    let refused = installs(&fake, &[], &NO_WAIT).await.unwrap_err().to_string();
    for words in
        ["ClusterRole volvox", "rules (conflict with \"kubectl-edit\")", "--force-conflicts"]
    {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    assert!(fake.get(SET).is_none());
    let force = Options { force_conflicts: true, ..NO_WAIT };
    installs(&fake, &[], &force).await.unwrap();

    // What is ours is taken back, and said.
    fake.conflict(CONFIG, ".data.log-format", "kubectl-edit");
    let said = installs(&fake, &[], &NO_WAIT).await.unwrap();
    let words =
        "volvox-config: taken back from others: data.log-format (conflict with \"kubectl-edit\")";
    assert!(said.contains(words), "{said}");
}

#[tokio::test]
async fn what_the_server_refuses_is_refused_before_anything_is_changed() {
    let fake = Fake::new("34");
    let before = fake.all();
    let refused = installs(&fake, &["resources.limits.memory=much"], &NO_WAIT).await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("refused to apply DaemonSet kube-system/volvox"), "{refused}");
    assert!(refused.contains("memory is no quantity"), "{refused}");
    assert_eq!(fake.all(), before);
    assert_eq!(fake.applied(), Vec::<String>::new());
}

#[tokio::test]
async fn a_cluster_of_cilium_or_of_old_is_refused() {
    let fake = Fake::new("34");
    let cilium = json!({ "metadata": {
        "name": "cilium", "namespace": "kube-system", "labels": { "k8s-app": "cilium" },
    } });
    fake.put("/apis/apps/v1/namespaces/kube-system/daemonsets/cilium", cilium);
    let before = fake.all();
    let refused = installs(&fake, &[], &NO_WAIT).await.unwrap_err().to_string();
    for words in ["DaemonSet kube-system/cilium", "#take-over-from-cilium", "--beside-cilium"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    assert_eq!(fake.all(), before);
    install(&fake.cluster(), &sources(&[]), true, &NO_WAIT, &mut |_| ()).await.unwrap();

    let refused = installs(&Fake::new("20"), &[], &NO_WAIT).await.unwrap_err().to_string();
    assert!(refused.contains("version 1.20") && refused.contains("1.21 or newer"), "{refused}");
    let refused = installs(&fake, &["namespace=net"], &NO_WAIT).await.unwrap_err().to_string();
    assert!(refused.contains("other values (namespace)"), "{refused}");
    let refused = installs(&Fake::new("34"), &["namespace=net"], &NO_WAIT).await.unwrap_err();
    assert!(refused.to_string().contains("kubectl create namespace net"), "{refused}");
}

#[tokio::test]
async fn an_old_server_gets_what_it_knows() {
    // Who builds a server without git has one that does not say its version.
    for minor in ["29", ""] {
        let fake = Fake::new(minor);
        installs(&fake, &[], &NO_WAIT).await.unwrap();
        let template = fake.get(SET).unwrap()["spec"]["template"].take();
        let context = &template["spec"]["containers"][0]["securityContext"];
        assert!(context["appArmorProfile"].is_null());
        let annotations = template["metadata"]["annotations"].as_object().unwrap();
        assert!(annotations.keys().any(|key| key.contains("apparmor")), "{annotations:?}");
    }
}

#[tokio::test]
async fn definitions_are_never_made_older() {
    let fake = Fake::new("34");
    let theirs = |version: &str| {
        json!({ "kind": "CustomResourceDefinition", "metadata": {
            "name": "ciliumnodes.cilium.io", "labels": { "io.cilium.k8s.crd.schema.version": version },
        }, "status": { "conditions": [{ "type": "Established", "status": "True" }] } })
    };
    fake.put(NODES, theirs("1.99.0"));
    let said = installs(&fake, &[], &NO_WAIT).await.unwrap();
    assert!(said.contains("ciliumnodes.cilium.io: left, its schema 1.99.0 is newer"), "{said}");
    assert!(said.contains("10 created, 0 changed, 0 unchanged, 1 left"), "{said}");
    assert!(fake.get(NODES).unwrap()["spec"].is_null());
    uninstalls(&fake, true).await.unwrap();
    assert!(fake.get(NODES).is_some(), "it is of somebody else");
}

#[tokio::test]
async fn an_upgrade_keeps_values_and_removes_what_is_no_more() {
    let fake = Fake::new("34");
    let refused = upgrades(&fake, &[], false).await.unwrap_err();
    assert!(matches!(refused, InstallError::NotInstalled), "{refused}");
    installs(&fake, &["ipv6.enabled=true", "nodeSelector.pool=a"], &NO_WAIT).await.unwrap();
    let before = hash(&fake);
    let mut old = fake.get(CONFIG).unwrap();
    old["metadata"]["name"] = "volvox-old".into();
    let path = CONFIG.replace("volvox-config", "volvox-old");
    fake.put(&path, old);
    let said = upgrades(&fake, &["debug.enabled=true"], false).await.unwrap();
    assert!(said.contains("ConfigMap kube-system/volvox-old: removed"), "{said}");
    assert!(fake.get(&path).is_none());
    let data = fake.get(CONFIG).unwrap()["data"].take();
    assert_eq!((&data["enable-ipv6"], &data["debug"]), (&json!("true"), &json!("true")));
    assert_ne!(hash(&fake), before, "pods are replaced");
    let record = fake.get(RECORD).unwrap()["data"]["values.yaml"].as_str().unwrap().to_owned();
    assert!(record.contains("192.0.2.1") && record.contains("pool: a"), "{record}");

    let refused = upgrades(&fake, &["ipam.mod=x"], false).await.unwrap_err().to_string();
    assert_eq!(refused, "there is no value ipam.mod: did you mean ipam.mode?");
    let refused = upgrades(&fake, &["namespace=net"], false).await.unwrap_err().to_string();
    assert!(refused.contains("in namespace kube-system, not in net"), "{refused}");
    upgrades(&fake, &[], true).await.unwrap();
    assert_eq!(fake.get(CONFIG).unwrap()["data"]["enable-ipv6"], "false");
    assert_eq!(hash(&fake).as_str().map(str::len), Some(64));
}

#[tokio::test]
async fn nodes_that_are_not_ready_are_named() {
    let fake = Fake::new("34");
    let labels = json!({ "kubernetes.io/os": "linux" });
    fake.put("/api/v1/nodes/a", json!({ "metadata": { "name": "a", "labels": labels } }));
    installs(&fake, &[], &NO_WAIT).await.unwrap();
    let mut set = fake.get(SET).unwrap();
    set["status"] = json!({ "desiredNumberScheduled": 1, "numberReady": 0 });
    fake.put(SET, set.clone());
    let event = json!({ "reason": "FailedCreate", "message": "forbidden: violates PodSecurity" });
    fake.put("/api/v1/namespaces/kube-system/events/one", event);
    let wait = Options { wait: Duration::from_nanos(1), ..NO_WAIT };
    let refused = installs(&fake, &[], &wait).await.unwrap_err().to_string();
    for words in ["1 of 1 nodes are not ready", "node a: it has no pod", "violates PodSecurity"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    set["status"] = json!({
        "desiredNumberScheduled": 1, "numberReady": 1, "updatedNumberScheduled": 1,
    });
    fake.put(SET, set);
    let said = installs(&fake, &[], &wait).await.unwrap();
    assert!(said.ends_with("1 of 1 nodes are ready\n"), "{said}");
}

#[tokio::test]
async fn what_was_installed_can_be_removed() {
    let fake = Fake::new("34");
    let before = fake.all();
    installs(&fake, &[], &NO_WAIT).await.unwrap();
    let said = uninstalls(&fake, false).await.unwrap();
    for words in
        ["DaemonSet kube-system/volvox: removed", "definitions stay", "volvox-agent uninstall"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(fake.all().len(), before.len() + 11, "{:?}", fake.all());
    let said = uninstalls(&fake, true).await.unwrap();
    assert!(said.contains("with them all objects of their kinds"), "{said}");
    assert_eq!(fake.all(), before);
    let said = uninstalls(&fake, true).await.unwrap();
    assert!(said.contains("nothing else of volvox install was there"), "{said}");
}

#[tokio::test]
async fn definitions_are_removed_when_the_server_has_them_no_more() {
    let fake = Fake::new("34");
    let before = fake.all();
    installs(&fake, &[], &NO_WAIT).await.unwrap();
    // Its objects go a little later.
    fake.keep(NODES, 2);
    let said = uninstalls(&fake, true).await.unwrap();
    assert!(said.contains("waiting for objects of 1 definitions to go"), "{said}");
    assert_eq!(fake.all(), before);
    // An object stays.
    installs(&fake, &[], &NO_WAIT).await.unwrap();
    fake.keep(NODES, usize::MAX);
    let refused = uninstalls(&fake, true).await.unwrap_err().to_string();
    let words = [
        "CustomResourceDefinition ciliumnodes.cilium.io does not go (a node of it remains)",
        "kubectl get ciliumnodes.cilium.io --all-namespaces -o yaml",
    ];
    for words in words {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    // Who does not wait is not told so.
    let removal = Removal { definitions: true, nodes: false, wait: Duration::ZERO };
    uninstall(&fake.cluster(), &removal, &mut |_| ()).await.unwrap();
}

#[tokio::test]
async fn nodes_are_cleared_before_what_their_agents_need_goes() {
    let fake = Fake::new("34");
    let before = fake.all();
    let mut removal = Removal { definitions: true, nodes: true, wait: Duration::ZERO };
    let cluster = fake.cluster();
    let refused = uninstall(&cluster, &removal, &mut |_| ()).await.unwrap_err().to_string();
    assert!(refused.contains("give --wait a duration"), "{refused}");
    removal.wait = Duration::from_nanos(1);
    let refused = uninstall(&cluster, &removal, &mut |_| ()).await.unwrap_err();
    assert!(matches!(refused, InstallError::NotInstalled), "{refused}");

    installs(&fake, &[], &NO_WAIT).await.unwrap();
    // An agent that does not end keeps its settings.
    let labels = json!({ "k8s-app": "volvox" });
    let pod = json!({ "metadata": { "labels": labels }, "spec": { "nodeName": "a" } });
    fake.put("/api/v1/namespaces/kube-system/pods/volvox-1", pod);
    let refused = uninstall(&cluster, &removal, &mut |_| ()).await.unwrap_err().to_string();
    assert!(refused.contains("do not end on nodes a"), "{refused}");
    assert!(fake.get(SET).is_none() && fake.get(CONFIG).is_some());
    fake.take("/api/v1/namespaces/kube-system/pods/volvox-1");

    let mut said = String::new();
    let mut say = |line: &str| said.push_str(&format!("{line}\n"));
    uninstall(&cluster, &removal, &mut say).await.unwrap();
    let cleared = said.find("each node is cleared by volvox-agent uninstall").unwrap();
    assert!(cleared < said.find("ConfigMap kube-system/volvox-config: removed").unwrap());
    let cleaner = fake.applied().pop().unwrap();
    assert!(cleaner.ends_with("/daemonsets/volvox-uninstall"), "{cleaner}");
    assert_eq!(fake.all(), before);
}

#[tokio::test]
async fn who_cannot_be_asked_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    let open = |context: Option<&str>| Access {
        kubeconfig: Some(file.clone()),
        context: context.map(str::to_owned),
    };
    let error = open(None).open().await.err().unwrap().to_string();
    assert!(
        error.contains(&file.display().to_string()) && error.contains("--kubeconfig"),
        "{error}"
    );
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{ "name": "lab", "cluster": { "server": "http://127.0.0.1:1" } }],
        "users": [{ "name": "lab", "user": {} }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
    });
    fs::write(&file, config.to_string()).unwrap();
    let error = open(Some("other")).open().await.err().unwrap().to_string();
    assert!(error.contains("context other") && error.contains("--context"), "{error}");
    let cluster = open(None).open().await.unwrap();
    assert_eq!(cluster.address_for_pods(), None, "pods do not reach a loopback address");
    let mut said = String::new();
    let mut say = |line: &str| said.push_str(line);
    let error = install(&cluster, &sources(&[]), false, &NO_WAIT, &mut say).await.unwrap_err();
    for words in ["nodes cannot reach the API server at 127.0.0.1:1", "'k8s.apiServerURLs=https://"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let error = error.to_string();
    for words in ["127.0.0.1:1", "context lab", "does not answer", "--context"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn objects_are_shown_without_a_cluster() {
    let text = printed(&dry_run(&sources(&["image.tag=1.2"])).unwrap());
    assert_eq!(text.matches("---\n").count(), 22);
    assert!(text.contains("image: volvox-agent:1.2"), "{text}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("values.yaml");
    fs::write(&file, "ipam: {mode: host}\n").unwrap();
    let error = dry_run(&Sources { files: vec![file.clone()], set: Vec::new() }).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: ipam.mode is host: write kubernetes or cluster-pool or multi-pool",
            file.display()
        )
    );
}
