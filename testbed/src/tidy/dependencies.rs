//! What the rooms' manifests say of other crates.

use std::path::Path;

use super::{Problem, Tree};

const ROOMS: [&str; 4] = ["actors", "agent", "bpf-progs", "testbed"];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    ROOMS.iter().flat_map(|room| room_problems(tree, room)).collect()
}

fn room_problems(tree: &Tree, room: &str) -> Vec<Problem> {
    let path = Path::new(room).join("Cargo.toml");
    let Some(manifest) = tree.get(&path) else { return Vec::new() };
    let mut problems = Vec::new();
    let mut within = false;
    for (number, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            within = line.ends_with("dependencies]");
        } else if let (true, Some((name, value))) = (within, line.split_once('=')) {
            let name = name.trim();
            let mut add = |what: String| {
                problems.push(Problem { path: path.clone(), line: number + 1, what });
            };
            if !name.ends_with(".workspace") && !value.contains("workspace = true") {
                add(format!("{name}: give its version in the workspace's manifest"));
            }
            let name = name.trim_end_matches(".workspace").replace('-', "_");
            if !tree.rust(room).any(|(_, text)| mentions(text, &name)) {
                add(format!("{name}: nothing uses it: delete it"));
            }
        }
    }
    problems
}

/// Whether the crate's name stands in the text as a word.
fn mentions(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(word) && !text[at + name.len()..].starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_nobody_uses_and_versions_apart() {
        let tree = Tree::of(&[
            (
                "agent/Cargo.toml",
                "[dependencies]\na-b.workspace = true\nc = \"1\"\nd.workspace = true\n",
            ),
            ("agent/src/lib.rs", "use a_b::x;\nuse c::y;\nuse dd::z;\n"),
        ]);
        let found: Vec<_> = check(&tree).iter().map(|problem| problem.line).collect();
        assert_eq!(found, [3, 4]);
    }
}
