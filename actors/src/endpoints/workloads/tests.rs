//! Tests: which labels and named ports a pod has, who is told when they change, and what bad
//! manifests and crashes leave in place.

use std::{cell::RefCell, rc::Rc, time::Duration};

use serde_json::{Value, json};

use super::*;
use crate::{
    host::{Answer, Behaviour, Cx, Message, NoAnswer, Ref, Universe},
    model::{ApiObject, EndpointId, Manifest, NamedPorts},
    testing::crash,
};

const PATIENCE: Duration = Duration::from_secs(60);

type Heard = Rc<RefCell<Vec<(String, PodFacts)>>>;

struct Reported(WorkloadsNews);

impl Message for Reported {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }
}

/// Stands for the supervisor of endpoints: notes what it is told.
struct Listener(Heard);

impl Behaviour for Listener {
    type Msg = Reported;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, msg: Reported, _: &mut Cx<'_, Self>) {
        if let WorkloadsNews::Pod { name, facts } = msg.0 {
            self.0.borrow_mut().push((name, facts));
        }
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

struct Fixture {
    universe: Universe,
    workloads: Ref<WorkloadsMsg>,
    heard: Heard,
}

impl Fixture {
    fn new() -> Self {
        let universe = Universe::default();
        let workloads = universe.spawn("workloads", Workloads::factory("blue", "here", || None));
        let heard = Heard::default();
        let ear = Rc::clone(&heard);
        let listener = universe.spawn("endpoints", move || Listener(Rc::clone(&ear)));
        workloads.tell(WorkloadsMsg::Subscribe(listener.outlet(Reported))).unwrap();
        Self { universe, workloads, heard }
    }

    fn apply(&self, source: &str, objects: &[Value]) {
        self.say(source, Ok(objects.to_vec()));
    }

    fn say(&self, source: &str, objects: Result<Vec<Value>, String>) {
        let read = |all: Vec<Value>| all.into_iter().map(ApiObject::from).collect();
        let manifest = Manifest { source: source.into(), objects: objects.map(read) };
        self.workloads.tell(WorkloadsMsg::Manifests(vec![manifest])).unwrap();
        self.universe.settle();
    }

    fn ask(&self, namespace: &str, pod: &str) -> Answer<PodFacts> {
        let (namespace, pod) = (namespace.to_owned(), pod.to_owned());
        let answer = self.universe.host.ask(&self.workloads, PATIENCE, "labels", |reply| {
            WorkloadsMsg::Describe { namespace, pod, uid: String::new(), reply }
        });
        self.universe.settle();
        answer
    }

    fn labels(&self, namespace: &str, pod: &str) -> Vec<String> {
        self.facts(namespace, pod).labels.to_texts()
    }

    fn facts(&self, namespace: &str, pod: &str) -> PodFacts {
        self.ask(namespace, pod).now().unwrap().unwrap()
    }

    /// The pods that were told about since the last look.
    fn heard(&self) -> Vec<String> {
        self.heard.take().into_iter().map(|(pod, _)| pod).collect()
    }
}

fn pod(namespace: &str, name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "spec": { "containers": [] },
    })
}

