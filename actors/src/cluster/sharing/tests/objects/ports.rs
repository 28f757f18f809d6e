//! Ports of other nodes' pods that policies call by name.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{cluster, endpoint, fixture, identity, labels, make, mapped, node};
use crate::{
    model::{Direction, IdentityId},
    policy::rules::lookup,
    testing::{World, to_http},
};

fn with_http(port: u16) -> Value {
    let mut object = endpoint("db", "10.0.9.1", 4000);
    object["status"]["named-ports"] = json!([{ "name": "http", "port": port, "protocol": "TCP" }]);
    object
}

/// Whether `web` reaches the other node's pod at these ports.
fn reaches(world: &World) -> [bool; 2] {
    let rows = world.kernel.state().policy_of(101).cloned().unwrap();
    [80, 81].map(|port| lookup(&rows, Direction::Egress, IdentityId(4000), 6, port).passes())
}

#[test]
fn names_follow_the_objects_and_outlive_a_restart_without_the_server() {
    let (mut world, cluster) = fixture();
    cluster.apply(to_http("web", "db"));
    cluster.apply(identity(4000, labels("db")));
    cluster.apply(with_http(80));
    make(&world, &cluster, 1, "web");
    world.advance(Duration::from_secs(1));
    assert_eq!((mapped(&world, "10.0.9.1/32"), reaches(&world)), (Some(4000), [true, false]));
    cluster.apply(with_http(81));
    world.advance(Duration::from_secs(1));
    assert_eq!(reaches(&world), [false, true]);

    world.crash();
    cluster.set_down(true);
    world.boot();
    world.advance(Duration::from_secs(20));
    assert_eq!(reaches(&world), [false, true]);
    // The policies come first: what they say of names is what the last life knew.
    cluster.set_down(false);
    world.advance(Duration::from_secs(60));
    assert_eq!(reaches(&world), [false, true]);
    cluster.apply(endpoint("db", "10.0.9.1", 4000));
    world.advance(Duration::from_secs(1));
    assert_eq!((mapped(&world, "10.0.9.1/32"), reaches(&world)), (Some(4000), [false, false]));
    world.audit();
}

#[test]
fn a_port_that_cannot_be_read_costs_no_address() {
    let cluster = cluster();
    let mut world = node(&cluster, "node-1", "192.0.2.1");
    world.boot();
    cluster.apply(identity(4000, labels("db")));
    for ports in [json!("http"), json!([7]), json!([{ "name": "http", "port": 0 }])] {
        let mut torn = endpoint("db", "10.0.9.1", 4000);
        torn["status"]["named-ports"] = ports;
        cluster.apply(torn);
        world.advance(Duration::from_secs(1));
        assert_eq!(mapped(&world, "10.0.9.1/32"), Some(4000));
        cluster.delete(&endpoint("db", "10.0.9.1", 4000));
        world.advance(Duration::from_secs(1));
        assert_eq!(mapped(&world, "10.0.9.1/32"), None);
    }
}
