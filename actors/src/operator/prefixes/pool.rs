//! Pools of prefixes: which are free.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    str::FromStr,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A range of which nodes get prefixes of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRange {
    range: IpNet,
    length: u8,
}

/// Why there is no such pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The text is no range.
    #[error("{0:?} is no range of addresses: write for example 10.0.0.0/8")]
    Range(String),
    /// Prefixes of that length do not fit into it.
    #[error(
        "nodes cannot get prefixes of /{length} out of {range}: give a length from {} to {most}",
        .range.prefix_len()
    )]
    Length {
        /// The range.
        range: IpNet,
        /// The length.
        length: u8,
        /// The longest that leaves a node addresses for pods.
        most: u8,
    },
    /// Two ranges have addresses in common.
    #[error("the ranges {0} and {1} overlap: take one of them out")]
    Overlap(IpNet, IpNet),
}

impl PoolRange {
    /// A range, and the length of what nodes get of it.
    pub fn new(range: &str, length: u8) -> Result<Self, PoolError> {
        let parsed = IpNet::from_str(range.trim());
        let range = parsed.map_err(|_| PoolError::Range(range.to_owned()))?.trunc();
        // A node needs an address for itself and one for a pod, beside those that stay unused.
        let most = range.max_prefix_len() - 2;
        match (range.prefix_len()..=most).contains(&length) {
            true => Ok(Self { range, length }),
            false => Err(PoolError::Length { range, length, most }),
        }
    }

    /// A range, and the length of what nodes get of it beside others: that may be one address.
    pub(in crate::operator) fn of_many(range: &str, length: u8) -> Result<Self, PoolError> {
        let parsed = IpNet::from_str(range.trim());
        let range = parsed.map_err(|_| PoolError::Range(range.to_owned()))?.trunc();
        let most = range.max_prefix_len();
        match (range.prefix_len()..=most).contains(&length) {
            true => Ok(Self { range, length }),
            false => Err(PoolError::Length { range, length, most }),
        }
    }

    pub(in crate::operator) fn range(&self) -> IpNet {
        self.range
    }

    fn first(&self) -> IpNet {
        at(self.range.network(), self.length)
    }
}

/// The pools of a cluster, of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPools {
    ipv4: Vec<PoolRange>,
    ipv6: Vec<PoolRange>,
}

impl ClusterPools {
    /// Of ranges, which must not overlap.
    pub fn new(ranges: Vec<PoolRange>) -> Result<Self, PoolError> {
        for (number, one) in ranges.iter().enumerate() {
            let other = ranges[..number].iter().find(|it| overlap(&it.range, &one.range));
            if let Some(other) = other {
                return Err(PoolError::Overlap(other.range, one.range));
            }
        }
        let (ipv4, ipv6) = ranges.into_iter().partition(|it| matches!(it.range, IpNet::V4(_)));
        Ok(Self { ipv4, ipv6 })
    }

    /// All ranges.
    pub(in crate::operator) fn ranges(&self) -> impl Iterator<Item = &PoolRange> {
        self.ipv4.iter().chain(&self.ipv6)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ipv4.is_empty() && self.ipv6.is_empty()
    }

    /// The families of which a node that has these lacks a prefix.
    pub(super) fn lacking(&self, cidrs: &[IpNet]) -> Vec<Family> {
        let has = |family: Family| cidrs.iter().any(|cidr| family.has(cidr));
        let all = [Family::V4, Family::V6].into_iter();
        all.filter(|family| !self.of(*family).is_empty() && !has(*family)).collect()
    }

