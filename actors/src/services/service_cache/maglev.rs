//! Maglev's table: which backend a connection's hash leads to, so that every node of a cluster
//! chooses alike, and few connections move when the backends change (Eisenbud et al., NSDI 2016,
//! section 3.4).

use crate::model::{BackendId, L4Address};

/// Fills a table of `size` places, a prime, from the places of the backends alone. Each backend gets
/// about as many places as every other; none at all leaves a table of zeros.
pub fn table(backends: &[(BackendId, L4Address)], size: usize) -> Vec<u32> {
    let mut filled = vec![0; size];
    let mut all: Vec<_> = backends.iter().map(|(id, at)| (hash(at), *at, id.0)).collect();
    // Numbers differ from node to node: the order is that of the places.
    all.sort_unstable_by_key(|(_, at, _)| *at);
    if all.is_empty() || size < 2 {
        filled.fill(all.first().map_or(0, |(.., id)| *id));
        return filled;
    }
    let turns = all.iter().map(|(hash, ..)| {
        let (upper, lower) = ((hash >> 32) as usize, (hash & 0xffff_ffff) as usize);
        (upper % size, lower % (size - 1) + 1)
    });
    let mut turns: Vec<(usize, usize)> = turns.collect();
    let mut taken = vec![false; size];
    let mut left = size;
    loop {
        for ((at, skip), (.., id)) in turns.iter_mut().zip(&all) {
            while taken[*at] {
                *at = (*at + *skip) % size;
            }
            (taken[*at], filled[*at]) = (true, *id);
            left -= 1;
            if left == 0 {
                return filled;
            }
        }
    }
}

/// FNV-1a of a backend's place, with its bits mixed as MurmurHash3 ends.
fn hash(at: &L4Address) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in at.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Transport;

    const SIZE: usize = 1021;

    fn backends(ids: impl Iterator<Item = u32>) -> Vec<(BackendId, L4Address)> {
        let at = |id: u32| L4Address {
            address: std::net::Ipv4Addr::from_bits(0x0a00_0000 + id % 1000).into(),
            port: 80,
            transport: Transport::TCP,
        };
        ids.map(|id| (BackendId(id), at(id))).collect()
    }

    fn shares(table: &[u32]) -> BTreeMap<u32, usize> {
        let mut shares = BTreeMap::new();
        table.iter().for_each(|id| *shares.entry(*id).or_default() += 1);
        shares
    }

    #[test]
    fn all_get_alike_whatever_their_numbers_and_order() {
        let one = table(&backends(1..=10), SIZE);
        let all = shares(&one);
        assert_eq!(all.len(), 10);
        assert!(all.values().all(|share| (102..=103).contains(share)), "{all:?}");
        let other = table(&backends((1001..=1010).rev()), SIZE);
        assert!(one.iter().zip(&other).all(|(one, other)| *one + 1000 == *other));
        assert_eq!(table(&[], SIZE), vec![0; SIZE]);
        assert_eq!(shares(&table(&backends(7..=7), SIZE)), BTreeMap::from([(7, SIZE)]));
    }

    #[test]
    fn few_places_move_when_a_backend_goes() {
        let (before, after) = (table(&backends(1..=10), SIZE), table(&backends(1..=9), SIZE));
        let moved = before.iter().zip(&after).filter(|(one, two)| one != two && **one != 10);
        let moved = moved.count();
        assert!(moved < SIZE / 8, "{moved} of {SIZE} moved without need");
    }
}
