//! What every file looks like.

use std::path::Path;

use super::{Problem, Tree};

/// Lines that a file may have.
const LONGEST: usize = 500;

/// Kinds of file that people write.
const WRITTEN: [&str; 11] =
    ["c", "css", "h", "html", "js", "md", "rs", "sh", "toml", "yaml", "yml"];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Tree::lines(written(tree), line);
    for (path, text) in written(tree) {
        let count = text.lines().count();
        let whole = |what| Problem { path: path.into(), line: 0, what };
        if count > LONGEST {
            problems.push(whole(format!("{count} lines: split it, {LONGEST} is the limit")));
        }
        let is_rust = path.extension().is_some_and(|end| end == "rs");
        if is_rust && !text.starts_with("//! ") {
            problems.push(whole("no head: say in its first line, by //!, what it is for".into()));
        }
        if !text.is_empty() && !text.ends_with('\n') {
            problems.push(whole("ends without a new line".into()));
        }
    }
    problems
}

fn written(tree: &Tree) -> impl Iterator<Item = (&Path, &str)> {
    tree.files().filter(|(path, _)| match path.extension() {
        Some(end) => WRITTEN.iter().any(|kind| end == *kind),
        // Scripts have no extension; neither has the licence, which is somebody else's text.
        None => !path.starts_with("LICENSE"),
    })
}

fn line(path: &Path, line: &str) -> Option<String> {
    // C is indented by tabs, as in the kernel.
    let tabs = path.extension().is_some_and(|end| end == "c" || end == "h");
    // Put together here, or this line would be found.
    let unfinished = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    if line.contains('\t') && !tabs {
        Some("a tab: indent by spaces".into())
    } else if line.ends_with([' ', '\t']) {
        Some("spaces at the end of the line".into())
    } else {
        let word = unfinished.iter().find(|word| line.contains(**word))?;
        Some(format!("{word}: unfinished work belongs into an issue"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_tabs_tails_heads_and_length() {
        let long = "//! a\n".repeat(LONGEST + 1);
        let tree = Tree::of(&[
            ("a.rs", "//! ok\n\ttab\ntail \n"),
            ("b.c", "\tok\n"),
            ("b.rs", "/// No head.\nstruct B;\n"),
            ("c.rs", &long),
            ("d.sh", "no end"),
            ("LICENSE", "\ttheirs"),
        ]);
        let found = check(&tree);
        let places: Vec<_> = found.iter().map(|p| (p.path.to_str().unwrap(), p.line)).collect();
        let wrong = [("a.rs", 2), ("a.rs", 3), ("b.rs", 0), ("c.rs", 0), ("d.sh", 0)];
        assert_eq!(places, wrong, "{found:?}");
    }
}
