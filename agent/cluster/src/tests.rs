//! The edges of the port; the lab talks to a real server.

mod typed;

use serde_json::{Value, json};
use volvox_actors::{
    model::ApiObject,
    ports::{ClusterError, Object, ObjectChange, Reader, Resource},
};

use super::{Access, events::Lines, trim};

/// An object as it is kept of what a server says; none if it is left out.
fn object(resource: &Resource, value: Value) -> Option<Object> {
    trim::object(resource, &value.to_string()).unwrap()
}

/// The same as JSON.
fn kept(resource: &Resource, value: Value) -> Value {
    let object = object(resource, value).unwrap();
    assert!(!matches!(object.value, ApiObject::Malformed(_)), "{object:?}");
    object.value.to_json()
}

pub(crate) fn pods() -> Resource {
    Resource {
        name: "pods",
        path: "/api/v1/pods",
        api_version: "v1",
        kind: "Pod",
        fields: None,
        labels: None,
        definition: None,
        reader: Reader::Agent,
    }
}

fn pod() -> Value {
    json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "1-2", "resourceVersion": "7",
            "labels": { "app": "web" }, "annotations": { "a": "b" }, "managedFields": [{}],
        },
        "spec": {
            "serviceAccountName": "cashier", "nodeName": "node-1", "volumes": [{}],
            "containers": [
                { "name": "main", "image": "web", "ports": [{ "name": "http", "containerPort": 80 }] }
            ],
        },
        "status": { "phase": "Running" },
    })
}

#[test]
fn what_nobody_reads_is_left_out() {
    let object = object(&pods(), pod()).unwrap();
    assert_eq!(object.key.to_string(), "shop/web");
    let ports = json!([{ "name": "http", "containerPort": 80 }]);
    assert_eq!(
        object.value.to_json(),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "1-2", "labels": { "app": "web" },
            },
            "spec": {
                "serviceAccountName": "cashier",
                "containers": [{ "name": "main", "ports": ports }],
            },
        })
    );
    assert_eq!(self::object(&pods(), json!({ "metadata": {} })), None);
    assert_eq!(self::object(&pods(), json!([1])), None);
}

#[test]
fn of_a_pod_that_wants_ports_of_its_node_more_is_read() {
    let mut pod = pod();
    pod["spec"]["containers"][0]["ports"][0]["hostPort"] = json!(80);
    pod["spec"]["hostNetwork"] = json!(false);
    pod["status"] = json!({ "phase": "Running", "podIP": "10.0.0.1", "conditions": [{}] });
    let value = kept(&pods(), pod);
    assert_eq!(value["status"], json!({ "phase": "Running", "podIP": "10.0.0.1" }));
    let spec = value["spec"].as_object().unwrap();
    let names: Vec<_> = spec.keys().collect();
    assert_eq!(names, ["containers", "hostNetwork", "nodeName", "serviceAccountName"]);
}

#[test]
fn of_a_node_only_what_is_written_or_followed_is_read() {
    let node = json!({
        "metadata": {
            "name": "node-1", "uid": "1", "resourceVersion": "9", "labels": { "zone": "a" },
            "annotations": { "network.cilium.io/ipv4-pod-cidr": "10.1.0.0/24", "other": "x" },
        },
        "spec": { "podCIDR": "10.1.0.0/24", "taints": [{ "key": "k", "effect": "NoSchedule" }], "providerID": "x" },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }],
            "conditions": [
                { "type": "Ready", "status": "True", "lastHeartbeatTime": "now" },
                {
                    "type": "NetworkUnavailable", "status": "False", "reason": "CiliumIsUp",
                    "message": "m", "lastHeartbeatTime": "now",
                },
            ],
            "images": [{}],
        },
    });
    let nodes = volvox_actors::cluster::resources::further("node-1").remove(0).1.remove(0);
    assert_eq!(
        kept(&nodes, node),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "node-1", "uid": "1", "labels": { "zone": "a" },
                "annotations": { "network.cilium.io/ipv4-pod-cidr": "10.1.0.0/24" },
            },
            "spec": { "podCIDR": "10.1.0.0/24", "taints": [{ "key": "k", "effect": "NoSchedule" }] },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }],
                "conditions": [
                    { "type": "NetworkUnavailable", "status": "False", "reason": "CiliumIsUp" },
                ],
            },
        })
    );
}

