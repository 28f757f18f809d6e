//! What there is to be tried: nodes, pods and services with their addresses, and what the cluster knows.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::Value;

use crate::{ConnectivityError, objects};

/// A node that takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Its addresses within the cluster.
    pub(crate) addresses: Vec<IpAddr>,
    /// Only pods that tolerate it run there.
    tainted: bool,
}

/// A pod of the test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pod {
    /// `namespace/name`.
    pub(crate) path: String,
    pub(crate) node: String,
    pub(crate) addresses: Vec<IpAddr>,
}

/// A service of the test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) addresses: Vec<IpAddr>,
    /// The port of each node, by the name of the port.
    pub(crate) node_ports: BTreeMap<String, u16>,
    /// Addresses that a balancer gave it.
    pub(crate) balancers: Vec<IpAddr>,
}

/// What the cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// CiliumNetworkPolicies.
    pub(crate) cilium_policies: bool,
    /// A pool of addresses for balancers.
    pub(crate) pools: bool,
    /// A DNS server of the cluster.
    pub(crate) dns: bool,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) namespace: String,
    /// One or two.
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) services: BTreeMap<String, Service>,
    /// Pods that the test can do without, and why they are not there.
    pub(crate) absent: BTreeMap<String, String>,
    /// Services that the server refused, with its words.
    pub(crate) refused: BTreeMap<String, String>,
    pub(crate) features: Features,
    /// The host and the port of somebody outside.
    pub(crate) external: Option<(String, u16)>,
    /// Agents on the nodes that take part: node, and `namespace/name`.
    pub(crate) agents: Vec<(String, String)>,
}

impl World {
    /// A pod; one without addresses if there is none of that name.
    pub(crate) fn pod(&self, name: &str) -> Pod {
        self.pods.get(name).cloned().unwrap_or_default()
    }

    /// The addresses of a pod.
    pub(crate) fn addresses(&self, pod: &str) -> Vec<IpAddr> {
        self.pods.get(pod).map(|it| it.addresses.clone()).unwrap_or_default()
    }

    /// A service; one without addresses if there is none of that name.
    pub(crate) fn service(&self, name: &str) -> Service {
        self.services.get(name).cloned().unwrap_or_default()
    }

    /// Whether there are two nodes.
    pub(crate) fn is_wide(&self) -> bool {
        self.nodes.len() > 1
    }

    /// Whether a pod has an address of that family, so that it can ask another.
    pub(crate) fn speaks(&self, pod: &str, to: IpAddr) -> bool {
        self.addresses(pod).iter().any(|it| it.is_ipv4() == to.is_ipv4())
    }
}

/// Chooses nodes: those that are named, or else the first ones that are ready and take any pod.
pub(crate) fn choose(
    nodes: &[Value],
    named: &[String],
    most: usize,
) -> Result<Vec<Node>, ConnectivityError> {
    let mut ready = Vec::new();
    let mut not_ready = Vec::new();
    for node in nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match trouble(node) {
            None => ready.push(Node { name, addresses: internal(node), tainted: is_tainted(node) }),
            Some(why) => not_ready.push((name, why)),
        }
    }
    let refused = |name: &str| {
        let why =
            not_ready.iter().find(|(it, _)| it == name).map_or("there is no such node", |it| &it.1);
        ConnectivityError::Refused(format!(
            "node {name} cannot be used: {why}; name another by --node"
        ))
    };
    if !named.is_empty() {
        let find = |name: &String| ready.iter().find(|it| it.name == *name).cloned();
        return named.iter().map(|it| find(it).ok_or_else(|| refused(it))).collect();
    }
    ready.sort_by_key(|it| (it.tainted, it.name.clone()));
    ready.truncate(most);
    if ready.is_empty() {
        let mut lines = vec!["no node is ready, so nothing can be tried:".to_owned()];
        lines.extend(not_ready.iter().map(|(name, why)| format!("node {name}: {why}")));
        lines
            .push("kubectl get nodes shows them, and volvox status on a node says more".to_owned());
        return Err(ConnectivityError::NotReady(lines));
    }
    Ok(ready)
}

fn trouble(node: &Value) -> Option<String> {
    if node["metadata"]["labels"]["kubernetes.io/os"].as_str().is_some_and(|it| it != "linux") {
        return Some("it does not run Linux".to_owned());
    }
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|it| it["type"] == "Ready");
    match ready {
        Some(it) if it["status"] == "True" => {}
        Some(it) => {
            let words = it["message"].as_str().unwrap_or("it does not say why");
            return Some(format!("not ready: {words}"));
        }
        None => return Some("not ready: its kubelet has said nothing".to_owned()),
    }
    (node["spec"]["unschedulable"] == true).then(|| "it takes no new pods (cordoned)".to_owned())
}

fn is_tainted(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().any(|it| it["effect"] != "PreferNoSchedule")
}

fn internal(node: &Value) -> Vec<IpAddr> {
    let all = node["status"]["addresses"].as_array();
    all.into_iter()
        .flatten()
        .filter(|it| it["type"] == "InternalIP")
        .filter_map(|it| it["address"].as_str()?.parse().ok())
        .collect()
}

/// A pod as the server has it.
pub(crate) fn pod(object: &Value) -> Pod {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let mut addresses = addresses(&object["status"]["podIPs"], "ip");
    if addresses.is_empty() {
        addresses
            .extend(object["status"]["podIP"].as_str().and_then(|it| it.parse::<IpAddr>().ok()));
    }
    Pod {
        path: format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"])),
        node: text(&object["spec"]["nodeName"]),
        addresses,
    }
}

