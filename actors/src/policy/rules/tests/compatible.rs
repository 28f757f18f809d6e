//! Tests: rows and selectors are the same as those of a Cilium 1.19 agent.

use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::world::facts;
use crate::{
    model::{Direction, Families, IdentityId, Labels},
    policy::{
        identity::reserved,
        rules::{IdentityView, OwnCluster, PeerFacts, PolicySettings, Repository, Subject},
    },
};

/// Identities of ten apps of one namespace, as a Cilium 1.19 agent numbered them.
const APPS: [u32; 10] = [24534, 6219, 18084, 1992, 2872, 3357, 12786, 9064, 20677, 7860];
/// Identities of its local prefixes.
const PREFIXES: [(u32, &str); 2] = [(16777217, "192.168.77.0/24"), (16777218, "172.20.0.0/16")];

fn labels(app: usize) -> Labels {
    let texts = [
        format!("k8s:app=app-{app}"),
        "k8s:io.cilium.k8s.policy.cluster=default".to_owned(),
        "k8s:io.cilium.k8s.policy.serviceaccount=default".to_owned(),
        "k8s:io.kubernetes.pod.namespace=default".to_owned(),
    ];
    Labels::parse(texts.iter().map(String::as_str)).unwrap()
}

fn view() -> IdentityView {
    let families = Families { ipv4: true, ipv6: false };
    let mut view = IdentityView::default();
    for (id, labels) in reserved::identities() {
        view.insert(id, facts(labels));
    }
    for (app, id) in APPS.into_iter().enumerate() {
        view.insert(IdentityId(id), facts(labels(app)));
    }
    for (id, net) in PREFIXES {
        let net: IpNet = net.parse().unwrap();
        let labels = reserved::prefix_labels(&net, families);
        view.insert(IdentityId(id), PeerFacts { prefix: Some(net), ..facts(labels) });
    }
    view
}

fn policy() -> Value {
    let app = |n| json!({ "matchLabels": { "app": format!("app-{n}") } });
    let port = |port, protocol| json!({ "port": port, "protocol": protocol });
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "app-1", "namespace": "default" },
        "spec": {
            "endpointSelector": app(1),
            "ingress": [
                {
                    "fromEndpoints": [app(0), app(9)],
                    "toPorts": [{ "ports": [
                        port("80", "TCP"), port("5000", "TCP"), port("5000", "UDP"),
                    ] }],
                },
                { "fromEndpoints": [app(0)], "icmps": [{ "fields": [{ "type": 8 }] }] },
                { "fromEntities": ["host"] },
            ],
            "egress": [
                { "toEndpoints": [{ "matchLabels": { "io.kubernetes.pod.namespace": "default" } }] },
                { "toCIDR": ["172.20.0.0/16", "192.168.77.0/24"] },
            ],
        },
    })
}

fn repository() -> Repository {
    let mut repository = Repository::new(PolicySettings {
        cluster: Some(OwnCluster::new("default")),
        families: Families { ipv4: true, ipv6: false },
        ..PolicySettings::default()
    });
    let report = repository.apply(
        "app-1.yaml",
        &super::world::read(vec![policy()]),
        &super::world::no_services(),
    );
    assert_eq!(report.rejected, []);
    repository
}

/// The rows that a Cilium 1.19 agent wrote for this policy: direction, identity, bits, protocol
/// and port.
#[test]
fn rows_are_those_of_cilium() {
    let subject = Subject { labels: Arc::new(labels(1)), ..Subject::default() };
    let resolved = repository().resolve(&subject, &view());
    let mut expected = vec![(Direction::Ingress, 1, 0, 0, 0)];
    for app in [APPS[0], APPS[9]] {
        for (protocol, port) in [(6, 80), (6, 5000), (17, 5000)] {
            expected.push((Direction::Ingress, app, 24, protocol, port));
        }
    }
    expected.push((Direction::Ingress, APPS[0], 24, 1, 8));
    let peers = APPS.into_iter().chain(PREFIXES.map(|(id, _)| id));
    expected.extend(peers.map(|id| (Direction::Egress, id, 0, 0, 0)));
    let mut rows: Vec<_> = resolved
        .rows
        .iter()
        .inspect(|(_, row)| assert!(!row.deny && row.precedence == 0xffff_ff01))
        .map(|(key, _)| (key.direction, key.identity.0, key.bits, key.protocol, key.port))
        .collect();
    rows.sort();
    expected.sort();
    assert_eq!(rows, expected);
}

#[test]
fn selectors_are_written_as_cilium_writes_them() {
    let filters = repository().derived(&labels(1));
    let icmp = filters.iter().find(|filter| filter.protocol == "ICMP").unwrap();
    let selector = "&LabelSelector{MatchLabels:map[string]string{any.app: app-0,\
                    k8s.io.cilium.k8s.policy.cluster: default,\
                    k8s.io.kubernetes.pod.namespace: default,},\
                    MatchExpressions:[]LabelSelectorRequirement{},}";
    assert_eq!(icmp.port, 8);
    assert_eq!(icmp.selectors.keys().collect::<Vec<_>>(), [selector]);
    let prefixes = filters.iter().find(|filter| filter.direction == Direction::Egress).unwrap();
    assert!(prefixes.selectors.contains_key("cidr:172.20.0.0/16"));
}
