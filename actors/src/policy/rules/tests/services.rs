//! Services, which policies name and which come and go beside them.

use serde_json::{Value, json};

use super::world::{Other, World, address, pod, pod_of};
use crate::policy::rules::{PolicySettings, parse};

const TCP: u8 = 6;

fn policy(services: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "one", "namespace": "default" },
        "spec": { "endpointSelector": { "matchLabels": { "app": "web" } },
                  "egress": [{ "toServices": services }] },
    })
}

fn named(name: &str) -> Value {
    policy(json!([{ "k8sService": { "serviceName": name, "namespace": "default" } }]))
}

fn service(name: &str, selector: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": "default", "labels": { "tier": name } },
        "spec": { "selector": selector, "ports": [{ "port": 80 }] },
    })
}

fn slice(name: &str, service: &str, endpoints: Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "namespace": "default",
                      "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4", "endpoints": endpoints,
    })
}

fn at(addresses: &[&str]) -> Value {
    json!([{ "addresses": addresses }])
}

fn world(documents: impl IntoIterator<Item = Value>) -> World {
    let mut world = World::new(PolicySettings::default());
    for document in documents {
        let source = format!("{}/{}", document["kind"], document["metadata"]["name"]);
        let report = world.apply_from(&source, &Ok(vec![document]));
        assert_eq!((report.rejected, report.unsupported), (vec![], vec![]));
    }
    world
}

fn reaches(world: &World, others: &[Other]) -> Vec<bool> {
    others.iter().map(|other| world.egress(*other, TCP, 80).passes()).collect()
}

fn cidrs(world: &World) -> Vec<String> {
    world.repository.cidrs().iter().map(ToString::to_string).collect()
}

/// What is wrong with objects that speak of services.
fn rejected(world: &World) -> Vec<String> {
    world.services.rejected().map(|(_, error)| error.to_string()).collect()
}

#[test]
fn a_service_is_the_pods_that_it_selects_in_its_namespace() {
    let listed = slice("db-1", "db", at(&["192.0.2.1"]));
    let world = world([named("db"), service("db", json!({ "app": "db" })), listed]);
    let others = [pod_of("db", "default"), pod_of("db", "other"), pod_of("mail", "default")];
    assert_eq!(reaches(&world, &others), [true, false, false]);
    assert_eq!(cidrs(&world), [""; 0], "the addresses are those of its pods");
}

#[test]
fn a_service_without_selector_is_the_addresses_of_its_slices() {
    let endpoints = json!([
        { "addresses": ["192.0.2.1"], "conditions": { "ready": true } },
        { "addresses": ["192.0.2.2"], "conditions": { "ready": null } },
        { "addresses": ["192.0.2.3"], "conditions": { "ready": false } },
        { "addresses": ["192.0.2.4"],
          "conditions": { "ready": false, "serving": true, "terminating": true } },
        { "addresses": ["192.0.2.5"],
          "conditions": { "ready": false, "serving": false, "terminating": true } },
    ]);
    let mut v6 = slice("lan-2", "lan", at(&["fd00::7"]));
    (v6["addressType"], v6["apiVersion"]) = (json!("IPv6"), json!("discovery.k8s.io/v1beta1"));
    let mut names = slice("lan-3", "lan", at(&["db.example.org"]));
    names["addressType"] = json!("FQDN");
    let others = slice("wan-1", "wan", at(&["192.0.2.9"]));
    let first = slice("lan-1", "lan", endpoints);
    let world = world([first, v6, names, others, named("lan"), service("lan", json!(null))]);
    let nets = ["192.0.2.1/32", "192.0.2.2/32", "192.0.2.4/32", "fd00::7/128"];
    assert_eq!(cidrs(&world), nets);
    let (inside, outside) = (address("192.0.2.1"), address("192.0.2.3"));
    assert_eq!(reaches(&world, &[inside, outside]), [true, false]);
}

#[test]
fn an_older_server_lists_endpoints() {
    let world = world([
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": { "name": "lan", "namespace": "default" },
            "subsets": [{ "addresses": [{ "ip": "192.0.2.1" }, { "ip": "fd00::7" }],
                          "notReadyAddresses": [{ "ip": "192.0.2.2" }] }],
        }),
        service("lan", json!({})),
        named("lan"),
    ]);
    assert_eq!(cidrs(&world), ["192.0.2.1/32", "fd00::7/128"]);
}

