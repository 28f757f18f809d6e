//! Why a pod, a namespace or a node cannot be read.

/// Why a pod or namespace cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It has no name.
    #[error("a {kind} has no metadata.name: give it one")]
    NoName {
        /// Its kind.
        kind: String,
    },
    /// One of its fields is not what it should be.
    #[error("{object}: {field} is not {desired}: correct it")]
    Field {
        /// Kind and name.
        object: String,
        /// The field.
        field: String,
        /// What it should be.
        desired: &'static str,
    },
    /// It is not what its type says.
    #[error("{why}")]
    Malformed {
        /// Kind and name, the field, what is wrong with it and what to do about that.
        why: String,
    },
}
