//! What a real API server says of Kubernetes' own objects is read into their types, one of each kind with all
//! that a server adds: quantities, times, defaults, who changed it. Nothing of it is misread.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_actors::{
    cluster::resources::{definitions, further, resources},
    model::ApiObject,
    ports::{Definition, ObjectKey, Reader, Resource},
};
use volvox_cluster::{Access, Connection};
use volvox_testbed::lab::{self, ApiServer, Binaries, Etcd, NODE_NAME, Node, objects};

use crate::services::discovery;

/// Objects as people write them, each with where it is made.
fn written() -> Vec<(&'static str, Value)> {
    let workload = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "full", "namespace": "shop", "labels": { "app": "full" },
            "annotations": { "ipam.cilium.io/ip-pool": "blue", "other": "x" },
        },
        "spec": {
            "nodeName": NODE_NAME, "serviceAccountName": "default", "priority": 0,
            "initContainers": [{ "name": "first", "image": "lab", "restartPolicy": "Always" }],
            "containers": [{
                "name": "main", "image": "lab", "env": [{ "name": "A", "value": "1" }],
                "ports": [
                    { "name": "http", "containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.2" },
                    { "name": "dns", "containerPort": 53, "protocol": "UDP" },
                ],
                "resources": { "limits": { "cpu": 1, "memory": "64Mi" } },
                "livenessProbe": { "httpGet": { "path": "/", "port": "http" } },
            }],
            "volumes": [{ "name": "tmp", "emptyDir": { "sizeLimit": "1Gi" } }],
            "tolerations": [{ "operator": "Exists" }],
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "namespace": "shop", "annotations": { "service.cilium.io/global": "true" },
        },
        "spec": {
            "type": "NodePort", "selector": { "app": "web" }, "sessionAffinity": "ClientIP",
            "externalIPs": ["192.0.2.50"],
            "ports": [
                { "name": "a", "port": 80, "targetPort": "http" },
                { "name": "b", "port": 81, "targetPort": 8081, "protocol": "UDP" },
            ],
        },
    });
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "full", "namespace": "shop" },
        "spec": {
            "podSelector": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] },
            "ingress": [{
                "from": [
                    { "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } },
                    { "namespaceSelector": {}, "podSelector": { "matchLabels": { "b": "c" } } },
                ],
                "ports": [{ "port": "http" }, { "port": 8000, "endPort": 9000, "protocol": "UDP" }],
            }],
        },
    });
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "defaultBackend": { "service": { "name": "web", "port": { "name": "a" } } } },
    });
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "lock", "namespace": "shop", "annotations": { "volvox.io/prefixes": "{}" },
        },
        "spec": {
            "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 2,
            "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.700000Z",
        },
    });
    vec![
        ("/api/v1/namespaces/shop/pods", workload),
        ("/api/v1/namespaces/shop/services", service),
        ("/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies", policy),
        ("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", ingress),
        ("/apis/coordination.k8s.io/v1/namespaces/shop/leases", lease),
        (
            "/api/v1/namespaces/shop/endpoints",
            json!({
                "apiVersion": "v1", "kind": "Endpoints",
                "metadata": { "name": "old", "namespace": "shop" },
                "subsets": [{
                    "addresses": [{ "ip": "10.0.0.3", "nodeName": NODE_NAME }],
                    "ports": [{ "name": "a", "port": 80 }],
                }],
            }),
        ),
    ]
}

/// What older servers do not have, of what is looked at.
const NEWER: [&str; 8] = [
    "/endpoints/0/conditions/terminating",
    "/endpoints/0/hints/forZones/0/name",
    "/endpoints/0/nodeName",
    "/metadata/labels/kubernetes.io~1metadata.name",
    "/spec/clusterIPs/0",
    "/spec/ingress/0/ports/1/endPort",
    "/spec/initContainers/0/restartPolicy",
    "/spec/internalTrafficPolicy",
];

/// An EndpointSlice in a version that the server has: an older one says elsewhere where an endpoint is.
fn slice(version: &str) -> Value {
    let mut slice = json!({
        "apiVersion": version, "kind": "EndpointSlice",
        "metadata": {
            "name": "web-1", "namespace": "shop", "labels": { "kubernetes.io/service-name": "web" },
        },
        "addressType": "IPv4", "ports": [{ "name": "a", "port": 8080 }],
        "endpoints": [
            {
                "addresses": ["10.0.0.1"], "conditions": { "ready": false },
                "targetRef": { "kind": "Pod", "name": "full", "namespace": "shop" },
            },
            { "addresses": ["10.0.0.2"], "conditions": {} },
        ],
    });
    let endpoint = &mut slice["endpoints"][0];
    if version == "discovery.k8s.io/v1" {
        endpoint["nodeName"] = NODE_NAME.into();
        endpoint["zone"] = "z".into();
        endpoint["conditions"]["terminating"] = true.into();
        endpoint["hints"] = json!({ "forZones": [{ "name": "z" }] });
    } else {
        endpoint["topology"] = json!({ "kubernetes.io/hostname": NODE_NAME });
    }
    slice
}

