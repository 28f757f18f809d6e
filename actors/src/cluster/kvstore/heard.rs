//! Whether a store is the one that it was: what it says of itself with each answer, compared with
//! what it said before.
//!
//! A store that was restored from a snapshot has an older revision, or an older term; another one
//! behind the same address has another number. A watch from a revision that is still to come hears
//! nothing, so who follows a store must notice.

use crate::{
    mutants::{Mutant, mutated},
    ports::StoreHeader,
};

/// What tells a store from the one that said `before`, in words.
pub(crate) fn difference(before: StoreHeader, said: StoreHeader) -> Option<String> {
    if mutated(Mutant::OtherSideTrusted) {
        return None;
    }
    let StoreHeader { cluster, term, revision } = said;
    if cluster != before.cluster {
        return Some(format!("its cluster is {cluster:x}, before it was {:x}", before.cluster));
    }
    if revision < before.revision {
        let (now, then) = (revision.0, before.revision.0);
        return Some(format!("its revision is {now}, before it was {then}"));
    }
    (term < before.term).then(|| format!("its term is {term}, before it was {}", before.term))
}

/// The furthest that a store said.
pub(crate) fn furthest(heard: Option<StoreHeader>, said: StoreHeader) -> StoreHeader {
    match heard {
        Some(heard) if heard.cluster == said.cluster => StoreHeader {
            cluster: said.cluster,
            term: heard.term.max(said.term),
            revision: heard.revision.max(said.revision),
        },
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Revision;

    fn header(cluster: u64, term: u64, revision: i64) -> StoreHeader {
        StoreHeader { cluster, term, revision: Revision(revision) }
    }

    #[test]
    fn a_store_that_goes_on_is_the_same_one() {
        let before = header(1, 2, 100);
        assert_eq!(difference(before, before), None);
        assert_eq!(difference(before, header(1, 3, 101)), None);
        assert!(difference(before, header(2, 2, 200)).unwrap().contains("cluster is 2"));
        assert!(difference(before, header(1, 2, 99)).unwrap().contains("revision is 99"));
        assert!(difference(before, header(1, 1, 300)).unwrap().contains("term is 1"));
    }

    #[test]
    fn the_furthest_is_of_one_store() {
        assert_eq!(furthest(None, header(1, 2, 3)), header(1, 2, 3));
        assert_eq!(furthest(Some(header(1, 2, 9)), header(1, 3, 3)), header(1, 3, 9));
        assert_eq!(furthest(Some(header(1, 2, 9)), header(2, 1, 3)), header(2, 1, 3));
    }
}
