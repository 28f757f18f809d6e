//! Tests: of each kind of Kubernetes, an object with a field of another form is named with the field and the
//! remedy, and spoils no other one of its list or watch; what nobody reads may have any form.

use serde_json::{Value, json};
use volvox_actors::{
    cluster::resources::{definitions, further, resources},
    model::ApiObject,
    ports::{Object, ObjectChange, Reader, Resource},
};

use crate::{events::Lines, fetch::page};

/// The resource of that kind and version.
fn resource(kind: &str, version: &str) -> Resource {
    let lease = Resource {
        name: "leases",
        path: "/apis/coordination.k8s.io/v1/leases",
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        reader: Reader::Operator,
        ..definitions()
    };
    let all = resources("node-1").into_iter().chain(further("node-1"));
    let mut all = all.flat_map(|(_, forms)| forms).chain([lease, definitions()]);
    all.find(|it| it.kind == kind && it.api_version == version).unwrap()
}

/// An object of each kind and version, in the form that a server gives it.
fn good() -> Vec<(&'static str, &'static str, Value)> {
    let selector = json!({
        "matchLabels": { "app": "web" },
        "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["front"] }],
    });
    let slice = json!({
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.0.0.1"], "conditions": { "ready": true, "serving": null },
            "nodeName": "node-1", "hints": { "forZones": [{ "name": "a" }] },
        }],
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    let mut older_slice = slice.clone();
    older_slice["endpoints"][0]["topology"] = json!({ "kubernetes.io/hostname": "node-1" });
    vec![
        (
            "Pod",
            "v1",
            json!({
                "spec": {
                    "containers": [{
                        "name": "main",
                        "ports": [{ "name": "http", "containerPort": 80, "hostPort": 80 }],
                    }],
                    "serviceAccountName": "cashier",
                },
                "status": { "phase": "Running", "podIPs": [{ "ip": "10.0.0.1" }] },
            }),
        ),
        ("Namespace", "v1", json!({})),
        (
            "Node",
            "v1",
            json!({
                "spec": {
                    "podCIDRs": ["10.1.0.0/24"],
                    "taints": [{ "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" }],
                },
                "status": {
                    "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }],
                    "conditions": [{ "type": "NetworkUnavailable", "status": "False" }],
                },
            }),
        ),
        (
            "Service",
            "v1",
            json!({
                "spec": {
                    "type": "LoadBalancer", "clusterIPs": ["10.96.0.1"], "selector": { "app": "web" },
                    "ports": [{ "port": 80, "nodePort": 30080, "targetPort": "http" }],
                    "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } },
                },
                "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } },
            }),
        ),
        ("EndpointSlice", "discovery.k8s.io/v1", slice),
        ("EndpointSlice", "discovery.k8s.io/v1beta1", older_slice),
        (
            "Endpoints",
            "v1",
            json!({ "subsets": [{ "addresses": [{ "ip": "10.0.0.1" }], "ports": [{ "port": 80 }] }] }),
        ),
        (
            "Ingress",
            "networking.k8s.io/v1",
            json!({ "spec": {
                "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } },
            } }),
        ),
        (
            "Ingress",
            "networking.k8s.io/v1beta1",
            json!({ "spec": { "backend": { "serviceName": "web", "servicePort": 80 } } }),
        ),
        (
            "NetworkPolicy",
            "networking.k8s.io/v1",
            json!({ "spec": {
                "podSelector": selector, "policyTypes": ["Ingress"],
                "ingress": [{
                    "from": [{ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } }],
                    "ports": [{ "port": "http", "endPort": null }],
                }],
            } }),
        ),
        (
            "Lease",
            "coordination.k8s.io/v1",
            json!({ "spec": {
                "holderIdentity": "a", "leaseDurationSeconds": 15,
                "renewTime": "2026-01-02T03:04:05.000006Z",
            } }),
        ),
        (
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            json!({
                "spec": { "versions": [{ "name": "v1", "schema": { "openAPIV3Schema": {} } }] },
                "status": { "conditions": [{ "type": "Established", "status": "True" }] },
            }),
        ),
    ]
}

/// What is written instead at a path, and what is said of it.
type Case = (&'static str, Value, &'static str);

