//! What the programs make of a packet, by the rows that are in the maps: configuration row, slot,
//! policy rows; local addresses and the ipcache for the other side's identity.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
};

use volvox_actors_simulated::{
    model::{Direction, IdentityId, PolicyRows},
    policy::rules::lookup,
    ports::{HookState, lxc_flags},
    testing::KernelState,
};

use crate::model::policies::{ALL, PROBES, Way};

/// Looks packets up. What is known of a set of rows is kept, for most endpoints share theirs.
#[derive(Default)]
pub(super) struct Datapath {
    known: Vec<PolicyRows>,
    by_hash: BTreeMap<u64, Vec<usize>>,
    /// Which of the known sets each slot holds.
    slots: BTreeMap<u32, Option<usize>>,
    verdicts: Vec<BTreeMap<IdentityId, [u8; 2]>>,
}

/// What judges packets at an interface, by [`Way`].
#[derive(Clone, Copy)]
pub(super) struct Hooks([Hook; 2]);

#[derive(Clone, Copy)]
enum Hook {
    Open,
    Closed,
    /// The known set of rows of that place.
    Rows(usize),
}

impl Datapath {
    /// The policy map in that slot is another one now.
    pub(super) fn slot_changed(&mut self, slot: u32) {
        self.slots.remove(&slot);
    }

    /// Any policy map may be another one now.
    pub(super) fn all_changed(&mut self) {
        self.slots.clear();
    }

    /// What judges packets at an interface; `None` if no packet can come: there is no such
    /// interface.
    pub(super) fn hooks(&mut self, state: &KernelState, ifindex: u32) -> Option<Hooks> {
        if !state.rows.links.get(&ifindex)?.up {
            return Some(Hooks([Hook::Closed; 2]));
        }
        let config = state.rows.config.get(&ifindex);
        let hooked = state.hooked.get(&ifindex);
        let attached = hooked.and_then(|id| state.rows.attachments.get(id));
        let attached = attached.copied().unwrap_or_default();
        let rows = config.and_then(|row| self.rows_of(state, row.policy_slot));
        Some(Hooks([Way::In, Way::Out].map(|way| {
            let hook = if way == Way::In { attached.to_container } else { attached.from_container };
            match rows {
                // Without a program nothing is looked up: everything passes.
                _ if hook == HookState::Empty => Hook::Open,
                Some(rows) => Hook::Rows(rows),
                None => Hook::Closed,
            }
        })))
    }

    /// Which probes pass there between the interface and that identity.
    pub(super) fn passes(&mut self, hooks: Hooks, way: Way, peer: IdentityId) -> u8 {
        let out = usize::from(way == Way::Out);
        let rows = match hooks.0[out] {
            Hook::Open => return ALL,
            Hook::Closed => return 0,
            Hook::Rows(rows) => rows,
        };
        let known = &self.known[rows];
        let verdicts = self.verdicts[rows].entry(peer).or_insert_with(|| {
            [Direction::Ingress, Direction::Egress].map(|direction| mask(known, direction, peer))
        });
        verdicts[out]
    }

    fn rows_of(&mut self, state: &KernelState, slot: u32) -> Option<usize> {
        if let Some(known) = self.slots.get(&slot) {
            return *known;
        }
        let found = state.slots.get(&slot).map(|rows| self.place(rows));
        self.slots.insert(slot, found);
        found
    }

    fn place(&mut self, rows: &PolicyRows) -> usize {
        let mut hasher = DefaultHasher::new();
        for (key, entry) in rows {
            key.hash(&mut hasher);
            (entry.deny, entry.precedence, entry.cookie).hash(&mut hasher);
        }
        let alike = self.by_hash.entry(hasher.finish()).or_default();
        if let Some(&place) = alike.iter().find(|&&place| self.known[place] == *rows) {
            return place;
        }
        self.known.push(rows.clone());
        self.verdicts.push(BTreeMap::new());
        alike.push(self.known.len() - 1);
        self.known.len() - 1
    }
}

fn mask(rows: &PolicyRows, direction: Direction, peer: IdentityId) -> u8 {
    let passes =
        |&(protocol, port): &(u8, u16)| lookup(rows, direction, peer, protocol, port).passes();
    let bits = PROBES.iter().enumerate().filter(|(_, probe)| passes(probe));
    bits.fold(0, |mask, (place, _)| mask | 1 << place)
}

/// The identity of what a pod sends to that address.
pub(super) fn receiver(state: &KernelState, address: IpAddr) -> IdentityId {
    let local = state.rows.lxc.get(&address).filter(|row| row.flags & lxc_flags::HOST == 0);
    match local {
        Some(row) if row.identity != IdentityId::UNKNOWN => row.identity,
        _ => outside(state, address),
    }
}

/// The identity of an address by the longest prefix in the ipcache.
pub(super) fn outside(state: &KernelState, address: IpAddr) -> IdentityId {
    let world = if address.is_ipv4() { IdentityId::WORLD_IPV4 } else { IdentityId::WORLD_IPV6 };
    // Nothing is longer than the address itself.
    if let Some(row) = state.rows.ipcache.get(&address.into()) {
        return row.identity;
    }
    let shorter = |prefix: &ipnet::IpNet| prefix.prefix_len() < prefix.max_prefix_len();
    let rows = state.rows.ipcache.iter();
    let rows = rows.filter(|(prefix, _)| shorter(prefix) && prefix.contains(&address));
    rows.max_by_key(|(prefix, _)| prefix.prefix_len()).map_or(world, |(_, row)| row.identity)
}
