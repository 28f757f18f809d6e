//! What is in the cluster: apps, twenty in a namespace, each with pods and a policy of its own.

use serde_json::{Value, json};

use crate::lab::{NODE_NAME, other_node};

/// Apps of a namespace.
const APPS: usize = 20;
/// Namespaces are shared out to so many teams.
const TEAMS: usize = 10;
/// The team of nobody but who probes.
const PROBERS: &str = "probe";

/// An app by its number in the whole cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct App(pub(super) usize);

impl App {
    fn namespace_number(self) -> usize {
        self.0 / APPS
    }

    /// Its namespace.
    pub(super) fn namespace(self) -> String {
        format!("space-{}", self.namespace_number())
    }

    /// Its name, which others have in other namespaces.
    pub(super) fn name(self) -> String {
        format!("app-{}", self.0 % APPS)
    }

    fn tier(self) -> &'static str {
        ["front", "middle", "back"][self.0 % 3]
    }

    /// Labels of its pods, as etcd has them.
    pub(super) fn labels(self) -> String {
        let team = team(self.namespace_number());
        let given = [
            ("app", self.name().as_str()),
            ("tier", self.tier()),
            ("io.cilium.k8s.namespace.labels.team", &team),
        ]
        .map(|(key, value)| (key, value.to_owned()));
        let given: Vec<_> = given.iter().map(|(key, value)| (*key, value.as_str())).collect();
        other_node::labels(&self.namespace(), &given)
    }

    /// A pod of it on this node, and where it is made.
    pub(super) fn pod(self, name: &str) -> (String, Value) {
        let namespace = self.namespace();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": namespace,
                "labels": { "app": self.name(), "tier": self.tier() },
            },
            "spec": { "nodeName": NODE_NAME, "containers": [{ "name": "main", "image": "lab" }] },
        });
        (format!("/api/v1/namespaces/{namespace}/pods"), pod)
    }

    /// Where policies of its namespace are.
    pub(super) fn policies(self) -> String {
        format!("/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies", self.namespace())
    }

    /// Its policy, and where it is made.
    pub(super) fn policy(self) -> (String, Value) {
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": { "name": self.name(), "namespace": self.namespace() },
            "spec": {
                "podSelector": { "matchLabels": { "app": self.name() } },
                "policyTypes": ["Ingress", "Egress"],
                "ingress": self.ingress(false),
                "egress": [
                    { "to": [{ "podSelector": {} }] },
                    {
                        "to": [{
                            "namespaceSelector": { "matchLabels": { "team": team(0) } },
                            "podSelector": { "matchLabels": { "app": "app-0" } },
                        }],
                        "ports": [{ "protocol": "UDP", "port": 53 }],
                    },
                ],
            },
        });
        (self.policies(), policy)
    }

    /// A change of its policy: who probes is let in, or is not any more.
    pub(super) fn change(self, probed: bool) -> (String, Value) {
        let path = format!("{}/{}", self.policies(), self.name());
        (path, json!({ "spec": { "ingress": self.ingress(probed) } }))
    }

    fn ingress(self, probed: bool) -> Value {
        let neighbour = |nth| App(self.namespace_number() * APPS + (self.0 + nth) % APPS).name();
        let pods = |app: String| json!({ "podSelector": { "matchLabels": { "app": app } } });
        let port = |port: u16| json!([{ "protocol": "TCP", "port": port }]);
        let mut rules = vec![
            json!({ "from": [pods(neighbour(1)), pods(neighbour(2))], "ports": port(8080) }),
            json!({
                "from": [{
                    "namespaceSelector": {
                        "matchLabels": { "team": team(self.namespace_number() + 1) },
                    },
                    "podSelector": { "matchLabels": { "tier": "front" } },
                }],
                "ports": port(9090),
            }),
        ];
        if self.0.is_multiple_of(10) {
            let [high, low] = [self.0 / 256 % 16 + 16, self.0 % 256];
            rules.push(json!({
                "from": [{ "ipBlock": {
                    "cidr": format!("172.{high}.0.0/16"),
                    "except": [format!("172.{high}.{low}.0/24")],
                } }],
                "ports": port(443),
            }));
        }
        if probed {
            let probers = json!({ "namespaceSelector": { "matchLabels": { "team": PROBERS } } });
            rules.push(json!({ "from": [probers] }));
        }
        json!(rules)
    }
}

fn team(namespace: usize) -> String {
    format!("team-{}", namespace % TEAMS)
}

/// The namespaces of so many apps, and where they are made.
pub(super) fn namespaces(apps: usize) -> impl Iterator<Item = (String, Value)> {
    (0..apps.div_ceil(APPS)).map(|number| {
        let name = App(number * APPS).namespace();
        let metadata = json!({ "name": name, "labels": { "team": team(number) } });
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        ("/api/v1/namespaces".to_owned(), object)
    })
}

/// Labels of who probes, as etcd has them.
pub(super) fn prober() -> String {
    let given = [("app", "prober"), ("io.cilium.k8s.namespace.labels.team", PROBERS)];
    other_node::labels(PROBERS, &given)
}
