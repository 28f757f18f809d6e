//! What is wrong with a field of a document or of an object.

/// What is wrong with a field. The file and the object are added further up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Path of the field.
    pub(crate) path: String,
    /// What is wrong.
    pub(crate) problem: String,
    /// What to do about it.
    pub(crate) remedy: String,
}
