//! What the fuzzer begins with and what it once found, as an ordinary test.

use std::{fs, path::Path};

use super::TARGETS;

#[test]
fn the_corpus_is_taken_as_it_should_be() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/fuzz/corpus");
    for (name, target) in TARGETS {
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
