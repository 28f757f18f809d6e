//! Objects that a source gives, before anybody looks at what they are.

use super::ApiObject;

/// The objects of one source, a file for instance; none means that it is gone.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Its name.
    pub source: String,
    /// Its objects, or why they cannot be read.
    pub objects: Result<Vec<ApiObject>, String>,
}
