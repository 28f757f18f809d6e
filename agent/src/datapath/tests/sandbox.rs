//! The surroundings of one test: a network namespace, mounts and a BPF file system of its own, and
//! rows for endpoints by number.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
    sync::Arc,
};

use rustix::mount::{MountFlags, mount};
use volvox_actors::{
    model::{
        Addresses, Direction, EndpointId, IdentityId, Mac, PolicyEntry, PolicyKey, PolicyRows,
        precedence,
    },
    ports::{ConfigRow, config_flags},
};
use volvox_bpf_progs::Features;
use volvox_system::{
    netlink::{Socket, Veth},
    netns::{Netns, own_mounts},
    sysctl::Sysctl,
};

use crate::datapath::{Datapath, DatapathConfig, MapSizes};

/// Where the BPF file system is, for the thread that a test runs on.
const ROOT: &str = "/sys/fs/bpf";

/// Backends in a Maglev table.
const MAGLEV: u32 = 251;

/// A network namespace, mounts and a BPF file system that only one test sees and that go with it.
pub(crate) struct Sandbox;

impl Sandbox {
    /// Runs a test inside. It needs root.
    pub(crate) fn run(test: impl FnOnce(&Self) + Send) {
        let netns = Netns::create().expect("tests of the datapath need root");
        netns
            .run(|| {
                own_mounts().unwrap();
                mount("bpf", ROOT, "bpf", MountFlags::empty(), None).unwrap();
                test(&Self);
            })
            .unwrap();
    }

    /// The BPF file system.
    pub(crate) fn root(&self) -> &'static Path {
        Path::new(ROOT)
    }

    /// Small maps, everything enabled.
    pub(crate) fn config(&self) -> DatapathConfig {
        DatapathConfig {
            bpf_root: self.root().to_owned(),
            features: Features { maglev: MAGLEV, ..Features::default() },
            sizes: MapSizes {
                ct_tcp: 4096,
                ct_any: 4096,
                policy: 64,
                lb: 1024,
                nat: 4096,
                maglev: MAGLEV,
            },
            sockets: None,
            tcx: true,
            end_tcp: false,
            take_over: None,
            sysctl: Sysctl::default(),
        }
    }

    /// Opens the datapath.
    pub(crate) fn open(&self) -> Arc<Datapath> {
        Arc::new(Datapath::open(&self.config()).unwrap())
    }

    /// Makes a veth pair `lxcN` and `ethN`, both in this namespace and up; answers the number of
    /// the first.
    pub(crate) fn veth(&self, number: u8) -> u32 {
        let (name, peer) = (format!("lxc{number}"), format!("eth{number}"));
        let mut socket = Socket::open().unwrap();
        let (mac, peer_mac) = (Mac([2, 0, 0, 0, 1, number]), Mac([2, 0, 0, 0, 2, number]));
        let veth = Veth { name: &name, peer: &peer, peer_netns: None, mtu: 1500, mac, peer_mac };
        socket.create_veth(&veth).unwrap();
        for name in [&name, &peer] {
            let link = socket.link_by_name(name).unwrap().unwrap();
            socket.set_link_up(link.ifindex).unwrap();
        }
        socket.link_by_name(&name).unwrap().unwrap().ifindex
    }
}

/// The addresses of the endpoint of that number.
pub(crate) fn addresses(number: u8) -> Addresses {
    Addresses {
        ipv4: Some(Ipv4Addr::new(10, 9, 0, number)),
        ipv6: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into())),
    }
}

/// The configuration row of the endpoint of that number.
pub(crate) fn config_row(number: u8, ifindex: u32) -> ConfigRow {
    let endpoint = EndpointId(number.into());
    ConfigRow {
        generation: 7,
        endpoint,
        flags: config_flags::DROP,
        identity: IdentityId(300),
        policy_slot: endpoint.slot(1),
        ifindex,
        addresses: addresses(number),
        mac: Mac([2, 0, 0, 0, 2, number]),
        node_mac: Mac([2, 0, 0, 0, 1, number]),
    }
}

/// One rule for each of these ports.
pub(crate) fn policy(ports: impl IntoIterator<Item = u16>) -> PolicyRows {
    let row = |port| {
        let key = PolicyKey {
            direction: Direction::Ingress,
            identity: IdentityId(301),
            protocol: 6,
            port,
            bits: 24,
        };
        let deny = port % 2 == 1;
        let precedence = if deny { precedence::DENY } else { precedence::ALLOW };
        (key, PolicyEntry { deny, precedence, cookie: u32::from(port) })
    };
    ports.into_iter().map(row).collect()
}
