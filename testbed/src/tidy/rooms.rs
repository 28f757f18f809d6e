//! The rooms: which there are, and which may use which.

use std::{collections::BTreeSet, path::Path};

use super::{Problem, Tree};

/// All that lies at the top, besides files for tools, which begin with a dot.
const TOP: [&str; 8] =
    ["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "actors", "agent", "bpf-progs", "testbed"];

/// Rooms, the words that must not occur in them, and why.
const BARRED: [(&str, &[&str], &str); 6] = [
    ("actors", &["volvox_agent", "volvox_bpf_progs", "volvox_testbed"], "actors uses no room"),
    ("bpf-progs", &["volvox_actors", "volvox_agent", "volvox_testbed"], "bpf-progs uses no room"),
    ("agent", &["volvox_testbed"], "agent does not use testbed"),
    ("agent/cli", &["volvox_agent"], "the client is built without the agent"),
    (
        "agent/cni",
        &["volvox_agent", "volvox_inspect", "volvox_maps"],
        "the plugin is small: it is built without what it does not do",
    ),
    (
        "actors/src",
        &[
            "std::fs",
            "std::process",
            "thread::spawn",
            "thread::sleep",
            "std::net::Tcp",
            "std::net::Udp",
            "SystemTime::now",
            "HashMap",
            "HashSet",
        ],
        "actors decides the same at every run: no input or output, no threads, no wall clock, \
         no order by hash",
    ),
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = top(tree);
    for (room, words, why) in BARRED {
        // Tests may watch from another thread.
        let files = tree.rust(room).filter(|(path, _)| !path.ends_with("tests.rs"));
        problems.extend(Tree::lines(files, |_, line| {
            let code = line.split("//").next().unwrap_or(line);
            let word = words.iter().find(|word| code.contains(**word))?;
            Some(format!("{word}: {why}"))
        }));
    }
    problems
}

fn top(tree: &Tree) -> Vec<Problem> {
    let first = |path: &Path| Some(path.components().next()?.as_os_str().to_str()?.to_owned());
    let found: BTreeSet<_> = tree.files().filter_map(|(path, _)| first(path)).collect();
    found
        .into_iter()
        .filter(|name| !name.starts_with('.') && !TOP.contains(&name.as_str()))
        .map(|name| Problem {
            path: name.into(),
            line: 0,
            what: "there are four rooms and no fifth: move it into one".into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_fifth_room_and_a_wrong_direction() {
        let tree = Tree::of(&[
            ("attic/a.txt", ""),
            ("actors/src/lib.rs", "use volvox_agent::x; // volvox_testbed\n"),
            ("agent/src/lib.rs", "use volvox_actors::x;\n"),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|problem| problem.to_string()).collect();
        let wrong = "actors/src/lib.rs:1: volvox_agent: actors uses no room";
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("attic:0") && found[1] == wrong, "{found:?}");
    }
}