    pub(in crate::operator) fn of(&self, family: Family) -> &[PoolRange] {
        match family {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::operator) enum Family {
    V4,
    V6,
}

impl Family {
    pub(in crate::operator) fn has(self, cidr: &IpNet) -> bool {
        match self {
            Self::V4 => matches!(cidr, IpNet::V4(_)),
            Self::V6 => matches!(cidr, IpNet::V6(_)),
        }
    }

    pub(in crate::operator) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// What somebody has, and where the search for what is free goes on: what was given back is given again
/// as late as can be.
#[derive(Clone, Debug, Default)]
pub(in crate::operator) struct Occupied {
    by_start: BTreeMap<IpAddr, BTreeSet<u8>>,
    /// By the pool's name.
    next: BTreeMap<(String, Family), IpNet>,
}

impl Occupied {
    /// Keeps where the search goes on.
    pub(in crate::operator) fn renewed(&self, all: impl IntoIterator<Item = IpNet>) -> Self {
        let mut occupied = Self { by_start: BTreeMap::new(), next: self.next.clone() };
        all.into_iter().for_each(|cidr| occupied.add(cidr));
        occupied
    }

    pub(super) fn add(&mut self, cidr: IpNet) {
        let cidr = cidr.trunc();
        self.by_start.entry(cidr.network()).or_default().insert(cidr.prefix_len());
    }

    /// The first of what is occupied that shares addresses with this.
    fn overlaps(&self, cidr: &IpNet) -> Option<IpNet> {
        let within = self.by_start.range(cidr.network()..=last(cidr)).next();
        let within = within.and_then(|(start, lengths)| Some(at(*start, *lengths.first()?)));
        let around = || {
            (0..cidr.prefix_len()).find_map(|length| {
                let outer = at(cidr.network(), length).trunc();
                let lengths = self.by_start.get(&outer.network())?;
                lengths.contains(&length).then_some(outer)
            })
        };
        within.or_else(around)
    }

    /// Takes a free one out of the pool of that name.
    pub(in crate::operator) fn take(
        &mut self,
        name: &str,
        pools: &ClusterPools,
        family: Family,
    ) -> Option<IpNet> {
        let ranges = pools.of(family);
        let place = (name.to_owned(), family);
        let next = self.next.get(&place).copied();
        // A pool may have other ranges by now, or give prefixes of another length.
        let fits = |it: &PoolRange, next: &IpNet| {
            it.range.contains(next) && it.length == next.prefix_len()
        };
        let known = next.filter(|next| ranges.iter().any(|it| fits(it, next)));
        let begin = known.or_else(|| ranges.first().map(PoolRange::first))?;
        let found = self.search(ranges, begin)?;
        self.add(found);
        let after = following(ranges, &found).or_else(|| ranges.first().map(PoolRange::first))?;
        self.next.insert(place, after);
        Some(found)
    }

    /// Looks at all from `begin` on, and then at those before.
    fn search(&self, ranges: &[PoolRange], begin: IpNet) -> Option<IpNet> {
        let first = ranges.first()?.first();
        let (mut candidate, mut wrapped) = (begin, false);
        loop {
            let Some(taken) = self.overlaps(&candidate) else { return Some(candidate) };
            // What is larger is passed over as a whole.
            let past = if taken.contains(&candidate) { taken } else { candidate };
            let next = past_of(ranges, &candidate, &past);
            candidate = match next {
                Some(next) => next,
                None if wrapped => return None,
                None => {
                    wrapped = true;
                    first
                }
            };
            if wrapped && (candidate == begin || comes_after(ranges, &candidate, &begin)) {
                return None;
            }
        }
    }
}

/// What nodes are told that have addresses of another one as well.
pub(in crate::operator) fn troubles_of_shared<'a>(
    nodes: impl IntoIterator<Item = (&'a str, IpNet)>,
) -> BTreeMap<String, String> {
    let trouble = |(name, (cidr, other)): (&str, (IpNet, &str))| {
        let text = format!(
            "addresses of {cidr} are node {other}'s as well: drain this node, remove its CiliumNode, and \
             let it join again"
        );
        (name.to_owned(), text)
    };
    shared(nodes).into_iter().map(trouble).collect()
}

/// Which nodes have addresses that another one has as well, and whose: the later one by name is told.
fn shared<'a>(
    nodes: impl IntoIterator<Item = (&'a str, IpNet)>,
) -> BTreeMap<&'a str, (IpNet, &'a str)> {
    let mut all: Vec<(IpNet, &str)> =
        nodes.into_iter().map(|(name, cidr)| (cidr.trunc(), name)).collect();
    all.sort_by_key(|(cidr, name)| (cidr.network(), cidr.prefix_len(), *name));
    let mut shared = BTreeMap::new();
    // The one that reaches furthest of those before.
    let mut reach: Option<(IpNet, &str)> = None;
    for (cidr, name) in all {
        if let Some((outer, whose)) = reach.filter(|(outer, _)| outer.contains(&cidr)) {
            if whose != name {
                shared.insert(name.max(whose), (outer, name.min(whose)));
            }
        } else {
            reach = Some((cidr, name));
        }
    }
    shared
}

pub(in crate::operator) fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// The one after `past` in the ranges, in the range of `candidate` or the next.
fn past_of(ranges: &[PoolRange], candidate: &IpNet, past: &IpNet) -> Option<IpNet> {
    let number = ranges.iter().position(|it| it.range.contains(candidate))?;
    let pool = &ranges[number];
    let step = if past.prefix_len() < pool.length { past } else { candidate };
    let within = after(step).map(|start| at(start, pool.length));
    let within = within.filter(|next| pool.range.contains(next));
    within.or_else(|| ranges.get(number + 1).map(PoolRange::first))
}

fn following(ranges: &[PoolRange], given: &IpNet) -> Option<IpNet> {
    past_of(ranges, given, given)
}

/// Whether `one` comes after `other` in the order of the search.
fn comes_after(ranges: &[PoolRange], one: &IpNet, other: &IpNet) -> bool {
    let place = |cidr: &IpNet| {
        let number = ranges.iter().position(|it| it.range.contains(cidr));
        (number, cidr.network())
    };
    place(one) > place(other)
}

/// The address after the last one of a prefix.
fn after(cidr: &IpNet) -> Option<IpAddr> {
    match last(cidr) {
        IpAddr::V4(last) => u32::from(last).checked_add(1).map(|next| IpAddr::V4(next.into())),
        IpAddr::V6(last) => u128::from(last).checked_add(1).map(|next| IpAddr::V6(next.into())),
    }
}

fn last(cidr: &IpNet) -> IpAddr {
    match cidr {
        IpNet::V4(cidr) => IpAddr::V4(cidr.broadcast()),
        IpNet::V6(cidr) => IpAddr::V6(cidr.broadcast()),
    }
}

/// A prefix of a length that is known to be one of its family.
fn at(start: IpAddr, length: u8) -> IpNet {
    match start {
        IpAddr::V4(start) => IpNet::V4(Ipv4Net::new(start, length.min(32)).unwrap_or_default()),
        IpAddr::V6(start) => IpNet::V6(Ipv6Net::new(start, length.min(128)).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(ranges: &[(&str, u8)]) -> ClusterPools {
        let ranges = ranges.iter().map(|(range, length)| PoolRange::new(range, *length).unwrap());
        ClusterPools::new(ranges.collect()).unwrap()
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn each_prefix_is_given_once_until_all_are() {
        let pools = pools(&[("10.0.0.0/30", 30), ("10.1.0.0/23", 25)]);
        let mut occupied = Occupied::default();
        let given: Vec<_> = std::iter::from_fn(|| occupied.take("", &pools, Family::V4))
            .map(|it| it.to_string())
            .collect();
        let all = ["10.0.0.0/30", "10.1.0.0/25", "10.1.0.128/25", "10.1.1.0/25", "10.1.1.128/25"];
        assert_eq!(given, all);
        assert_eq!(occupied.take("", &pools, Family::V6), None);
    }

    #[test]
    fn what_is_given_back_is_given_again_last() {
        let pools = pools(&[("10.0.0.0/26", 28)]);
        let mut occupied = Occupied::default();
        let first = occupied.take("", &pools, Family::V4).unwrap();
        let mut occupied = occupied.renewed([]);
        let given: Vec<_> = (0..4).filter_map(|_| occupied.take("", &pools, Family::V4)).collect();
        assert_eq!(given.last(), Some(&first));
        assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn what_overlaps_in_any_way_is_passed_over() {
        let pools = pools(&[("10.0.0.0/24", 26), ("fd00::/48", 64)]);
        let mut occupied = Occupied::default();
        // A longer one within, a shorter one around, and one of somebody else.
        for taken in ["10.0.0.77/32", "10.0.0.128/25", "192.168.0.0/16", "fd00::/63"] {
            occupied.add(net(taken));
        }
        assert_eq!(occupied.take("", &pools, Family::V4), Some(net("10.0.0.0/26")));
        assert_eq!(occupied.take("", &pools, Family::V4), None);
        assert_eq!(occupied.take("", &pools, Family::V6), Some(net("fd00:0:0:2::/64")));
    }

    #[test]
    fn the_last_addresses_of_a_family_end_the_search() {
        let pools = pools(&[("255.255.255.0/24", 25)]);
        let mut occupied = Occupied::default();
        let given: Vec<_> = std::iter::from_fn(|| occupied.take("", &pools, Family::V4)).collect();
        assert_eq!(given, [net("255.255.255.0/25"), net("255.255.255.128/25")]);
    }

    #[test]
    fn nodes_that_share_addresses_are_named() {
        let nodes: [(&str, &[IpNet]); 4] = [
            ("a", &[net("10.0.0.0/24")]),
            ("b", &[net("10.0.1.0/24"), net("fd00::/64")]),
            ("c", &[net("10.0.0.128/25")]),
            ("d", &[net("10.0.2.0/24"), net("10.0.2.0/25")]),
        ];
        let shared = shared(nodes.iter().flat_map(|(name, has)| has.iter().map(|it| (*name, *it))));
        assert_eq!(shared, [("c", (net("10.0.0.0/24"), "a"))].into());
    }

    #[test]
    fn ranges_that_cannot_serve_are_refused() {
        for (range, length, words) in [
            ("10.0.0.0/33", 24, "no range of addresses"),
            ("", 24, "no range of addresses"),
            ("10.0.0.0/24", 23, "give a length from 24 to 30"),
            ("10.0.0.0/24", 31, "give a length from 24 to 30"),
            ("fd00::/120", 128, "give a length from 120 to 126"),
        ] {
            let error = PoolRange::new(range, length).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let ranges = ["10.0.0.0/8", "10.3.0.0/16"].map(|it| PoolRange::new(it, 24).unwrap());
        let error = ClusterPools::new(ranges.into()).unwrap_err();
        assert!(error.to_string().contains("overlap"), "{error}");
    }
}
