//! The objects of a test: namespaces, pods, services, and the lease that says that a run is alive.

use serde_json::{Value, json};

/// Who made a namespace, as its label says.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// We did.
pub(crate) const MANAGER: &str = "volvox-connectivity";
/// The label by which policies and services choose pods.
pub(crate) const ROLE: &str = "volvox.io/role";
/// The label by which policies choose namespaces.
pub(crate) const PART: &str = "volvox.io/part";
/// The container of each pod.
pub(crate) const CONTAINER: &str = "probe";
/// The lease that a run holds.
pub(crate) const LEASE: &str = "volvox-connectivity";

/// Where pods serve TCP and UDP.
pub(crate) const PORT: u16 = 8080;
/// Where they serve HTTP, and are asked by the kubelet.
pub(crate) const HTTP: u16 = 8081;
/// Where they serve TCP, too.
pub(crate) const SECOND: u16 = 8082;
/// Where pods in the network of their node serve TCP and UDP.
pub(crate) const NODE: u16 = 34_080;
/// Where they serve HTTP.
pub(crate) const NODE_HTTP: u16 = 34_081;
/// Where a node leads to a pod.
pub(crate) const HOST_PORT: u16 = 34_090;
/// An address of nobody (RFC 5737), by which a service is reached.
pub(crate) const EXTERNAL_IP: &str = "203.0.113.77";

/// Who runs in pods: nobody.
const USER: u32 = 65_532;

/// A pod that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is, for policies and services.
    pub(crate) role: &'static str,
    /// Its node.
    pub(crate) node: String,
    /// Whether it is in the other namespace.
    pub(crate) other: bool,
}

impl Wanted {
    /// Whether it is in the network of its node.
    pub(crate) fn is_host(&self) -> bool {
        self.role == "host"
    }
}

/// The pods for one or two nodes. On a single node all are there, and one is in its network.
pub(crate) fn pods(nodes: &[String]) -> Vec<Wanted> {
    let Some(first) = nodes.first() else { return Vec::new() };
    let second = nodes.get(1);
    let on = |name, role, node: &String| Wanted { name, role, node: node.clone(), other: false };
    let far = second.unwrap_or(first);
    let mut all = vec![
        on("client-a", "client", first),
        on("client-b", "client", far),
        on("server-a", "server", first),
        on("server-b", "server", far),
        on("denied-a", "denied", first),
        on("host-a", "host", first),
        on("host-port", "host-port", first),
        Wanted { other: true, ..on("other-a", "client", first) },
    ];
    all.extend(second.map(|node| on("host-b", "host", node)));
    all
}

/// The name of the other namespace.
pub(crate) fn other(namespace: &str) -> String {
    format!("{namespace}-other")
}

/// A namespace.
pub(crate) fn namespace(name: &str, part: &str, holder: &str) -> Value {
    // Pods in the network of their node, and ports of nodes, are for privileged namespaces alone.
    let level = if part == "main" { "privileged" } else { "restricted" };
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                MANAGED_BY: MANAGER, PART: part, "pod-security.kubernetes.io/enforce": level,
            },
            "annotations": { "volvox.io/run-by": holder },
        },
    })
}

/// The lease that says that a run is alive.
pub(crate) fn lease(namespace: &str, holder: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": LEASE, "namespace": namespace },
        "spec": { "holderIdentity": holder, "leaseTransitions": 0 },
    })
}

