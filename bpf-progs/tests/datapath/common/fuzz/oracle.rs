//! Says of what became of a frame whether it was right: who may hear it, and with which source.

use super::super::*;
use super::flows::Flows;
use super::network::*;
use super::reader::{self, Frame, Layer3, Packet};
use super::runner::{Hook, Way};
use super::{Seen, Shot};
use std::net::IpAddr;
use volvox_bpf_progs::layouts::Direction;

/// What was wrong.
pub type Fault = &'static str;

type Judged = Result<&'static str, Fault>;

pub struct Oracle {
    network: Network,
    flows: Flows,
}

const KIND: u32 = 0x0f00;
const SENT_ON: u32 = 0x0300;
const BY_OVERLAY: u32 = 0x0400;

fn fail_unless(holds: bool, fault: Fault) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(fault) }
}

/// A packet as it was sent and as it is now.
struct Passage<'a> {
    sent: &'a Packet,
    now: &'a Packet,
}

impl Passage<'_> {
    fn both(&self) -> [&Packet; 2] {
        [self.now, self.sent]
    }
}

impl Oracle {
    pub fn new(network: Network) -> Self {
        Self { network, flows: Flows::default() }
    }

    /// What became of a frame, and what was wrong with that.
    pub fn judge(&mut self, shot: &Shot, way: &Way) -> (&'static str, Option<Fault>) {
        let sent = reader::read(&shot.frame);
        if let Some(Layer3::Ip(packet)) = sent.as_ref().map(|it| &it.layer3) {
            self.flows.note_head(packet);
        }
        let judged = if way[0].1.action == SHOT {
            self.dropped(shot, sent.as_ref()).map(|()| "drop")
        } else {
            sent.ok_or("what nobody can read has passed")
                .and_then(|sent| self.passed(shot, &sent, way))
        };
        match judged {
            Ok(outcome) => (outcome, None),
            Err(fault) => ("fault", Some(fault)),
        }
    }

    /// What may pass and is not odd has to.
    fn dropped(&self, shot: &Shot, sent: Option<&Frame>) -> Result<(), Fault> {
        let (At::Pod(pod), true) = (shot.at, shot.is_plain) else { return Ok(()) };
        let Some(Layer3::Ip(packet)) = sent.map(|it| &it.layer3) else { return Ok(()) };
        let Some(to) = self.network.pod_of(packet.dst) else { return Ok(()) };
        let (from, there) = (self.network.pods[pod].identity, self.network.pods[to].identity);
        let may =
            self.network.permits(pod, Direction::Egress, there, packet.protocol, packet.port())
                && self.network.permits(
                    to,
                    Direction::Ingress,
                    from,
                    packet.protocol,
                    packet.port(),
                );
        fail_unless(!may, "a packet that both policies permit was dropped")
    }

    fn passed(&mut self, shot: &Shot, sent: &Frame, way: &Way) -> Judged {
        let seen = &way[0].1;
        let packet = match &sent.layer3 {
            Layer3::Ip(packet) => packet,
            Layer3::Arp { operation, sender, .. } => {
                return self.arp(shot.at, (*operation, (*sender).into()), seen);
            }
            Layer3::Other if !matches!(shot.at, At::Pod(_)) => return Ok("stack"),
            Layer3::Other => return Err("neither IP nor ARP has passed"),
        };
        let last = way.last().map_or(seen, |(_, last)| last);
        if last.action == SHOT {
            // Who sent it was let to, and hears answers.
            self.flows.pass(packet);
            return Ok("drop");
        }
        let now = reader::read(&last.frame).ok_or("a frame became unreadable")?;
        if let (At::Pod(pod), Some(kind)) = (shot.at, packet.neighbourly()) {
            let is_greeting = [131, 132, 133, 143].contains(&kind) && seen.action == OK;
            if seen.mark == 0 && (is_greeting || [135, 136].contains(&kind)) {
                return self.neighbour(pod, packet, kind, seen, &now);
            }
        }
        let Layer3::Ip(then) = &now.layer3 else { return Err("a packet became something else") };
        let is_bound = matches!(shot.at, At::Pod(_) | At::Stack(_))
            || way.iter().any(|(hook, _)| *hook == Hook::ToContainer);
        fail_unless(!packet.is_routed_on || !is_bound, "a packet goes on to others than it says")?;
        let passage = Passage { sent: packet, now: then };
        let judged = match shot.at {
            At::Pod(pod) => self.of_pod(pod, &passage, &now, way),
            At::Wire => self.of_wire(&passage, &now, way),
            At::Overlay { carrier, identity } => {
                self.of_overlay(carrier, identity, &passage, &now, way)
            }
            At::Stack(pod) => self.of_stack(pod, &passage),
        }?;
        self.flows.pass(packet);
        self.flows.pass(then);
        Ok(judged)
    }