/// A service as the server has it.
pub(crate) fn service(object: &Value) -> Service {
    let spec = &object["spec"];
    let all =
        spec["clusterIPs"].as_array().cloned().unwrap_or_else(|| vec![spec["clusterIP"].clone()]);
    let ports = spec["ports"].as_array();
    let port = |it: &Value| {
        let number = it["nodePort"].as_u64().and_then(|it| u16::try_from(it).ok())?;
        Some((it["name"].as_str()?.to_owned(), number))
    };
    Service {
        addresses: all.iter().filter_map(|it| it.as_str()?.parse().ok()).collect(),
        node_ports: ports.into_iter().flatten().filter_map(port).collect(),
        balancers: addresses(&object["status"]["loadBalancer"]["ingress"], "ip"),
    }
}

fn addresses(list: &Value, member: &str) -> Vec<IpAddr> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(|it| it[member].as_str()?.parse().ok()).collect()
}

/// Splits `HOST:PORT`.
pub(crate) fn host_and_port(text: &str) -> Result<(String, u16), ConnectivityError> {
    let wrong = || {
        ConnectivityError::Usage(format!(
            "--external-target is {text:?}: write HOST:PORT, such as example.org:443 or [2001:db8::1]:443"
        ))
    };
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().ok().filter(|it| *it > 0).ok_or_else(wrong)?;
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    let good = |it: char| it.is_ascii_alphanumeric() || "-._:".contains(it);
    if host.is_empty() || !host.chars().all(good) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

/// The pods of a run, each by its name.
pub(crate) fn pods(objects: &[Value]) -> BTreeMap<String, Pod> {
    let ours = objects
        .iter()
        .filter(|it| it["metadata"]["labels"][objects::MANAGED_BY] == objects::MANAGER);
    ours.filter_map(|it| Some((it["metadata"]["name"].as_str()?.to_owned(), pod(it)))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, ready: &str) -> Value {
        json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/os": "linux" } },
            "status": {
                "conditions": [{ "type": "Ready", "status": ready, "message": "no CNI configuration" }],
                "addresses": [
                    { "type": "InternalIP", "address": "192.0.2.1" },
                    { "type": "ExternalIP", "address": "198.51.100.1" },
                    { "type": "Hostname", "address": name },
                ],
            },
        })
    }

    #[test]
    fn nodes_that_take_any_pod_come_first() {
        let mut tainted = node("a", "True");
        tainted["spec"]["taints"] = json!([{ "key": "control-plane", "effect": "NoSchedule" }]);
        let mut cordoned = node("b", "True");
        cordoned["spec"]["unschedulable"] = true.into();
        let mut windows = node("c", "True");
        windows["metadata"]["labels"]["kubernetes.io/os"] = "windows".into();
        let all =
            [tainted, cordoned, windows, node("d", "False"), node("f", "True"), node("e", "True")];
        let names = |most, named: &[&str]| {
            let named: Vec<_> = named.iter().map(|it| (*it).to_owned()).collect();
            let chosen = choose(&all, &named, most)?;
            Ok::<_, ConnectivityError>(chosen.into_iter().map(|it| it.name).collect::<Vec<_>>())
        };
        assert_eq!(names(2, &[]).unwrap(), ["e", "f"]);
        assert_eq!(names(1, &[]).unwrap(), ["e"]);
        assert_eq!(names(3, &[]).unwrap(), ["e", "f", "a"]);
        assert_eq!(names(2, &["a"]).unwrap(), ["a"]);
        for (name, words) in
            [("b", "cordoned"), ("d", "no CNI"), ("c", "Linux"), ("x", "no such node")]
        {
            let error = names(2, &[name]).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("--node"), "{error}");
        }
        assert_eq!(
            choose(&all, &[], 1).unwrap()[0].addresses,
            ["192.0.2.1".parse::<IpAddr>().unwrap()]
        );
        let error = choose(&all[3..4], &[], 2).unwrap_err().to_string();
        assert!(
            error.contains("no node is ready") && error.contains("node d: not ready"),
            "{error}"
        );
    }

    #[test]
    fn addresses_are_read_from_old_and_new_servers() {
        let both = json!({ "metadata": { "namespace": "n", "name": "p" }, "spec": { "nodeName": "a" },
            "status": { "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }] } });
        assert_eq!(pod(&both).addresses.len(), 2);
        let old = json!({ "status": { "podIP": "10.0.0.1" } });
        assert_eq!(pod(&old).addresses.len(), 1);
        let headless =
            json!({ "spec": { "clusterIP": "None", "ports": [{ "name": "tcp", "port": 80 }] } });
        assert_eq!(service(&headless), Service::default());
        let ported = json!({
            "spec": { "clusterIPs": ["10.96.0.1"], "ports": [{ "name": "tcp", "nodePort": 30001 }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }, { "hostname": "x" }] } },
        });
        let read = service(&ported);
        assert_eq!(
            (read.node_ports["tcp"], read.balancers.len(), read.addresses.len()),
            (30001, 1, 1)
        );
    }

    #[test]
    fn a_target_outside_is_a_host_and_a_port() {
        assert_eq!(host_and_port("[2001:db8::1]:443").unwrap(), ("2001:db8::1".to_owned(), 443));
        assert_eq!(host_and_port("example.org:80").unwrap(), ("example.org".to_owned(), 80));
        for wrong in ["example.org", ":80", "a:0", "a:x", "a b:80", "http://a:80"] {
            assert!(host_and_port(wrong).unwrap_err().to_string().contains("HOST:PORT"), "{wrong}");
        }
    }
}
