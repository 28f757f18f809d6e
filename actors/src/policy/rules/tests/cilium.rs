//! Tests: Cilium's policies give the verdicts that their documents promise.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{Other, World, address, pod, pod_of};
use crate::{
    model::{Families, IdentityId, Labels},
    policy::rules::{
        Effect, Enforcement, IdentityView, OwnCluster, PolicySettings, Subject, Verdict,
    },
};

const TCP: u8 = 6;
const UDP: u8 = 17;
const HOST: Other = Other::Identity(1);

fn cnp(spec: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "test" },
        "spec": spec,
    })
}

fn for_web(mut spec: Value) -> Value {
    spec["endpointSelector"] = json!({ "matchLabels": { "app": "web" } });
    cnp(spec)
}

fn clusterwide(mut spec: Value) -> Value {
    spec["endpointSelector"] = json!({ "matchLabels": { "app": "web" } });
    let mut policy = cnp(spec);
    policy["kind"] = json!("CiliumClusterwideNetworkPolicy");
    policy
}

/// Whether `web` of namespace default gets TCP port 80 from there.
fn from(world: &World, other: Other) -> bool {
    world.ingress(other, TCP, 80).passes()
}

#[test]
fn without_policy_everything_passes_by_one_row_a_direction() {
    let resolved = World::with([]).resolve("web");
    assert!(!resolved.ingress_enforced && !resolved.egress_enforced);
    assert_eq!(resolved.rows.len(), 2);
    assert!(resolved.rows.iter().all(|(key, entry)| {
        (key.bits, key.identity, entry.cookie) == (0, IdentityId::UNKNOWN, 0)
    }));
}

#[test]
fn an_empty_list_enforces_nothing_an_empty_rule_everything() {
    let none = World::with([for_web(json!({ "ingress": [] }))]);
    assert!(from(&none, pod_of("db", "default")));
    let empty = World::with([for_web(json!({ "ingress": [{}] }))]);
    assert_eq!(empty.ingress(pod_of("db", "default"), TCP, 80), Verdict::NoMatch);
    assert!(empty.egress(pod_of("db", "default"), TCP, 80).passes(), "egress is not spoken of");
    assert!(from(&empty, HOST), "the host reaches its endpoints");
}

#[test]
fn missing_peers_are_everybody_an_empty_list_nobody() {
    let port = json!([{ "ports": [{ "port": "80", "protocol": "TCP" }] }]);
    let missing = World::with([for_web(json!({ "ingress": [{ "toPorts": port }] }))]);
    for other in [pod_of("db", "other"), address("9.9.9.9"), Other::Identity(77_777)] {
        assert!(from(&missing, other), "{other:?}");
        assert!(!missing.ingress(other, UDP, 80).passes());
        assert!(!missing.ingress(other, TCP, 81).passes());
    }
    let empty = json!({ "ingress": [{ "fromEndpoints": [], "toPorts": port }] });
    assert!(!from(&World::with([for_web(empty)]), pod_of("db", "default")));
}

#[test]
fn an_empty_selector_is_the_namespace_or_for_the_cluster_every_pod() {
    let rule = json!({ "ingress": [{ "fromEndpoints": [{}] }] });
    let (own, wide) = (World::with([for_web(rule.clone())]), World::with([clusterwide(rule)]));
    assert!(from(&own, pod_of("db", "default")) && from(&wide, pod_of("db", "default")));
    assert!(!from(&own, pod_of("db", "other")));
    assert!(from(&wide, pod_of("db", "other")));
    assert!(!from(&own, address("9.9.9.9")) && !from(&wide, address("9.9.9.9")));
}

#[test]
fn a_selector_may_name_another_namespace_or_its_labels() {
    for selector in [
        json!({ "matchLabels": { "k8s:io.kubernetes.pod.namespace": "other", "app": "db" } }),
        json!({ "matchLabels": { "io.kubernetes.pod.namespace": "other", "k8s:app": "db" } }),
        json!({
            "matchLabels": { "app": "db", "k8s:io.cilium.k8s.namespace.labels.team": "other-team" }
        }),
        json!({ "matchExpressions": [
            { "key": "app", "operator": "NotIn", "values": ["web", "mail"] },
            { "key": "any:io.kubernetes.pod.namespace", "operator": "In", "values": ["other"] },
        ] }),
    ] {
        let world = World::with([for_web(json!({ "ingress": [{ "fromEndpoints": [selector] }] }))]);
        assert!(from(&world, pod_of("db", "other")), "{selector}");
        assert!(!from(&world, pod_of("web", "other")), "{selector}");
        assert!(!from(&world, pod_of("db", "default")), "{selector}");
    }
}

