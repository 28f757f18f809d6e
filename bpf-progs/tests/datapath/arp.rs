//! Every endpoint believes that all of the world is behind its gateway: ARP is answered here.

use crate::common::*;
use std::net::Ipv4Addr;
use volvox_bpf_progs::Features;

const BROADCAST: Mac = [0xff; 6];
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

fn who_has(from: &Endpoint, target: Ipv4Addr) -> Vec<u8> {
    ethernet((from.mac, BROADCAST), 0x0806, &arp(REQUEST, (from.mac, from.ipv4), ([0; 6], target)))
}

#[test]
fn the_gateway_answers_for_every_target() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    for target in
        [Ipv4Addr::new(10, 1, 0, 254), Ipv4Addr::new(169, 254, 1, 1), Ipv4Addr::new(8, 8, 8, 8)]
    {
        let got = node.send(&a, &who_has(&a, target));
        let answer = arp(REPLY, (a.node_mac, target), (a.mac, a.ipv4));
        assert_eq!(got.action, REDIRECT, "{target}");
        assert_eq!(got.frame, ethernet((a.node_mac, a.mac), 0x0806, &answer), "{target}");
    }
}

#[test]
fn a_search_for_a_duplicate_finds_none() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let probe = who_has(&a, a.ipv4);
    let got = node.send(&a, &probe);
    assert_eq!((got.action, got.frame), (OK, probe));
}

#[test]
fn replies_to_the_host_are_the_stacks() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let gateway = ([2, 0, 0, 0, 0, 9], Ipv4Addr::new(10, 1, 0, 254));
    let reply = ethernet((a.mac, gateway.0), 0x0806, &arp(REPLY, (a.mac, a.ipv4), gateway));
    let got = node.send(&a, &reply);
    assert_eq!((got.action, got.frame), (OK, reply));
}

#[test]
fn the_hosts_own_requests_reach_the_endpoint() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let request = ethernet(
        (a.node_mac, BROADCAST),
        0x0806,
        &arp(REQUEST, (a.node_mac, a.ipv4), ([0; 6], a.ipv4)),
    );
    assert_eq!(node.deliver(&a, 0, &request).action, OK);
}

#[test]
fn an_endpoint_tells_of_its_own_address_only() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let gateway = ([2, 0, 0, 0, 0, 9], Ipv4Addr::new(10, 1, 0, 254));
    for operation in [REQUEST, REPLY] {
        for (forged, target) in [(b.ipv4, gateway.1), (gateway.1, a.ipv4), (b.ipv4, b.ipv4)] {
            let message = arp(operation, (a.mac, forged), (gateway.0, target));
            let frame = ethernet((a.mac, BROADCAST), 0x0806, &message);
            assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(132), "{forged}");
        }
    }
    let probe = arp(REQUEST, (a.mac, Ipv4Addr::UNSPECIFIED), ([0; 6], a.ipv4));
    assert_eq!(node.send(&a, &ethernet((a.mac, BROADCAST), 0x0806, &probe)).action, OK);
}

#[test]
fn what_is_no_arp_for_ipv4_over_ethernet_is_dropped() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let good = who_has(&a, Ipv4Addr::new(10, 1, 0, 254));
    for (at, byte) in [(15, 6), (16, 0x86), (18, 8), (19, 16)] {
        let mut frame = good.clone();
        frame[at] = byte;
        assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(134), "{at}");
    }
}

#[test]
fn a_cut_off_request_is_dropped() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let request = who_has(&a, Ipv4Addr::new(10, 1, 0, 254));
    assert_eq!(node.drop_of(|node| node.send(&a, &request[..30])), Some(134));
}

#[test]
fn without_ipv4_there_is_no_arp() {
    let mut node = Node::with(Features { ipv4: false, ..Features::default() });
    let a = node.endpoint(1);
    let request = who_has(&a, Ipv4Addr::new(10, 1, 0, 254));
    assert_eq!(node.drop_of(|node| node.send(&a, &request)), Some(166));
}
