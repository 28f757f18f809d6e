//! Verdicts of policies: each packet between pods of the node, pods of others and addresses outside, as far
//! as a step could have changed what becomes of it.

use std::net::IpAddr;

use volvox_actors_simulated::{model::IdentityId, testing::KernelState};

use super::{
    Oracle,
    datapath::{Hooks, outside, receiver},
};
use crate::model::{
    expected::{ExpectedPod, remote_address},
    policies::{OUTSIDE, PROBES, Peer, Way},
};

/// A pod, and what judges its packets.
#[derive(Clone, Copy)]
struct Side<'a> {
    number: u8,
    subject: &'a ExpectedPod,
    hooks: Hooks,
}

/// What a pod's packets to an address are taken for.
#[derive(Clone, Copy)]
struct Receiver {
    identity: IdentityId,
    /// A pod of this node has it.
    mapped: bool,
}

impl Receiver {
    fn of(state: &KernelState, address: IpAddr) -> Self {
        let mapped = state.rows.lxc.contains_key(&address);
        Self { identity: receiver(state, address), mapped }
    }
}

impl Oracle {
    /// All packets of one interface and, as its identity may be another one, those that it sends
    /// to others.
    pub(super) fn interface(&mut self, state: &KernelState, ifindex: u32, identity: bool) {
        let subjects = std::mem::take(&mut self.expected.pods);
        if let Some((&number, subject)) = subjects.iter().find(|(_, it)| it.ifindex == ifindex) {
            let own = self.side(state, number, subject);
            for (&other, peer) in subjects.iter().filter(|(other, _)| **other != number) {
                if let Some(own) = own {
                    for address in peer.addresses.iter() {
                        self.sends(own, (other, peer), Receiver::of(state, address));
                    }
                    self.receives(state, own, (other, peer));
                }
                if identity && let Some(side) = self.side(state, other, peer) {
                    self.receives(state, side, (number, subject));
                }
            }
            if let Some(own) = own {
                (0..OUTSIDE.len()).for_each(|place| self.outside(state, own, place));
                self.remotes(state, own, None);
            }
        }
        self.expected.pods = subjects;
    }

    /// What others send to one address.
    pub(super) fn address(&mut self, state: &KernelState, address: IpAddr) {
        let subjects = std::mem::take(&mut self.expected.pods);
        let has = |subject: &&ExpectedPod| subject.addresses.iter().any(|own| own == address);
        if let Some((&number, peer)) = subjects.iter().find(|(_, it)| has(it)) {
            let target = Receiver::of(state, address);
            for (&other, subject) in subjects.iter().filter(|(other, _)| **other != number) {
                if let Some(side) = self.side(state, other, subject) {
                    self.sends(side, (number, peer), target);
                }
            }
        }
        self.expected.pods = subjects;
    }

    pub(super) fn prefix(&mut self, state: &KernelState, prefix: &ipnet::IpNet) {
        if prefix.prefix_len() == prefix.max_prefix_len() {
            self.address(state, prefix.addr());
        }
        let subjects = std::mem::take(&mut self.expected.pods);
        if !self.expected.remotes.is_empty() {
            for (&number, subject) in &subjects {
                if let Some(side) = self.side(state, number, subject) {
                    self.remotes(state, side, Some(prefix));
                }
            }
        }
        for place in 0..OUTSIDE.len() {
            if prefix.contains(&self.outside[place]) {
                for (&number, subject) in &subjects {
                    if let Some(side) = self.side(state, number, subject) {
                        self.outside(state, side, place);
                    }
                }
            }
        }
        self.expected.pods = subjects;
    }