#[test]
fn an_operator_reads_of_nodes_and_agents_what_it_marks_them_by() {
    let operators = |labels: Option<&str>| Resource {
        labels: labels.map(str::to_owned),
        reader: Reader::Operator,
        ..pods()
    };
    let mut agent = pod();
    agent["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    agent["status"]["conditions"] = json!([
        { "type": "ContainersReady", "status": "True" },
        { "type": "Ready", "status": "True", "lastTransitionTime": 7 },
    ]);
    let metadata =
        json!({ "name": "web", "namespace": "shop", "uid": "1-2", "resourceVersion": "7" });
    let mut chosen = metadata.clone();
    chosen["labels"] = json!({ "app": "web" });
    chosen["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    assert_eq!(
        kept(&operators(Some("app=web")), agent.clone()),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": chosen,
            "spec": { "containers": [], "nodeName": "node-1" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    );
    assert_eq!(
        kept(&operators(None), agent),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "status": { "phase": "Running" },
        })
    );
    let taints = json!([{ "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z", "value": "v" }]);
    let node = json!({
        "metadata": { "name": "node-1", "uid": "1", "resourceVersion": "9", "labels": {} },
        "spec": { "taints": taints, "podCIDR": "10.1.0.0/24" },
        "status": { "conditions": [
            { "type": "Ready", "status": "True" },
            { "type": "NetworkUnavailable", "status": "True", "reason": "r", "message": "m" },
        ] },
    });
    let nodes = Resource { kind: "Node", ..operators(None) };
    let value = kept(&nodes, node);
    assert_eq!(value["spec"], json!({ "taints": taints }), "they are written as they were read");
    let network = json!({ "type": "NetworkUnavailable", "status": "True", "reason": "r" });
    assert_eq!(value["status"], json!({ "conditions": [network] }));
}

#[test]
fn an_operator_reads_what_nodes_ask_and_have_of_pools() {
    let of = |kind| Resource { kind, reader: Reader::Operator, ..pods() };
    let ipam = json!({
        "podCIDRs": ["10.9.0.0/24"],
        "pools": {
            "requested": [{ "pool": "blue", "needed": { "ipv4-addrs": 8 } }],
            "allocated": [{ "pool": "blue", "cidrs": ["10.1.0.0/28"] }],
        },
    });
    let mut node = json!({
        "metadata": { "name": "node-1", "uid": "1", "resourceVersion": "9" },
        "spec": { "ipam": ipam, "addresses": [] },
    });
    let value = kept(&of("CiliumNode"), node.clone());
    assert_eq!(value["spec"], json!({ "ipam": ipam }));
    node["spec"]["ipam"] = json!({ "podCIDRs": ["10.9.0.0/24"] });
    let value = kept(&of("CiliumNode"), node);
    assert_eq!(value["spec"], json!({ "ipam": { "podCIDRs": ["10.9.0.0/24"] } }));
    let spec = json!({ "ipv4": { "cidrs": ["10.1.0.0/16"], "maskSize": 28 } });
    let pool = json!({ "metadata": { "name": "blue", "uid": "2" }, "spec": spec });
    assert_eq!(kept(&of("CiliumPodIPPool"), pool)["spec"], spec);
}

#[test]
fn of_an_identity_its_labels_are_kept_and_whether_it_is_about_to_go() {
    let identity = json!({
        "metadata": {
            "name": "300", "uid": "1", "resourceVersion": "9", "labels": { "app": "web" },
            "annotations": { "io.cilium.heartbeat": "then", "other": "x" },
        },
        "security-labels": { "k8s:app": "web" },
    });
    let all = volvox_actors::cluster::resources::further("node-1").into_iter();
    let mut forms = all.flat_map(|(_, forms)| forms);
    let identities = forms.find(|form| form.kind == "CiliumIdentity").unwrap();
    assert_eq!(
        kept(&identities, identity),
        json!({
            "apiVersion": "cilium.io/v2", "kind": "CiliumIdentity",
            "metadata": { "name": "300", "annotations": { "io.cilium.heartbeat": "then" } },
            "security-labels": { "k8s:app": "web" },
        })
    );
}

