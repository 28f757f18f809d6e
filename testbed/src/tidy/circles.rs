//! Circles of files: no two files name each other, nor do three by way of a third. So a stranger can read
//! one after the other. That a file declares another, or hands on its names, is no use of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{Problem, Tree, floors::is_beside, imports};

/// Where files form none.
const ROOTS: [&str; 1] = ["actors/src"];

/// Files that stay in one, by the folder that holds them all: this list may only shrink.
const EXCEPT: [&str; 0] = [];

/// A module's path, from the root of its crate.
type Module = Vec<String>;

/// The files of a crate by their modules, and what each hands on.
struct Files<'a> {
    texts: BTreeMap<Module, &'a str>,
    /// Names that a module has from elsewhere, and whence.
    handed_on: BTreeMap<(Module, String), Module>,
}

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    ROOTS.iter().flat_map(|root| circles(tree, root)).collect()
}

fn circles(tree: &Tree, root: &'static str) -> Vec<Problem> {
    let files = Files::of(tree, root);
    let uses: BTreeMap<&Module, BTreeSet<&Module>> =
        files.texts.iter().map(|(module, text)| (module, files.used(module, text))).collect();
    let reached: BTreeMap<_, _> =
        uses.keys().map(|module| (*module, reach(module, &uses))).collect();
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for (module, all) in &reached {
        let circle: Vec<_> =
            all.iter().filter(|it| reached[**it].contains(module)).copied().collect();
        if circle.is_empty() || !seen.insert(circle.clone()) {
            continue;
        }
        let names: Vec<_> = circle.iter().map(|it| it.join("/")).collect();
        if EXCEPT.iter().any(|folder| names.iter().all(|name| name.starts_with(folder))) {
            continue;
        }
        problems.push(Problem {
            path: Path::new(root).join(&names[0]).with_extension("rs"),
            line: 0,
            what: format!(
                "these files name each other: {}; move what several need into a file below them",
                names.join(", ")
            ),
        });
    }
    problems
}

/// All that a file leads to; itself only if it is in a circle.
fn reach<'a>(
    from: &Module,
    uses: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = uses[from].iter().copied().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(&uses[module]);
        }
    }
    reached
}

impl<'a> Files<'a> {
    fn of(tree: &'a Tree, root: &'static str) -> Self {
        let mut files = Self { texts: BTreeMap::new(), handed_on: BTreeMap::new() };
        for (path, text) in tree.rust(root).filter(|(path, _)| !is_beside(path)) {
            let inside = path.strip_prefix(root).unwrap_or(path).with_extension("");
            let names = inside.iter().filter_map(|part| part.to_str());
            let names = names.filter(|name| !["lib", "mod"].contains(name));
            files.texts.insert(names.map(str::to_owned).collect(), text);
        }
        for (module, text) in &files.texts {
            for (name, path) in imports::handed_on(text) {
                let Some(whence) = files.whole(module, &path) else { continue };
                files.handed_on.insert((module.clone(), name), whence);
            }
        }
        files
    }

    /// Files that this one names.
    fn used(&self, module: &Module, text: &str) -> BTreeSet<&Module> {
        let paths = imports::paths(text).into_iter();
        let targets = paths.filter_map(|path| self.home(self.whole(module, &path)?));
        targets.filter(|target| *target != module).collect()
    }

    /// A path from the crate's root; none if it leads to another crate.
    fn whole(&self, module: &Module, path: &str) -> Option<Module> {
        let mut parts = path.split("::").map(str::trim).filter(|part| !part.is_empty()).peekable();
        let mut base = match *parts.peek()? {
            "crate" => Vec::new(),
            "self" | "super" => module.clone(),
            name => {
                let inside = [module.as_slice(), &[name.to_owned()]].concat();
                self.texts.contains_key(&inside).then(|| module.clone())?
            }
        };
        for part in parts {
            match part {
                "super" => drop(base.pop()?),
                "crate" | "self" => {}
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }

    /// The file where that stands in the end.
    fn home(&self, path: Module) -> Option<&Module> {
        let mut path = path;
        // Each step hands on once.
        for _ in 0..8 {
            let length = (0..=path.len()).rev().find(|n| self.texts.contains_key(&path[..*n]))?;
            let (module, rest) = path.split_at(length);
            let handed = rest.first().map(|name| (module.to_vec(), name.clone()));
            match handed.and_then(|key| self.handed_on.get(&key)) {
                Some(whence) => path = [whence.as_slice(), &rest[1..]].concat(),
                None => return self.texts.get_key_value(module).map(|(module, _)| module),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|it| it.path.display().to_string()).collect()
    }

    #[test]
    fn files_that_name_each_other_are_found() {
        let files = [
            ("actors/src/lib.rs", "pub mod a;\n"),
            ("actors/src/a.rs", "mod b;\nmod c;\nmod d;\npub use b::B;\n"),
            ("actors/src/a/b.rs", "use super::c::{C, self};\n"),
            ("actors/src/a/c.rs", "fn f(_: crate::a::d::D) {}\n"),
            ("actors/src/a/d.rs", "use super::B;\n"),
            ("actors/src/a/e.rs", "use super::B;\n"),
        ];
        assert_eq!(found(&files), ["actors/src/a/b.rs"]);
    }

    #[test]
    fn a_child_that_its_parent_uses_does_not_use_its_parent() {
        let down = ("actors/src/a.rs", "mod b;\nuse b::B;\npub struct A;\n");
        let up = ("actors/src/a/b.rs", "use super::A;\n");
        assert!(found(&[down, ("actors/src/a/b.rs", "")]).is_empty());
        assert_eq!(found(&[down, up]), ["actors/src/a.rs"]);
    }

    #[test]
    fn who_declares_and_hands_on_does_not_use() {
        let files = [
            ("actors/src/a.rs", "mod b;\npub use b::B;\npub struct A;\n"),
            ("actors/src/a/b.rs", "use super::A;\n"),
        ];
        assert!(found(&files).is_empty());
    }
}
