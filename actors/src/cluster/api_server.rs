//! The API server as a source of pods, namespaces and policies.
//!
//! One actor for each kind of object lists it, watches it and tells what changed. Their supervisor
//! hands that on: policies all at once when every source has been listed once, for a policy that
//! is computed from half of the objects would deny what stays allowed; then, once these are in
//! force, pods and namespaces, so that an endpoint whose labels changed gets another identity when
//! everybody's policy can learn it. Until then restored endpoints keep what they have. Services are
//! waited for only if policies name some; a policy that does so later waits alone. Nothing here
//! waits for time: a server that is slow or down delays what it would say, and no more.
//!
//! Who is silent may be deaf. A watch lasts so briefly that a server says how far it is, in a bookmark
//! right before the watch ends, before the silence is too long; where it does not, all is listed. And
//! who answers may be another one: what a server says of itself is compared with what it said before.

mod actor;
mod answers;
mod awaited_definition;
mod listing;
mod messages;
mod peers;
mod pending;
mod reported_versions;
mod source;
mod source_view;
mod spawn;
#[cfg(test)]
mod tests;
mod version;
mod witness;

pub use actor::{ClusterSettings, ClusterSupervisor, SourcesStatus};
pub use messages::{ClusterMsg, Heard, SourceMsg, SourceState, SourceStatus};
pub use peers::ClusterPeers;
pub use source_view::SourceView;
pub(crate) use spawn::spawn_source;
pub use witness::{KnownServer, ServerView};
