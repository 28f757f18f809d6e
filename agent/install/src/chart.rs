//! Writes the Helm chart into a directory.

use std::{fs, path::Path};

use volvox_packaging::chart;

use crate::InstallError;

/// Writes the chart of this version; how many files it has.
pub fn write_chart(directory: &Path) -> Result<usize, InstallError> {
    let files = chart(env!("CARGO_PKG_VERSION"));
    for file in &files {
        let path = directory.join(&file.path);
        let written = match path.parent() {
            Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::write(&path, &file.text)),
            None => fs::write(&path, &file.text),
        };
        written.map_err(|error| InstallError::File {
            file: path.display().to_string(),
            cause: error.to_string(),
        })?;
    }
    Ok(files.len())
}
