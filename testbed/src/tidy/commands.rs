//! Commands that the documents tell people to run.

use std::path::Path;

use clap::CommandFactory;

use super::{Problem, Tree};
use crate::cli::Cli;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let documents = tree.files().filter(|(path, _)| path.extension().is_some_and(|e| e == "md"));
    Tree::lines(documents, |_, line| wrong(tree, line))
}

/// What is wrong with the commands in a line.
fn wrong(tree: &Tree, line: &str) -> Option<String> {
    let words: Vec<_> = line.split([' ', '`', '|', '(', ')', ',']).collect();
    for (index, word) in words.iter().enumerate() {
        let script = word.trim_end_matches(['.', ':', ';']);
        let named = ["testbed/", ".ci/"].iter().any(|folder| script.starts_with(folder));
        let is_there = |path: &str| tree.files().any(|(file, _)| file.starts_with(path));
        if named && !is_there(Path::new(script).to_str().unwrap_or(script)) {
            return Some(format!("there is no {script}"));
        }
        if *word == "cargo" && words.get(index + 1) == Some(&"testbed") {
            let verb = words.get(index + 2).copied().unwrap_or_default();
            let placeholder = verb.is_empty() || verb.chars().all(|c| c.is_ascii_uppercase());
            if !placeholder && Cli::command().find_subcommand(verb).is_none() {
                return Some(format!("cargo testbed has no verb {verb}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_scripts_and_verbs_that_are_not_there() {
        let tree = Tree::of(&[
            ("testbed/test", ""),
            ("README.md", "`testbed/test`\ntestbed/nope\ncargo testbed bench\ncargo testbed fly\n"),
        ]);
        let found: Vec<_> = check(&tree).iter().map(|problem| problem.line).collect();
        assert_eq!(found, [2, 4]);
    }
}
