//! Which node of which cluster.

use std::fmt;

use serde::Serialize;

/// Which node: names are one cluster's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NodeKey {
    /// Its cluster.
    pub cluster: String,
    /// Its name there.
    pub name: String,
}

impl NodeKey {
    /// Its name where there may be several clusters: in the one that was not named it stands alone.
    pub fn shown(&self) -> String {
        match self.cluster.as_str() {
            "default" => self.name.clone(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.name)
    }
}
