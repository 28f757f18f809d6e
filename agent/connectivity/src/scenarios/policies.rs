//! Policies. Each allows what it allows and denies what it denies at the same time.

use serde_json::{Value, json};

use super::{Part, Plan, Scenario, Stage, each, nobody};
use crate::{
    judge::Check,
    objects::{NODE, PART, PORT, ROLE, SECOND},
    probe::{Protocol, Target},
    world::World,
};

/// How long the kubelet watches its pods while everything is denied.
const HELD: u64 = 5;

pub(super) const ALL: [Scenario; 11] = [
    Scenario {
        name: "policy-ingress-label",
        about: "NetworkPolicy: who has the label gets in, on its node and from others; who has not does not",
        part: None,
        plan: |world| one(world, "only clients get in", vec![by_label()], labelled(world)),
    },
    Scenario {
        name: "policy-service",
        about: "NetworkPolicy: it holds for who comes by a service, too",
        part: None,
        plan: |world| {
            let mut checks = Vec::new();
            for address in world.service("echo").addresses {
                let target = Target::at(Protocol::Tcp, address, PORT);
                for from in ["client-a", "client-b"].iter().filter(|it| world.speaks(it, address)) {
                    checks.push(Check::answered(from, "service echo", target.clone()));
                }
                if world.speaks("denied-a", address) {
                    checks.push(Check::denied("denied-a", "service echo", target));
                }
            }
            one(world, "only clients get in", vec![by_label()], checks)
        },
    },
    Scenario {
        name: "policy-ingress-port",
        about: "NetworkPolicy: one port is open, another and the same one by UDP are not",
        part: None,
        plan: |world| {
            let policy = network(json!({
                "podSelector": { "matchLabels": { ROLE: "server" } },
                "policyTypes": ["Ingress"],
                "ingress": [{ "ports": [{ "protocol": "TCP", "port": PORT }] }],
            }));
            let mut checks = allowed(world, &[("client-a", "server-a"), ("denied-a", "server-b")]);
            for (from, to) in [("client-a", "server-a"), ("client-a", "server-b")] {
                checks.extend(denied_at(world, from, to, Protocol::Tcp, SECOND));
                checks.extend(denied_at(world, from, to, Protocol::Udp, PORT));
            }
            one(world, "only that port is open", vec![policy], checks)
        },
    },
    Scenario {
        name: "policy-egress-label",
        about: "NetworkPolicy: clients get to servers and to nobody else",
        part: None,
        plan: |world| {
            let policy = network(json!({
                "podSelector": { "matchLabels": { ROLE: "client" } },
                "policyTypes": ["Egress"],
                "egress": [{ "to": [{ "podSelector": { "matchLabels": { ROLE: "server" } } }] }],
            }));
            let mut checks = allowed(
                world,
                &[
                    ("client-a", "server-a"),
                    ("client-a", "server-b"),
                    ("client-b", "server-a"),
                    ("denied-a", "other-a"),
                    ("server-b", "denied-a"),
                ],
            );
            checks.extend(denied(
                world,
                &[("client-a", "denied-a"), ("client-b", "denied-a"), ("client-b", "other-a")],
            ));
            one(world, "clients get to servers only", vec![policy], checks)
        },
    },
    Scenario {
        name: "policy-namespace",
        about: "NetworkPolicy: pods of one namespace get in, and those of its own do not",
        part: None,
        plan: |world| {
            let policy = network(json!({
                "podSelector": { "matchLabels": { ROLE: "server" } },
                "policyTypes": ["Ingress"],
                "ingress": [{ "from": [{ "namespaceSelector": { "matchLabels": { PART: "other" } } }] }],
            }));
            let mut checks = allowed(world, &[("other-a", "server-a"), ("other-a", "server-b")]);
            checks.extend(denied(
                world,
                &[("client-a", "server-a"), ("client-b", "server-a"), ("client-a", "server-b")],
            ));
            one(world, "only the other namespace gets in", vec![policy], checks)
        },
    },
    Scenario {
        name: "policy-deny-all",
        about: "NetworkPolicy: nobody gets in or out, the kubelet and the API server do; without it all is open again",
        part: None,
        plan: deny_all,
    },
    Scenario {
        name: "cilium-policy-label",
        about: "CiliumNetworkPolicy: who has the label gets in to that port, and nobody else",
        part: None,
        plan: |world| {
            let policy = cilium(json!({
                "endpointSelector": { "matchLabels": { ROLE: "server" } },
                "ingress": [{
                    "fromEndpoints": [{ "matchLabels": { ROLE: "client" } }],
                    "toPorts": [{ "ports": [{ "port": PORT.to_string(), "protocol": "TCP" }] }],
                }],
            }));
            let mut checks = labelled(world);
            checks.extend(denied_at(world, "client-a", "server-b", Protocol::Tcp, SECOND));
            with_cilium(world, "only clients get in to that port", policy, checks)
        },
    },
    Scenario {
        name: "cilium-policy-deny",
        about: "CiliumNetworkPolicy: ingressDeny takes out who an other rule lets in",
        part: None,
        plan: |world| {
            let policy = cilium(json!({
                "endpointSelector": { "matchLabels": { ROLE: "server" } },
                "ingress": [{ "fromEntities": ["all"] }],
                "ingressDeny": [{ "fromEndpoints": [{ "matchLabels": { ROLE: "denied" } }] }],
            }));
            let mut checks = allowed(
                world,
                &[("client-a", "server-a"), ("client-b", "server-a"), ("other-a", "server-b")],
            );
            checks.extend(denied(world, &[("denied-a", "server-a"), ("denied-a", "server-b")]));
            with_cilium(world, "all but one get in", policy, checks)
        },
    },
    Scenario {
        name: "cilium-policy-nodes",
        about: "CiliumNetworkPolicy: the entities host and remote-node get in, and pods do not",
        part: None,
        plan: |world| {
            let policy = cilium(json!({
                "endpointSelector": { "matchLabels": { ROLE: "server" } },
                "ingress": [{ "fromEntities": ["host", "remote-node"] }],
            }));
            let mut pairs = vec![("host-a", "server-a")];
            if world.is_wide() {
                pairs.extend([
                    ("host-a", "server-b"),
                    ("host-b", "server-a"),
                    ("host-b", "server-b"),
                ]);
            }
            let mut checks = allowed(world, &pairs);
            checks.extend(denied(
                world,
                &[("client-a", "server-a"), ("client-b", "server-a"), ("client-a", "server-b")],
            ));
            with_cilium(world, "only nodes get in", policy, checks)
        },
    },
    Scenario {
        name: "cilium-policy-cluster",
        about: "CiliumNetworkPolicy: a client whose egress is to the entity cluster gets to pods and nodes, \
                and not out",
        part: Some(Part::World),
        plan: |world| {
            let Some((host, port)) = &world.external else { return nobody() };
            let policy = cilium(json!({
                "endpointSelector": { "matchLabels": { ROLE: "client" } },
                "egress": [{ "toEntities": ["cluster"] }],
            }));
            let mut checks = allowed(
                world,
                &[("client-a", "server-a"), ("client-a", "server-b"), ("client-b", "other-a")],
            );
            checks.extend(each(world, "client-a", "host-a", |address| {
                let target = Target::at(Protocol::Tcp, address, NODE);
                Check::answered("client-a", "host-a", target).by(&["host-a"])
            }));
            let target = Target::named(Protocol::Connect, host, *port);
            for from in ["client-a", "client-b"] {
                checks.push(Check::denied(from, host, target.clone()));
            }
            with_cilium(world, "clients stay in the cluster", policy, checks)
        },
    },
    Scenario {
        name: "cilium-policy-world",
        about: "CiliumNetworkPolicy: a client whose egress is to the entity world gets out, and not to pods",
        part: Some(Part::World),
        plan: |world| {
            let Some((host, port)) = &world.external else { return nobody() };
            let policy = cilium(json!({
                "endpointSelector": { "matchLabels": { ROLE: "client" } },
                "egress": [
                    { "toEntities": ["world"] },
                    // It may be named by a name.
                    { "toEndpoints": [{ "matchLabels": {
                        "k8s:io.kubernetes.pod.namespace": "kube-system", "k8s-app": "kube-dns",
                    } }] },
                ],
            }));
            let target = Target::named(Protocol::Connect, host, *port);
            let mut checks = vec![Check::answered("client-a", host, target)];
            checks.extend(denied(world, &[("client-a", "server-a"), ("client-b", "server-a")]));
            with_cilium(world, "clients get out of the cluster only", policy, checks)
        },
    },
];

