//! Whether the house is in order: what can be checked of the sources without understanding them.
//!
//! Lints look at one crate; these look at the whole tree. They run as an ordinary test and as
//! `cargo testbed tidy`.

mod actors;
mod circles;
mod commands;
mod dependencies;
mod flags;
mod floors;
mod imports;
mod limits;
mod links;
mod modules;
mod names;
mod rooms;
mod text;
mod tree;
mod walks;

use std::{fmt, path::PathBuf};

use anyhow::{Result, ensure};

pub use flags::print_flags;
pub use tree::Tree;

/// Something that is out of order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Which file, from the top of the tree.
    pub path: PathBuf,
    /// Which line, from 1; 0 when it is the whole file.
    pub line: usize,
    /// What is wrong and what to do.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Everything that is out of order in the tree.
pub fn problems(tree: &Tree) -> Vec<Problem> {
    let checks = [
        rooms::check as fn(&Tree) -> Vec<Problem>,
        text::check,
        modules::check,
        dependencies::check,
        commands::check,
        actors::check,
        links::check,
        floors::check,
        circles::check,
        limits::check,
        names::check,
        walks::check,
        flags::check,
    ];
    let mut all: Vec<_> = checks.iter().flat_map(|check| check(tree)).collect();
    all.sort();
    all
}

/// Prints what is out of order; fails if anything is.
pub fn run() -> Result<()> {
    let problems = problems(&Tree::read()?);
    problems.iter().for_each(|problem| volvox_system::say!("{problem}"));
    ensure!(problems.is_empty(), "{} things are out of order", problems.len());
    volvox_system::say!("All in order.");
    Ok(())
}
