//! Pods among themselves.

use super::{Part, Plan, Scenario, TIMES, each, lonely, nobody, pinged, usual};
use crate::{
    judge::{Also, Check, Want},
    objects::{HTTP, PORT},
    probe::{Protocol, Size, Target},
    world::World,
};

const PORTS: [u16; 3] = [PORT, PORT, HTTP];
/// What is carried by a connection to see that much of it arrives.
const MUCH: usize = 1 << 20;

pub(super) const ALL: [Scenario; 7] = [
    Scenario {
        name: "pod-to-pod-same-node",
        about: "a pod reaches another on its node by TCP, UDP, HTTP and ICMP, and is seen by its own address",
        part: None,
        plan: |world| same(world, &[("client-a", "server-a"), ("client-b", "server-b")]),
    },
    Scenario {
        name: "pod-to-pod-other-node",
        about: "a pod reaches one on another node by TCP, UDP, HTTP and ICMP, and is seen by its own address",
        part: None,
        plan: |world| {
            if !world.is_wide() {
                return lonely();
            }
            same(world, &[("client-a", "server-b"), ("client-b", "server-a")])
        },
    },
    Scenario {
        name: "pod-to-self",
        about: "a pod reaches itself by its own address",
        part: None,
        plan: |world| Plan::known(usual(world, "server-a", "server-a", PORTS)),
    },
    Scenario {
        name: "pod-to-other-namespace",
        about: "a pod reaches one in another namespace, and the other way",
        part: None,
        plan: |world| {
            let mut checks = usual(world, "other-a", "server-b", PORTS);
            checks.extend(usual(world, "client-b", "other-a", PORTS));
            Plan::known(checks)
        },
    },
    Scenario {
        name: "packet-sizes",
        about: "datagrams and echo requests up to the route's MTU arrive whole, and a megabyte by TCP",
        part: None,
        plan: sizes,
    },
    Scenario {
        name: "dns",
        about: "pods resolve the name of a service by the cluster's DNS",
        part: Some(Part::Dns),
        plan: dns,
    },
    Scenario {
        name: "pod-to-world",
        about: "pods reach somebody outside of the cluster",
        part: Some(Part::World),
        plan: outside,
    },
];

fn same(world: &World, pairs: &[(&str, &str)]) -> Plan {
    let mut checks = Vec::new();
    for (from, to) in pairs {
        checks.extend(usual(world, from, to, PORTS).into_iter().map(|it| it.also(Also::Source)));
        checks.extend(pinged(world, from, to));
    }
    Plan::known(checks)
}

fn sizes(world: &World) -> Plan {
    let mut pairs = vec![("client-a", "server-a")];
    if world.is_wide() {
        pairs.extend([("client-a", "server-b"), ("client-b", "server-a")]);
    }
    let mut checks = Vec::new();
    for (from, to) in pairs {
        for (protocol, size, words) in [
            (Protocol::Udp, Size::Bytes(1), "1 byte"),
            (Protocol::Udp, Size::Bytes(512), "512 bytes"),
            (Protocol::Udp, Size::Bytes(1300), "1300 bytes"),
            (Protocol::Udp, Size::Mtu, "the MTU"),
            (Protocol::Icmp, Size::Mtu, "the MTU"),
            (Protocol::Tcp, Size::Bytes(MUCH), "1 MiB"),
        ] {
            let port = if protocol == Protocol::Icmp { 0 } else { PORT };
            checks.extend(each(world, from, to, |address| {
                let mut target = Target::at(protocol, address, port);
                target.size = size;
                Check::answered(from, format!("{to}, {words}"), target).times(TIMES)
            }));
        }
    }
    Plan::known(checks)
}

fn dns(world: &World) -> Plan {
    if !world.features.dns {
        return Plan::NotTried(
            "there is no Service in kube-system with the label k8s-app=kube-dns".to_owned(),
        );
    }
    let name = format!("echo.{}.svc", world.namespace);
    let check = |from: &str| {
        let mut target = Target::named(Protocol::Name, &name, 0);
        // A resolver asks again after 5 s.
        target.wait = std::time::Duration::from_secs(12);
        let want = Want::Addresses(world.service("echo").addresses);
        Check { want, ..Check::answered(from, "the cluster's DNS", target) }
    };
    Plan::heard(["client-a", "client-b"].map(check).to_vec())
}

fn outside(world: &World) -> Plan {
    let Some((host, port)) = &world.external else { return nobody() };
    let mut target = Target::named(Protocol::Connect, host, *port);
    target.wait = std::time::Duration::from_secs(5);
    let check = |from: &str| Check::answered(from, host, target.clone()).times(2);
    Plan::known(["client-a", "client-b"].map(check).to_vec())
}