/// Clients get in, of the labels of their own namespace.
pub(crate) fn by_label() -> Value {
    network(json!({
        "podSelector": { "matchLabels": { ROLE: "server" } },
        "policyTypes": ["Ingress"],
        "ingress": [{ "from": [{ "podSelector": { "matchLabels": { ROLE: "client" } } }] }],
    }))
}

fn labelled(world: &World) -> Vec<Check> {
    let mut checks = allowed(
        world,
        &[("client-a", "server-a"), ("client-a", "server-b"), ("client-b", "server-a")],
    );
    checks.extend(denied(
        world,
        &[
            ("denied-a", "server-a"),
            ("denied-a", "server-b"),
            ("other-a", "server-a"),
            ("other-a", "server-b"),
        ],
    ));
    checks
}

fn deny_all(world: &World) -> Plan {
    let policy = network(json!({ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] }));
    let pairs = [
        ("client-a", "server-a"),
        ("client-a", "server-b"),
        ("client-b", "server-a"),
        ("other-a", "server-a"),
        ("server-a", "other-a"),
    ];
    let mut shut = denied(world, &pairs);
    for address in
        world.service("echo").addresses.into_iter().filter(|it| world.speaks("client-a", *it))
    {
        let target = Target::at(Protocol::Tcp, address, PORT);
        shut.push(Check::denied("client-a", "service echo", target));
    }
    for (_, address) in
        world.nodes.iter().flat_map(|it| it.addresses.iter().map(move |at| (it, *at)))
    {
        if world.speaks("client-b", address)
            && world.pod("client-b").node != world.pod("host-a").node
        {
            let target = Target::at(Protocol::Tcp, address, NODE);
            shut.push(Check::denied("client-b", "the node's address", target));
        }
    }
    Plan::Stages(vec![
        Stage {
            about: "everything is denied",
            policies: vec![policy],
            settles: true,
            checks: shut,
            ready_for: HELD,
        },
        Stage {
            about: "the policy is removed",
            settles: true,
            checks: allowed(world, &pairs),
            ..Stage::default()
        },
    ])
}

