//! What the manifests of the packages say of other crates.

use std::path::Path;

use super::{Problem, Tree};

const PACKAGES: [&str; 15] = [
    "actors",
    "agent",
    "agent/cli",
    "agent/cluster",
    "agent/cni",
    "agent/connectivity",
    "agent/inspect",
    "agent/install",
    "agent/maps",
    "agent/operator",
    "agent/packaging",
    "agent/rest",
    "agent/system",
    "bpf-progs",
    "testbed",
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    PACKAGES.iter().flat_map(|package| package_problems(tree, package)).collect()
}

fn package_problems(tree: &Tree, package: &str) -> Vec<Problem> {
    let path = Path::new(package).join("Cargo.toml");
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
            if !sources(tree, package).any(|text| mentions(text, &name)) {
                add(format!("{name}: nothing uses it: delete it"));
            }
        }
    }
    problems
}

/// The Rust files of a package, without those of packages inside its folder.
fn sources<'a>(tree: &'a Tree, package: &'a str) -> impl Iterator<Item = &'a str> {
    let is_inner = move |path: &Path| {
        let inner =
            PACKAGES.iter().filter(|other| Path::new(other).parent() == Some(Path::new(package)));
        inner.into_iter().any(|other| path.starts_with(other))
    };
    tree.rust(package).filter(move |(path, _)| !is_inner(path)).map(|(_, text)| text)
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
            ("agent/cni/src/lib.rs", "use d::x;\n"),
        ]);
        let found: Vec<_> = check(&tree).iter().map(|problem| problem.line).collect();
        assert_eq!(found, [3, 4]);
    }
}
