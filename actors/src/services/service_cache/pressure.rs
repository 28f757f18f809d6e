//! How full the maps of load balancing are.

use std::collections::{BTreeMap, BTreeSet};

use super::{backends::Backends, table::FrontendTable};

/// How much of a map may be in use before people are told, percent.
const TOLD_AT: usize = 90;

/// Rows by map: what is had and what is about to be.
pub(super) type MapRows = BTreeMap<&'static str, usize>;

/// Rows of the maps that fill up first.
pub(super) fn rows(table: &FrontendTable, backends: &Backends) -> MapRows {
    let weight = table.weight();
    let ([slots6, slots4], [ranges6, ranges4]) = (weight.slots, weight.ranges);
    [
        ("cilium_lb4_services_v2", slots4 + table.wildcards.rows(true)),
        ("cilium_lb6_services_v2", slots6 + table.wildcards.rows(false)),
        ("cilium_lb4_backends_v3", backends.rows(true)),
        ("cilium_lb6_backends_v3", backends.rows(false)),
        ("cilium_lb4_source_range", ranges4),
        ("cilium_lb6_source_range", ranges6),
        ("cilium_lb_affinity_match", weight.matches),
        ("volvox_lb4_members", weight.members[1]),
        ("volvox_lb6_members", weight.members[0]),
    ]
    .into()
}

/// Those, and rows of the maps that never have more than a frontend's map.
pub(super) fn all_rows(table: &FrontendTable, backends: &Backends) -> MapRows {
    let weight = table.weight();
    let ([frontends6, frontends4], [tables6, tables4]) = (weight.frontends, weight.tables);
    let mut all = rows(table, backends);
    all.extend([
        ("cilium_lb4_reverse_nat", frontends4),
        ("cilium_lb6_reverse_nat", frontends6),
        ("cilium_lb4_maglev", tables4),
        ("cilium_lb6_maglev", tables6),
    ]);
    all
}

/// Of which maps it was told that they are nearly full.
#[derive(Debug, Default)]
pub(super) struct Pressure(BTreeSet<&'static str>);

impl Pressure {
    /// The maps that are nearly full since the last look, with their rows. One that has more room
    /// again is told anew when it fills up another time.
    pub(super) fn look(&mut self, rows: &MapRows, room: usize) -> Vec<(&'static str, usize)> {
        let is_pressed = |rows: usize| room > 0 && rows * 100 > room * TOLD_AT;
        let pressed = rows.iter().filter(|(_, rows)| is_pressed(**rows));
        let pressed: MapRows = pressed.map(|(name, rows)| (*name, *rows)).collect();
        let before = std::mem::replace(&mut self.0, pressed.keys().copied().collect());
        pressed.into_iter().filter(|(name, _)| !before.contains(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_told_once_each_time_that_it_fills_up() {
        let mut pressure = Pressure::default();
        let mut look = |rows| pressure.look(&[("a", rows), ("b", 0)].into(), 10);
        assert_eq!(look(9), []);
        assert_eq!(look(10), [("a", 10)]);
        assert_eq!(look(10), [], "it was told");
        assert_eq!(look(9), []);
        assert_eq!(look(10), [("a", 10)], "it had room meanwhile");
        assert_eq!(pressure.look(&[("a", 10)].into(), 0), [], "no limit is known");
    }
}
