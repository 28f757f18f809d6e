//! Nobody ever meets a third verdict: after each step of the kernel, what that step could have
//! changed is what the old or the new model says.
//!
//! Policies and labels are objects that change each for itself. Until the node is at rest again,
//! any version of each that there was since it was last at rest may explain a verdict; what all of
//! them allow must pass between pods that run, and what none of them allows must never pass.

mod newest;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use volvox_actors_simulated::{
    model::{Addresses, EndpointId, IdentityId},
    ports::{HookState, KernelOp},
    testing::KernelState,
};

use super::{
    datapath::{Datapath, Door, outside, receiver},
    model::{App, OUTSIDE, PROBES, Peer, Policy, Way, passes},
    peers::Peers,
    served::Served,
    store::address_of,
    uplink::Uplinks,
};

const APPS: usize = App::NAMED.len() + 1;
/// Pods of each label, nobody's, and those outside.
const PEERS: usize = APPS + 1 + OUTSIDE.len();
const PLACES: usize = 2 * APPS * PEERS;

fn place(way: Way, app: App, peer: Peer) -> usize {
    let peer = match peer {
        Peer::Pod(app) => app as usize,
        Peer::Unknown => APPS,
        Peer::Outside(place) => APPS + 1 + place,
    };
    (way as usize * APPS + app as usize) * PEERS + peer
}

/// A pod as the oracle knows it.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// Its host-side interface.
    pub(super) ifindex: u32,
    /// Its addresses.
    pub(super) addresses: Addresses,
    /// The labels that it had since the node was last at rest.
    pub(super) apps: Vec<App>,
    /// It runs: what is allowed must pass.
    pub(super) runs: bool,
    /// Its endpoint, once it is known.
    pub(super) endpoint: Option<EndpointId>,
    /// Names this pod among all that ever had its addresses.
    pub(super) owner: u64,
    /// Its identity when the node was last at rest.
    pub(super) identity: Option<(App, IdentityId)>,
}

/// A pod, and what judges its packets.
#[derive(Clone, Copy)]
struct Side<'a> {
    number: u8,
    subject: &'a Subject,
    door: Door,
}

/// What a pod's packets to an address are taken for.
#[derive(Clone, Copy)]
struct Target {
    identity: IdentityId,
    /// A pod of this node has it.
    mapped: bool,
}

impl Target {
    fn of(state: &KernelState, address: IpAddr) -> Self {
        let mapped = state.rows.lxc.contains_key(&address);
        Self { identity: receiver(state, address), mapped }
    }
}

/// Watches every step of the kernel.
pub(super) struct Oracle {
    /// The pods, by number.
    pub(super) subjects: BTreeMap<u8, Subject>,
    /// What pods of other nodes were since the node was last at rest; none is not there.
    pub(super) remotes: BTreeMap<u8, Vec<Option<App>>>,
    /// What each source of policies held since the node was last at rest.
    sources: BTreeMap<u8, Vec<Vec<Policy>>>,
    /// What all versions let pass, and what any does, by [`place`].
    expected: [Option<(u8, u8)>; PLACES],
    /// Services.
    pub(super) served: Served,
    /// Interfaces to other machines.
    pub(super) uplinks: Uplinks,
    /// Other nodes with prefixes.
    pub(super) peers: Peers,
    datapath: Datapath,
    outside: Vec<IpAddr>,
    /// Their identities, as far as they are known by the ipcache as it is.
    abroad: [Option<IdentityId>; OUTSIDE.len()],
    /// A wait for others to enforce something ended without an answer: one that never
    /// acknowledges must not hold up the rest. What passes is then not demanded until all rest.
    pub(super) late: bool,
    /// Policy maps have no room for all policies: what passes is not demanded.
    pub(super) crowded: bool,
    /// What went wrong.
    pub(super) violations: Vec<String>,
    /// How many verdicts were looked at.
    pub(super) verdicts: u64,
}

impl Default for Oracle {
    fn default() -> Self {
        Self {
            subjects: BTreeMap::new(),
            remotes: BTreeMap::new(),
            sources: BTreeMap::new(),
            expected: [None; PLACES],
            served: Served::default(),
            uplinks: Uplinks::default(),
            peers: Peers::default(),
            datapath: Datapath::default(),
            outside: OUTSIDE.iter().map(|text| text.parse().expect("an address")).collect(),
            abroad: [None; OUTSIDE.len()],
            late: false,
            crowded: false,
            violations: Vec::new(),
            verdicts: 0,
        }
    }
}