    fn arp(&self, at: At, (operation, sender): (u16, IpAddr), seen: &Seen) -> Judged {
        let At::Pod(pod) = at else { return Ok("stack") };
        let is_own = sender == self.network.pods[pod].v4() || sender.is_unspecified();
        fail_unless(is_own, "an endpoint has another's address in ARP")?;
        let is_answered = seen.action == REDIRECT;
        fail_unless(!is_answered || operation == 1, "what is no question of ARP was answered")?;
        Ok(if is_answered { "answer" } else { "stack" })
    }

    /// What neighbours say stays on the link.
    fn neighbour(&self, pod: usize, packet: &Packet, kind: u8, seen: &Seen, now: &Frame) -> Judged {
        let own = self.network.pods[pod].v6();
        let is_link = matches!(packet.src, IpAddr::V6(it) if it.segments()[0] & 0xffc0 == 0xfe80);
        let is_named = packet.src == own || is_link || packet.src.is_unspecified();
        fail_unless(is_named, "a neighbour has another's address")?;
        if seen.action == REDIRECT {
            let Layer3::Ip(answer) = &now.layer3 else {
                return Err("a neighbour was answered oddly");
            };
            let is_answer =
                kind == 135 && answer.neighbourly() == Some(136) && answer.dst == packet.src;
            fail_unless(
                is_answer && now.to == self.network.pods[pod].mac,
                "a neighbour's word was sent on",
            )?;
            return Ok("answer");
        }
        let dst = packet.dst;
        fail_unless(
            stays_on_link(dst) || self.network.is_own(dst),
            "a neighbour's word left the link",
        )?;
        if kind == 135 || kind == 136 {
            fail_unless(packet.hops == 255, "a neighbour's word came from afar")?;
            fail_unless(!packet.is_extended, "a neighbour's word has headers of extension")?;
        }
        let target = packet.l4.as_ref().and_then(|l4| l4.target).map(IpAddr::from);
        if kind == 136 {
            let is_own = target.is_some_and(|it| it == own || (stays_on_link(it) && it.is_ipv6()));
            fail_unless(is_own, "an endpoint advertises another's address")?;
        }
        Ok("stack")
    }

    /// Whether an endpoint's policy, or a connection of it, lets a packet pass. `teller` is who sends it.
    fn may(
        &self,
        pod: usize,
        way: Direction,
        peer: u32,
        teller: u32,
        passage: &Passage<'_>,
    ) -> bool {
        let now = passage.now;
        let mut ports =
            passage.both().into_iter().flat_map(|it| self.flows.ends(it)).map(|it| it.1);
        ports.any(|port| self.network.permits(pod, way, peer, now.protocol, port))
            || self.network.permits(pod, way, peer, now.protocol, None)
            || passage
                .both()
                .into_iter()
                .any(|it| self.flows.answers(it) || self.is_related(it, teller))
    }

    /// Whether an error is about what its receiver has sent, and is told by who may know.
    fn is_related(&self, packet: &Packet, teller: u32) -> bool {
        let Some(inner) = packet.l4.as_ref().and_then(|l4| l4.inner) else { return false };
        let to = inner.dst.0;
        let is_local = self.network.pod_of(to).is_some();
        let is_behind =
            self.network.known(to).is_some_and(|it| it.node.is_some() && it.identity >= 256);
        let may_tell = packet.src == to
            || teller == HOST
            || teller == REMOTE_NODE
            || ([2, 9, 10].contains(&teller) && !is_local && !is_behind);
        may_tell
            && inner.src.0 == packet.dst
            && (self.flows.has(inner) || self.flows.has(inner.reversed()))
    }

