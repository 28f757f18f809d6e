//! The addresses of one prefix: which are free, and which comes next.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::model::ranges::Ranges;

/// The addresses of one prefix. The next address lies after the one handed out last, so that one
/// given back is handed out again as late as possible.
#[derive(Debug)]
pub(super) struct Pool {
    prefix: IpNet,
    first: u128,
    last: u128,
    next: u128,
    taken: Ranges,
    used: u64,
    /// Nothing more is handed out of it.
    is_closed: bool,
}

impl Pool {
    /// All addresses of the prefix but the network's own and, with IPv4, the broadcast address;
    /// the smallest prefixes (RFC 3021, RFC 6164) have neither.
    pub(super) fn new(prefix: IpNet) -> Self {
        let prefix = prefix.trunc();
        let (network, end) = (number(prefix.network()), number(prefix.broadcast()));
        let tiny = prefix.max_prefix_len() - prefix.prefix_len() < 2;
        let broadcast = prefix.network().is_ipv4() && !tiny;
        let first = if tiny { network } else { network + 1 };
        let last = if broadcast { end - 1 } else { end };
        Self {
            prefix,
            first,
            last,
            next: first,
            taken: Ranges::default(),
            used: 0,
            is_closed: false,
        }
    }

    pub(super) fn prefix(&self) -> IpNet {
        self.prefix
    }

    /// How many addresses can be handed out.
    pub(super) fn size(&self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }

    /// Whether the address is one that can be handed out.
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        self.prefix.contains(&address) && (self.first..=self.last).contains(&number(address))
    }

    /// How many of its addresses somebody has.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Hands nothing out any more; what somebody has stays that one's.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// The address that is handed out next.
    pub(super) fn peek(&self) -> Option<IpAddr> {
        if self.is_closed {
            return None;
        }
        let free = self.taken.next_gap(self.next, self.first, self.last)?;
        Some(match self.prefix {
            IpNet::V4(_) => Ipv4Addr::from_bits(u32::try_from(free).ok()?).into(),
            IpNet::V6(_) => Ipv6Addr::from_bits(free).into(),
        })
    }

    /// Hands out an address; the next one lies behind it.
    pub(super) fn hand_out(&mut self, address: IpAddr) {
        self.reserve(address);
        let given = number(address);
        self.next = if given >= self.last { self.first } else { given + 1 };
    }

    /// Takes an address out of what can be handed out.
    pub(super) fn reserve(&mut self, address: IpAddr) {
        if self.taken.insert(number(address)) {
            self.used += 1;
        }
    }

    /// Begins behind the highest address that is taken: what was handed out before a restart is
    /// not handed out again soon.
    pub(super) fn resume(&mut self) {
        self.next = self.taken.highest().filter(|&n| n < self.last).map_or(self.first, |n| n + 1);
    }

    pub(super) fn give_back(&mut self, address: IpAddr) {
        if self.taken.remove(number(address)) {
            self.used -= 1;
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}