impl Oracle {
    /// A source of policies changed.
    pub(super) fn policies(&mut self, source: u8, policies: Vec<Policy>) {
        let versions = self.sources.entry(source).or_insert_with(|| vec![Vec::new()]);
        versions.retain(|version| *version != policies);
        versions.push(policies);
        self.expected = [None; PLACES];
    }

    /// What that source holds now.
    pub(super) fn policies_of(&self, source: u8) -> Vec<Policy> {
        self.sources.get(&source).and_then(|versions| versions.last()).cloned().unwrap_or_default()
    }

    /// Everything is in force: only the newest version explains anything.
    fn rest(&mut self) {
        for versions in self.sources.values_mut() {
            versions.drain(..versions.len() - 1);
        }
        for subject in self.subjects.values_mut() {
            let newest = subject.apps.len() - 1;
            subject.apps.drain(..newest);
        }
        for versions in self.remotes.values_mut() {
            versions.drain(..versions.len() - 1);
        }
        self.expected = [None; PLACES];
        self.late = false;
    }

    /// Looks at what a step could have changed.
    pub(super) fn stepped(&mut self, state: &KernelState, op: &KernelOp) {
        match op {
            KernelOp::PutConfig(row) => {
                self.connections(state, row.ifindex);
                self.interface(state, row.ifindex, true);
            }
            KernelOp::DeleteConfig { ifindex, .. }
            | KernelOp::LinkUp { ifindex }
            | KernelOp::LinkDown { ifindex } => self.interface(state, *ifindex, false),
            KernelOp::Attach { ifindex, .. }
            | KernelOp::Settle { ifindex, .. }
            | KernelOp::Detach { ifindex, .. } => {
                self.attached(state, op);
                self.interface(state, *ifindex, false);
            }
            KernelOp::FlipPolicy { slot }
            | KernelOp::PutPolicyRow { slot, .. }
            | KernelOp::DeletePolicyRow { slot, .. }
            | KernelOp::ClearSlot { slot } => {
                self.datapath.slot_changed(*slot);
                let mut rows = state.rows.config.values();
                let ifindex = rows.find(|row| row.policy_slot == *slot).map(|row| row.ifindex);
                if let Some(ifindex) = ifindex {
                    self.interface(state, ifindex, false);
                }
            }
            KernelOp::PutLxc { address, .. } | KernelOp::DeleteLxc { address, .. } => {
                self.address(state, *address);
            }
            KernelOp::PutIpcache(rows) => {
                self.abroad = Default::default();
                rows.iter().for_each(|(prefix, _)| self.prefix(state, prefix));
            }
            KernelOp::DeleteIpcache(prefixes) => {
                self.abroad = Default::default();
                prefixes.iter().for_each(|prefix| self.prefix(state, prefix));
            }
            KernelOp::ScrubConntrack { addresses } => self.scrubbed(*addresses),
            KernelOp::PutServices(_) | KernelOp::DeleteServices(_) => {
                self.violations.extend(self.served.wrong(&state.services));
            }
            KernelOp::Routing(_)
            | KernelOp::AttachDevice { .. }
            | KernelOp::DetachDevice { .. } => {
                let wrong = self.uplinks.wrong(state, op).or_else(|| self.peers.wrong(state));
                self.violations.extend(wrong);
            }
            _ => {}
        }
    }

    /// Looks at every verdict that there is.
    pub(super) fn everything(&mut self, state: &KernelState) {
        self.datapath.all_changed();
        self.abroad = Default::default();
        let interfaces: Vec<u32> = self.subjects.values().map(|it| it.ifindex).collect();
        interfaces.into_iter().for_each(|ifindex| self.interface(state, ifindex, false));
    }

    /// Looks at all packets of one interface.
    pub(super) fn look(&mut self, state: &KernelState, ifindex: u32) {
        self.interface(state, ifindex, true);
    }