/// Of each kind, what may be wrong with it.
fn bad(kind: &str, version: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = match (kind, version) {
        ("Pod", _) => vec![
            (
                "/spec/containers",
                json!({}),
                "spec.containers: a mapping where a list is expected: write a list",
            ),
            (
                "/spec/containers/0/ports/0/containerPort",
                json!("80"),
                "spec.containers[0].ports[0].containerPort: \"80\" is text: remove the quotes: 80",
            ),
            (
                "/spec/containers/0/ports/0/hostPort",
                json!(1.5),
                "spec.containers[0].ports[0].hostPort: 1.5 is no whole number",
            ),
            (
                "/spec/serviceAccountName",
                json!(7),
                "spec.serviceAccountName: 7 is no text: put it in quotes",
            ),
            (
                "/status/podIPs/0",
                json!("10.0.0.1"),
                "status.podIPs[0]: text where a mapping is expected",
            ),
            ("/spec", json!([]), "spec: a list where a mapping is expected: write a mapping"),
        ],
        ("Node", _) => vec![
            (
                "/spec/podCIDRs",
                json!("10.1.0.0/24"),
                "spec.podCIDRs: text where a list is expected",
            ),
            ("/spec/taints/0/effect", json!(true), "spec.taints[0].effect: true is no text"),
            ("/spec/taints/0/timeAdded", json!("noon"), "spec.taints[0].timeAdded: "),
            (
                "/status/conditions/0/status",
                json!(false),
                "status.conditions[0].status: false is no text",
            ),
        ],
        ("Service", _) => vec![
            (
                "/spec/ports/0/port",
                json!("http"),
                "spec.ports[0].port: text where a whole number is expected",
            ),
            (
                "/spec/ports/0/nodePort",
                json!(30_000_000_000_u64),
                "spec.ports[0].nodePort: 30000000000 is no whole number of 32 bits",
            ),
            ("/spec/clusterIPs/0", json!(10), "spec.clusterIPs[0]: 10 is no text"),
            (
                "/spec/selector/app",
                json!(["web"]),
                "spec.selector.app: a list where text is expected",
            ),
            (
                "/spec/sessionAffinityConfig/clientIP/timeoutSeconds",
                json!("60"),
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: \"60\" is text",
            ),
            (
                "/status/loadBalancer/ingress",
                json!({}),
                "status.loadBalancer.ingress: a mapping where a list is expected",
            ),
        ],
        ("EndpointSlice", _) => vec![
            ("/addressType", json!(4), "addressType: 4 is no text"),
            (
                "/endpoints/0/addresses",
                json!("10.0.0.1"),
                "endpoints[0].addresses: text where a list",
            ),
            (
                "/endpoints/0/conditions/ready",
                json!("yes"),
                "endpoints[0].conditions.ready: text where true or false is expected",
            ),
            (
                "/endpoints/0/hints/forZones/0",
                json!("a"),
                "endpoints[0].hints.forZones[0]: text where",
            ),
            ("/ports/0/port", json!("8080"), "ports[0].port: \"8080\" is text: remove the quotes"),
        ],
        ("Endpoints", _) => vec![
            ("/subsets/0/addresses/0/ip", json!(7), "subsets[0].addresses[0].ip: 7 is no text"),
            ("/subsets", json!("x"), "subsets: text where a list is expected"),
        ],
        ("Ingress", "networking.k8s.io/v1") => vec![
            (
                "/spec/defaultBackend/service/port/number",
                json!(true),
                "spec.defaultBackend.service.port.number: true or false where a whole number",
            ),
            (
                "/spec/defaultBackend/service/name",
                json!(1),
                "spec.defaultBackend.service.name: 1 is no",
            ),
        ],
        ("Ingress", _) => vec![
            ("/spec/backend/servicePort", json!(1.5), "spec.backend.servicePort: 1.5 is no port"),
            (
                "/spec/backend/servicePort",
                json!(65_536),
                "spec.backend.servicePort: 65536 is no port",
            ),
            ("/spec/backend/serviceName", json!({}), "spec.backend.serviceName: it is no text"),
        ],
        ("NetworkPolicy", _) => vec![
            (
                "/spec/podSelector",
                json!(7),
                "spec.podSelector: a number where a mapping is expected",
            ),
            (
                "/spec/podSelector/matchLabels/app",
                json!(1),
                "spec.podSelector.matchLabels.app: 1 is no text",
            ),
            (
                "/spec/podSelector/matchExpressions/0/values",
                json!("front"),
                "spec.podSelector.matchExpressions[0].values: text where a list is expected",
            ),
            (
                "/spec/ingress/0/ports/0/port",
                json!(true),
                "spec.ingress[0].ports[0].port: true or false where a number or text is expected",
            ),
            (
                "/spec/ingress/0/from/0/ipBlock/except/0",
                json!(null),
                "spec.ingress[0].from[0].ipBlock.except[0]: nothing where text is expected",
            ),
            (
                "/spec/ingress/0/from/0/podSelektor",
                json!({}),
                "spec.ingress[0].from[0].podSelektor: unknown field \"podSelektor\": remove it or correct",
            ),
            ("/spec/egres", json!([]), "spec.egres: unknown field \"egres\""),
            ("/rules", json!([]), "rules: unknown field \"rules\""),
        ],
        ("Lease", _) => vec![
            (
                "/spec/leaseDurationSeconds",
                json!("15"),
                "spec.leaseDurationSeconds: \"15\" is text: remove the quotes: 15",
            ),
            ("/spec/renewTime", json!("noon"), "spec.renewTime: "),
            ("/spec/holderIdentity", json!(3), "spec.holderIdentity: 3 is no text"),
        ],
        ("CustomResourceDefinition", _) => vec![
            ("/spec/versions", json!({}), "spec.versions: a mapping where a list is expected"),
            ("/status/conditions/0/type", json!(1), "status.conditions[0].type: 1 is no text"),
        ],
        _ => Vec::new(),
    };
    if !["CustomResourceDefinition", "Lease"].contains(&kind) {
        cases.push((
            "/metadata/labels",
            json!([]),
            "metadata.labels: a list where a mapping is expected",
        ));
        cases.push(("/metadata/uid", json!({}), "metadata.uid: a mapping where text is expected"));
    }
    cases
}

