//! Tests of native routing: direct routes to the pods of neighbour nodes.

use std::time::Duration;

use serde_json::json;

use super::fixture::{
    DIRECT, ETH, announce, direct, fixture, leave, net, routes, said, steps, view,
};
use crate::{
    endpoints::ipam::Pools,
    model::{Addresses, NodeKey},
    node::{
        local_node::NodeMsg,
        routes::{Neighbour, RoutesMsg, RoutingMode},
    },
    ports::Hop,
    testing::{KvLink, World},
};

const MINUTE: Duration = Duration::from_secs(60);

fn both(numbers: &[u8]) -> Vec<(ipnet::IpNet, Hop)> {
    let mut all: Vec<_> = numbers.iter().flat_map(|number| direct(*number)).collect();
    all.sort();
    all
}

#[test]
fn each_node_s_prefixes_lead_to_it_and_go_with_it() {
    let (mut world, store) = fixture(DIRECT);
    announce(&store, 2, &said(2));
    world.boot();
    assert_eq!(routes(&world), both(&[2]));
    announce(&store, 3, &said(3));
    world.settle();
    assert_eq!(routes(&world), both(&[2, 3]));
    leave(&store, 2);
    world.settle();
    assert_eq!(routes(&world), both(&[3]));
    let shown = view(&world);
    assert_eq!((shown.nodes, shown.routes, shown.synced), (1, 2, true));
    assert!(shown.troubles.is_empty() && shown.last_error.is_none(), "{shown:?}");
}

#[test]
fn without_being_asked_for_there_are_none() {
    let (mut world, store) =
        fixture(RoutingMode::Native { direct: false, skip_unreachable: false });
    announce(&store, 2, &said(2));
    world.boot();
    world.advance(MINUTE * 2);
    assert_eq!((routes(&world), steps(&world)), (vec![], vec![]));
}

#[test]
fn a_restart_at_which_nothing_changed_writes_nothing() {
    let (mut world, store) = fixture(DIRECT);
    announce(&store, 2, &said(2));
    world.boot();
    let before = steps(&world);
    assert_eq!(before.len(), 2);
    world.restart();
    world.advance(MINUTE * 3);
    assert_eq!(steps(&world), before);
}

#[test]
fn what_an_earlier_life_made_stays_until_the_store_has_named_all() {
    let (mut world, store) = fixture(DIRECT);
    announce(&store, 2, &said(2));
    announce(&store, 3, &said(3));
    world.boot();
    world.crash();
    store.set_link(KvLink::Down);
    leave(&store, 3);
    world.boot();
    world.advance(MINUTE * 10);
    assert_eq!(routes(&world), both(&[2, 3]));
    assert!(!view(&world).synced);
    store.set_link(KvLink::Up);
    world.advance(MINUTE);
    assert_eq!(routes(&world), both(&[2]));
}

#[test]
fn what_somebody_removed_is_put_back_within_a_minute() {
    let (mut world, store) = fixture(DIRECT);
    announce(&store, 2, &said(2));
    world.boot();
    world.kernel.tamper(|state| state.routing.routes.clear());
    world.advance(MINUTE);
    assert_eq!(routes(&world), both(&[2]));
}

#[test]
fn what_went_with_an_interface_is_back_with_it() {
    let (mut world, store) = fixture(DIRECT);
    announce(&store, 2, &said(2));
    world.boot();
    let is_up = |up: bool| {
        world.kernel.tamper(|state| {
            state.rows.links.get_mut(&ETH).unwrap().up = up;
            if !up {
                state.routing.routes.clear();
            }
        });
        world.node_supervisor().node.tell(NodeMsg::Changed).unwrap();
        world.settle();
        routes(&world)
    };
    assert_eq!(is_up(false), []);
    assert_eq!(view(&world).troubles.len(), 2);
    assert_eq!(is_up(true), both(&[2]));
}

#[test]
fn a_node_on_no_network_of_this_one_is_named_and_holds_nothing_back() {
    let (mut world, store) = fixture(DIRECT);
    let mut far = said(4);
    far["IPAddresses"] = json!([{ "Type": "InternalIP", "IP": "198.51.100.4" }]);
    announce(&store, 4, &far);
    announce(&store, 5, &said(5));
    world.boot();
    assert_eq!(routes(&world), both(&[5]));
    let troubles = view(&world).troubles;
    let why = &troubles["10.4.0.0/24"];
    assert!(why.contains("default/n4: 198.51.100.4 is on no network of this node"), "{why}");
    let why = &troubles["fd04::/64"];
    assert!(why.contains("no IPv6 address"), "{why}");
}

