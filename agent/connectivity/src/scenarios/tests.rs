//! Plans of worlds that are made by hand.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::*;
use crate::{
    judge::{Also, Want},
    objects, restart, world,
    world::{Features, Pod, Service},
};

/// A cluster with two nodes, or one, and both families or one.
pub(crate) fn world(nodes: &[&str], dual: bool) -> World {
    let names: Vec<_> = nodes.iter().map(|it| (*it).to_owned()).collect();
    let both = |last: u8, net: u8| {
        let v4 = format!("10.0.{net}.{last}");
        let v6 = dual.then(|| format!("fd00::{net}:{last}"));
        [Some(v4), v6].into_iter().flatten().map(|it| it.parse().unwrap()).collect::<Vec<IpAddr>>()
    };
    let objects: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let at = u8::try_from(at).unwrap() + 1;
            let addresses: Vec<_> = both(at, 9)
                .iter()
                .map(|it| json!({ "type": "InternalIP", "address": it }))
                .collect();
            json!({ "metadata": { "name": name }, "status": {
                "addresses": addresses, "conditions": [{ "type": "Ready", "status": "True" }],
            } })
        })
        .collect();
    let nodes = world::choose(&objects, &[], 2).unwrap();
    let pods = objects::pods(&names).into_iter().enumerate().map(|(at, wanted)| {
        let node = nodes.iter().find(|it| it.name == wanted.node).unwrap();
        let own = both(u8::try_from(at).unwrap() + 1, 1);
        let addresses = if wanted.is_host() { node.addresses.clone() } else { own };
        let space = if wanted.other { "test-other" } else { "test" };
        let path = format!("{space}/{}", wanted.name);
        (wanted.name.to_owned(), Pod { path, node: wanted.node, addresses })
    });
    let pods: BTreeMap<_, _> = pods.collect();
    let ports =
        ["tcp", "udp", "http"].iter().zip(30_001..).map(|(it, port)| ((*it).to_owned(), port));
    let ports: BTreeMap<_, _> = ports.collect();
    let services = objects::services(false, dual).into_iter().enumerate().map(|(at, it)| {
        let name = it["metadata"]["name"].as_str().unwrap().to_owned();
        let headless = it["spec"]["clusterIP"] == "None";
        let addresses = if headless { Vec::new() } else { both(u8::try_from(at).unwrap() + 1, 96) };
        (name, Service { addresses, node_ports: ports.clone(), balancers: Vec::new() })
    });
    World {
        namespace: "test".to_owned(),
        services: services.collect(),
        agents: names.iter().map(|it| (it.clone(), format!("kube-system/volvox-{it}"))).collect(),
        features: Features { cilium_policies: true, ..Features::default() },
        nodes,
        pods,
        ..World::default()
    }
}

fn stages(name: &str, world: &World) -> Vec<Stage> {
    let all = all();
    let scenario = all.iter().find(|it| it.name == name).unwrap();
    match (scenario.plan)(world) {
        Plan::Stages(stages) => stages,
        other => panic!("{name}: {other:?}"),
    }
}

