//! Services of every kind, from pods and from nodes.

use std::net::IpAddr;

use super::{Plan, Scenario, TIMES};
use crate::{
    judge::{Also, Check},
    objects::{EXTERNAL_IP, HOST_PORT, HTTP, PORT},
    probe::{Protocol, Target},
    world::World,
};

/// Who serves.
const SERVERS: [&str; 2] = ["server-a", "server-b"];

pub(super) const ALL: [Scenario; 9] = [
    Scenario {
        name: "service-cluster-ip",
        about: "pods and nodes reach a service by its cluster address",
        part: None,
        plan: |world| {
            Plan::heard(clusters(world, &["client-a", "client-b", "host-a", "host-b"], "echo"))
        },
    },
    Scenario {
        name: "service-to-self",
        about: "a pod reaches itself by its own service",
        part: None,
        plan: |world| {
            let checks = clusters(world, &["server-a"], "echo-self").into_iter();
            Plan::heard(checks.map(|it| it.by(&["server-a"])).collect())
        },
    },
    Scenario {
        name: "service-headless",
        about: "who is named by a service without an address is reached, and the service has none",
        part: None,
        plan: headless,
    },
    Scenario {
        name: "service-node-port",
        about: "pods and nodes reach a service by its port at each node's address",
        part: None,
        plan: |world| {
            let froms = ["client-a", "client-b", "host-a", "host-b"];
            Plan::heard(node_ports(world, "echo-node-port", &froms, &nodes(world)))
        },
    },
    Scenario {
        name: "service-local-traffic",
        about: "with externalTrafficPolicy Local a node's port leads to its own pods, who see the client",
        part: None,
        plan: local,
    },
    Scenario {
        name: "service-affinity",
        about: "with sessionAffinity ClientIP a client stays with its server",
        part: None,
        plan: |world| {
            let checks = clusters(world, &["client-a", "client-b"], "echo-affinity").into_iter();
            Plan::heard(checks.map(|it| it.also(Also::OneServer).times(2 * TIMES)).collect())
        },
    },
    Scenario {
        name: "service-external-ip",
        about: "a service is reached by its externalIPs",
        part: None,
        plan: external,
    },
    Scenario {
        name: "service-load-balancer",
        about: "a service is reached by the address that a balancer's pool gave it",
        part: None,
        plan: balancer,
    },
    Scenario {
        name: "host-port",
        about: "a pod's hostPort leads to it at its node's address",
        part: None,
        plan: host_port,
    },
];

/// Nodes with their addresses.
fn nodes(world: &World) -> Vec<(String, IpAddr)> {
    let all = world.nodes.iter();
    all.flat_map(|it| it.addresses.iter().map(|at| (it.name.clone(), *at))).collect()
}

/// Who of these is there and can ask that address.
fn who<'a>(world: &World, froms: &[&'a str], at: IpAddr) -> Vec<&'a str> {
    froms.iter().copied().filter(|from| world.speaks(from, at)).collect()
}

/// By TCP, UDP and HTTP.
fn at(froms: &[&str], to: &str, address: IpAddr, ports: [u16; 3]) -> Vec<Check> {
    let kinds = [Protocol::Tcp, Protocol::Udp, Protocol::Http];
    let mut checks = Vec::new();
    for from in froms {
        for (protocol, port) in kinds.into_iter().zip(ports) {
            let target = Target::at(protocol, address, port);
            checks.push(Check::answered(from, to, target).by(&SERVERS).times(TIMES));
        }
    }
    checks
}

fn clusters(world: &World, froms: &[&str], name: &str) -> Vec<Check> {
    let addresses = world.service(name).addresses.into_iter();
    let to = format!("service {name}");
    addresses
        .flat_map(|address| at(&who(world, froms, address), &to, address, [PORT, PORT, HTTP]))
        .collect()
}

