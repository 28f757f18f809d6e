//! The CustomResourceDefinitions that the agent brings to its cluster.
//!
//! One actor sees to them, one after the other. A definition that is missing is made, one whose
//! schemas are older is replaced, and one that is as new or newer stays as it is. Whether that is so is
//! looked at anew before each write, and the server refuses a write that would undo somebody else's:
//! many nodes, and Cilium's operator, may do the same at once. What failed is tried again for ever,
//! with pauses that everyone can see. Once all are established nothing is asked any more: whoever
//! removes a definition later meant to.

mod actor;
mod answers;
mod decide;
mod messages;
#[cfg(test)]
mod tests;

pub use actor::{Definitions, DefinitionsPeers};
pub use messages::{DefinitionState, DefinitionStatus, DefinitionsMsg};