#[test]
fn services_are_named_by_labels_in_one_namespace_or_in_all() {
    let mut other = service("lan", json!(null));
    other["metadata"]["namespace"] = json!("other");
    let mut listed = slice("lan-1", "lan", at(&["192.0.2.2"]));
    listed["metadata"]["namespace"] = json!("other");
    let documents = |services: Value| {
        let own = slice("lan-1", "lan", at(&["192.0.2.1"]));
        let mut world = World::new(PolicySettings::default());
        world.apply([service("lan", json!(null)), own, other.clone(), listed.clone()]);
        world.apply_from("policy.yaml", &Ok(vec![policy(services)]));
        cidrs(&world)
    };
    let both = ["192.0.2.1/32", "192.0.2.2/32"];
    let labels = json!({ "matchLabels": { "tier": "lan" } });
    let entry = |namespace| json!([{ "k8sServiceSelector": { "selector": labels, "namespace": namespace } }]);
    assert_eq!(documents(entry(json!(null))), both);
    assert_eq!(documents(entry(json!("other"))), both[1..]);
    assert_eq!(documents(json!([{ "k8sService": { "serviceName": "lan" } }])), both);
    let nobody = json!({ "matchLabels": { "tier": "moon" } });
    assert_eq!(documents(json!([{ "k8sServiceSelector": { "selector": nobody } }])), [""; 0]);
}

#[test]
fn ports_narrow_a_service_and_denials_name_them_too() {
    let mut document = named("lan");
    let services = document["spec"]["egress"][0]["toServices"].clone();
    document["spec"]["egress"][0]["toPorts"] = json!([{ "ports": [{ "port": "80" }] }]);
    let mut deny = named("lan");
    deny["metadata"]["name"] = json!("two");
    deny["spec"]["egress"] = json!([{ "toEntities": ["all"] }]);
    let lan = [service("lan", json!(null)), slice("lan-1", "lan", at(&["192.0.2.1"]))];
    let inside = address("192.0.2.1");
    let narrow = world([lan[0].clone(), lan[1].clone(), document]);
    assert!(narrow.egress(inside, TCP, 80).passes() && !narrow.egress(inside, TCP, 81).passes());
    deny["spec"]["egressDeny"] = json!([{ "toServices": services }]);
    let denied = world([lan[0].clone(), lan[1].clone(), deny]);
    assert_eq!(reaches(&denied, &[inside, address("192.0.2.2")]), [false, true]);
}

#[test]
fn a_change_of_a_service_touches_whom_policies_that_name_it_select() {
    let (web, db) = (pod("web", "default"), pod("db", "default"));
    let mut world = world([
        named("lan"),
        service("lan", json!(null)),
        service("db", json!({ "app": "db" })),
        slice("lan-1", "lan", at(&["192.0.2.1"])),
        slice("lan-2", "lan", at(&["192.0.2.2"])),
    ]);
    let mut say = |source: &str, documents: Vec<Value>| {
        let report = world.apply_from(source, &Ok(documents));
        (report.changed, report.touches(&web), report.touches(&db), cidrs(&world))
    };
    let lan_1 = "\"EndpointSlice\"/\"lan-1\"";
    let one =
        |nets: &[&str]| nets.iter().map(|net| format!("192.0.2.{net}/32")).collect::<Vec<_>>();
    let same = slice("lan-1", "lan", at(&["192.0.2.1"]));
    assert_eq!(say(lan_1, vec![same]), (false, false, false, one(&["1", "2"])));
    let others = slice("db-1", "db", at(&["192.0.2.3"]));
    assert_eq!(say("db-1", vec![others]), (false, false, false, one(&["1", "2"])));
    let moved = slice("lan-1", "lan", at(&["192.0.2.4"]));
    assert_eq!(say(lan_1, vec![moved]), (true, true, false, one(&["2", "4"])));
    // A slice that becomes another service's leaves the one before.
    let left = slice("lan-1", "db", at(&["192.0.2.4"]));
    assert_eq!(say(lan_1, vec![left]), (true, true, false, one(&["2"])));
    assert_eq!(say("\"EndpointSlice\"/\"lan-2\"", vec![]), (true, true, false, one(&[])));
    let pods = service("lan", json!({ "app": "mail" }));
    assert_eq!(say("\"Service\"/\"lan\"", vec![pods]), (true, true, false, one(&[])));
    assert_eq!(reaches(&world, &[pod_of("mail", "default")]), [true]);
}

