//! A slice of the fuzzer: what frames do to the loaded programs, and that its oracle sees it. More of it:
//! `cargo run -p volvox-bpf-progs --example fuzz -- --frames 10000000`.

use crate::common::fuzz::{
    self, At, CLIENT, Hook, JAILED, Network, OPEN, Oracle, Runner, SERVER, Seen, Shot,
};
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

const FRAMES: u64 = 30_000;
/// Enough for what a check that is missing lets through.
const FEWER: u64 = 30_000;

#[test]
fn frames_do_what_they_may() {
    let report = fuzz::run(Features::default(), 1, FRAMES);
    assert_eq!(report.fault_count, 0, "{}", report.text());
    for outcome in ["deliver", "answer", "overlay", "route", "wire", "stack", "drop"] {
        let count: u64 =
            report.outcomes.iter().filter(|((_, it), _)| *it == outcome).map(|(_, n)| n).sum();
        assert!(count > FRAMES / 10_000, "hardly anything ends as {outcome}: {}", report.text());
    }
}

/// Takes a check away by its row, and looks whether the oracle sees it.
fn sees(fault: &str, change: impl FnOnce(&mut Node, &Network)) {
    let report = fuzz::run_changed(Features::default(), 2, FEWER, change);
    assert!(report.kinds().contains(fault), "{fault} is not among {}", report.text());
}

#[test]
fn the_oracle_sees_a_policy_that_is_open() {
    sees("an endpoint's policy does not let it send this", |node, network| {
        let both = [Direction::Egress, Direction::Ingress].map(everything);
        node.rules(&network.pods[JAILED], &both);
    });
    sees("an endpoint's policy does not let it hear this", |node, network| {
        node.rules(&network.pods[SERVER], &[everything(Direction::Ingress)]);
    });
}

#[test]
fn the_oracle_sees_a_forged_source() {
    sees("an endpoint has another's address", |node, network| {
        let row = network.pods[OPEN].config();
        node.configure(ConfigRow { flags: row.flags & !ConfigFlags::SOURCE_CHECK, ..row });
    });
}

#[test]
fn the_oracle_sees_an_endpoint_that_speaks_as_a_node() {
    sees("an endpoint speaks as a node", |node, _| {
        let row = node.read_node();
        node.node(NodeRow { tunnel_port: Be16::new(4789), ..row });
    });
}

#[test]
fn the_oracle_sees_a_stranger_in_the_overlay() {
    sees("somebody who is no node speaks by the overlay", |node, network| {
        node.ipcache(network.strangers[0], 32, 6);
    });
    sees("a node speaks for what lives behind another one", |node, network| {
        for it in &network.known {
            node.ipcache(it.address, if it.address.is_ipv4() { 32 } else { 128 }, it.identity);
        }
    });
}

#[test]
fn the_oracle_sees_an_endpoints_address_on_the_wire() {
    sees("an endpoint's own address is on the wire", |node, network| {
        node.device(network.up.row(0))
    });
}

fn passed(hook: Hook, action: u32, mark: u32, frame: Vec<u8>) -> fuzz::Way {
    vec![(hook, Seen { action, mark, frame })]
}

/// The frame as an endpoint gets it.
fn handed(frame: &[u8], to: &Endpoint) -> Vec<u8> {
    delivered(frame.to_vec(), to)
}

/// What passed once, before there were checks.
#[test]
fn the_oracle_sees_what_was_wrong_once() {
    let network = Runner::new(Features::default()).network;
    let mut oracle = Oracle::new(network.clone());
    let [open, server, client, jailed] =
        [OPEN, SERVER, CLIENT, JAILED].map(|nth| network.pods[nth]);
    let mut judge = |pod: usize, action, mark, sent: &[u8], now: Vec<u8>| {
        let shot = Shot { at: At::Pod(pod), frame: sent.to_vec(), is_plain: false };
        oracle.judge(&shot, &passed(Hook::FromContainer, action, mark, now)).1
    };
    let mut note = vec![136, 0, 0, 0, 0, 0, 0, 0];
    note.extend("fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let note = ethernet(ANY_MACS, 0x86dd, &ipv6(jailed.ipv6, server.ipv6, ICMPV6, 255, &note));
    assert_eq!(judge(JAILED, OK, 0, &note, note.clone()), Some("a neighbour's word left the link"));
    for (from, to) in [(client.v4(), server.v4()), (client.v6(), server.v6())] {
        let asked = udp(from, to, 5000, 80);
        assert_eq!(judge(CLIENT, REDIRECT, 0, &asked, handed(&asked, &server)), None);
        let reported = unreachable(jailed.ip(from), from, &asked);
        let fault = judge(JAILED, REDIRECT, 0, &reported, handed(&reported, &client));
        assert_eq!(fault, Some("an endpoint's policy does not let it send this"));
        let true_one = unreachable(to, from, &asked);
        assert_eq!(judge(SERVER, REDIRECT, 0, &true_one, handed(&true_one, &client)), None);
        let own: IpAddr = network.up.ip(from);
        let coat = udp(open.ip(from), own, 5000, fuzz::TUNNEL_PORT);
        let mark = open.identity << 16 | 0x0f00;
        assert_eq!(
            judge(OPEN, OK, mark, &coat, coat.clone()),
            Some("an endpoint speaks as a node")
        );
    }
}
