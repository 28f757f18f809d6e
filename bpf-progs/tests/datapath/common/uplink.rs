//! A node with a device that leads to other machines, and the programs there.

use super::node::{enter_namespace, ifindex, load_object, run_ip};
use super::{ANY_MACS, Node, Outcome};
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{HashMap, MapData};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::{
    FROM_CONTAINER, FROM_NETDEV, FROM_OVERLAY, TO_CONTAINER, TO_NETDEV, TO_OVERLAY,
};
use volvox_bpf_progs::{DEVICE_OBJECT, Features, OBJECT, OVERLAY_OBJECT};
use zerocopy::IntoBytes;

/// The node's addresses at its device.
pub const UPLINK: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// Where the tests' maps are pinned: a file system of their own, in a mount namespace of their own.
pub const PINS: &str = "/mnt";

/// Mark of a packet whose source is right already.
pub const SNAT_DONE: u32 = 0x0300;

/// A device of the node, `up0`; its other end is `wire0`.
#[derive(Clone, Copy, Debug)]
pub struct Uplink {
    pub ifindex: u32,
}

impl Uplink {
    /// The node's address of the family that `like` has.
    pub fn ip(&self, like: IpAddr) -> IpAddr {
        if like.is_ipv4() { UPLINK.0.into() } else { UPLINK.1.into() }
    }

    /// Its row, with these flags.
    pub fn row(&self, flags: u16) -> DeviceRow {
        DeviceRow {
            ipv4: UPLINK.0.octets(),
            ipv6: UPLINK.1.octets(),
            mac: ANY_MACS.1,
            flags,
            ifindex: self.ifindex,
            ..DeviceRow::default()
        }
    }
}

/// A row of address translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Translation {
    pub flags: u8,
    pub protocol: u8,
    pub from: (IpAddr, u16),
    pub to: (IpAddr, u16),
    /// What the source becomes, or with [`TupleFlags::IN`] the destination.
    pub becomes: (IpAddr, u16),
}

impl Node {
    /// A node with programs for its devices beside those of endpoints, in a new network namespace.
    pub fn with_uplink() -> (Self, Uplink) {
        Self::with_uplink_and(Features::default())
    }

    pub fn with_uplink_and(features: Features) -> (Self, Uplink) {
        enter_namespace();
        own_bpffs();
        let open = |object| load_object(object, features, Some(PINS));
        let mut node = Self::of(open(OBJECT));
        node.others = vec![open(DEVICE_OBJECT), open(OVERLAY_OBJECT)];
        run_ip(&["link", "add", "up0", "type", "veth", "peer", "name", "wire0"]);
        // Frames of which layer 2 does not matter are for the node.
        run_ip(&["link", "set", "up0", "address", "02:00:00:00:00:02"]);
        let uplink = Uplink { ifindex: ifindex("up0") };
        node.device(uplink.row(DeviceFlags::DROP_NOTIFY | MASQUERADE));
        for address in [IpAddr::from(UPLINK.0), UPLINK.1.into()] {
            node.host_address(address);
        }
        (node, uplink)
    }

    /// A node with programs for endpoints only, and no room for another connection but those of TCP.
    pub fn without_room() -> Self {
        enter_namespace();
        own_bpffs();
        full::<Ct4Key>("cilium_ct_any4_global");
        full::<Ct6Key>("cilium_ct_any6_global");
        Self::of(load_object(OBJECT, Features::default(), Some(PINS)))
    }

    /// Makes an address the node's own.
    pub fn host_address(&mut self, address: IpAddr) {
        self.ipcache(address, if address.is_ipv4() { 32 } else { 128 }, 1);
        let row = LxcRow { flags: LxcFlags::HOST, ..LxcRow::default() };
        self.put("cilium_lxc", LxcKey::new(address), row);
    }

    pub fn device(&mut self, row: DeviceRow) {
        self.put("volvox_device", row.ifindex, row);
    }

    /// Destinations to which endpoints keep their addresses.
    pub fn exclude(&mut self, address: IpAddr, bits: u8) {
        match address {
            IpAddr::V4(v4) => {
                let data: [u8; 4] = Prefix4Key::new(v4, bits).as_bytes()[4..].try_into().unwrap();
                self.map::<LpmTrie<_, [u8; 4], u8>>("cilium_ipmasq_v4", |mut map| {
                    map.insert(&Key::new(bits.into(), data), 0, 0).unwrap()
                });
            }
            IpAddr::V6(v6) => {
                let data: [u8; 16] = Prefix6Key::new(v6, bits).as_bytes()[4..].try_into().unwrap();
                self.map::<LpmTrie<_, [u8; 16], u8>>("cilium_ipmasq_v6", |mut map| {
                    map.insert(&Key::new(bits.into(), data), 0, 0).unwrap()
                });
            }
        }
    }