#[test]
fn a_service_that_is_not_there_is_nobody_and_is_named() {
    let mut world = world([named("db")]);
    let missing = |world: &World| {
        let status = world.repository.status(&[], &world.view());
        let all = status.into_iter().flat_map(|it| it.missing_services);
        all.map(|it| format!("{}: {}", it.path, it.which)).collect::<Vec<_>>()
    };
    let derived = |world: &World| {
        let mut filters = world.repository.derived(&pod("web", "default"));
        filters.remove(0).selectors.into_keys().collect::<Vec<_>>()
    };
    let db = [pod_of("db", "default")];
    assert_eq!(missing(&world), ["spec.egress[0]: default/db"]);
    assert_eq!(derived(&world), ["service:default/db (there is none)"]);
    assert_eq!(reaches(&world, &db), [false]);
    world.apply_from("db.yaml", &Ok(vec![service("db", json!({ "app": "db" }))]));
    assert_eq!((missing(&world), derived(&world)), (vec![], vec!["service:default/db".to_owned()]));
    assert_eq!(reaches(&world, &db), [true]);
    world.apply_from("db.yaml", &Ok(vec![]));
    assert_eq!(reaches(&world, &db), [false]);
}

#[test]
fn an_object_that_is_refused_is_named_and_stays_as_it_was() {
    let mut world = world([named("lan")]);
    let lan = |first: &str| {
        vec![
            service("lan", json!(null)),
            slice("lan-1", "lan", at(&[first])),
            slice("lan-2", "lan", at(&["192.0.2.2"])),
        ]
    };
    let both = ["192.0.2.1/32", "192.0.2.2/32"];
    world.apply_from("lan.yaml", &Ok(lan("192.0.2.1")));
    assert_eq!((cidrs(&world), rejected(&world)), (both.map(str::to_owned).to_vec(), vec![]));
    world.apply_from("lan.yaml", &Ok(lan("192.0.2.256")));
    assert_eq!(cidrs(&world), both);
    assert_eq!(
        rejected(&world),
        [
            "lan.yaml: EndpointSlice default/lan-1: endpoints[0].addresses[0]: \"192.0.2.256\" is no \
          address; write an address, as in 192.0.2.7 or fd00::7"
        ]
    );
    // A file that cannot be read, and an object without a name, leave all as it was.
    world.apply_from("lan.yaml", &Err("a tab".to_owned()));
    world.apply_from("lan.yaml", &Ok(vec![json!({ "kind": "Service", "metadata": {} })]));
    assert_eq!(cidrs(&world), both);
    world.apply_from("lan.yaml", &Ok(lan("192.0.2.3")));
    assert_eq!((cidrs(&world).len(), rejected(&world).len()), (2, 0));
    let twice = [lan("192.0.2.1"), lan("192.0.2.1")].concat();
    world.apply_from("lan.yaml", &Ok(twice));
    assert_eq!(rejected(&world).len(), 3);
    assert!(rejected(&world)[0].contains("the file holds this object twice"));
    for (wrong, path) in [
        (json!({ "spec": { "selector": { "app": 1 } } }), "spec.selector.app: 1 is no text"),
        (json!({ "spec": { "selector": [] } }), "spec.selector: a list where a mapping"),
        (json!({ "apiVersion": "v2" }), "apiVersion: Service of version \"v2\""),
    ] {
        let mut document = service("odd", json!({}));
        document.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        world.apply_from("odd.yaml", &Ok(vec![document]));
        let all = rejected(&world);
        assert!(all.iter().any(|it| it.contains(&format!("default/odd: {path}"))), "{all:?}");
    }
}

#[test]
fn an_entry_names_services_in_one_way() {
    let (name, labels) = (json!({ "serviceName": "db" }), json!({ "selector": {} }));
    for (entry, problem) in [
        (json!({}), "names no service"),
        (json!({ "k8sService": name, "k8sServiceSelector": labels }), "in two ways"),
        (json!({ "k8sService": {} }), "field \"serviceName\" is missing"),
        (json!({ "k8sService": { "serviceName": "" } }), "the name is empty"),
        (json!({ "k8sService": { "serviceName": "a", "port": 1 } }), "unknown field \"port\""),
        (json!({ "k8sServiceSelector": {} }), "field \"selector\" is missing"),
        (json!({ "service": "db" }), "unknown field \"service\""),
    ] {
        let read =
            parse("web.yaml", &policy(json!([entry])).into(), &PolicySettings::default()).remove(0);
        let refused = read.unwrap_err().error.to_string();
        assert!(refused.contains("toServices[0]") && refused.contains(problem), "{refused}");
    }
    let mut inwards = named("db");
    let clause = inwards["spec"]["egress"].take();
    inwards["spec"]["ingress"] = clause;
    let refused = parse("web.yaml", &inwards.into(), &PolicySettings::default())
        .remove(0)
        .unwrap_err()
        .error
        .to_string();
    assert!(refused.contains("unknown field \"toServices\""), "{refused}");
}