#[test]
fn of_services_only_what_is_served_is_kept() {
    let all: Vec<Resource> = volvox_actors::cluster::resources::resources("node-1")
        .into_iter()
        .chain(volvox_actors::cluster::resources::further("node-1"))
        .flat_map(|(_, forms)| forms)
        .collect();
    let metadata = json!({
        "name": "db", "namespace": "shop", "labels": { "tier": "data" },
        "resourceVersion": "9",
    });
    let service = json!({
        "spec": {
            "selector": { "app": "db" }, "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"],
            "ports": [{ "port": 80, "targetPort": 8080 }],
        },
        "status": { "loadBalancer": {}, "conditions": [] },
    });
    let slice = json!({
        "addressType": "IPv4", "ports": [{ "port": 80, "appProtocol": "x" }],
        "endpoints": [{
            "addresses": ["10.0.0.1"], "conditions": { "ready": true }, "nodeName": "node-1",
            "targetRef": {},
        }],
    });
    let endpoints = json!({ "subsets": [{
        "addresses": [{ "ip": "10.0.0.1", "nodeName": "node-1", "targetRef": {} }],
        "ports": [{ "port": 80 }],
        "notReadyAddresses": [{ "ip": "10.0.0.2" }],
    }] });
    let backend = json!({ "service": { "name": "db", "port": { "number": 80 } } });
    let ingress = json!({
        "spec": {
            "defaultBackend": backend, "tls": [],
            "rules": [{ "host": "a", "http": { "paths": [{ "path": "/" }] } }, { "host": "b" }],
        },
        "status": { "loadBalancer": {} },
    });
    for (kind, mut whole, retained) in [
        (
            "Ingress",
            ingress,
            json!({ "spec": { "defaultBackend": backend, "tls": [], "rules": [{}] } }),
        ),
        (
            "Service",
            service,
            json!({
                "spec": {
                    "selector": { "app": "db" }, "clusterIP": "10.96.0.1",
                    "ports": [{ "port": 80 }],
                },
                "status": { "loadBalancer": {} },
            }),
        ),
        (
            "EndpointSlice",
            slice,
            json!({
                "addressType": "IPv4", "ports": [{ "port": 80 }],
                "endpoints": [{
                    "addresses": ["10.0.0.1"], "conditions": { "ready": true },
                    "nodeName": "node-1",
                }],
            }),
        ),
        (
            "Endpoints",
            endpoints,
            json!({ "subsets": [{
                "addresses": [{ "ip": "10.0.0.1", "nodeName": "node-1" }],
                "ports": [{ "port": 80 }],
            }] }),
        ),
    ] {
        let form = all.iter().find(|form| form.kind == kind).unwrap();
        whole["metadata"] = metadata.clone();
        let mut expected = retained;
        expected["metadata"] =
            json!({ "name": "db", "namespace": "shop", "labels": { "tier": "data" } });
        expected["kind"] = json!(kind);
        expected["apiVersion"] = json!(form.api_version);
        assert_eq!(kept(form, whole), expected);
    }
}

#[test]
fn events_come_in_pieces_of_any_size() {
    let lines = [
        json!({ "type": "ADDED", "object": pod() }),
        json!({ "type": "DELETED", "object": pod() }),
        json!({ "type": "BOOKMARK", "object": { "metadata": { "resourceVersion": "9" } } }),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let key = object(&pods(), pod()).unwrap().key;
    for size in [1, 7, 100, text.len()] {
        let mut taken = Lines::default();
        let pieces = text.as_bytes().chunks(size);
        let changes: Vec<ObjectChange> =
            pieces.flat_map(|piece| taken.take(&pods(), piece).unwrap()).collect();
        let applied = matches!(&changes[0], ObjectChange::Applied(object) if object.key == key);
        assert!(applied, "{changes:?}");
        assert!(changes.contains(&ObjectChange::Deleted(key.clone())), "{changes:?}");
        assert_eq!(changes.last(), Some(&ObjectChange::Reached("9".to_owned())));
    }
}

#[test]
fn what_a_server_says_instead_of_events_is_an_error() {
    let take = |line: Value| Lines::default().take(&pods(), format!("{line}\n").as_bytes());
    let status = |code| json!({ "type": "ERROR", "object": { "code": code, "message": "no" } });
    assert_eq!(take(status(410)), Err(ClusterError::Expired("no".to_owned())));
    assert_eq!(take(status(500)), Err(ClusterError::Failed("no".to_owned())));
    assert!(matches!(take(json!("rubbish")), Err(ClusterError::Failed(_))));
}

#[test]
fn a_way_that_is_not_usable_says_what_is_wrong_with_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refusal = |access: Access| {
        let client = runtime.block_on(access.client(0));
        client.err().expect("it is not usable").to_string()
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let access = Access { kubeconfig: Some(path.clone()), ..Access::default() };
    let missing = refusal(access.clone());
    assert!(missing.contains("kubeconfig") && missing.contains("No such file"), "{missing}");
    std::fs::write(&path, "clusters: 3").unwrap();
    refusal(access);
}
