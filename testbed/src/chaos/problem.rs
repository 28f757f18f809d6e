//! What is wrong with a history: where, what, and what to do.

use std::fmt;

use super::tree::{Path, Place, locate};

/// Something wrong in a tree.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    path: Path,
    /// The word is wrong, and not what stands behind it.
    at_word: bool,
    what: String,
}

impl Problem {
    pub(super) fn value(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.clone(), at_word: false, what: what.into() }
    }

    pub(super) fn word(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.clone(), at_word: true, what: what.into() }
    }
}

/// The same with where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Complaint {
    /// The file.
    pub file: String,
    /// Line and column, from 1 on.
    pub place: (usize, usize),
    /// What is wrong, and what to do.
    pub what: String,
}

impl Complaint {
    pub(super) fn new(file: &str, place: Place, what: String) -> Self {
        Self { file: file.to_owned(), place, what }
    }

    /// Those of a text, in its order.
    pub(super) fn all(file: &str, text: &str, problems: &[Problem]) -> Vec<Self> {
        let at = |problem: &Problem| locate(text, &problem.path, problem.at_word);
        let complaint = |it: &Problem| Self::new(file, at(it), it.what.clone());
        let mut all: Vec<_> = problems.iter().map(complaint).collect();
        all.sort_by_key(|complaint| complaint.place);
        all.dedup();
        all
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.place;
        write!(f, "{}:{line}:{column}: {}", self.file, self.what)
    }
}
