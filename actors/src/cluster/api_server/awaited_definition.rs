//! A watch for the definition of a resource that nobody has defined yet.

use crate::{host::Time, ports::ObjectWatch};

/// A watch for a definition.
pub(super) struct AwaitedDefinition {
    pub(super) watch: Box<dyn ObjectWatch>,
    /// Tells it from those before.
    pub(super) number: u64,
    /// Where the next one goes on from.
    pub(super) version: String,
    pub(super) opened: Time,
}
