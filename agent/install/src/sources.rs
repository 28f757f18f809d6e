//! Where values come from: files, and `--set`.

use std::{fs, path::PathBuf};

use serde_json::Value;
use volvox_packaging::{ValueError, Values};

use crate::InstallError;

/// Files and settings in the order in which they are put over the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Files of values, YAML.
    pub files: Vec<PathBuf>,
    /// `name=value`, which go over the files.
    pub set: Vec<String>,
}

impl Sources {
    /// Puts them over other values.
    pub(crate) fn over(&self, mut values: Values) -> Result<Values, InstallError> {
        for file in &self.files {
            let failed =
                |cause: String| InstallError::File { file: file.display().to_string(), cause };
            let text = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
            values.merge(&text).map_err(|error: ValueError| failed(error.to_string()))?;
        }
        self.set.iter().try_for_each(|text| values.set(text))?;
        Ok(values)
    }
}

/// Objects as YAML, one document each.
pub fn printed(objects: &[Value]) -> String {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        // What is JSON can always be written.
        text.push_str(&serde_norway::to_string(object).unwrap_or_default());
    }
    text
}
