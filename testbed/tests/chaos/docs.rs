//! Tests: the examples of the page are histories, and the files are all listed.

use std::{collections::BTreeSet, fs};

use volvox_testbed::chaos::{self, Asked, Place, Source};

use super::{path, read};

/// The examples of the page, each as long as it is said to be.
fn examples() -> Vec<Source> {
    let page = fs::read_to_string(path("docs/chaos.md")).expect("the page is there");
    let mut examples = Vec::new();
    let mut rest = page.as_str();
    while let Some((_, begun)) = rest.split_once("```yaml\n") {
        let (text, after) = begun.split_once("```").expect("it ends");
        examples
            .push(Source { name: format!("example-{}", examples.len() + 1), text: text.into() });
        rest = after;
    }
    examples
}

#[test]
fn the_examples_of_the_page_are_histories_and_end_well_where_they_can_happen_in_memory() {
    let examples = examples();
    assert_eq!(examples.len(), 5);
    examples.iter().for_each(|example| drop(read(example)));
    let asked = Asked { place: Place::Sim, seed: 1 };
    let mut lived = 0;
    for example in examples {
        match chaos::histories(std::slice::from_ref(&example), asked, |_| ()) {
            Ok(outcomes) => {
                assert_eq!(
                    outcomes[0].verdict,
                    volvox_testbed::judge::Verdict::Well,
                    "{outcomes:?}"
                );
                lived += 1;
            }
            Err(error) => assert!(error.to_string().contains("simulator cannot"), "{error:#}"),
        }
    }
    assert!(lived >= 2, "{lived} of the examples can happen in memory");
}

#[test]
fn every_file_is_listed_and_says_what_it_is_about() {
    let files = fs::read_dir(path("histories")).expect("the folder is there");
    let names = files.filter_map(|file| {
        let name = file.ok()?.file_name().into_string().ok()?;
        name.strip_suffix(".yaml").map(str::to_owned)
    });
    let listed: BTreeSet<_> = chaos::all().map(|source| source.name).collect();
    assert_eq!(names.collect::<BTreeSet<_>>(), listed, "list it in testbed/src/chaos/library.rs");
    chaos::all().for_each(|source| drop(read(&source)));
}