    fn of_pod(&mut self, pod: usize, passage: &Passage<'_>, now: &Frame, way: &Way) -> Judged {
        let (sent, then) = (passage.sent, passage.now);
        let network = &self.network;
        let (own, identity) = (network.pods[pod].ip(sent.src), network.pods[pod].identity);
        fail_unless(sent.src == own, "an endpoint has another's address")?;
        let is_nowhere = is_no_source(then.dst) && !stays_on_link(then.dst) && !is_group(then.dst);
        fail_unless(!is_nowhere, "a packet is for nobody's address")?;
        let seen = &way[0].1;
        let local = network.pods.iter().position(|it| now.to == it.mac && now.from == it.node_mac);
        if let (REDIRECT, Some(to)) = (seen.action, local) {
            let is_itself = to == pod && sent.dst != own;
            let there = network.pods[to].identity;
            let may = is_itself || self.may(pod, Direction::Egress, there, identity, passage);
            fail_unless(may, "an endpoint's policy does not let it send this")?;
            let is_answer =
                self.flows.answers(then) || (then.tail_of.is_some() && self.flows.answers(sent));
            let is_named = then.src == own || is_itself || is_answer || then.is_error();
            fail_unless(is_named, "what an endpoint sends has a source that is not its own")?;
            return if is_itself { Ok("deliver") } else { self.delivered(to, identity, passage) };
        }
        let there = network.identity(then.dst);
        let is_outer = then.protocol == UDP && then.port() == Some(TUNNEL_PORT);
        let is_machine = there == HOST || there == REMOTE_NODE || there == 9 || there == 10;
        fail_unless(!(is_outer && is_machine), "an endpoint speaks as a node")?;
        let peer = if way.len() > 1 { network.identity(sent.dst) } else { there };
        fail_unless(
            self.may(pod, Direction::Egress, peer, identity, passage),
            "an endpoint's policy does not let it send this",
        )?;
        match (seen.action, seen.mark & KIND) {
            (REDIRECT, BY_OVERLAY) => {
                fail_unless(
                    network.known(then.dst).is_some_and(|it| it.node.is_some()),
                    "nobody is there",
                )?;
                let is_named =
                    then.src == own || (network.is_own(then.src) && self.flows.answers(then));
                fail_unless(
                    is_named || then.is_error(),
                    "another node hears a source that is not its own",
                )?;
                Ok("overlay")
            }
            (REDIRECT, SENT_ON) => {
                let is_named = network.is_own(then.src) || then.is_error();
                fail_unless(is_named, "a client hears another than he asked")?;
                Ok("route")
            }
            (REDIRECT, _) => Err("a packet was sent nobody knows where"),
            _ => self.by_stack(own, passage, way),
        }
    }

    /// What an endpoint sends by the stack has the node's address on the wire, unless it was asked by its own.
    fn by_stack(&self, own: IpAddr, passage: &Passage<'_>, way: &Way) -> Judged {
        let Some((Hook::ToNetdev, _)) = way.get(1) else { return Ok("stack") };
        let (sent, then) = (passage.sent, passage.now);
        let was_asked = self.flows.answers(sent)
            || sent.l4.as_ref().and_then(|l4| l4.inner).is_some_and(|inner| self.flows.has(inner));
        let is_named = then.src == self.network.up.ip(own) || (then.src == own && was_asked);
        fail_unless(is_named, "an endpoint's own address is on the wire")?;
        Ok("wire")
    }

    /// An endpoint hears a packet.
    fn delivered(&self, pod: usize, from: u32, passage: &Passage<'_>) -> Judged {
        let now = passage.now;
        fail_unless(
            now.dst == self.network.pods[pod].ip(now.dst),
            "an endpoint hears what is for another",
        )?;
        let may = self.may(pod, Direction::Ingress, from, from, passage);
        fail_unless(may, "an endpoint's policy does not let it hear this")?;
        Ok("deliver")
    }

    /// A packet from elsewhere cannot have a source of this node, nor one that no router lets pass.
    fn source_is_possible(&self, packet: &Packet) -> Result<(), Fault> {
        let network = &self.network;
        fail_unless(
            network.pod_of(packet.src).is_none(),
            "an endpoint's address comes from elsewhere",
        )?;
        fail_unless(!network.is_own(packet.src), "the node's address comes from elsewhere")?;
        fail_unless(!is_no_source(packet.src), "nobody's address comes from elsewhere")
    }