#[test]
fn it_is_left_out_where_that_is_asked_for() {
    let (mut world, store) = fixture(RoutingMode::Native { direct: true, skip_unreachable: true });
    let mut far = said(4);
    far["IPAddresses"] = json!([
        { "Type": "InternalIP", "IP": "198.51.100.4" },
        { "Type": "InternalIP", "IP": "2001:db8:4::4" },
    ]);
    announce(&store, 4, &far);
    world.boot();
    let shown = view(&world);
    assert!(shown.troubles.is_empty(), "{shown:?}");
    assert!(shown.skipped.contains_key("10.4.0.0/24"), "{shown:?}");
    assert!(routes(&world).is_empty());
}

#[test]
fn prefixes_that_would_take_somebody_else_s_packets_are_refused() {
    let (mut world, store) = fixture(DIRECT);
    let ours = |said: &mut serde_json::Value| {
        said["IPv4AllocCIDR"] = json!({ "IP": "10.1.0.128", "Mask": "////gA==" });
    };
    let all = |said: &mut serde_json::Value| {
        said["IPv4AllocCIDR"] = json!({ "IP": "0.0.0.0", "Mask": "AAAAAA==" });
    };
    let (mut two, mut three) = (said(2), said(3));
    ours(&mut two);
    all(&mut three);
    announce(&store, 2, &two);
    announce(&store, 3, &three);
    world.boot();
    let shown = view(&world);
    let why = &shown.troubles["10.1.0.128/25"];
    assert!(why.contains("this node's pods have 10.1.0.0/24"), "{why}");
    let why = &shown.troubles["0.0.0.0/0"];
    assert!(why.contains("this node's pods have"), "{why}");
    let mut six: Vec<_> = [2, 3].map(|number| direct(number)[1]).to_vec();
    six.sort();
    assert_eq!(routes(&world), six);
}

#[test]
fn of_two_nodes_with_one_prefix_it_stays_the_one_s_which_has_it() {
    let (mut world, store) = fixture(DIRECT);
    announce(&store, 5, &said(5));
    world.boot();
    let mut thief = said(2);
    thief["IPv4AllocCIDR"] = said(5)["IPv4AllocCIDR"].clone();
    announce(&store, 2, &thief);
    world.settle();
    let hop = |world: &World| routes(world).into_iter().find(|(it, _)| *it == net("10.5.0.0/24"));
    assert_eq!(hop(&world), Some(direct(5)[0]));
    let why = view(&world).troubles["10.5.0.0/24"].clone();
    assert!(why.starts_with("nodes default/n5 and default/n2 all have it"), "{why}");
    // It passes on when the other one is gone.
    leave(&store, 5);
    world.settle();
    let gateway = "192.0.2.2".parse().unwrap();
    assert_eq!(hop(&world), Some((net("10.5.0.0/24"), Hop::Direct { gateway, ifindex: ETH })));
    assert!(view(&world).troubles.is_empty());
}

/// After a restart nodes are heard one by one, and the one that has it need not be the first.
#[test]
fn a_route_goes_to_no_other_node_before_all_are_named() {
    let (mut world, store) = fixture(DIRECT);
    announce(&store, 5, &said(5));
    world.boot();
    let before = routes(&world);
    store.set_link(KvLink::Down);
    let tell = |world: &World, number: u8, all| {
        let addresses = Addresses {
            ipv4: format!("192.0.2.{number}").parse().ok(),
            ipv6: format!("2001:db8::{number}").parse().ok(),
        };
        let pools = Pools { ipv4: "10.5.0.0/24".parse().ok(), ipv6: "fd05::/64".parse().ok() };
        let key = NodeKey { cluster: "default".to_owned(), name: format!("n{number}") };
        let changed = [(key, Some(Neighbour { addresses, pools, ..Neighbour::default() }))].into();
        let reported = world.node_supervisor().routes.tell(RoutesMsg::Nodes { changed, all });
        assert!(reported.is_ok());
        world.settle();
    };
    world.restart();
    tell(&world, 2, false);
    assert_eq!(routes(&world), before);
    tell(&world, 5, true);
    assert_eq!(routes(&world), before, "of two it stays the one's which has it");
    assert!(view(&world).troubles.contains_key("10.5.0.0/24"));
    world.restart();
    tell(&world, 2, true);
    let to: Vec<_> = routes(&world).iter().map(|(_, hop)| hop.node().to_string()).collect();
    assert_eq!(to, ["192.0.2.2", "2001:db8::2"], "the one that had it is gone");
}
