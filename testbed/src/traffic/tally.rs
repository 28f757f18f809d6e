//! What became of numbered packets in one direction.

use super::gap::Gap;

/// Counts packets by their sequence numbers, from 0.
#[derive(Default)]
pub(super) struct Tally {
    seen: Vec<u64>,
    /// Different numbers that arrived.
    pub(super) unique: u64,
    /// Packets that arrived once more.
    pub(super) duplicates: u64,
    /// Packets that arrived after a later one.
    pub(super) reordered: u64,
    next: u64,
    /// Silence between two arrivals.
    pub(super) gap: Gap,
}

impl Tally {
    /// Packet `number` arrived; true if for the first time.
    pub(super) fn arrived(&mut self, number: u64) -> bool {
        self.gap.mark();
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicates += 1;
            return false;
        }
        self.seen[word] |= bit;
        self.unique += 1;
        if number < self.next {
            self.reordered += 1;
        }
        self.next = self.next.max(number + 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn tells_late_from_double() {
        let mut tally = Tally::default();
        for number in [0, 1, 3, 2, 3, 70] {
            tally.arrived(number);
        }
        assert_eq!((tally.unique, tally.reordered, tally.duplicates), (5, 1, 1));
    }
}
