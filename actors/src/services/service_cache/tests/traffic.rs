//! Where packets land.

use serde_json::json;

use super::fixture::{Fixture, at, frontend, gone, of_udp, place, service, slice};
use crate::{
    model::{BackendId, Frontend, LookupScope},
    ports::{BackendState, KernelOp, ServiceKeys, ServiceRows, service_flags},
    services::service_cache::ServiceSource,
    testing::Landing,
};

#[test]
fn packets_land_at_who_is_listed_in_any_slice() {
    let fixture = Fixture::new();
    fixture.tell(&[service("web", "10.96.0.1"), slice("web-a", "web", &["10.0.0.1", "10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080", "10.0.0.2:8080"]));
    fixture.tell(&[slice("web-b", "web", &["10.0.1.1"])]);
    let all = at(&["10.0.0.1:8080", "10.0.0.2:8080", "10.0.1.1:8080"]);
    assert_eq!(fixture.landing("10.96.0.1:80"), all);
    fixture.tell(&[gone(slice("web-a", "web", &[]))]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.1.1:8080"]));
    fixture.tell(&[gone(service("web", ""))]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoService);
    let maps = fixture.maps();
    assert!(maps.backends.is_empty() && maps.slots.is_empty() && maps.reverse_nat.is_empty());
}

#[test]
fn who_ends_is_used_by_nobody_new_unless_there_is_nobody_else() {
    let fixture = Fixture::new();
    let web = |members: &[&str]| slice("web-a", "web", members);
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.1", "10.0.0.2-ending"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]));
    let state = |fixture: &Fixture, id| {
        fixture.maps().backends.get(&(BackendId(id), true)).map(|it| it.state)
    };
    assert_eq!(state(&fixture, 2), Some(BackendState::Terminating));
    fixture.tell(&[web(&["10.0.0.1-leaving", "10.0.0.2-ending"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.2:8080"]));
    fixture.tell(&[web(&["10.0.0.1-leaving"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoBackend);
    fixture.swept();
    assert_eq!((state(&fixture, 1), state(&fixture, 2)), (Some(BackendState::Terminating), None));
}

#[test]
fn a_backend_of_two_services_is_one_and_stays_as_long_as_either_lists_it() {
    let fixture = Fixture::new();
    fixture.tell(&[service("a", "10.96.0.1"), slice("a-1", "a", &["10.0.0.1"])]);
    fixture.tell(&[service("b", "10.96.0.2"), slice("b-1", "b", &["10.0.0.1-ending"])]);
    let backends = fixture.maps().backends;
    assert_eq!(backends.len(), 1);
    assert_eq!(backends[&(BackendId(1), true)].state, BackendState::Active);
    fixture.tell(&[gone(service("a", "")), gone(slice("a-1", "a", &[]))]);
    assert_eq!(fixture.maps().backends[&(BackendId(1), true)].state, BackendState::Terminating);
    fixture.tell(&[gone(slice("b-1", "b", &[]))]);
    fixture.swept();
    assert!(fixture.maps().backends.is_empty());
}

/// A thousand backends are replaced while packets come at every step.
#[test]
fn no_packet_finds_nobody_while_all_backends_are_replaced() {
    let fixture = Fixture::new();
    let members = |net: u32| -> Vec<String> {
        (0..1000).map(|n| format!("10.{net}.{}.{}", n / 250, n % 250)).collect()
    };
    let slices = |net: u32| {
        let all = members(net);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        slice("web-a", "web", &all)
    };
    fixture.tell(&[service("web", "10.96.0.1"), slices(1)]);
    let seen = std::rc::Rc::new(std::cell::Cell::new(0));
    let steps = seen.clone();
    fixture.kernel.watch(move |state, op| {
        let Landing::At(all) = state.services.landing(frontend("10.96.0.1:80")) else {
            panic!("behind {op:?}: {:?}", state.services.landing(frontend("10.96.0.1:80")))
        };
        assert_eq!(all.len(), 1000);
        steps.set(steps.get() + 1);
    });
    // Each write in turn is cut in two, and tried again.
    for nth in 0..8 {
        fixture.announce(&[slices(2 + nth % 2)]);
        fixture.fate.at(nth as usize % 4, crate::testing::Turn::Half);
        fixture.settle();
        fixture.wait(40);
    }
    assert!(seen.get() > 24, "{} steps were seen", seen.get());
    let Landing::At(all) = fixture.landing("10.96.0.1:80") else { panic!("nobody is there") };
    assert!(all.iter().all(|it| it.to_string().starts_with("10.3.")));
    fixture.swept();
    fixture.wait(40);
    assert_eq!(fixture.maps().backends.len(), 1000);
}

#[test]
fn a_change_of_one_backend_writes_no_more_than_that() {
    let fixture = Fixture::new();
    let members: Vec<String> = (1..=50).map(|n| format!("10.0.0.{n}")).collect();
    let mut members: Vec<&str> = members.iter().map(String::as_str).collect();
    fixture.tell(&[service("web", "10.96.0.1"), slice("web-a", "web", &members)]);
    let before = fixture.kernel.writes().len();
    members[20] = "10.0.1.1";
    fixture.tell(&[slice("web-a", "web", &members)]);
    let rows: usize = fixture
        .writes_since(before)
        .iter()
        .map(|op| match op {
            KernelOp::PutServices(ServiceRows::Unused(_)) => 0,
            KernelOp::PutServices(rows) => rows.len(),
            KernelOp::DeleteServices(keys) => keys.len(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(rows, 5, "a backend, whose it is, a slot, and both of one that goes");
    let before = fixture.kernel.writes().len();
    fixture.tell(&[slice("web-a", "web", &members), service("web", "10.96.0.1")]);
    assert_eq!(fixture.writes_since(before), [], "nothing is new");
}

#[test]
fn ports_of_nodes_and_balancers_have_a_frontend_for_each_side_where_they_differ() {
    let fixture = Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Node]);
    fixture.host_addresses(&["192.0.2.7", "2001:db8::7"]);
    let mut web = service("web", "10.96.0.1");
    web["spec"]["type"] = json!("LoadBalancer");
    web["spec"]["externalIPs"] = json!(["198.51.100.1"]);
    web["spec"]["externalTrafficPolicy"] = json!("Local");
    web["spec"]["ports"][0]["nodePort"] = json!(30080);
    web["spec"]["loadBalancerSourceRanges"] = json!(["203.0.113.9/24"]);
    web["spec"]["sessionAffinity"] = json!("ClientIP");
    web["status"] =
        json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.2"}, {"hostname": "x"}]}});
    fixture.tell(&[web.clone(), slice("web-a", "web", &["10.0.0.1@here", "10.0.0.2"])]);
    let (here, all) = (at(&["10.0.0.1:8080"]), at(&["10.0.0.1:8080", "10.0.0.2:8080"]));
    assert_eq!(fixture.landing("10.96.0.1:80"), all);
    for outside in ["192.0.2.7:30080", "198.51.100.1:80", "198.51.100.2:80"] {
        assert_eq!(fixture.landing(outside), here, "{outside}");
        assert_eq!(fixture.landing(&format!("{outside}/i")), all, "{outside} from inside");
    }
    // The service has no IPv6.
    assert_eq!(fixture.landing("[2001:db8::7]:30080"), Landing::NoService);
    let list = fixture.list();
    let of = |at: &str| list.iter().find(|it| it.frontend == frontend(at)).unwrap();
    let balancer = of("198.51.100.2:80");
    use service_flags as f;
    let flags = f::LOAD_BALANCER
        | f::ROUTABLE
        | f::AFFINITY
        | f::EXTERNAL_LOCAL
        | f::TWO_SCOPES
        | f::SOURCE_RANGE;
    assert_eq!((balancer.flags, balancer.affinity, balancer.realised), (flags, 10_800, true));
    assert_eq!(of("10.96.0.1:80").flags, f::AFFINITY);
    let maps = fixture.maps();
    assert!(maps.ranges.contains(&(balancer.id, "203.0.113.0/24".parse().unwrap())));
    let table = &maps.maglev[&(balancer.id, true)];
    assert_eq!(table.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [place("10.0.0.1:8080")]);
    // An address goes, and all that leads to it.
    fixture.host_addresses(&["192.0.2.8"]);
    assert_eq!(fixture.landing("192.0.2.7:30080"), Landing::NoService);
    assert_eq!(fixture.landing("192.0.2.8:30080"), here);
    fixture.tell(&[gone(web), gone(slice("web-a", "web", &[]))]);
    let maps = fixture.maps();
    assert!(
        maps.slots.is_empty()
            && maps.affinity.is_empty()
            && maps.ranges.is_empty()
            && maps.maglev.is_empty()
    );
}

#[test]
fn no_packet_from_inside_meets_a_frontend_whose_other_half_is_missing() {
    let fixture = Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Node]);
    fixture.host_addresses(&["192.0.2.7"]);
    let mut web = service("web", "10.96.0.1");
    web["spec"]["externalIPs"] = json!(["198.51.100.1"]);
    fixture.tell(&[web.clone(), slice("web-a", "web", &["10.0.0.1@here"])]);
    let halves = |before: usize| {
        let firsts = |ops: Vec<KernelOp>| {
            ops.into_iter().flat_map(|op| match op {
                KernelOp::PutServices(ServiceRows::Slots(rows)) => {
                    rows.into_iter().map(|(key, _)| ("put", key)).collect::<Vec<_>>()
                }
                KernelOp::DeleteServices(ServiceKeys::Slots(keys)) => {
                    keys.into_iter().map(|key| ("delete", key)).collect()
                }
                _ => Vec::new(),
            })
        };
        let of_halves = |(what, (at, slot)): (&'static str, (Frontend, u16))| {
            let is_it = slot == 0 && at.at == place("198.51.100.1:80");
            is_it.then_some((what, at.scope))
        };
        firsts(fixture.writes_since(before)).filter_map(of_halves).collect::<Vec<_>>()
    };
    let before = fixture.kernel.writes().len();
    web["spec"]["externalTrafficPolicy"] = json!("Local");
    fixture.tell(&[web.clone()]);
    let [inside, outside] = [LookupScope::Internal, LookupScope::External];
    assert_eq!(halves(before), [("put", inside), ("put", outside)]);
    let before = fixture.kernel.writes().len();
    web["spec"]["externalTrafficPolicy"] = json!("Cluster");
    fixture.tell(&[web.clone()]);
    assert_eq!(halves(before), [("put", outside), ("delete", inside)]);
    web["spec"]["externalTrafficPolicy"] = json!("Local");
    fixture.tell(&[web.clone()]);
    let before = fixture.kernel.writes().len();
    fixture.tell(&[gone(web)]);
    assert_eq!(halves(before), [("delete", outside), ("delete", inside)]);
}

#[test]
fn clients_of_a_zone_stay_in_it_if_everyone_says_for_whom_he_is() {
    let fixture = Fixture::new();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"namespace": "", "name": "here", "labels": {"topology.kubernetes.io/zone": "z1"}},
    });
    fixture.tell(&[node]);
    let mut slice = slice("web-a", "web", &["10.0.0.1", "10.0.0.2"]);
    let hints = |zone: &str| json!({"forZones": [{"name": zone}]});
    slice["endpoints"][0]["hints"] = hints("z1");
    fixture.tell(&[service("web", "10.96.0.1"), slice.clone()]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080", "10.0.0.2:8080"]));
    slice["endpoints"][1]["hints"] = hints("z2");
    fixture.tell(&[slice.clone()]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]));
    slice["endpoints"][0]["hints"] = hints("z3");
    fixture.tell(&[slice]);
    assert_eq!(
        fixture.landing("10.96.0.1:80"),
        at(&["10.0.0.1:8080", "10.0.0.2:8080"]),
        "nobody is for z1"
    );
}

#[test]
fn clients_of_a_node_stay_on_it_if_everyone_says_for_whom_he_is() {
    let fixture = Fixture::new();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"namespace": "", "name": "here", "labels": {"topology.kubernetes.io/zone": "z1"}},
    });
    fixture.tell(&[node, service("web", "10.96.0.1")]);
    let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    let mut slice = slice("web-a", "web", &all);
    for (nodes, landing) in [
        // As with trafficDistribution: PreferSameNode, where two are in this zone.
        ([Some("here"), Some("next"), Some("far")], &all[..1]),
        ([Some("other"), Some("next"), Some("far")], &all[..2]),
        ([Some("here"), None, Some("far")], &all[..2]),
    ] {
        for (at, (node, zone)) in nodes.iter().zip(["z1", "z1", "z2"]).enumerate() {
            slice["endpoints"][at]["hints"] = json!({"forZones": [{"name": zone}]});
            if let Some(node) = node {
                slice["endpoints"][at]["hints"]["forNodes"] = json!([{"name": node}]);
            }
        }
        fixture.tell(std::slice::from_ref(&slice));
        let landing: Vec<_> = landing.iter().map(|to| format!("{to}:8080")).collect();
        let landing: Vec<_> = landing.iter().map(String::as_str).collect();
        assert_eq!(fixture.landing("10.96.0.1:80"), at(&landing), "{nodes:?}");
    }
}

#[test]
fn two_families_and_three_protocols() {
    let fixture = Fixture::new();
    let mut dns = service("dns", "10.96.0.10");
    dns["spec"]["clusterIPs"] = json!(["10.96.0.10", "fd00:96::a"]);
    dns["spec"]["ports"] = json!([
        {"name": "", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53, "protocol": "TCP"},
        {"name": "s", "port": 54, "protocol": "SCTP"},
    ]);
    let mut six = slice("dns-6", "dns", &["fd00::1"]);
    let ports = json!([
        {"name": "", "port": 5353, "protocol": "UDP"}, {"name": "tcp", "port": 5354, "protocol": "TCP"},
        {"name": "s", "port": 5355, "protocol": "SCTP"},
    ]);
    six["ports"] = ports.clone();
    let mut four = slice("dns-4", "dns", &["10.0.0.1"]);
    four["ports"] = ports;
    fixture.tell(&[dns, six, four]);
    let list = fixture.list();
    let reported: Vec<String> = list
        .iter()
        .map(|it| {
            format!(
                "{} {:?}",
                it.frontend,
                it.backends.iter().map(|(_, at, _)| at.unwrap().to_string()).collect::<Vec<_>>()
            )
        })
        .collect();
    assert_eq!(
        reported,
        [
            r#"10.96.0.10:53/TCP ["10.0.0.1:5354/TCP"]"#,
            r#"10.96.0.10:53/UDP ["10.0.0.1:5353/UDP"]"#,
            r#"10.96.0.10:54/SCTP ["10.0.0.1:5355/SCTP"]"#,
            r#"[fd00:96::a]:53/TCP ["[fd00::1]:5354/TCP"]"#,
            r#"[fd00:96::a]:53/UDP ["[fd00::1]:5353/UDP"]"#,
            r#"[fd00:96::a]:54/SCTP ["[fd00::1]:5355/SCTP"]"#,
        ]
    );
}

#[test]
fn who_ends_sockets_hears_when_backends_are_gone_from_the_kernel() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.gone.get(), 0, "nobody knows yet who is named");
    let web = |members| of_udp(slice("web-1", "web", members));
    let all = [of_udp(service("web", "10.96.0.1")), web(&["10.0.0.1", "10.0.0.2"])];
    fixture.tell(&all);
    assert_eq!(fixture.gone.get(), 1, "the life before may have removed some");
    fixture.tell(&[web(&["10.0.0.1", "10.0.0.2", "10.0.0.3"])]);
    assert_eq!(fixture.gone.get(), 1);
    fixture.tell(&[web(&["10.0.0.3"])]);
    assert_eq!(fixture.gone.get(), 2);
    fixture.restart();
    assert_eq!(fixture.gone.get(), 2);
    fixture.tell(&[gone(all[0].clone()), gone(all[1].clone())]);
    assert!(fixture.gone.get() > 2);
}