fn named(name: &str, mut object: Value) -> Value {
    object["metadata"] = json!({
        "name": name, "namespace": "shop", "uid": "1-2", "resourceVersion": "7",
        "labels": { "app": "web", "kubernetes.io/service-name": "web" },
        "creationTimestamp": "2026-01-02T03:04:05Z",
    });
    object
}

/// Writes that at a path.
fn put(object: &mut Value, path: &str, value: Value) {
    let (parent, name) = path.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).unwrap() {
        Value::Array(all) => all[name.parse::<usize>().unwrap()] = value,
        other => other[name] = value,
    }
}

/// The objects of a page, and those of a watch that says the same.
fn read(resource: &Resource, objects: &[&Value]) -> [Vec<Object>; 2] {
    let list = json!({ "metadata": { "resourceVersion": "9" }, "items": objects });
    let listed = page(resource, list.to_string().as_bytes()).unwrap().objects;
    let events = objects.iter().map(|it| {
        let mut object = (*it).clone();
        object["kind"] = resource.kind.into();
        object["apiVersion"] = resource.api_version.into();
        format!("{}\n", json!({ "type": "ADDED", "object": object }))
    });
    let changes = Lines::default().take(resource, events.collect::<String>().as_bytes()).unwrap();
    let applied = |change| match change {
        ObjectChange::Applied(object) => Some(object),
        _ => None,
    };
    [listed, changes.into_iter().filter_map(applied).collect()]
}