    /// All packets of one interface and, as its identity may be another one, those that it sends
    /// to others.
    fn interface(&mut self, state: &KernelState, ifindex: u32, identity: bool) {
        let subjects = std::mem::take(&mut self.subjects);
        if let Some((&number, subject)) = subjects.iter().find(|(_, it)| it.ifindex == ifindex) {
            let own = self.side(state, number, subject);
            for (&other, peer) in subjects.iter().filter(|(other, _)| **other != number) {
                if let Some(own) = own {
                    for address in peer.addresses.iter() {
                        self.sends(own, (other, peer), Target::of(state, address));
                    }
                    self.receives(state, own, (other, peer));
                }
                if identity && let Some(side) = self.side(state, other, peer) {
                    self.receives(state, side, (number, subject));
                }
            }
            if let Some(own) = own {
                (0..OUTSIDE.len()).for_each(|place| self.abroad(state, own, place));
                self.remotes(state, own, None);
            }
        }
        self.subjects = subjects;
    }

    /// What others send to one address.
    fn address(&mut self, state: &KernelState, address: IpAddr) {
        let subjects = std::mem::take(&mut self.subjects);
        let has = |subject: &&Subject| subject.addresses.iter().any(|own| own == address);
        if let Some((&number, peer)) = subjects.iter().find(|(_, it)| has(it)) {
            let target = Target::of(state, address);
            for (&other, subject) in subjects.iter().filter(|(other, _)| **other != number) {
                if let Some(side) = self.side(state, other, subject) {
                    self.sends(side, (number, peer), target);
                }
            }
        }
        self.subjects = subjects;
    }

