//! Names of types in `actors/src`: each stands for one thing, so that who searches for it finds that.

use std::{collections::BTreeMap, path::Path};

use super::{Problem, Tree};

const ROOT: &str = "actors/src";

/// What declares a type.
const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut first: BTreeMap<&str, &Path> = BTreeMap::new();
    let mut problems = Vec::new();
    for (path, text) in tree.rust(ROOT).filter(|(path, _)| !is_test(path)) {
        for (number, line) in text.lines().enumerate() {
            let Some(name) = declared(line) else { continue };
            let home = *first.entry(name).or_insert(path);
            // One file may have it twice, with a feature and without.
            if home != path {
                let what = format!(
                    "{name} is also declared in {}: call it what it is, by a name that nothing else has",
                    home.display()
                );
                problems.push(Problem { path: path.into(), line: number + 1, what });
            }
        }
    }
    problems
}

fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// The type that a line declares. What is indented is an associated type, or belongs to a module of
/// tests or to a function: nobody else sees it.
fn declared(line: &str) -> Option<&str> {
    let words = match line.strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(") ")?.1,
            None => rest.strip_prefix(' ')?,
        },
        None => line,
    };
    let (kind, rest) = words.split_once(' ')?;
    let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(rest.len());
    (KINDS.contains(&kind) && end > 0).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let place = |it: Problem| (it.path.display().to_string(), it.line);
        check(&Tree::of(files)).into_iter().map(place).collect()
    }

    #[test]
    fn a_name_of_two_things_is_named() {
        let known = "pub struct Known<'a>(&'a u8);\npub(super) enum Line {\n    Known,\n}\n";
        let again = "/// It.\ntype Known = u8;\n\npub(in super::super) trait Line {}\n";
        let wrong = [("actors/src/b/c.rs".into(), 2), ("actors/src/b/c.rs".into(), 4)];
        assert_eq!(found(&[("actors/src/a.rs", known), ("actors/src/b/c.rs", again)]), wrong);
        assert!(found(&[("actors/src/a.rs", known), ("agent/src/c.rs", again)]).is_empty());
    }

    #[test]
    fn every_kind_of_type_is_known_by_its_line() {
        let lines = [
            ("struct A;", Some("A")),
            ("pub struct A {", Some("A")),
            ("pub(crate) enum A<T> {", Some("A")),
            ("pub(in super::super) trait A: Sized {", Some("A")),
            ("type A<'a> = &'a u8;", Some("A")),
            ("union A {", Some("A")),
            ("pub use a::A;", None),
            ("impl A for B {", None),
            ("    type A = u8;", None),
            ("structure A", None),
        ];
        for (line, name) in lines {
            assert_eq!(declared(line), name, "{line}");
        }
    }

    #[test]
    fn associated_types_and_tests_may_share_names() {
        let actor = "impl Behaviour for A {\n    type Msg = u8;\n    type Answer = u8;\n}\n\
                     mod tests {\n    struct Fixture;\n}\n";
        let tests = "struct Fixture;\n";
        assert!(
            found(&[
                ("actors/src/a.rs", actor),
                ("actors/src/b.rs", &actor.replace('A', "B")),
                ("actors/src/b/tests.rs", tests),
                ("actors/src/c/tests/d.rs", tests),
            ])
            .is_empty()
        );
    }

    #[test]
    fn a_type_with_two_forms_has_one_name() {
        let both = "#[cfg(test)]\nstruct A;\n#[cfg(not(test))]\nstruct A;\n";
        assert!(found(&[("actors/src/a.rs", both)]).is_empty());
    }
}
