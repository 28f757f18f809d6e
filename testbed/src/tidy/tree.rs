//! The sources, read once.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::Problem;

/// Folders that are no sources.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// Text of every file, by its path from the top.
#[derive(Clone, Debug, Default)]
pub struct Tree(BTreeMap<PathBuf, String>);

impl Tree {
    /// The tree that this program was built from.
    pub fn read() -> Result<Self> {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
        let mut tree = Self::default();
        tree.walk(top, top)?;
        Ok(tree)
    }

    fn walk(&mut self, top: &Path, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let inside = path.strip_prefix(top)?.to_owned();
            if SKIPPED.iter().any(|skipped| inside == Path::new(skipped)) {
                continue;
            }
            if path.is_dir() {
                self.walk(top, &path)?;
            } else if let Ok(text) = fs::read_to_string(&path) {
                self.0.insert(inside, text);
            }
        }
        Ok(())
    }

    /// Every file.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.0.iter().map(|(path, text)| (path.as_path(), text.as_str()))
    }

    /// Every Rust file below `folder`.
    pub fn rust<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a Path, &'a str)> {
        self.files()
            .filter(move |(path, _)| path.starts_with(folder))
            .filter(|(path, _)| path.extension().is_some_and(|end| end == "rs"))
    }

    /// One file.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<&str> {
        self.0.get(path.as_ref()).map(String::as_str)
    }

    /// A problem at every line for which `wrong` says what is wrong.
    pub(super) fn lines<'a>(
        files: impl Iterator<Item = (&'a Path, &'a str)>,
        wrong: impl Fn(&Path, &str) -> Option<String>,
    ) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (path, text) in files {
            for (number, line) in text.lines().enumerate() {
                if let Some(what) = wrong(path, line) {
                    problems.push(Problem { path: path.into(), line: number + 1, what });
                }
            }
        }
        problems
    }
}

#[cfg(test)]
impl Tree {
    /// A tree of files made up by a test.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| (path.into(), text.to_string())).collect())
    }
}