    fn of_wire(&mut self, passage: &Passage<'_>, now: &Frame, way: &Way) -> Judged {
        let (sent, then) = (passage.sent, passage.now);
        let network = &self.network;
        let seen = &way[0].1;
        let local = network.pods.iter().position(|it| now.to == it.mac && now.from == it.node_mac);
        let to = match (seen.action, local, way.get(1)) {
            (REDIRECT, Some(to), _) => Some(to),
            (_, _, Some((Hook::ToContainer, _))) => network.pod_of(then.dst),
            _ => None,
        };
        if let Some(to) = to {
            self.source_is_possible(sent)?;
            let is_behind = network.known(sent.src).is_some_and(|it| it.node.is_some());
            fail_unless(
                !is_behind || network.is_own(sent.dst),
                "an endpoint elsewhere comes beside the overlay",
            )?;
            return self.delivered(to, network.identity(sent.src), passage);
        }
        if seen.action == REDIRECT && is_refusal(sent, then) {
            return Ok("refuse");
        }
        if seen.action == REDIRECT {
            fail_unless(network.is_own(sent.dst), "the node sends on what was not for it")?;
            self.source_is_possible(sent)?;
            let is_named = network.is_own(then.src) || then.is_error();
            fail_unless(is_named, "what the node sends on has not its address")?;
            return Ok("route");
        }
        if !network.is_own(sent.dst)
            && network.pod_of(sent.dst).is_none()
            && !stays_on_link(sent.dst)
        {
            let is_foreign = !network.is_own(sent.src) || is_group(sent.dst);
            fail_unless(is_foreign || way.len() == 1, "the node's address is forwarded")?;
        }
        Ok("stack")
    }

    fn of_overlay(
        &mut self,
        carrier: IpAddr,
        reported: u32,
        passage: &Passage<'_>,
        now: &Frame,
        way: &Way,
    ) -> Judged {
        let (sent, then) = (passage.sent, passage.now);
        let network = &self.network;
        fail_unless(
            network.identity(carrier) == REMOTE_NODE,
            "somebody who is no node speaks by the overlay",
        )?;
        let known = network.known(sent.src);
        let is_its = known.and_then(|it| it.node).is_none_or(|node| IpAddr::from(node) == carrier);
        fail_unless(is_its, "a node speaks for what lives behind another one")?;
        let known = known.map_or(0, |it| it.identity);
        let from = match reported {
            2 | 9 | 10 => reported,
            _ if known >= 256 => known,
            0 | HOST => REMOTE_NODE,
            _ => reported,
        };
        let local = network.pods.iter().position(|it| now.to == it.mac && now.from == it.node_mac);
        let to = match (way[0].1.action, local, way.get(1)) {
            (REDIRECT, Some(to), _) => Some(to),
            (_, _, Some((Hook::ToContainer, _))) => network.pod_of(then.dst),
            _ => None,
        };
        if let Some(to) = to {
            self.source_is_possible(sent)?;
            return self.delivered(to, from, passage);
        }
        fail_unless(
            network.pod_of(sent.src).is_none(),
            "an endpoint's address comes from elsewhere",
        )?;
        if way[0].1.action == REDIRECT {
            let is_named = network.is_own(then.src) || then.is_error();
            fail_unless(is_named, "what the node sends on has not its address")?;
            return Ok("route");
        }
        Ok("stack")
    }

    /// What the stack forwards from nobody whom a mark names.
    fn of_stack(&mut self, pod: usize, passage: &Passage<'_>) -> Judged {
        let sent = passage.sent;
        let is_neighbour = sent.neighbourly().is_some_and(|kind| (133..=137).contains(&kind));
        if is_neighbour && sent.hops == 255
            || sent.neighbourly().is_some() && stays_on_link(sent.dst)
        {
            return Ok("deliver");
        }
        let from = self.network.identity(sent.src);
        if sent.dst != self.network.pods[pod].ip(sent.dst) {
            return Ok("stack");
        }
        self.delivered(pod, from, passage)
    }
}

/// Whether what came of a packet tells its sender, in the name of whom it was for, that nobody serves there.
fn is_refusal(sent: &Packet, then: &Packet) -> bool {
    let goes_back = (then.src, then.dst) == (sent.dst, sent.src);
    goes_back && (then.is_error() || sent.protocol == TCP && then.protocol == TCP)
}
