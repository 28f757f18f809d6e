//! Rust files that no compiler sees.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{Problem, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut seen = BTreeSet::new();
    for (path, _) in tree.rust("").filter(|(path, _)| is_root(path)) {
        visit(tree, path, true, &mut seen);
    }
    tree.rust("")
        .filter(|(path, _)| !seen.contains(*path))
        .map(|(path, _)| Problem {
            path: path.into(),
            line: 0,
            what: "no module declares it: declare it or delete it".into(),
        })
        .collect()
}

/// Whether cargo hands the file to the compiler by itself. A package is a room, or lies in one beside its
/// `src`.
fn is_root(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts[..] {
        [_, ref inside @ ..] if is_root_of_package(inside) => true,
        [_, "src" | "tests", ..] => false,
        [_, _, ref inside @ ..] => is_root_of_package(inside),
        _ => false,
    }
}

fn is_root_of_package(inside: &[&str]) -> bool {
    matches!(
        inside,
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["tests" | "examples" | "benches" | "fuzz_targets", _]
            | ["tests", _, "main.rs"]
    )
}

/// Notes the file and the modules that it declares.
fn visit(tree: &Tree, path: &Path, root: bool, seen: &mut BTreeSet<PathBuf>) {
    let Some(text) = tree.get(path) else { return };
    if !seen.insert(path.into()) {
        return;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let own = match path.file_stem() {
        Some(stem) if !root && stem != "mod" => folder.join(stem),
        _ => folder.into(),
    };
    let mut elsewhere = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            elsewhere = rest.split('"').next().map(|file| normal(&folder.join(file)));
        } else if let Some(name) = declared(line) {
            match elsewhere.take() {
                Some(file) => visit(tree, &file, false, seen),
                None => {
                    visit(tree, &own.join(format!("{name}.rs")), false, seen);
                    visit(tree, &own.join(name).join("mod.rs"), false, seen);
                }
            }
        }
    }
}

/// The name in `mod name;`, of whatever visibility.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(';')?.rsplit_once("mod ")?;
    let visible = before.is_empty() || before.starts_with("pub");
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (visible && is_name).then_some(name)
}

/// The path without `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path {
        if part == ".." {
            whole.pop();
        } else if part != "." {
            whole.push(part);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_modules_to_the_one_that_nobody_declares() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "pub mod b;\n#[cfg(test)]\nmod tests;\n"),
            ("a/src/b.rs", "pub(crate) mod c;\nmod inline {}\n"),
            ("a/src/b/c.rs", ""),
            ("a/src/b/dead.rs", ""),
            ("a/src/tests.rs", ""),
            ("a/b/src/lib.rs", "mod c;\n"),
            ("a/b/src/c.rs", ""),
            ("a/examples/e.rs", "#[path = \"../tests/common/mod.rs\"]\nmod common;\n"),
            ("a/tests/common/mod.rs", "mod deep;\n"),
            ("a/tests/common/deep.rs", ""),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|problem| problem.path).collect();
        assert_eq!(found, [Path::new("a/src/b/dead.rs")]);
    }
}
