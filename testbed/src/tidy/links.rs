//! Links between documents lead somewhere.

use std::path::Path;

use super::{Problem, Tree, modules::normal};

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let documents = tree.files().filter(|(path, _)| path.extension().is_some_and(|e| e == "md"));
    Tree::lines(documents, |path, line| wrong(tree, path, line))
}

/// The first link of a line that leads nowhere. Pictures are no text, and not in the tree.
fn wrong(tree: &Tree, path: &Path, line: &str) -> Option<String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let inside = targets.filter_map(|(target, _)| target.split('#').next());
    let mut inside = inside.filter(|it| !it.is_empty() && !it.contains("://"));
    let is_there = |target: &str| {
        let file = normal(&folder.join(target));
        target.ends_with(".png") || tree.files().any(|(path, _)| path.starts_with(&file))
    };
    let target = inside.find(|target| !is_there(target))?;
    Some(format!("the link {target} leads nowhere"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_that_lead_nowhere() {
        let text = "[a](../b/c.md) [b](https://x/y)\n[c](gone.md#here)\n![p](p.png) [d](#top)\n";
        let tree = Tree::of(&[("a/x.md", text), ("b/c.md", "")]);
        let found: Vec<_> = check(&tree).iter().map(|problem| problem.line).collect();
        assert_eq!(found, [2]);
    }
}
