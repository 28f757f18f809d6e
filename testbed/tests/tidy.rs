//! The sources are in order.

use volvox_testbed::tidy::{Tree, problems};

#[test]
fn the_house_is_tidy() {
    let tree = Tree::read().expect("the sources are there");
    let problems: Vec<_> = problems(&tree).iter().map(ToString::to_string).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