#[test]
fn one_that_is_malformed_is_named_and_the_next_one_is_used() {
    let mut tried = 0;
    for (kind, version, object) in good() {
        let resource = resource(kind, version);
        let fine = named("fine", object.clone());
        for (path, value, said) in bad(kind, version) {
            let mut wrong = named("wrong", object.clone());
            put(&mut wrong, path, value);
            for objects in read(&resource, &[&wrong, &fine]) {
                let [first, second] = objects.as_slice() else {
                    panic!("{kind} {path}: {objects:?}")
                };
                assert_eq!(first.key.to_string(), "shop/wrong");
                let ApiObject::Malformed(error) = &first.value else {
                    panic!("{kind} {path} passes")
                };
                let error = error.to_string();
                assert!(
                    error.starts_with(&format!("{kind} shop/wrong: {said}")),
                    "{error}\nnot {said}"
                );
                assert!(!error.contains(" at line "), "{error}");
                let json = second.value.to_json();
                assert_eq!((&second.key.name, &json["kind"]), (&"fine".to_owned(), &kind.into()));
                assert!(second.value.metadata().is_some(), "{kind} is not typed: {second:?}");
            }
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn of_a_field_that_is_said_twice_the_last_counts() {
    for (kind, version, object) in good() {
        let (resource, fine) = (resource(kind, version), named("fine", object));
        let (text, once) = (fine.to_string(), crate::trim::object(&resource, &fine.to_string()));
        let members = fine.as_object().unwrap().keys();
        for member in members.filter(|it| !["apiVersion", "kind"].contains(&it.as_str())) {
            for wrong in ["7", "\"text\"", "[]", "null"] {
                let twice = format!("{{\"{member}\":{wrong},{}", &text[1..]);
                let read = crate::trim::object(&resource, &twice).unwrap().unwrap();
                assert_eq!(Some(&read), once.as_ref().unwrap().as_ref(), "{kind} {member} {wrong}");
            }
        }
    }
}

#[test]
fn what_nobody_reads_may_have_any_form() {
    for (kind, version, object) in good() {
        let resource = resource(kind, version);
        let fine = named("one", object);
        let [expected, _] = read(&resource, &[&fine]);
        let paths: &[&str] = match kind {
            "Pod" => &[
                "/spec/volumes",
                "/spec/newerThanThisAgent",
                "/spec/containers/0/resources",
                "/spec/containers/0/livenessProbe",
                "/status/conditions",
                "/status/qosClass",
            ],
            "Node" => &["/spec/configSource", "/status/images", "/status/capacity"],
            "Service" => &["/spec/externalName", "/spec/ports/0/targetPort", "/spec/ipFamilies"],
            "EndpointSlice" => {
                &["/endpoints/0/targetRef", "/endpoints/0/zone", "/ports/0/appProtocol"]
            }
            "Endpoints" => &["/subsets/0/notReadyAddresses", "/subsets/0/addresses/0/targetRef"],
            "Ingress" => &["/status"],
            "NetworkPolicy" => &["/status"],
            "CustomResourceDefinition" => &["/spec/names", "/spec/versions/0/served"],
            _ => &[],
        };
        let common =
            ["/metadata/managedFields", "/metadata/creationTimestamp", "/metadata/finalizers"];
        let common = common.iter().filter(|it| {
            // Who changed a definition is read.
            kind != "CustomResourceDefinition" || **it != "/metadata/managedFields"
        });
        for path in paths.iter().chain(common) {
            for odd in
                [json!(7), json!("x"), json!([[1]]), json!({ "limits": { "cpu": 1 } }), json!(null)]
            {
                let mut object = fine.clone();
                put(&mut object, path, odd.clone());
                for read in read(&resource, &[&object]) {
                    assert_eq!(read, expected, "{kind} {path} {odd}");
                }
            }
        }
    }
}

#[test]
fn null_is_what_is_not_there() {
    for (kind, version, object) in good() {
        let resource = resource(kind, version);
        for (path, ..) in bad(kind, version) {
            // A member of a list, or of a selector, is not left out by that.
            if path.rsplit('/').next().is_some_and(|name| name.parse::<usize>().is_ok())
                || ["app", "podSelektor", "egres", "rules"].iter().any(|it| path.ends_with(it))
            {
                continue;
            }
            let (mut null, mut without) =
                (named("one", object.clone()), named("one", object.clone()));
            put(&mut null, path, Value::Null);
            let (parent, name) = path.rsplit_once('/').unwrap();
            without.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            let ([null, _], [without, _]) =
                (read(&resource, &[&null]), read(&resource, &[&without]));
            let json = |it: &[Object]| (it[0].value.to_json(), it[0].value.metadata().is_some());
            let is_older = kind == "Ingress" && version != "networking.k8s.io/v1";
            assert!(
                is_older || json(&null) == json(&without),
                "{kind} {path}: {null:?} {without:?}"
            );
        }
    }
}

#[test]
fn an_object_that_is_nested_too_deep_spoils_no_list() {
    let resource = resource("CiliumNode", "cilium.io/v2");
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let list = format!(
        r#"{{"metadata":{{"resourceVersion":"9"}},"items":[
            {{"metadata":{{"name":"deep"}},"spec":{deep}}},{{"metadata":{{"name":"fine"}}}}]}}"#
    );
    let objects = page(&resource, list.as_bytes()).unwrap().objects;
    let names: Vec<_> = objects.iter().map(|it| it.key.name.as_str()).collect();
    assert_eq!(names, ["fine"]);
}