fn one(world: &World, about: &'static str, policies: Vec<Value>, checks: Vec<Check>) -> Plan {
    if checks.is_empty() || world.pods.is_empty() {
        return Plan::NotTried("no pod has an address".to_owned());
    }
    Plan::Stages(vec![Stage { about, policies, settles: true, checks, ready_for: 0 }])
}

fn with_cilium(world: &World, about: &'static str, policy: Value, checks: Vec<Check>) -> Plan {
    if !world.features.cilium_policies {
        return Plan::NotTried("the cluster does not know CiliumNetworkPolicies".to_owned());
    }
    one(world, about, vec![policy], checks)
}

fn allowed(world: &World, pairs: &[(&str, &str)]) -> Vec<Check> {
    let check = |(from, to): &(&str, &str)| {
        each(world, from, to, |address| {
            Check::answered(from, *to, Target::at(Protocol::Tcp, address, PORT)).by(&[to])
        })
    };
    pairs.iter().flat_map(check).collect()
}

fn denied(world: &World, pairs: &[(&str, &str)]) -> Vec<Check> {
    pairs.iter().flat_map(|(from, to)| denied_at(world, from, to, Protocol::Tcp, PORT)).collect()
}

fn denied_at(world: &World, from: &str, to: &str, protocol: Protocol, port: u16) -> Vec<Check> {
    each(world, from, to, |address| Check::denied(from, to, Target::at(protocol, address, port)))
}

fn network(spec: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "tried" }, "spec": spec,
    })
}

fn cilium(spec: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "tried" }, "spec": spec,
    })
}