    /// A frame comes from the wire.
    pub fn receive(&mut self, device: &Uplink, frame: &[u8]) -> Outcome {
        self.run(FROM_NETDEV, device.ifindex, 0, frame, 1).0
    }

    /// A frame goes to the wire, with a packet mark.
    pub fn emit(&mut self, device: &Uplink, mark: u32, frame: &[u8]) -> Outcome {
        self.run(TO_NETDEV, device.ifindex, mark, frame, 1).0
    }

    /// All rows of address translation, in order.
    pub fn translations(&mut self) -> Vec<Translation> {
        let mut all = Vec::new();
        self.map::<HashMap<&mut MapData, Nat4Key, Nat4Row>>("cilium_snat_v4_external", |map| {
            all.extend(map.iter().map(|entry| {
                let (key, row) = entry.unwrap();
                Translation {
                    flags: key.flags,
                    protocol: key.protocol,
                    from: (key.saddr.into(), key.sport.get()),
                    to: (key.daddr.into(), key.dport.get()),
                    becomes: (row.address.into(), row.port.get()),
                }
            }));
        });
        self.map::<HashMap<&mut MapData, Nat6Key, Nat6Row>>("cilium_snat_v6_external", |map| {
            all.extend(map.iter().map(|entry| {
                let (key, row) = entry.unwrap();
                Translation {
                    flags: key.flags,
                    protocol: key.protocol,
                    from: (key.saddr.into(), key.sport.get()),
                    to: (key.daddr.into(), key.dport.get()),
                    becomes: (row.address.into(), row.port.get()),
                }
            }));
        });
        all.sort();
        all
    }

    /// Changes one of the two maps of address translation: writes, or removes, a row.
    pub fn translate(&mut self, of: Translation, present: bool) {
        let Translation { flags, protocol, from, to, becomes } = of;
        let (sport, dport, port) = (Be16::new(from.1), Be16::new(to.1), Be16::new(becomes.1));
        match (from.0, to.0, becomes.0) {
            (IpAddr::V4(saddr), IpAddr::V4(daddr), IpAddr::V4(address)) => {
                let (saddr, daddr) = (saddr.octets(), daddr.octets());
                let key = Nat4Key { saddr, daddr, sport, dport, protocol, flags };
                let row = Nat4Row { address: address.octets(), port, ..Nat4Row::default() };
                match present {
                    true => self.put("cilium_snat_v4_external", key, row),
                    false => self.remove::<_, Nat4Row>("cilium_snat_v4_external", key),
                }
            }
            (IpAddr::V6(saddr), IpAddr::V6(daddr), IpAddr::V6(address)) => {
                let (saddr, daddr) = (saddr.octets(), daddr.octets());
                let key = Nat6Key { saddr, daddr, sport, dport, protocol, flags };
                let row = Nat6Row { address: address.octets(), port, ..Nat6Row::default() };
                match present {
                    true => self.put("cilium_snat_v6_external", key, row),
                    false => self.remove::<_, Nat6Row>("cilium_snat_v6_external", key),
                }
            }
            _ => panic!("a flow has one family"),
        }
    }
}

/// Both families are masqueraded.
pub const MASQUERADE: u16 = DeviceFlags::MASQUERADE_IPV4 | DeviceFlags::MASQUERADE_IPV6;

/// Puts a map of connections where the programs find it, which has one row and evicts none for others.
fn full<K: aya::Pod + Default>(name: &str) {
    let mut map = HashMap::<MapData, K, CtRow>::create(1, 0).unwrap();
    map.insert(K::default(), CtRow::default(), 0).unwrap();
    map.pin(Path::new(PINS).join(name)).unwrap();
}

/// A BPF file system in a mount namespace of this thread: both end with it.
fn own_bpffs() {
    // SAFETY: takes no pointers; it only changes the mount namespace of this thread.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    assert_eq!(result, 0, "a mount namespace can be made: are you root?");
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    let null = std::ptr::null();
    // SAFETY: the strings are NUL-terminated literals, and null is allowed where it stands.
    let (private, mounted) = unsafe {
        let private = libc::mount(c"none".as_ptr(), c"/".as_ptr(), null, flags, null.cast());
        let at = c"/mnt".as_ptr();
        (private, libc::mount(c"bpf".as_ptr(), at, c"bpf".as_ptr(), 0, null.cast()))
    };
    assert_eq!((private, mounted), (0, 0), "{}", std::io::Error::last_os_error());
}
