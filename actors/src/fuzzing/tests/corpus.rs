//! What fuzzers begin with and what they once found. Each package that is fuzzed takes its part of it.

use std::{fs, path::Path};

use super::super::Parser;

/// Runs each target over its files.
pub(super) fn take(targets: &[(&str, Parser)]) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut corpus = corpus.map(|directory| directory.join("testbed/fuzz/corpus"));
    let corpus = corpus.find(|path| path.is_dir()).expect("the fuzzers' corpus");
    for (name, target) in targets {
        let files =
            fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for file in files {
            let path = file.unwrap().path();
            // Its name is what a failure needs.
            eprintln!("{}", path.display());
            target(&fs::read(path).unwrap());
        }
    }
}
