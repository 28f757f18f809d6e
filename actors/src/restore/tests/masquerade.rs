//! Tests: an endpoint that leaves the cluster with its own address goes on so.

use std::time::Duration;

use serde_json::json;

use super::lost::{back, node, remove};
use crate::{
    endpoints::endpoint::EndpointSpec,
    model::EndpointId,
    ports::lxc_flags,
    testing::{World, spec},
};

#[test]
fn an_endpoint_that_is_not_masqueraded_stays_so_whatever_is_lost() {
    let mut world = node();
    let properties = json!({ "property-skip-masquerade-v4": true, "of-another": "7" });
    world.create(EndpointSpec { properties, ..spec(3) }).unwrap();
    world.advance(Duration::from_secs(1));
    let addresses = spec(3).addresses;
    let flags = |world: &World| {
        let rows = world.kernel.state().rows.lxc;
        addresses.iter().map(|address| rows[&address].flags).collect::<Vec<_>>()
    };
    assert_eq!(flags(&world), [lxc_flags::SKIP_MASQUERADE_V4, 0]);
    world.restart();
    world.advance(Duration::from_secs(60));
    assert_eq!(world.get(EndpointId(3)).spec.properties["of-another"], "7");
    world.crash();
    remove(&world, "3");
    back(&mut world);
    assert_eq!(flags(&world), [lxc_flags::SKIP_MASQUERADE_V4, 0]);
    let properties = world.get(EndpointId(3)).spec.properties.clone();
    assert_eq!(properties, json!({ "property-skip-masquerade-v4": true }));
    assert!(world.kernel.state().rows.lxc[&spec(1).addresses.iter().next().unwrap()].flags == 0);
}
