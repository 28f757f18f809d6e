//! Where a map has no room for a policy whose rows have an order, and what opens on the way from one to
//! another: for random policies, packet by packet.

use super::{draw::Draws, ranked_world};
use crate::{
    model::{Direction, IdentityId, PolicyRows},
    policy::rules::{fit, lookup, opens},
};

const PEERS: [u32; 10] = [0, 1, 2, 6, 1000, 1001, 1002, 1003, 1004, 4000];

fn rows(seed: u64) -> PolicyRows {
    let documents = Draws::new(seed).documents();
    let resolved = ranked_world(&documents).resolve("web");
    resolved.rows.as_ref().clone()
}

/// Whether packets of a peer pass: protocols and ports that objects name, and others.
fn passing(rows: &PolicyRows, peer: u32) -> Vec<bool> {
    let ports = [0, 1, 2, 3, 8, 53, 79, 80, 81, 82, 443, 8080, 65535, 4711];
    let all = [Direction::Ingress, Direction::Egress].into_iter().flat_map(|direction| {
        [1, 6, 17, 132].into_iter().flat_map(move |protocol| {
            ports.into_iter().map(move |port| (direction, protocol, port))
        })
    });
    all.map(|(direction, protocol, port)| {
        lookup(rows, direction, IdentityId(peer), protocol, port).passes()
    })
    .collect()
}

#[test]
fn with_room_a_packet_passes_if_both_let_it_pass() {
    for seed in 0..80 {
        let (had, desired) = (rows(2 * seed + 5000), rows(2 * seed + 5001));
        let fitted = fit(&had, &desired, 1_000_000);
        for peer in PEERS {
            let (before, after) = (passing(&had, peer), passing(&desired, peer));
            let both: Vec<_> = before.iter().zip(&after).map(|(a, b)| *a && *b).collect();
            assert_eq!(passing(&fitted, peer), both, "seed {seed}, peer {peer}");
        }
    }
}

#[test]
fn without_room_nothing_passes_that_is_not_wanted_and_the_node_is_last_to_be_left_out() {
    for seed in 0..80 {
        let (had, desired) = (rows(2 * seed + 6000), rows(2 * seed + 6001));
        for most in [0, 1, 3, 8, 20] {
            let fitted = fit(&had, &desired, most);
            assert!(fitted.len() <= most);
            let again = fit(&fitted, &desired, most);
            for peer in PEERS {
                let (now, wanted) = (passing(&fitted, peer), passing(&desired, peer));
                let all_wanted = now.iter().zip(&wanted).all(|(now, wanted)| !now || *wanted);
                assert!(all_wanted, "seed {seed}, peer {peer}, {most} rows");
                assert_eq!(now, passing(&again, peer), "seed {seed}, peer {peer}, {most} rows");
            }
        }
    }
}

#[test]
fn what_would_let_a_peer_in_is_found() {
    let mut found = 0;
    for seed in 0..150 {
        let (had, desired) = (rows(2 * seed + 7000), rows(2 * seed + 7001));
        for peer in PEERS.into_iter().filter(|peer| *peer != 0) {
            let (before, after) = (passing(&had, peer), passing(&desired, peer));
            let lets_in = before.iter().zip(&after).any(|(before, after)| *before && !after);
            let told = opens(&had, &desired, &[IdentityId(peer)].into());
            assert!(told || !lets_in, "seed {seed}, peer {peer}");
            assert!(!opens(&had, &had, &[IdentityId(peer)].into()));
            found += usize::from(lets_in);
        }
    }
    assert!(found > 100, "{found}");
}
