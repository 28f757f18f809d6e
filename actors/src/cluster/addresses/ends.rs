//! Short numbers for nodes: each of many rows has a number in place of a node's address.

use std::collections::BTreeMap;

use crate::model::Tunnel;

/// Number of a node behind which addresses are, to this actor; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Via(u32);

/// Nodes behind which addresses are, or were: many addresses are behind each.
#[derive(Debug, Default)]
pub(super) struct Ends {
    all: Vec<Tunnel>,
    numbers: BTreeMap<Tunnel, Via>,
}

impl Ends {
    /// The number of a node.
    pub(super) fn number(&mut self, tunnel: Tunnel) -> Via {
        if tunnel == Tunnel::NONE {
            return Via::default();
        }
        if let Some(&via) = self.numbers.get(&tunnel) {
            return via;
        }
        self.all.push(tunnel);
        // Nodes of a cluster are counted in thousands.
        let via = Via(u32::try_from(self.all.len()).unwrap_or_default());
        self.numbers.insert(tunnel, via);
        via
    }

    /// The node of that number.
    pub(super) fn of(&self, via: Via) -> Tunnel {
        let at = usize::try_from(via.0).unwrap_or_default().checked_sub(1);
        at.and_then(|at| self.all.get(at)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_number_and_none_has_none() {
        let mut ends = Ends::default();
        let [a, b] = ["192.0.2.1", "2001:db8::1"].map(|ip| Tunnel::to(ip.parse().unwrap()));
        let [one, two, again] = [a, b, a].map(|tunnel| ends.number(tunnel));
        assert!(one == again && one != two);
        assert_eq!((ends.of(one), ends.of(two)), (a, b));
        let none = ends.number(Tunnel::NONE);
        assert_eq!(ends.of(none), Tunnel::NONE);
        assert_eq!((ends.number(Tunnel::NONE), ends.all.len()), (Via::default(), 2));
    }
}
