//! Who may build now: so many at a time, new pods first.

mod actor;
mod answers;
mod messages;
mod permits;
mod queue;
#[cfg(test)]
mod tests;

pub use actor::BuildQueue;
pub use messages::{BuildQueueMsg, Class, Queued};
pub use permits::Permit;