#[test]
fn a_clusterwide_policy_is_for_every_namespace() {
    let world = World::with([clusterwide(json!({ "ingress": [{}] }))]);
    let view = world.view();
    assert!(world.resolve_in("web", "other", &view).ingress_enforced);
    assert!(!world.resolve_in("db", "other", &view).ingress_enforced);
}

#[test]
fn entities_are_reserved_identities() {
    let entity = |name| World::with([for_web(json!({ "ingress": [{ "fromEntities": [name] }] }))]);
    let passing = |name| {
        let world = entity(name);
        let ids = [2, 3, 4, 5, 6, 7, 8, 9, 10, 1003, 77_777];
        ids.into_iter().filter(|id| from(&world, Other::Identity(*id))).collect::<Vec<u32>>()
    };
    assert_eq!(passing("all"), [2, 3, 4, 5, 6, 7, 8, 9, 10, 1003, 77_777]);
    assert_eq!(passing("none"), [0; 0]);
    assert_eq!(passing("world"), [2, 9, 10]);
    assert_eq!(passing("world-ipv4"), [9]);
    assert_eq!(passing("world-ipv6"), [10]);
    assert_eq!(passing("cluster"), [3, 4, 5, 6, 7, 8, 1003]);
    assert_eq!(passing("unmanaged"), [3]);
    assert_eq!(passing("health"), [4]);
    assert_eq!(passing("init"), [5]);
    assert_eq!(passing("remote-node"), [6, 7]);
    assert_eq!(passing("kube-apiserver"), [7]);
    assert_eq!(passing("ingress"), [8]);
}

