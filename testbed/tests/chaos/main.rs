//! Histories in files: their words, their errors, both worlds, and the command as people call it.

mod command;
mod docs;
mod errors;
mod learn;
mod outside;
mod schema;
mod worlds;

use std::path::Path;

use volvox_testbed::chaos::{History, Source};

/// Reads a text that is right.
fn read(source: &Source) -> History {
    match History::read(&source.name, &source.text) {
        Ok(history) => history,
        Err(complaints) => {
            let all: Vec<_> = complaints.iter().map(ToString::to_string).collect();
            panic!("{}", all.join("\n"));
        }
    }
}

/// A path below the crate.
fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