/// Kinds, each with the object that is looked at and with what of it somebody reads.
const READ: [(&str, &str, &[&str]); 9] = [
    (
        "Pod",
        "full",
        &[
            "/metadata/uid",
            "/metadata/labels/app",
            "/metadata/annotations/ipam.cilium.io~1ip-pool",
            "/spec/serviceAccountName",
            "/spec/nodeName",
            "/spec/initContainers/0/restartPolicy",
            "/spec/containers/0/ports/0/hostPort",
            "/spec/containers/0/ports/0/hostIP",
            "/spec/containers/0/ports/0/protocol",
            "/spec/containers/0/ports/1/containerPort",
            "/status/phase",
        ],
    ),
    ("Namespace", "shop", &["/metadata/labels/kubernetes.io~1metadata.name"]),
    (
        "Node",
        NODE_NAME,
        &["/metadata/uid", "/spec/podCIDRs/0", "/spec/taints/0/key", "/spec/taints/0/effect"],
    ),
    (
        "Service",
        "web",
        &[
            "/metadata/annotations/service.cilium.io~1global",
            "/spec/clusterIPs/0",
            "/spec/externalIPs/0",
            "/spec/externalTrafficPolicy",
            "/spec/internalTrafficPolicy",
            "/spec/ports/0/nodePort",
            "/spec/ports/1/protocol",
            "/spec/selector/app",
            "/spec/sessionAffinity",
            "/spec/sessionAffinityConfig/clientIP/timeoutSeconds",
            "/spec/type",
        ],
    ),
    (
        "EndpointSlice",
        "web-1",
        &[
            "/addressType",
            "/endpoints/0/addresses/0",
            "/endpoints/0/conditions/ready",
            "/endpoints/1/addresses/0",
            "/metadata/labels/kubernetes.io~1service-name",
            "/ports/0/port",
            "/ports/0/protocol",
        ],
    ),
    (
        "NetworkPolicy",
        "full",
        &[
            "/spec/podSelector/matchExpressions/0/key",
            "/spec/policyTypes/0",
            "/spec/ingress/0/from/0/ipBlock/except/0",
            "/spec/ingress/0/from/1/namespaceSelector",
            "/spec/ingress/0/from/1/podSelector/matchLabels/b",
            "/spec/ingress/0/ports/0/port",
            "/spec/ingress/0/ports/0/protocol",
            "/spec/ingress/0/ports/1/endPort",
        ],
    ),
    ("Ingress", "web", &["/spec/defaultBackend/service/port/name"]),
    (
        "Lease",
        "lock",
        &[
            "/metadata/resourceVersion",
            "/metadata/annotations/volvox.io~1prefixes",
            "/spec/holderIdentity",
            "/spec/leaseDurationSeconds",
            "/spec/leaseTransitions",
            "/spec/acquireTime",
            "/spec/renewTime",
        ],
    ),
    ("Endpoints", "old", &["/subsets/0/addresses/0/nodeName", "/subsets/0/ports/0/port"]),
];

/// Whether all that a typed object says is what the server said; an empty list or text stands for what a type has
/// to have.
fn says_nothing_else(typed: &Value, said: Option<&Value>) -> bool {
    match (typed, said) {
        (Value::Array(typed), None) => typed.is_empty(),
        (Value::String(typed), None) => typed.is_empty(),
        (Value::Object(typed), Some(Value::Object(said))) => {
            typed.iter().all(|(name, it)| says_nothing_else(it, said.get(name)))
        }
        // Of conditions one is kept.
        (Value::Array(typed), Some(Value::Array(said))) => {
            typed.iter().all(|it| said.iter().any(|said| says_nothing_else(it, Some(said))))
        }
        (typed, said) => Some(typed) == said,
    }
}

