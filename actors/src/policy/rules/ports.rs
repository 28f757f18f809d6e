//! Protocols and ports: ranges as rules have them, and the prefixes that rows need for them.

/// IP protocol numbers that policies speak of.
pub mod protocol {
    /// ICMP, of IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP of IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;

    /// A protocol's name as policies write it.
    pub fn name(number: u8) -> String {
        match number {
            0 => "ANY".to_owned(),
            ICMP => "ICMP".to_owned(),
            TCP => "TCP".to_owned(),
            UDP => "UDP".to_owned(),
            ICMPV6 => "ICMPv6".to_owned(),
            SCTP => "SCTP".to_owned(),
            other => other.to_string(),
        }
    }
}

/// Ports of one protocol, both ends included; 0 to 65535 is the whole protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// IP protocol number.
    pub protocol: u8,
    /// First port.
    pub first: u16,
    /// Last port.
    pub last: u16,
}

impl PortRange {
    /// One port.
    pub fn one(protocol: u8, port: u16) -> Self {
        Self { protocol, first: port, last: port }
    }

    /// Every port of a protocol.
    pub fn all(protocol: u8) -> Self {
        Self { protocol, first: 0, last: u16::MAX }
    }

    /// The fewest prefixes that together are exactly this range.
    pub fn cells(self) -> impl Iterator<Item = PortPrefix> {
        let (mut next, last) = (u32::from(self.first), u32::from(self.last));
        std::iter::from_fn(move || {
            if next > last {
                return None;
            }
            // As large as the alignment of `next` allows and the rest of the range holds.
            let mut free = next.trailing_zeros().min(16);
            while next + (1 << free) - 1 > last {
                free -= 1;
            }
            let port = u16::try_from(next).expect("next is at most last, a u16");
            next += 1 << free;
            Some(PortPrefix { bits: 8 + 16 - free as u8, protocol: self.protocol, port })
        })
    }
}

/// Protocol and port of a policy row: a prefix of 24 bits. Broader cells sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortPrefix {
    /// How many bits count: 0 none, 8 the protocol, 24 one whole port.
    pub bits: u8,
    /// IP protocol number, 0 if it does not count.
    pub protocol: u8,
    /// Port, the bits that do not count zero.
    pub port: u16,
}

impl PortPrefix {
    /// Every protocol.
    pub const ALL: Self = Self { bits: 0, protocol: 0, port: 0 };

    /// Each cell that holds this one and is broader, the broadest first.
    pub fn ancestors(self) -> impl Iterator<Item = Self> {
        let lengths = std::iter::once(0).chain(8..=24);
        lengths.take_while(move |bits| *bits < self.bits).map(move |bits| self.cut(bits))
    }

    /// Whether a packet is in it.
    pub fn contains(self, protocol: u8, port: u16) -> bool {
        Self { bits: 24, protocol, port }.cut(self.bits) == self
    }

    fn cut(self, bits: u8) -> Self {
        if bits < 8 {
            return Self::ALL;
        }
        let mask = !(u32::from(u16::MAX) >> (bits - 8)) as u16;
        Self { bits, protocol: self.protocol, port: self.port & mask }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn covers_ranges_with_few_prefixes() {
        let bits = |first, last| {
            let range = PortRange { protocol: 6, first, last };
            range.cells().map(|cell| (cell.port, cell.bits)).collect::<Vec<_>>()
        };
        assert_eq!(bits(0, 65535), [(0, 8)]);
        assert_eq!(bits(80, 80), [(80, 24)]);
        assert_eq!(bits(8000, 8003), [(8000, 22)]);
        assert_eq!(bits(65535, 65535), [(65535, 24)]);
        assert_eq!(bits(1, 65535).len(), 16);
    }

    proptest! {
        #[test]
        fn cells_cover_exactly_the_range(a: u16, b: u16, near in -3i32..3, far: u16) {
            let (first, last) = (a.min(b), a.max(b));
            let range = PortRange { protocol: 17, first, last };
            let edge = |port: u16| (i32::from(port) + near).clamp(0, 65535) as u16;
            for port in [edge(first), edge(last), far] {
                let holding = range.cells().filter(|cell| cell.contains(17, port)).count();
                prop_assert_eq!(holding, usize::from((first..=last).contains(&port)));
                prop_assert_eq!(range.cells().filter(|cell| cell.contains(6, port)).count(), 0);
            }
        }

        #[test]
        fn ancestors_are_the_chain_of_broader_cells(port: u16, bits in 8u8..=24) {
            let cell = PortPrefix { bits: 24, protocol: 6, port }.cut(bits);
            let chain: Vec<PortPrefix> = cell.ancestors().collect();
            prop_assert_eq!(chain.len(), usize::from(bits - 8) + 1);
            prop_assert!(chain.iter().all(|wide| wide.contains(6, cell.port)));
            prop_assert_eq!(chain.first(), Some(&PortPrefix::ALL));
        }
    }
}