    /// A pod as packets find it now; `None` if none can come.
    fn side<'a>(
        &mut self,
        state: &KernelState,
        number: u8,
        subject: &'a ExpectedPod,
    ) -> Option<Side<'a>> {
        let hooks = self.datapath.hooks(state, subject.ifindex)?;
        Some(Side { number, subject, hooks })
    }

    /// What a pod sends to an address of another one. Until that one runs, nobody has an address
    /// that leads to none: the ipcache may still know who had it before.
    fn sends(&mut self, side: Side<'_>, peer: (u8, &ExpectedPod), target: Receiver) {
        if target.mapped || peer.1.runs {
            self.judge(side, Way::Out, target.identity, peer);
        }
    }

    /// What a pod gets from another one on this node: its identity comes with the packet.
    fn receives(&mut self, state: &KernelState, side: Side<'_>, peer: (u8, &ExpectedPod)) {
        let Some(sender) = state.rows.config.get(&peer.1.ifindex) else { return };
        self.judge(side, Way::In, sender.identity, peer);
    }

    fn judge(
        &mut self,
        Side { number, subject, hooks }: Side<'_>,
        way: Way,
        identity: IdentityId,
        (other, peer): (u8, &ExpectedPod),
    ) {
        let actual = self.datapath.passes(hooks, way, identity);
        let both_run = subject.runs && peer.runs;
        let (must, may) =
            self.expected.bounds(way, &subject.apps, peer.apps.iter().map(|&it| Peer::Pod(it)));
        let must = if both_run { must } else { 0 };
        self.compare(actual, must, may, || {
            format!("pod {number} {way:?} pod {other} ({identity})")
        });
    }

    /// Packets between a pod and an address outside of the cluster.
    fn outside(&mut self, state: &KernelState, side: Side<'_>, place: usize) {
        let Side { number, subject, hooks } = side;
        let address = self.outside[place];
        let identity =
            *self.outside_identities[place].get_or_insert_with(|| outside(state, address));
        for way in [Way::In, Way::Out] {
            let actual = self.datapath.passes(hooks, way, identity);
            let peer = std::iter::once(Peer::Outside(place));
            let (must, may) = self.expected.bounds(way, &subject.apps, peer);
            let must = if subject.runs { must } else { 0 };
            let outside = OUTSIDE[place];
            self.compare(actual, must, may, || {
                format!("pod {number} {way:?} {outside} ({identity})")
            });
        }
    }

    /// Packets between a pod and those of other nodes, all or those that have these addresses.
    fn remotes(&mut self, state: &KernelState, side: Side<'_>, within: Option<&ipnet::IpNet>) {
        let Side { number, subject, hooks } = side;
        let remotes = std::mem::take(&mut self.expected.remotes);
        for (&remote, versions) in &remotes {
            let address = remote_address(remote);
            if within.is_some_and(|prefix| !prefix.contains(&address)) {
                continue;
            }
            let identity = outside(state, address);
            for way in [Way::In, Way::Out] {
                let actual = self.datapath.passes(hooks, way, identity);
                let peers = versions.iter().map(|it| it.map_or(Peer::Unknown, Peer::Pod));
                let (must, may) = self.expected.bounds(way, &subject.apps, peers);
                let must = if subject.runs { must } else { 0 };
                self.compare(actual, must, may, || {
                    format!("pod {number} {way:?} remote pod {remote} ({identity})")
                });
            }
        }
        self.expected.remotes = remotes;
    }

    fn compare(&mut self, actual: u8, must: u8, may: u8, what: impl FnOnce() -> String) {
        self.verdicts += 1;
        let must = if self.late || self.crowded { 0 } else { must };
        let (dropped, passed) = (must & !actual, actual & !may);
        if dropped | passed == 0 {
            return;
        }
        let names = |mask: u8| {
            let bits = PROBES.iter().enumerate().filter(|(place, _)| mask & 1 << place != 0);
            let names = bits.map(|(_, (protocol, port))| format!("{protocol}/{port}"));
            names.collect::<Vec<_>>().join(",")
        };
        self.violations.push(format!(
            "a third verdict: {}: passes {:?}, wrongly dropped {:?}, wrongly passed {:?}",
            what(),
            names(actual),
            names(dropped),
            names(passed)
        ));
    }
}
