//! Floors: an import goes down, never up, and modules that lie side by side on a floor form no circle. So
//! everyone who reads a file knows where what it uses can be.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{Problem, Tree, imports::imports};

/// A crate whose modules have floors.
struct House {
    root: &'static str,
    /// The lowest first. Test benches and the fuzzers' functions lie beside them and may use all.
    floors: &'static [&'static str],
    /// Floors that are folders of modules; the others are one module each.
    folders: &'static [&'static str],
}

const HOUSES: [House; 2] = [
    House {
        root: "actors/src",
        floors: &[
            "mutants",
            "host",
            "model",
            "ports",
            "state_directory",
            "policy",
            "endpoints",
            "services",
            "node",
            "restore",
            "cluster",
            "node_supervisor",
            "operator",
        ],
        folders: &["policy", "endpoints", "services", "node", "cluster", "operator"],
    },
    House {
        root: "testbed/sim/src",
        floors: &[
            "random",
            "record",
            "model",
            "history",
            "operators",
            "oracle",
            "world",
            "faults",
            "checks",
            "runner",
            "report",
        ],
        folders: &[
            "record",
            "model",
            "history",
            "operators",
            "oracle",
            "world",
            "faults",
            "checks",
            "report",
        ],
    },
];

/// Which modules of a floor each of them uses.
type Uses = BTreeMap<(&'static str, String), BTreeSet<String>>;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    HOUSES.iter().flat_map(|house| house.check(tree)).collect()
}

impl House {
    fn check(&self, tree: &Tree) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut uses = Uses::new();
        for (path, text) in tree.rust(self.root).filter(|(path, _)| !is_beside(path)) {
            let module = self.module_of(path);
            let Some(floor) = module.first().and_then(|name| self.height(name)) else {
                if !module.is_empty() {
                    let what = format!("{} is no floor: see testbed/src/tidy/floors.rs", module[0]);
                    problems.push(Problem { path: path.into(), line: 0, what });
                }
                continue;
            };
            for (line, target) in self.targets(text, &module) {
                let Some(above) = target.first().and_then(|name| self.height(name)) else {
                    continue;
                };
                if above > floor {
                    let (from, to) = (self.floors[floor], target.join("::"));
                    let what = format!(
                        "{to} lies above {from}: move what both need down, or say the news through an Outlet"
                    );
                    problems.push(Problem { path: path.into(), line, what });
                }
                let (Some(own), Some(other)) = (module.get(1), target.get(1)) else { continue };
                let name = self.floors[floor];
                if above == floor && own != other && self.folders.contains(&name) {
                    uses.entry((name, own.clone())).or_default().insert(other.clone());
                }
            }
        }
        problems.extend(self.folders.iter().filter_map(|folder| self.circle(folder, &uses)));
        problems
    }

    fn height(&self, name: &str) -> Option<usize> {
        self.floors.iter().position(|floor| *floor == name)
    }

    /// The path of a file's module, below the house.
    fn module_of(&self, path: &Path) -> Vec<String> {
        let inside = path.strip_prefix(self.root).unwrap_or(path).with_extension("");
        let names = inside.iter().filter_map(|part| part.to_str());
        names.filter(|name| !["lib", "mod"].contains(name)).map(str::to_owned).collect()
    }

    /// What a module names of the house, with the line where it does.
    fn targets(&self, text: &str, module: &[String]) -> Vec<(usize, Vec<String>)> {
        imports(text, module)
    }

    /// Modules of a folder that use each other, if any do.
    fn circle(&self, folder: &str, uses: &Uses) -> Option<Problem> {
        let mut left: BTreeMap<&str, BTreeSet<&str>> = uses
            .iter()
            .filter(|((floor, _), _)| *floor == folder)
            .map(|((_, module), used)| (module.as_str(), used.iter().map(String::as_str).collect()))
            .collect();
        // Whoever uses nobody that is left is in no circle.
        loop {
            let names: BTreeSet<_> = left.keys().copied().collect();
            let before = left.len();
            left.retain(|_, used| used.iter().any(|it| names.contains(it)));
            if left.len() == before {
                break;
            }
        }
        let names: Vec<_> = left.into_keys().collect();
        (!names.is_empty()).then(|| Problem {
            path: Path::new(self.root).join(folder),
            line: 0,
            what: format!(
                "these modules use each other, or lead to some that do: {}",
                names.join(", ")
            ),
        })
    }
}

/// Whether it is a test's, a bench's or a fuzzer's: these may use all.
pub(super) fn is_beside(path: &Path) -> bool {
    let names = ["tests", "tests.rs", "testing", "testing.rs", "fuzzing", "fuzzing.rs"];
    path.iter().any(|part| names.iter().any(|name| part == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let problems = check(&Tree::of(files)).into_iter();
        problems.map(|it| (it.path.display().to_string(), it.line)).collect()
    }

    #[test]
    fn an_import_goes_down() {
        let files = [
            ("actors/src/policy/rules/a.rs", "use crate::{host::Cx, policy::ipcache::X};\n"),
            ("actors/src/policy/rules/b.rs", "\nuse crate::{\n    endpoints::endpoint::Y,\n};\n"),
            ("actors/src/policy/rules/c.rs", "fn f() -> crate::cluster::kvstore::Z {}\n"),
            ("actors/src/policy/rules/tests.rs", "use crate::cluster::kvstore::Z;\n"),
            ("actors/src/attic/a.rs", ""),
        ];
        let want = [
            ("actors/src/attic/a.rs".to_owned(), 0),
            ("actors/src/policy/rules/b.rs".to_owned(), 2),
            ("actors/src/policy/rules/c.rs".to_owned(), 1),
        ];
        assert_eq!(found(&files), want);
    }

    #[test]
    fn modules_side_by_side_form_no_circle() {
        let down = ("actors/src/node/routes/actor.rs", "use crate::node::devices::A;\n");
        let up = ("actors/src/node/devices.rs", "use super::conntrack::B;\n");
        let back = ("actors/src/node/conntrack/x.rs", "use crate::node::devices::{self, A};\n");
        assert!(found(&[down, up]).is_empty());
        assert_eq!(found(&[down, up, back]), [("actors/src/node".to_owned(), 0)]);
    }

    #[test]
    fn the_simulator_has_floors_too() {
        let files = [
            ("testbed/sim/src/world/node.rs", "use crate::{random::X, oracle::Y};\n"),
            (
                "testbed/sim/src/oracle/a.rs",
                "use super::Oracle;\nuse crate::{random::R, world::node::Z};\n",
            ),
            ("testbed/sim/src/model/a.rs", "use super::{b::C, super::history::D};\n"),
            ("testbed/sim/src/model/b.rs", "use crate::model::a::E;\n"),
        ];
        let want = [
            ("testbed/sim/src/model/a.rs".to_owned(), 1),
            ("testbed/sim/src/oracle/a.rs".to_owned(), 2),
            ("testbed/sim/src/model".to_owned(), 0),
        ];
        assert_eq!(found(&files), want);
    }
}
