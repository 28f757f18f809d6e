//! How far a server is: versions are numbers that grow, whatever else they are.

use crate::mutants::{Mutant, mutated};

/// The number that a version is, if it is one.
pub(super) fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

/// What tells a server that has come to this version from one that had come further.
pub(super) fn went_back(before: Option<u64>, said: &str) -> Option<String> {
    let (before, said) = before.zip(number(said))?;
    let is_older = said < before && !mutated(Mutant::OtherSideTrusted);
    is_older.then(|| format!("its resourceVersion is {said}, before it was {before}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_no_number_says_nothing() {
        assert_eq!(went_back(Some(7), "7"), None);
        assert_eq!(went_back(Some(7), "x"), None);
        assert_eq!(went_back(None, "6"), None);
        let words = "its resourceVersion is 6, before it was 7";
        assert_eq!(went_back(Some(7), "6").as_deref(), Some(words));
    }
}