fn why_not(name: &str, world: &World) -> String {
    match (all().iter().find(|it| it.name == name).unwrap().plan)(world) {
        Plan::NotTried(why) => why,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn names_are_unique_and_found_by_patterns() {
    let names: Vec<_> = all().iter().map(|it| it.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    let found = |patterns: &[&str]| {
        let patterns: Vec<_> = patterns.iter().map(|it| (*it).to_owned()).collect();
        chosen(&patterns).map(|all| all.iter().map(|it| it.name).collect::<Vec<_>>())
    };
    assert_eq!(found(&[]).unwrap(), names);
    assert_eq!(found(&["pod-to-pod"]).unwrap(), ["pod-to-pod-same-node", "pod-to-pod-other-node"]);
    assert_eq!(
        found(&["policy-*-label"]).unwrap(),
        ["policy-ingress-label", "policy-egress-label"]
    );
    assert_eq!(found(&["dns", "*-restart"]).unwrap(), ["dns", "agent-restart"]);
    assert_eq!(found(&["*affin*"]).unwrap(), ["service-affinity"]);
    let error = found(&["dns", "dsn"]).unwrap_err();
    assert!(matches!(error, ConnectivityError::Usage(_)));
    assert!(
        error.to_string().contains("\"dsn\"") && error.to_string().contains("host-port"),
        "{error}"
    );
}

#[test]
fn every_policy_allows_and_denies_at_the_same_time() {
    for nodes in [&["n1", "n2"][..], &["n1"]] {
        let mut world = world(nodes, true);
        world.external = Some(("192.0.2.1".to_owned(), 443));
        for scenario in all().iter().filter(|it| it.name.contains("policy")) {
            let stages = stages(scenario.name, &world);
            let denied =
                stages.iter().flat_map(|it| &it.checks).filter(|it| it.want == Want::Denied);
            let allowed =
                stages.iter().flat_map(|it| &it.checks).filter(|it| it.want != Want::Denied);
            assert!(denied.count() > 0, "{} denies nothing", scenario.name);
            assert!(allowed.count() > 0, "{} allows nothing", scenario.name);
            assert!(stages.iter().all(|it| it.settles), "{}", scenario.name);
            if scenario.name != "policy-deny-all" {
                assert_eq!((stages.len(), stages[0].policies.len()), (1, 1), "{}", scenario.name);
            }
        }
    }
}

#[test]
fn who_asks_is_there_and_speaks_the_family() {
    for dual in [false, true] {
        let mut world = world(&["n1", "n2"], dual);
        world.external = Some(("192.0.2.1".to_owned(), 443));
        world.features.dns = true;
        for scenario in all() {
            let Plan::Stages(stages) = (scenario.plan)(&world) else { continue };
            for check in stages.iter().flat_map(|it| &it.checks) {
                assert!(world.pods.contains_key(&check.from), "{}: {check:?}", scenario.name);
                let Some(at) = check.target.address() else { continue };
                assert!(world.speaks(&check.from, at.ip()), "{}: {check:?}", scenario.name);
                let again: Target = check.target.to_string().parse().unwrap();
                assert_eq!(again, check.target);
            }
        }
        let of = |name: &str, v4: bool| {
            let all = stages(name, &world);
            let of = |it: &&Check| it.target.address().is_some_and(|it| it.is_ipv4() == v4);
            all[0].checks.iter().filter(of).count()
        };
        assert_eq!(of("pod-to-pod-other-node", true), 8);
        assert_eq!(of("pod-to-pod-other-node", false), if dual { 8 } else { 0 });
    }
}

#[test]
fn what_cannot_be_tried_says_why() {
    let alone = world(&["n1"], false);
    for name in ["pod-to-pod-other-node", "node-to-node", "service-local-traffic"] {
        assert!(why_not(name, &alone).contains("needs two"), "{name}");
    }
    assert!(why_not("dns", &alone).contains("kube-dns"));
    assert!(why_not("service-headless", &alone).contains("only DNS knows it"));
    for name in ["cilium-policy-cluster", "cilium-policy-world"] {
        assert!(why_not(name, &alone).contains("--external-target"), "{name}");
    }
    assert!(why_not("pod-to-world", &alone).contains("--external-target"));
    assert!(why_not("service-load-balancer", &alone).contains("CiliumLoadBalancerIPPool"));
    let mut world = alone;
    world.features = Features { pools: true, ..Features::default() };
    assert!(why_not("service-load-balancer", &world).contains("no pool gave"));
    assert!(why_not("cilium-policy-deny", &world).contains("does not know"));
    world.refused.insert("echo-external-ip".to_owned(), "denied by admission".to_owned());
    assert!(why_not("service-external-ip", &world).contains("denied by admission"));
    world.pods.clear();
    assert!(why_not("pod-to-pod-same-node", &world).contains("no pod has an address"));
}

#[test]
fn services_are_asked_of_all_who_can_serve() {
    let world = world(&["n1", "n2"], false);
    let ports = stages("service-node-port", &world).remove(0).checks;
    // Four who ask, two nodes, three protocols.
    assert_eq!(ports.len(), 24);
    let local = stages("service-local-traffic", &world).remove(0).checks;
    for check in &local {
        let Want::Answer { by, also } = &check.want else { panic!("{check:?}") };
        assert_eq!(*also, Also::Source);
        let node = &world.pods[&by[0]].node;
        let at = check.target.address().unwrap().ip();
        let of = world.nodes.iter().find(|it| it.addresses.contains(&at)).unwrap();
        assert_eq!((by.len(), &of.name), (1, node), "only its own pods serve: {check:?}");
        assert_ne!(&world.pods[&check.from].node, node);
    }
    assert_eq!(local.len(), 6);
}

#[test]
fn a_restart_watches_what_is_allowed_and_what_is_denied() {
    let world = world(&["n1", "n2"], false);
    let all = restart::watched(&world);
    let denied: Vec<_> = all.iter().filter(|it| it.want == Want::Denied).collect();
    assert!(denied.iter().all(|it| it.from == "denied-a") && denied.len() == 2);
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Stream] {
        let pairs: BTreeSet<_> = all
            .iter()
            .filter(|it| it.want != Want::Denied && it.target.protocol == protocol)
            .map(|it| (it.from.as_str(), it.to.as_str()))
            .collect();
        for pair in [("client-a", "server-a"), ("client-a", "server-b"), ("client-b", "server-a")] {
            assert!(pairs.contains(&pair), "{protocol:?} {pair:?}");
        }
    }
}