fn namespace(name: &str, labels: Value) -> Value {
    json!({ "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

#[test]
fn a_pod_has_its_own_its_namespace_s_and_its_cluster_s_labels() {
    let fixture = Fixture::new();
    let mut web = pod("shop", "web", json!({ "app": "web" }));
    web["spec"]["serviceAccountName"] = json!("cashier");
    fixture.apply("a.yaml", &[web, namespace("shop", json!({ "team": "red" }))]);
    assert_eq!(
        fixture.labels("shop", "web"),
        [
            "k8s:app=web",
            "k8s:io.cilium.k8s.namespace.labels.kubernetes.io/metadata.name=shop",
            "k8s:io.cilium.k8s.namespace.labels.team=red",
            "k8s:io.cilium.k8s.policy.cluster=blue",
            "k8s:io.cilium.k8s.policy.serviceaccount=cashier",
            "k8s:io.kubernetes.pod.namespace=shop",
        ]
    );
}

#[test]
fn an_unknown_pod_has_what_its_place_gives_it() {
    let fixture = Fixture::new();
    fixture.apply("a.yaml", &[pod("default", "other", json!({}))]);
    assert_eq!(
        fixture.labels("default", "web"),
        [
            "k8s:io.cilium.k8s.policy.cluster=blue",
            "k8s:io.cilium.k8s.policy.serviceaccount=default",
            "k8s:io.kubernetes.pod.namespace=default",
        ]
    );
}

#[test]
fn a_pod_cannot_claim_another_place_for_itself() {
    let fixture = Fixture::new();
    let claims = json!({
        "io.kubernetes.pod.namespace": "kube-system",
        "io.cilium.k8s.policy.serviceaccount": "admin",
        "io.cilium.k8s.namespace.labels.team": "root",
    });
    fixture.apply("a.yaml", &[pod("shop", "web", claims)]);
    assert_eq!(fixture.labels("shop", "web"), fixture.labels("shop", "unknown"));
}

#[test]
fn questions_wait_for_the_first_manifests() {
    let fixture = Fixture::new();
    let mut early = fixture.ask("shop", "web");
    assert_eq!(early.now(), None);
    fixture.apply("a.yaml", &[pod("shop", "web", json!({ "app": "web" }))]);
    assert_eq!(early.now().unwrap().unwrap().labels.to_texts()[0], "k8s:app=web");
}

#[test]
fn only_pods_whose_labels_change_are_told_of() {
    let fixture = Fixture::new();
    let (a, b) = (pod("shop", "a", json!({})), pod("farm", "b", json!({})));
    fixture.apply("a.yaml", &[a.clone(), b.clone()]);
    assert_eq!(fixture.heard(), ["farm/b", "shop/a"]);
    fixture.apply("a.yaml", &[a.clone(), b, json!({ "kind": "Service" })]);
    assert!(fixture.heard().is_empty());
    fixture.apply("b.yaml", &[namespace("shop", json!({ "team": "red" }))]);
    assert_eq!(fixture.heard(), ["shop/a"]);
    fixture.apply("b.yaml", &[]);
    assert_eq!(fixture.heard(), ["shop/a"]);
    // A pod that is described no more keeps its labels until its endpoint goes.
    fixture.apply("a.yaml", &[a]);
    assert!(fixture.heard().is_empty());
}

#[test]
fn a_pod_that_only_was_asked_for_follows_its_namespace() {
    let fixture = Fixture::new();
    fixture.apply("a.yaml", &[pod("farm", "b", json!({}))]);
    fixture.labels("shop", "a");
    fixture.heard();
    fixture.apply("b.yaml", &[namespace("shop", json!({ "team": "red" }))]);
    assert_eq!(fixture.heard(), ["shop/a"]);
    fixture.apply("c.yaml", &[pod("shop", "a", json!({ "app": "a" }))]);
    assert_eq!(fixture.heard(), ["shop/a"]);
}

#[test]
fn what_cannot_be_read_stays_as_it_was() {
    let fixture = Fixture::new();
    fixture.apply("a.yaml", &[pod("shop", "web", json!({ "app": "web" }))]);
    fixture.heard();
    fixture.say("a.yaml", Err("a tab where none may be".into()));
    for broken in [json!([1]), json!({ "app": 1 }), json!({ "app": "x".repeat(64) })] {
        let fine = pod("shop", "fine", json!({}));
        fixture.apply("a.yaml", &[pod("shop", "web", broken), fine, json!({ "kind": "Pod" })]);
        assert_eq!(fixture.labels("shop", "web")[0], "k8s:app=web");
    }
    assert_eq!(fixture.heard(), ["shop/fine"]);
}

#[test]
fn errors_name_the_object_and_the_field() {
    let errors = |value: Value| {
        let mut errors = Vec::new();
        object::WorkloadObjects::default().take(&value.into(), &Default::default(), &mut errors);
        errors.iter().map(ObjectError::to_string).collect::<Vec<_>>()
    };
    let list = json!({ "kind": "List", "items": [
        pod("shop", "web", json!({ "app": [] })), pod("shop", "", json!({})),
        { "kind": "Pod", "metadata": { "name": "web", "namespace": 7 } },
    ] });
    assert_eq!(
        errors(list),
        [
            "Pod shop/web: metadata.labels.app: a list where text is expected: write text",
            "a Pod has no metadata.name: give it one",
            r#"Pod web: metadata.namespace: 7 is no text: put it in quotes: "7""#,
        ]
    );
}

fn with_ports(ports: Value) -> Value {
    let mut pod = pod("shop", "web", json!({}));
    pod["spec"]["containers"] = json!([{ "name": "main", "ports": ports }]);
    pod
}

#[test]
fn ports_are_called_by_the_names_that_their_containers_give_them() {
    let fixture = Fixture::new();
    let mut web = with_ports(json!([
        { "name": "Http", "containerPort": 8080 },
        { "name": "dns", "containerPort": 53, "protocol": "UDP" },
        { "name": "dns", "containerPort": 53, "protocol": "TCP" },
        { "containerPort": 9 },
    ]));
    web["spec"]["initContainers"] = json!([
        { "ports": [{ "name": "early", "containerPort": 1 }] },
        { "restartPolicy": "Always", "ports": [{ "name": "mesh", "containerPort": 15001 }] },
    ]);
    fixture.apply("a.yaml", &[web]);
    let expected =
        [("dns", vec![(6, 53), (17, 53)]), ("http", vec![(6, 8080)]), ("mesh", vec![(6, 15001)])];
    let expected: NamedPorts = expected
        .into_iter()
        .map(|(name, ports)| (name.to_owned(), ports.into_iter().collect()))
        .collect();
    assert_eq!(fixture.facts("shop", "web").named_ports, expected);
    let heard = fixture.heard.take();
    assert_eq!(heard[0].1.named_ports, expected);
    // A change of ports alone is told of too.
    fixture.apply("a.yaml", &[with_ports(json!([{ "name": "http", "containerPort": 80 }]))]);
    assert_eq!(fixture.heard(), ["shop/web"]);
    let (web, other) = (("shop".into(), "web".into()), ("shop".into(), "other".into()));
    let pods = [(EndpointId(1), web), (EndpointId(2), other)].into();
    let mut ports = fixture
        .universe
        .host
        .ask(&fixture.workloads, PATIENCE, "ports", |reply| WorkloadsMsg::PortsOf { pods, reply });
    fixture.universe.settle();
    let ports = ports.now().unwrap().unwrap();
    let http = NamedPorts::from([("http".to_owned(), [(6, 80)].into())]);
    assert_eq!(ports, [(EndpointId(1), http)].into());
}

#[test]
fn a_port_that_cannot_be_is_refused_and_the_pod_stays_as_it_was() {
    let fixture = Fixture::new();
    fixture.apply("a.yaml", &[with_ports(json!([{ "name": "http", "containerPort": 80 }]))]);
    let before = fixture.facts("shop", "web");
    for (wrong, field) in [
        (
            json!([{ "name": "http", "containerPort": 65536 }]),
            "ports[0].containerPort is not a number",
        ),
        (json!([{ "name": "http", "containerPort": 0 }]), "ports[0].containerPort is not a number"),
        (
            json!([{ "name": "x".repeat(16), "containerPort": 1 }]),
            "ports[0].name is not a text of at",
        ),
        (
            json!([{ "name": "http", "containerPort": 1, "protocol": "ICMP" }]),
            "ports[0].protocol is",
        ),
        (json!({}), "spec.containers[0].ports: a mapping where a list is expected"),
        (Value::from(vec![json!({}); 5000]), "is not a list of at most 4096 ports in all"),
    ] {
        let mut errors = Vec::new();
        let pod = with_ports(wrong);
        object::WorkloadObjects::default().take(
            &pod.clone().into(),
            &Default::default(),
            &mut errors,
        );
        assert!(errors[0].to_string().contains(field), "{errors:?}");
        fixture.apply("a.yaml", &[pod]);
        assert_eq!(fixture.facts("shop", "web"), before);
    }
}

#[test]
fn the_first_source_by_name_describes_a_pod_that_two_describe() {
    let fixture = Fixture::new();
    fixture.apply("b.yaml", &[pod("shop", "web", json!({ "from": "b" }))]);
    fixture.apply("a.yaml", &[pod("shop", "web", json!({ "from": "a" }))]);
    assert_eq!(fixture.labels("shop", "web")[0], "k8s:from=a");
}

#[test]
fn a_full_mailbox_delays_the_news_and_loses_none() {
    let fixture = Fixture::new();
    let pods: Vec<_> = (0..60).map(|n| pod("shop", &format!("p{n:02}"), json!({}))).collect();
    fixture.apply("a.yaml", &pods);
    fixture.universe.advance(Duration::from_secs(1));
    assert_eq!(fixture.heard().len(), 60);
}

#[test]
fn a_crash_forgets_no_manifest() {
    let fixture = Fixture::new();
    fixture.apply("a.yaml", &[pod("shop", "web", json!({ "app": "web" }))]);
    let (namespace, pod) = ("shop".to_owned(), "web".to_owned());
    let (uid, reply) = (String::new(), crash());
    fixture.workloads.tell(WorkloadsMsg::Describe { namespace, pod, uid, reply }).unwrap();
    fixture.universe.settle();
    assert_eq!(fixture.labels("shop", "web")[0], "k8s:app=web");
}
