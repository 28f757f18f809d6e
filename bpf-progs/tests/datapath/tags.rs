//! Frames with tags of VLANs. The kernel takes the first tag off before any program sees a frame, so these go by
//! real interfaces.

use crate::common::outside::route_outside;
use crate::common::overlay::attach;
use crate::common::talk::udp_socket;
use crate::common::*;
use aya::programs::tc::TcAttachType;
use std::net::IpAddr;
use std::time::Duration;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::FROM_NETDEV;

const MARK: &[u8] = b"what one likes";
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(5);

/// A datagram in a frame with these tags: protocol and number.
fn tagged(macs: (Mac, Mac), tags: &[(u16, u16)], from: IpAddr, to: IpAddr) -> Vec<u8> {
    let mut message = udp_header(5000, 5001);
    message[4..6].copy_from_slice(&(8 + MARK.len() as u16).to_be_bytes());
    message.extend(MARK);
    let plain = ip(from, to, UDP, &message);
    let mut frame = [&macs.1[..], &macs.0].concat();
    for (protocol, number) in tags {
        frame.extend(protocol.to_be_bytes());
        frame.extend(number.to_be_bytes());
    }
    frame.extend(&plain[12..]);
    frame
}

const PRIORITY: (u16, u16) = (0x8100, 0xe000);
const NUMBERED: (u16, u16) = (0x8100, 5);
const PROVIDER: (u16, u16) = (0x88a8, 0);

#[test]
fn an_endpoint_has_no_vlans() {
    let mut node = Node::new();
    node.become_gateway();
    let (a, inside) = node.pod(1);
    let (b, beside) = node.pod(2);
    for (endpoint, way) in [(a, Direction::Egress), (b, Direction::Ingress)] {
        let key = PolicyKey::any(way, 0);
        node.rules(&endpoint, &[(key, PolicyRow::allow(&key, 1))]);
    }
    let wire = inside.run(|| Wire::at(ifindex("eth1")));
    let heard = beside.run(|| Wire::at(ifindex("eth2")));
    let macs = (a.mac, a.node_mac);
    let kinds: [&[(u16, u16)]; 4] =
        [&[PRIORITY], &[NUMBERED], &[PRIORITY, PRIORITY], &[PROVIDER, NUMBERED]];
    for tags in kinds {
        let before = node.drops().get(&166).copied().unwrap_or(0);
        wire.send(&tagged(macs, tags, a.v4(), b.v4()));
        assert!(!heard.hears(MARK, SHORT), "{tags:?}");
        assert_eq!(node.drops().get(&166), Some(&(before + 1)), "{tags:?}");
    }
    wire.send(&tagged(macs, &[], a.v4(), b.v4()));
    assert!(heard.hears(MARK, LONG), "without a tag");
}

/// A tag that names no VLAN makes a frame no other device's.
#[test]
fn no_tag_hides_a_frame_from_the_nodes_policy() {
    let (mut node, up) = Node::with_uplink_and(host_firewall());
    route_outside();
    attach(&mut node, FROM_NETDEV, "up0", TcAttachType::Ingress);
    let own: IpAddr = up.ip("192.0.2.9".parse().unwrap());
    let hearing = udp_socket((own, 5001).into());
    hearing.set_nonblocking(true).unwrap();
    let wire = Wire::at(ifindex("wire0"));
    let far: IpAddr = "192.0.2.254".parse().unwrap();
    let reaches = |node: &mut Node, rules: &[(PolicyKey, PolicyRow)], tags: &[(u16, u16)]| {
        node.host_rules(rules);
        wire.send(&tagged(ANY_MACS, tags, far, own));
        let patience = if rules.is_empty() { SHORT } else { LONG };
        let start = std::time::Instant::now();
        while start.elapsed() < patience {
            if hearing.recv(&mut [0; 64]).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    };
    let open = [everything(Direction::Ingress)];
    run_ip(&["neighbour", "add", "192.0.2.254", "lladdr", "02:00:00:00:00:01", "dev", "up0"]);
    for tags in [&[][..], &[PRIORITY]] {
        assert!(reaches(&mut node, &open, tags), "{tags:?} {:?}", node.drops());
        assert!(!reaches(&mut node, &[], tags), "{tags:?}");
    }
    for tags in [[PRIORITY, PRIORITY], [PROVIDER, PRIORITY]] {
        assert!(!reaches(&mut node, &[], &tags), "{tags:?}");
    }
    assert_eq!(node.drops().get(&166), Some(&2), "{:?}", node.drops());
}
