//! Tests: veth pairs that an ADD left which was killed go once all have settled, and no others.

use std::time::Duration;

use crate::{
    ports::Link,
    testing::{World, pod, spec},
};

/// One side of a pair that lies on the node.
fn side(ifindex: u32, peer_ifindex: u32, name: &str) -> Link {
    let kind = Some("veth".to_owned());
    Link { ifindex, peer_ifindex, name: name.to_owned(), kind, ..Link::default() }
}

#[test]
fn seed_23_a_pair_that_no_container_got_goes_and_a_living_one_stays() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.advance(Duration::from_secs(1));
    world.crash();
    world.kernel.tamper(|state| {
        // An endpoint's own looks just the same: its row says whose it is.
        let own = state.rows.links.get_mut(&spec(1).ifindex).unwrap();
        (own.peer_ifindex, own.kind) = (70, Some("veth".to_owned()));
        state.plug(side(70, spec(1).ifindex, "tmp1"));
        // Another's peer is in a container, where it has the number of an interface here.
        let own = state.rows.links.get_mut(&spec(2).ifindex).unwrap();
        (own.peer_ifindex, own.kind, own.peer_netns) = (71, Some("veth".to_owned()), Some(0));
        state.plug(Link { peer_netns: Some(1), ..side(71, spec(2).ifindex, "veth71") });
        state.plug(Link { up: true, ..side(80, 81, "lxcleft") });
        state.plug(side(81, 80, "tmpleft"));
        state.plug(Link { up: true, ..side(90, 91, "lxcused") });
        state.plug(Link { up: true, ..side(91, 90, "used") });
        state.plug(side(92, 93, "veth92"));
        state.plug(side(93, 92, "veth93"));
    });
    world.boot();
    world.advance(Duration::from_secs(60));
    let left: Vec<u32> = world.kernel.state().rows.links.keys().copied().collect();
    for gone in [80, 81] {
        assert!(!left.contains(&gone), "{left:?}");
    }
    for stays in [spec(1).ifindex, spec(2).ifindex, 70, 71, 90, 91, 92, 93] {
        assert!(left.contains(&stays), "{left:?} lacks {stays}");
    }
    let pruned = &world.report().pruned;
    assert!(pruned.iter().any(|what| what.contains("lxcleft and tmpleft")), "{pruned:?}");
    world.audit();
}