#[test]
fn prefixes_select_the_world_but_no_pod() {
    let world = World::with([for_web(json!({
        "egress": [{ "toCIDRSet": [{ "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] }] }],
    }))]);
    let reaches = |to| world.egress(address(to), TCP, 443).passes();
    assert!(reaches("10.0.0.1") && reaches("10.255.0.1"));
    assert!(!reaches("10.1.2.3") && !reaches("11.0.0.1") && !reaches("fd00::1"));
    let cidrs: Vec<String> = world.repository.cidrs().iter().map(ToString::to_string).collect();
    assert_eq!(cidrs, ["10.0.0.0/8", "10.1.0.0/16"]);
}

#[test]
fn the_whole_family_is_the_world_and_needs_no_identity() {
    let spec = json!({ "egress": [{ "toCIDR": ["0.0.0.0/0"] }] });
    let world = World::with([for_web(spec.clone())]);
    assert!(world.repository.cidrs().is_empty());
    assert!(world.egress(address("9.9.9.9"), TCP, 1).passes());
    assert!(!world.egress(address("2001:db8::1"), TCP, 1).passes());
    assert!(!world.egress(pod_of("db", "default"), TCP, 1).passes());
    let families = Families { ipv4: true, ipv6: false };
    let mut single = World::new(PolicySettings { families, ..PolicySettings::default() });
    single.apply([for_web(spec)]);
    assert!(single.egress(Other::Identity(IdentityId::WORLD.0), TCP, 1).passes());
}

#[test]
fn a_denial_wins_over_narrower_allowances_of_any_policy() {
    let mut deny = for_web(json!({ "ingressDeny": [{ "fromEndpoints": [{}] }] }));
    deny["metadata"]["name"] = json!("deny");
    let allow = for_web(json!({ "ingress": [{
        "fromEndpoints": [{ "matchLabels": { "app": "db" } }],
        "toPorts": [{ "ports": [{ "port": "80", "protocol": "TCP" }] }],
    }] }));
    let world = World::with([allow.clone(), deny]);
    assert!(matches!(world.ingress(pod_of("db", "default"), TCP, 80), Verdict::Denied(_)));
    assert!(from(&World::with([allow]), pod_of("db", "default")));
}

#[test]
fn a_verdict_names_its_clause_and_is_the_same_in_every_life() {
    let documents = || [for_web(json!({ "ingressDeny": [{ "fromEntities": ["world"] }] }))];
    let world = World::with(documents());
    let Verdict::Denied(cookie) = world.ingress(address("9.9.9.9"), TCP, 80) else {
        panic!("the world is denied")
    };
    let origins = &world.resolve("web").origins[&cookie];
    let texts: Vec<String> = origins.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["test.yaml: CiliumNetworkPolicy default/test: spec.ingressDeny[0]"]);
    let again = World::with(documents()).ingress(address("9.9.9.9"), TCP, 80);
    assert_eq!(again, Verdict::Denied(cookie));
}

#[test]
fn default_deny_may_be_left_off() {
    let world = World::with([for_web(json!({
        "enableDefaultDeny": { "ingress": false },
        "ingress": [{ "fromEntities": ["host"] }],
        "ingressDeny": [{ "fromCIDR": ["9.9.9.9"] }],
    }))]);
    assert!(!world.resolve("web").ingress_enforced);
    assert!(from(&world, pod_of("db", "other")) && from(&world, address("8.8.8.8")));
    assert!(!from(&world, address("9.9.9.9")));
}

#[test]
fn icmp_types_are_ports_of_icmp() {
    let world = World::with([for_web(json!({ "ingress": [{ "icmps": [{ "fields": [
        { "type": 8 }, { "type": "EchoRequest", "family": "IPv6" },
    ] }] }] }))]);
    let other = pod_of("db", "default");
    assert!(world.ingress(other, 1, 8).passes() && world.ingress(other, 58, 128).passes());
    assert!(!world.ingress(other, 1, 0).passes() && !world.ingress(other, 58, 8).passes());
    assert!(!world.ingress(other, TCP, 8).passes());
}

#[test]
fn ranges_and_protocols_are_exact() {
    let world = World::with([for_web(json!({ "ingress": [{ "toPorts": [{ "ports": [
        { "port": "1000", "endPort": 1999, "protocol": "TCP" },
        { "port": "53" },
        { "port": "0", "protocol": "SCTP" },
    ] }] }] }))]);
    let passes = |protocol, port| world.ingress(pod_of("db", "other"), protocol, port).passes();
    assert!(passes(TCP, 1000) && passes(TCP, 1999) && !passes(TCP, 999) && !passes(TCP, 2000));
    assert!(passes(TCP, 53) && passes(UDP, 53) && !passes(UDP, 1000) && !passes(1, 53));
    assert!(passes(132, 0) && passes(132, 65535));
}

#[test]
fn names_of_ports_are_the_receivers() {
    let port = json!([{ "ports": [{ "port": "Web-UI", "protocol": "TCP" }] }]);
    let mut world = World::with([for_web(json!({
        "ingress": [{ "toPorts": port }],
        "egress": [{ "toEndpoints": [{ "matchLabels": { "app": "db" } }], "toPorts": port }],
    }))]);
    let unresolved = |world: &World, view: &IdentityView| -> Vec<(String, String)> {
        let labels = Arc::new(pod("web", "default"));
        let subject = Subject { labels, named_ports: world.named_ports.clone() };
        let status = world.repository.status(&[subject], view).remove(0);
        status.unresolved_ports.into_iter().map(|it| (it.name, it.path)).collect()
    };
    let path = |path: &str| ("web-ui".to_owned(), path.to_owned());
    let db = pod_of("db", "default");
    assert!(!world.ingress(db, TCP, 8080).passes());
    let both = [path("spec.egress[0]"), path("spec.ingress[0]")];
    assert_eq!(unresolved(&world, &world.view()), both);
    // Of a policy that is for nobody nothing is said.
    assert_eq!(world.repository.status(&[], &world.view())[0].unresolved_ports, []);

    world.named_ports.insert("web-ui".to_owned(), [(TCP, 8080)].into());
    assert!(world.ingress(db, TCP, 8080).passes() && !world.ingress(db, UDP, 8080).passes());
    assert_eq!(unresolved(&world, &world.view()), [path("spec.egress[0]")]);

    let mut view = world.view();
    let mut facts = view.get(IdentityId(1001)).unwrap().clone();
    Arc::make_mut(&mut facts.named_ports).insert("web-ui".to_owned(), [(TCP, 9090)].into());
    let rules = world.repository.concerned(std::slice::from_ref(&facts));
    assert!(rules.iter().any(|rule| rule.selects(&pod("web", "default"))));
    view.insert(IdentityId(1001), facts);
    assert_eq!(unresolved(&world, &view), []);
    let resolved = world.resolve_in("web", "default", &view);
    assert!(resolved.rows.keys().any(|key| (key.identity.0, key.port) == (1001, 9090)));
}

#[test]
fn what_is_not_supported_fails_closed_and_is_reported() {
    let mut world = World::new(PolicySettings::default());
    let http = json!([{ "ports": [{ "port": "80", "protocol": "TCP" }],
                        "rules": { "http": [{ "method": "GET" }] } },
                      { "ports": [{ "port": "81", "protocol": "TCP" }], "rules": {} }]);
    let report = world.apply([for_web(json!({
        "ingress": [{ "fromEndpoints": [{}], "toPorts": http },
                    { "fromEndpoints": [{}], "authentication": { "mode": "required" } }],
        "egress": [{ "toFQDNs": [{ "matchName": "example.org" }] },
                   { "toNodes": [{}] },
                   { "toCIDR": ["10.0.0.0/8"] }],
        "egressDeny": [{ "toGroups": [{}], "toPorts": [{ "ports": [{ "port": "25" }] }] }],
    }))]);
    assert_eq!(report.rejected, []);
    let parts: Vec<_> = report.unsupported.iter().map(|it| (it.path.as_str(), it.effect)).collect();
    assert_eq!(
        parts,
        [
            ("spec.ingress[0].toPorts[0].rules", Effect::AllowsNothing),
            ("spec.ingress[1].authentication", Effect::AllowsNothing),
            ("spec.egress[0].toFQDNs[0]", Effect::AllowsNothing),
            ("spec.egress[1].toNodes[0]", Effect::AllowsNothing),
            ("spec.egressDeny[0].toGroups[0]", Effect::DeniesEveryPeer),
        ]
    );
    assert_eq!(
        report.unsupported[0].to_string(),
        "test.yaml: CiliumNetworkPolicy default/test: spec.ingress[0].toPorts[0].rules: \
         not supported yet: nothing is allowed by it"
    );
    let db = pod_of("db", "default");
    assert!(!world.ingress(db, TCP, 80).passes() && world.ingress(db, TCP, 81).passes());
    assert!(world.egress(address("10.0.0.1"), TCP, 80).passes());
    assert!(!world.egress(address("10.0.0.1"), TCP, 25).passes());
    assert!(!world.egress(address("9.9.9.9"), TCP, 80).passes());
}

#[test]
fn enforcement_can_be_always_or_never() {
    let with = |enforcement, documents: Vec<Value>| {
        let mut world = World::new(PolicySettings { enforcement, ..PolicySettings::default() });
        world.apply(documents);
        world
    };
    let always = with(Enforcement::Always, vec![]);
    assert!(!from(&always, pod_of("db", "default")) && from(&always, HOST));
    assert!(!always.egress(HOST, TCP, 80).passes());
    let never = with(Enforcement::Never, vec![for_web(json!({ "ingress": [{}] }))]);
    assert!(from(&never, pod_of("db", "default")));
}

#[test]
fn an_endpoint_without_labels_yet_is_enforced() {
    let world = World::with([]);
    let subject = Subject { labels: Labels::reserved("init").into(), ..Subject::default() };
    let resolved = world.repository.resolve(&subject, &world.view());
    assert!(resolved.ingress_enforced && resolved.egress_enforced);
}

#[test]
fn a_named_cluster_narrows_peers() {
    let any = |name: &str, by_default| {
        let cluster = Some(OwnCluster { name: name.to_owned(), by_default });
        let settings = PolicySettings { cluster, ..PolicySettings::default() };
        let mut world = World::new(settings);
        world.apply([for_web(json!({ "ingress": [{ "fromEndpoints": [{}] }] }))]);
        world
    };
    assert!(from(&any("default", true), pod_of("db", "default")));
    assert!(!from(&any("elsewhere", true), pod_of("db", "default")));
    assert!(from(&any("elsewhere", false), pod_of("db", "default")));
}

#[test]
fn derived_filters_are_grouped_by_port() {
    let port = json!([{ "ports": [{ "port": "80", "protocol": "TCP" }] }]);
    let world = World::with([for_web(json!({ "ingress": [
        { "fromEndpoints": [{ "matchLabels": { "app": "db" } }], "toPorts": port },
        { "fromCIDR": ["10.0.0.0/8"], "toPorts": port },
        { "fromEntities": ["host"] },
    ] }))]);
    let filters = world.repository.derived(&pod("web", "default"));
    let shapes: Vec<_> =
        filters.iter().map(|it| (it.port, it.protocol.as_str(), it.selectors.len())).collect();
    assert_eq!(shapes, [(0, "ANY", 1), (80, "TCP", 2)]);
    assert!(filters[1].selectors.contains_key("cidr:10.0.0.0/8"));
    assert_eq!(
        filters[1].origins().first().unwrap().labels(),
        [
            "directory:filename=test.yaml",
            "directory:io.cilium.k8s.policy.name=test",
            "directory:io.cilium.k8s.policy.namespace=default",
            "directory:policy-derived-from=CiliumNetworkPolicy",
        ]
    );
}

#[test]
fn endpoints_with_the_same_rules_share_one_result() {
    let world = World::with([clusterwide(json!({ "ingress": [{}] }))]);
    let view = world.view();
    let mut resolver = world.repository.resolver(&view);
    let mut resolve = |app, namespace| {
        let labels = pod(app, namespace).into();
        resolver.resolve(&Subject { labels, ..Default::default() })
    };
    let web = resolve("web", "default");
    assert!(Arc::ptr_eq(&web, &resolve("web", "other")));
    let db = resolve("db", "default");
    assert!(web.ingress_enforced && !db.ingress_enforced);
    assert!(Arc::ptr_eq(&db, &resolve("mail", "other")));
}
