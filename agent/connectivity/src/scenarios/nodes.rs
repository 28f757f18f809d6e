//! Pods and nodes. A pod in the network of its node stands for the node.

use super::{Plan, Scenario, lonely, pinged, usual};
use crate::{
    judge::Check,
    objects::{HTTP, NODE, NODE_HTTP, PORT},
    world::World,
};

const PODS: [u16; 3] = [PORT, PORT, HTTP];
const NODES: [u16; 3] = [NODE, NODE, NODE_HTTP];

pub(super) const ALL: [Scenario; 5] = [
    Scenario {
        name: "pod-to-own-node",
        about: "a pod reaches its own node by TCP, UDP, HTTP and ICMP",
        part: None,
        plan: |world| {
            let mut checks = both(world, "client-a", "host-a", NODES);
            if world.is_wide() {
                checks.extend(both(world, "client-b", "host-b", NODES));
            }
            Plan::known(checks)
        },
    },
    Scenario {
        name: "pod-to-other-node",
        about: "a pod reaches a node that it is not on",
        part: None,
        plan: |world| wide(world, &[("client-a", "host-b"), ("client-b", "host-a")], NODES),
    },
    Scenario {
        name: "node-to-own-pod",
        about: "a node reaches the pods on it",
        part: None,
        plan: |world| {
            let mut checks = both(world, "host-a", "server-a", PODS);
            if world.is_wide() {
                checks.extend(both(world, "host-b", "server-b", PODS));
            }
            Plan::known(checks)
        },
    },
    Scenario {
        name: "node-to-other-pod",
        about: "a node reaches pods on another node",
        part: None,
        plan: |world| wide(world, &[("host-a", "server-b"), ("host-b", "server-a")], PODS),
    },
    Scenario {
        name: "node-to-node",
        about: "nodes reach each other, which is no work of the agent's: if it fails, look there first",
        part: None,
        plan: |world| wide(world, &[("host-a", "host-b"), ("host-b", "host-a")], NODES),
    },
];

fn both(world: &World, from: &str, to: &str, ports: [u16; 3]) -> Vec<Check> {
    let mut checks = usual(world, from, to, ports);
    checks.extend(pinged(world, from, to));
    checks
}

fn wide(world: &World, pairs: &[(&str, &str)], ports: [u16; 3]) -> Plan {
    if !world.is_wide() {
        return lonely();
    }
    Plan::known(pairs.iter().flat_map(|(from, to)| both(world, from, to, ports)).collect())
}