fn node_ports(world: &World, name: &str, froms: &[&str], nodes: &[(String, IpAddr)]) -> Vec<Check> {
    let service = world.service(name);
    let port = |name: &str| service.node_ports.get(name).copied();
    let (Some(tcp), Some(udp), Some(http)) = (port("tcp"), port("udp"), port("http")) else {
        return Vec::new();
    };
    let dual = service.addresses.len() > 1;
    let served =
        |it: IpAddr| dual || service.addresses.iter().any(|own| own.is_ipv4() == it.is_ipv4());
    let mut checks = Vec::new();
    for (node, address) in nodes.iter().filter(|(_, it)| served(*it)) {
        let to = format!("service {name} at node {node}");
        checks.extend(at(&who(world, froms, *address), &to, *address, [tcp, udp, http]));
    }
    checks
}

/// Its name is tried with the cluster's DNS; here, that it has no address and its pods are reached.
fn headless(world: &World) -> Plan {
    if !world.service("echo-headless").addresses.is_empty() {
        return Plan::NotTried("the API server gave an address to a headless service".to_owned());
    }
    let mut checks = Vec::new();
    if world.features.dns {
        let name = format!("echo-headless.{}.svc", world.namespace);
        let mut target = Target::named(Protocol::Name, &name, 0);
        target.wait = std::time::Duration::from_secs(12);
        let first = SERVERS.iter().filter_map(|it| world.addresses(it).first().copied()).collect();
        let want = crate::judge::Want::Addresses(first);
        checks.push(Check { want, ..Check::answered("client-a", "the cluster's DNS", target) });
    } else {
        return Plan::NotTried("only DNS knows it, and the cluster has none".to_owned());
    }
    for server in SERVERS {
        checks.extend(super::usual(world, "client-a", server, [PORT, PORT, HTTP]));
    }
    Plan::heard(checks)
}

fn local(world: &World) -> Plan {
    if !world.is_wide() {
        return super::lonely();
    }
    let mut checks = Vec::new();
    for (from, node, server) in [("host-b", 0, "server-a"), ("host-a", 1, "server-b")] {
        let Some(node) = world.nodes.get(node) else { continue };
        let at: Vec<_> = node.addresses.iter().map(|it| (node.name.clone(), *it)).collect();
        let all = node_ports(world, "echo-local", &[from], &at).into_iter();
        checks.extend(all.map(|it| it.by(&[server]).also(Also::Source)));
    }
    Plan::heard(checks)
}

fn external(world: &World) -> Plan {
    if let Some(words) = world.refused.get("echo-external-ip") {
        return Plan::NotTried(format!("the API server refused the service: {words}"));
    }
    let Ok(address) = EXTERNAL_IP.parse() else { return Plan::known(Vec::new()) };
    let froms = who(world, &["client-a", "client-b"], address);
    Plan::heard(at(&froms, "service echo-external-ip", address, [PORT, PORT, HTTP]))
}

fn balancer(world: &World) -> Plan {
    if !world.features.pools {
        return Plan::NotTried(
            "there is no CiliumLoadBalancerIPPool, and a test orders no balancer of a cloud"
                .to_owned(),
        );
    }
    let addresses = world.service("echo-load-balancer").balancers;
    if addresses.is_empty() {
        return Plan::NotTried("no pool gave the service an address".to_owned());
    }
    let froms = ["client-a", "client-b"];
    let checks = addresses.into_iter().flat_map(|address| {
        let froms = who(world, &froms, address);
        at(&froms, "service echo-load-balancer", address, [PORT, PORT, HTTP])
    });
    Plan::heard(checks.collect())
}

fn host_port(world: &World) -> Plan {
    let node = world.pod("host-port").node;
    let all = nodes(world);
    let mut checks = Vec::new();
    for (_, address) in all.iter().filter(|(name, _)| *name == node) {
        for from in who(world, &["client-b", "host-b", "client-a"], *address) {
            let target = Target::at(Protocol::Tcp, *address, HOST_PORT);
            let to = format!("hostPort at node {node}");
            checks.push(Check::answered(from, to, target).by(&["host-port"]).times(TIMES));
        }
    }
    Plan::heard(checks)
}