    fn prefix(&mut self, state: &KernelState, prefix: &ipnet::IpNet) {
        if prefix.prefix_len() == prefix.max_prefix_len() {
            self.address(state, prefix.addr());
        }
        let subjects = std::mem::take(&mut self.subjects);
        if !self.remotes.is_empty() {
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
                        self.abroad(state, side, place);
                    }
                }
            }
        }
        self.subjects = subjects;
    }

    /// A pod as packets find it now; `None` if none can come.
    fn side<'a>(
        &mut self,
        state: &KernelState,
        number: u8,
        subject: &'a Subject,
    ) -> Option<Side<'a>> {
        let door = self.datapath.door(state, subject.ifindex)?;
        Some(Side { number, subject, door })
    }

    /// What a pod sends to an address of another one. Until that one runs, nobody has an address
    /// that leads to none: the ipcache may still know who had it before.
    fn sends(&mut self, side: Side<'_>, peer: (u8, &Subject), target: Target) {
        if target.mapped || peer.1.runs {
            self.judge(side, Way::Out, target.identity, peer);
        }
    }

    /// What a pod gets from another one on this node: its identity comes with the packet.
    fn receives(&mut self, state: &KernelState, side: Side<'_>, peer: (u8, &Subject)) {
        let Some(sender) = state.rows.config.get(&peer.1.ifindex) else { return };
        self.judge(side, Way::In, sender.identity, peer);
    }

    fn judge(
        &mut self,
        Side { number, subject, door }: Side<'_>,
        way: Way,
        identity: IdentityId,
        (other, peer): (u8, &Subject),
    ) {
        let actual = self.datapath.passes(door, way, identity);
        let both_run = subject.runs && peer.runs;
        let (must, may) =
            self.bounds(way, &subject.apps, peer.apps.iter().map(|&it| Peer::Pod(it)));
        let must = if both_run { must } else { 0 };
        self.compare(actual, must, may, || {
            format!("pod {number} {way:?} pod {other} ({identity})")
        });
    }

    /// Packets between a pod and an address outside of the cluster.
    fn abroad(&mut self, state: &KernelState, side: Side<'_>, place: usize) {
        let Side { number, subject, door } = side;
        let address = self.outside[place];
        let identity = *self.abroad[place].get_or_insert_with(|| outside(state, address));
        for way in [Way::In, Way::Out] {
            let actual = self.datapath.passes(door, way, identity);
            let peer = std::iter::once(Peer::Outside(place));
            let (must, may) = self.bounds(way, &subject.apps, peer);
            let must = if subject.runs { must } else { 0 };
            let outside = OUTSIDE[place];
            self.compare(actual, must, may, || {
                format!("pod {number} {way:?} {outside} ({identity})")
            });
        }
    }

    /// Packets between a pod and those of other nodes, all or those that have these addresses.
    fn remotes(&mut self, state: &KernelState, side: Side<'_>, within: Option<&ipnet::IpNet>) {
        let Side { number, subject, door } = side;
        let remotes = std::mem::take(&mut self.remotes);
        for (&remote, versions) in &remotes {
            let address = address_of(remote);
            if within.is_some_and(|prefix| !prefix.contains(&address)) {
                continue;
            }
            let identity = outside(state, address);
            for way in [Way::In, Way::Out] {
                let actual = self.datapath.passes(door, way, identity);
                let peers = versions.iter().map(|it| it.map_or(Peer::Unknown, Peer::Pod));
                let (must, may) = self.bounds(way, &subject.apps, peers);
                let must = if subject.runs { must } else { 0 };
                self.compare(actual, must, may, || {
                    format!("pod {number} {way:?} remote pod {remote} ({identity})")
                });
            }
        }
        self.remotes = remotes;
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

    /// What must pass between a pod and its peer, whichever version of each there is, and what may.
    fn bounds(
        &mut self,
        way: Way,
        apps: &[App],
        peers: impl Iterator<Item = Peer> + Clone,
    ) -> (u8, u8) {
        let (mut must, mut may) = (u8::MAX, 0);
        for &app in apps {
            for peer in peers.clone() {
                let (all, any) = self.expect(way, app, peer);
                (must, may) = (must & all, may | any);
            }
        }
        (must, may)
    }

    /// What all versions let pass, and what any does.
    fn expect(&mut self, way: Way, app: App, peer: Peer) -> (u8, u8) {
        if let Some(known) = self.expected[place(way, app, peer)] {
            return known;
        }
        // Every choice of one version of each source.
        let mut choices: Vec<Vec<&Policy>> = vec![Vec::new()];
        for versions in self.sources.values() {
            choices = choices
                .iter()
                .flat_map(|choice| {
                    versions.iter().map(move |version| {
                        choice.iter().copied().chain(version).collect::<Vec<_>>()
                    })
                })
                .collect();
        }
        let each = choices.iter().map(|choice| passes(choice.iter().copied(), way, app, peer));
        let found = each.fold((u8::MAX, 0), |(all, any), mask| (all & mask, any | mask));
        self.expected[place(way, app, peer)] = Some(found);
        found
    }

    /// A pod that runs has programs at both hooks.
    fn attached(&mut self, state: &KernelState, op: &KernelOp) {
        let (KernelOp::Attach { endpoint, .. }
        | KernelOp::Settle { endpoint, .. }
        | KernelOp::Detach { endpoint, .. }) = op
        else {
            return;
        };
        let runs = |it: &Subject| {
            it.runs && it.endpoint == Some(*endpoint) && state.rows.links.contains_key(&it.ifindex)
        };
        let at = state.rows.attachments.get(endpoint).copied().unwrap_or_default();
        let empty = [at.from_container, at.to_container].contains(&HookState::Empty);
        if empty && self.subjects.values().any(runs) {
            self.violations.push(format!("endpoint {endpoint} lost its programs"));
        }
    }

    /// A pod that starts must not find connections of who had its address before.
    fn connections(&mut self, state: &KernelState, ifindex: u32) {
        let Some(subject) = self.subjects.values().find(|it| it.ifindex == ifindex) else { return };
        for address in subject.addresses.iter() {
            if state.connections.get(&address).is_some_and(|owner| *owner != subject.owner) {
                self.violations.push(format!("connections of who had {address} before are left"));
            }
        }
    }

    /// Connections of a pod that runs are never forgotten.
    fn scrubbed(&mut self, addresses: Addresses) {
        let lost = |it: &&Subject| {
            it.runs && addresses.iter().any(|a| it.addresses.iter().any(|b| a == b))
        };
        if let Some(subject) = self.subjects.values().find(lost) {
            self.violations.push(format!("connections of {:?} were cut", subject.addresses));
        }
    }

    /// Addresses of every pod.
    pub(super) fn addresses(&self) -> BTreeSet<IpAddr> {
        self.subjects.values().flat_map(|it| it.addresses.iter()).collect()
    }
}
