//! Names of a pod's ports. Equal sets are kept once, as most pods of a workload have the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Names that a pod gives to its ports: name, lower case, to IP protocol and number.
pub type NamedPorts = BTreeMap<String, BTreeSet<(u8, u16)>>;

/// Sets of names that many have: equal ones are one.
#[derive(Debug, Default)]
pub(crate) struct SharedPorts {
    known: BTreeSet<Arc<NamedPorts>>,
    /// When so many are known, those that nobody else has are forgotten.
    full: usize,
}

impl SharedPorts {
    /// How many may be known before it is looked who has them.
    const SLACK: usize = 64;

    /// The set as others have it; none if it is empty.
    pub(crate) fn share(&mut self, ports: NamedPorts) -> Option<Arc<NamedPorts>> {
        if ports.is_empty() {
            return None;
        }
        if let Some(known) = self.known.get(&ports) {
            return Some(Arc::clone(known));
        }
        if self.known.len() >= self.full {
            self.known.retain(|ports| Arc::strong_count(ports) > 1);
            self.full = 2 * self.known.len() + Self::SLACK;
        }
        let ports = Arc::new(ports);
        self.known.insert(Arc::clone(&ports));
        Some(ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_are_one_and_those_that_nobody_has_go() {
        let ports = |number| NamedPorts::from([("http".to_owned(), [(6, number)].into())]);
        let mut all = SharedPorts::default();
        let retained = all.share(ports(1)).unwrap();
        for number in 2..1000 {
            assert!(all.share(ports(number)).is_some());
        }
        assert!(Arc::ptr_eq(&retained, &all.share(ports(1)).unwrap()));
        assert!(all.known.len() <= SharedPorts::SLACK + 2, "{}", all.known.len());
        assert_eq!(all.share(NamedPorts::new()), None);
    }
}
