//! What the agents of a history recorded, for who wants to look into it afterwards.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::lab::Node;

/// Copies the rings of the last agent, of the one before, and of earlier ones; their names there.
pub(super) fn keep(node: &Node, place: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let state = node.path("cilium");
    let mut names = Vec::new();
    for folder in [state.join("lives"), state] {
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        for file in files.filter(|file| file.path().extension().is_some_and(|end| end == "ring")) {
            let name = file.file_name().to_string_lossy().into_owned();
            let copied = fs::copy(file.path(), place.join(&name));
            copied.with_context(|| format!("cannot write {name} into {}", place.display()))?;
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
