//! Walks in documents: each step names a file and a function of it, which must exist.

use std::path::Path;

use super::{Problem, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let documents = tree.files().filter(|(path, _)| path.extension().is_some_and(|it| it == "md"));
    Tree::lines(documents, |_, line| {
        let (file, name) = step(line)?;
        let Some(text) = tree.get(Path::new(file)) else {
            return Some(format!("{file} is gone: say where this step is"));
        };
        let declared = [format!("fn {name}("), format!("fn {name}<")];
        let exists = declared.iter().any(|it| text.contains(it.as_str()));
        (!exists).then(|| format!("{file} has no function {name}: say which one does this step"))
    })
}

/// File and function of a line such as "3. `actors/src/a.rs` `begin`: it begins."
fn step(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(". `")?;
    number.parse::<u32>().ok()?;
    let (file, rest) = rest.split_once("` `")?;
    let (name, _) = rest.split_once('`')?;
    file.ends_with(".rs").then_some((file, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_leads_nowhere_is_named() {
        let walk = "1. `a/src/b.rs` `begin`: it begins.\n2. `a/src/b.rs` `end`: it ends.\n\
                    3. `a/src/c.rs` `begin`: elsewhere.\n4. Then `a/src/b.rs` rests.\n";
        let tree =
            Tree::of(&[("README.md", walk), ("a/src/b.rs", "pub(super) fn begin<T>() {}\n")]);
        let lines: Vec<_> = check(&tree).into_iter().map(|it| it.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
