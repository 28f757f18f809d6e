//! Shape of a source of news, as the API shows it.

use serde::{Deserialize, Serialize};

/// A source of news, and how it was heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Source {
    /// Whose: `kubernetes`, `kvstore`, `kernel`, `manifests`, or `cluster` with a name.
    pub of: String,
    /// What it tells of.
    pub name: String,
    /// Since how many seconds it is connected; none while it is not.
    pub connected_seconds: Option<f64>,
    /// For how many seconds it has said nothing; none if it never said anything.
    pub silent_seconds: Option<f64>,
    /// How much was listed.
    pub objects: Option<usize>,
    /// How far it is.
    pub version: Option<String>,
    /// What told it from the one before, if it is another one.
    pub replaced: Option<String>,
    /// How often it was another one than before.
    pub replacements: u64,
    /// What is not as it should be.
    pub trouble: Option<String>,
}