/// The resource of that kind, in the only version that is served, if there are several.
fn resource(kind: &str, served: &str) -> Result<Resource> {
    let lease = Resource {
        name: "leases",
        path: "/apis/coordination.k8s.io/v1/leases",
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        reader: Reader::Operator,
        ..definitions()
    };
    let all = resources(NODE_NAME).into_iter().chain(further(NODE_NAME));
    let mut all = all.flat_map(|(_, forms)| forms).chain([lease]);
    let is_it =
        |it: &Resource| it.kind == kind && (kind != "EndpointSlice" || it.api_version == served);
    all.find(is_it).with_context(|| format!("nobody follows {kind}"))
}

/// The object of that name among those that the server lists.
async fn listed(connection: &Connection, resource: &Resource, name: &str) -> Result<ApiObject> {
    let (mut next, mut found) = (None, None);
    loop {
        let page = connection.list(resource, next.as_deref()).await?;
        for object in page.objects {
            if let ApiObject::Malformed(error) = &object.value {
                anyhow::bail!("what a server says is malformed: {error}");
            }
            ensure!(object.value.metadata().is_some(), "{} is not typed", object.key);
            if object.key.name == name {
                found = Some(object.value);
            }
        }
        next = page.next;
        if next.is_none() {
            return found.with_context(|| format!("{} {name} is not listed", resource.kind));
        }
    }
}

#[test]
fn what_a_server_says_is_read_as_it_is_meant() {
    lab::test("typed::what_a_server_says_is_read_as_it_is_meant", || {
        let Some(program) = ApiServer::find() else { return Ok(()) };
        let node = Node::new(Binaries::find()?)?;
        let etcd = Etcd::start(&node.path("etcd"))?;
        let server = ApiServer::start(program, &node.path("api"), &etcd)?;
        let client = server.client();
        objects::namespace(client)?;
        objects::node(client, NODE_NAME)?;
        let taint =
            json!({ "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z" });
        let path = format!("/api/v1/nodes/{NODE_NAME}");
        client.patch(&path, &json!({ "spec": { "taints": [taint] } }))?;
        for (place, object) in written() {
            client.create(place, &object)?;
        }
        let (served, slices) = discovery(client)?;
        client.create(&slices, &slice(&served))?;
        objects::define(client, "cars", "Car", "Namespaced")?;
        let access = Access { kubeconfig: Some(server.kubeconfig()), ..Access::default() };
        let connection = Connection::new(access);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for (kind, name, paths) in READ {
            let resource = resource(kind, &served)?;
            let typed = runtime.block_on(listed(&connection, &resource, name))?;
            let namespace = typed.name().context("it has no name")?.0.to_owned();
            let key = ObjectKey { namespace, name: name.to_owned() };
            let mut said = client.get(&format!("{}/{name}", resource.path_in(&key.namespace)))?;
            let mut paths = paths.to_vec();
            if kind == "EndpointSlice" {
                let endpoint = said["endpoints"][0].as_object_mut().context("no endpoint")?;
                if let Some(topology) = endpoint.remove("topology") {
                    endpoint.insert("deprecatedTopology".to_owned(), topology);
                    said["apiVersion"] = "discovery.k8s.io/v1".into();
                    paths.push("/endpoints/0/deprecatedTopology/kubernetes.io~1hostname");
                } else {
                    paths.extend([
                        "/endpoints/0/conditions/terminating",
                        "/endpoints/0/hints/forZones/0/name",
                        "/endpoints/0/nodeName",
                    ]);
                }
            }
            let json = typed.to_json();
            ensure!(says_nothing_else(&json, Some(&said)), "{kind}: {json}\nis not in {said}");
            for path in paths {
                let (typed, said) = (json.pointer(path), said.pointer(path));
                let is_there = said.is_some() || NEWER.contains(&path);
                ensure!(is_there && typed == said, "{kind} {path}: {typed:?}, not {said:?}");
            }
            // The same one by one.
            let one = runtime.block_on(connection.one(&resource, &key))?;
            ensure!(one.value == typed, "{kind}: {one:?}\nis not {typed:?}");
        }
        let definition = definitions();
        let all = client.get(definition.path)?;
        let one = all["items"][0]["metadata"]["name"].as_str().context("nothing is defined")?;
        let key = ObjectKey { namespace: String::new(), name: one.to_owned() };
        let read = runtime.block_on(connection.one(&definition, &key))?;
        let read = Definition::of(&read.value).map_err(anyhow::Error::msg)?;
        ensure!(read.has_schema && !read.resource_version.is_empty(), "{read:?}");
        ensure!(!read.managers.is_empty(), "{read:?}");
        Ok(())
    });
}
