//! An endpoint's options: what they switch on in the kernel, and how its row there keeps those that
//! were set for it alone.

use std::collections::BTreeMap;

use crate::ports::config_flags;

/// Options that become flags of the configuration row.
const SWITCHES: [(&str, u16); 4] = [
    ("SourceIPVerification", config_flags::SOURCE_CHECK),
    ("TraceNotification", config_flags::TRACE),
    ("PolicyVerdictNotification", config_flags::POLICY_VERDICT),
    ("DropNotification", config_flags::DROP),
];

/// The option that is a level, and the levels from which its flags are set.
const AGGREGATION: &str = "MonitorAggregationLevel";
const AGGREGATION_FLAGS: [(i64, u16); 2] =
    [(1, config_flags::AGGREGATE_ARRIVALS), (3, config_flags::AGGREGATE_CONNECTIONS)];

/// Options that can be set for one endpoint, by their place in what [`pack`] makes. Rows in kernels
/// hold it: new ones go to the end.
const PACKED: [&str; 5] = [SWITCHES[0].0, SWITCHES[1].0, SWITCHES[2].0, SWITCHES[3].0, AGGREGATION];

/// Bits that each of them has.
const BITS: u32 = 4;
const MASK: u32 = (1 << BITS) - 1;

/// Flags of the configuration row, by an endpoint's options; one that is absent is 0.
pub(super) fn flags(options: &BTreeMap<String, i64>) -> u16 {
    let value = |name: &str| options.get(name).copied().unwrap_or(0);
    let switches = SWITCHES.into_iter().filter(|(name, _)| value(name) != 0);
    let levels = AGGREGATION_FLAGS.into_iter().filter(|(least, _)| value(AGGREGATION) >= *least);
    switches.map(|(_, flag)| flag).chain(levels.map(|(_, flag)| flag)).fold(0, |all, one| all | one)
}

/// Options as a number: for each four bits, 0 if it is absent, else its value and one.
pub(crate) fn pack(options: &BTreeMap<String, i64>) -> u32 {
    PACKED.iter().rev().fold(0, |packed, name| {
        let value = options.get(*name).and_then(|value| u32::try_from(*value).ok());
        let nibble = value.filter(|value| *value < MASK).map_or(0, |value| value + 1);
        packed << BITS | nibble
    })
}

/// The options of a number. Bits that stand for none are passed over: a newer agent's.
pub(crate) fn unpack(packed: u32) -> BTreeMap<String, i64> {
    let nibbles = (0..).step_by(BITS as usize).map(|at| packed >> at & MASK);
    let there = PACKED.into_iter().zip(nibbles).filter(|(_, nibble)| *nibble > 0);
    there.map(|(name, nibble)| (name.to_owned(), i64::from(nibble) - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(of: &[(&str, i64)]) -> BTreeMap<String, i64> {
        of.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn options_become_flags() {
        let of = |of: &[(&str, i64)]| flags(&options(of));
        assert_eq!(of(&[("Debug", 1), ("TraceNotification", 0)]), 0);
        assert_eq!(of(&[("DropNotification", 1), ("SourceIPVerification", 1)]), 8 | 1);
        let levels = [0, 1, 2, 3, 4].map(|level| of(&[(AGGREGATION, level)]));
        assert_eq!(levels, [0, 16, 16, 16 | 32, 16 | 32]);
    }

    #[test]
    fn what_is_packed_comes_back() {
        for of in [
            &[][..],
            &[("SourceIPVerification", 0)],
            &[("TraceNotification", 1), ("DropNotification", 0), (AGGREGATION, 4)],
        ] {
            assert_eq!(unpack(pack(&options(of))), options(of), "{of:?}");
        }
        assert_eq!(pack(&options(&[("SourceIPVerification", 0), (AGGREGATION, 0)])), 0x1_0001);
        let strange = options(&[("Debug", 1), (AGGREGATION, 900), ("DropNotification", -1)]);
        assert_eq!(pack(&strange), 0);
        assert_eq!(unpack(0xfff0_0000), BTreeMap::new());
    }
}