/// A pod.
pub(crate) fn pod(wanted: &Wanted, namespace: &str, image: &str) -> Value {
    let name = wanted.name;
    let (port, http) = if wanted.is_host() { (NODE, NODE_HTTP) } else { (PORT, HTTP) };
    let mut command = vec![
        "volvox".to_owned(),
        "probe".into(),
        "serve".into(),
        format!("--name={name}"),
        "--listen=$(ADDRESSES)".into(),
        format!("--tcp={port}"),
        format!("--udp={port}"),
        format!("--http={http}"),
    ];
    let mut security = json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    if !wanted.is_host() {
        command.push(format!("--tcp={SECOND}"));
        // One of the settings that Kubernetes lets every pod have.
        security["sysctls"] =
            json!([{ "name": "net.ipv4.ping_group_range", "value": format!("{USER} {USER}") }]);
    }
    let ports = match wanted.role {
        "host-port" => json!([{ "containerPort": PORT, "hostPort": HOST_PORT }]),
        "host" => json!([{ "containerPort": port, "hostPort": port }]),
        _ => json!([{ "containerPort": port }]),
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": { ROLE: wanted.role, MANAGED_BY: MANAGER, "volvox.io/pod": name },
        },
        "spec": {
            "hostNetwork": wanted.is_host(),
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": security,
            // The scheduler is asked, as for any pod: it says if there is no room.
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchFields": [
                    { "key": "metadata.name", "operator": "In", "values": [wanted.node] },
                ] }],
            } } },
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": CONTAINER,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": command,
                "env": [{
                    "name": "ADDRESSES",
                    "valueFrom": { "fieldRef": { "fieldPath": "status.podIPs" } },
                }],
                "ports": ports,
                "readinessProbe": {
                    "httpGet": { "path": "/", "port": http },
                    "periodSeconds": 1, "failureThreshold": 2,
                },
                "resources": {
                    "requests": { "cpu": "10m", "memory": "16Mi" },
                    "limits": { "memory": "128Mi" },
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                },
            }],
        },
    })
}

/// The services that every run makes; a balancer only where somebody gives it an address.
pub(crate) fn services(balancer: bool, dual: bool) -> Vec<Value> {
    let service = |name: &str, spec: Value| {
        let mut all = json!({
            "selector": { ROLE: "server" },
            "ports": [
                { "name": "tcp", "port": PORT, "protocol": "TCP" },
                { "name": "udp", "port": PORT, "protocol": "UDP" },
                { "name": "http", "port": HTTP, "protocol": "TCP" },
            ],
        });
        if dual {
            all["ipFamilyPolicy"] = "PreferDualStack".into();
        }
        for (key, value) in spec.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "labels": { MANAGED_BY: MANAGER } },
            "spec": all,
        })
    };
    let mut all = vec![
        service("echo", json!({})),
        service("echo-headless", json!({ "clusterIP": "None" })),
        service("echo-node-port", json!({ "type": "NodePort" })),
        service("echo-local", json!({ "type": "NodePort", "externalTrafficPolicy": "Local" })),
        service("echo-affinity", json!({ "sessionAffinity": "ClientIP" })),
        service("echo-self", json!({ "selector": { "volvox.io/pod": "server-a" } })),
        service("echo-external-ip", json!({ "externalIPs": [EXTERNAL_IP] })),
    ];
    if balancer {
        all.push(service("echo-load-balancer", json!({ "type": "LoadBalancer" })));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_no_rights() {
        let nodes = ["a".to_owned(), "b".to_owned()];
        for wanted in pods(&nodes) {
            let pod = pod(&wanted, "test", "volvox-agent:1");
            let spec = &pod["spec"];
            let container = &spec["containers"][0];
            assert_eq!(container["securityContext"]["capabilities"], json!({ "drop": ["ALL"] }));
            assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
            assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
            assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            assert_eq!(spec["automountServiceAccountToken"], false);
            // A pod in its node's network has no settings of the network.
            assert_eq!(spec["securityContext"]["sysctls"].is_null(), wanted.is_host());
            assert_eq!(spec["hostNetwork"], wanted.is_host());
        }
    }

    #[test]
    fn a_single_node_has_all_pods_but_one() {
        let names = |nodes: &[&str]| {
            let nodes: Vec<_> = nodes.iter().map(|it| (*it).to_owned()).collect();
            pods(&nodes).into_iter().map(|it| (it.name, it.node)).collect::<Vec<_>>()
        };
        let (two, one) = (names(&["a", "b"]), names(&["a"]));
        assert_eq!((two.len(), one.len()), (9, 8));
        assert!(one.iter().all(|(_, node)| node == "a"));
        let far: Vec<_> =
            two.iter().filter(|(_, node)| node == "b").map(|(name, _)| *name).collect();
        assert_eq!(far, ["client-b", "server-b", "host-b"]);
        assert_eq!(names(&[]), []);
    }
}
