//! Removes identities of the kvstore that nobody uses, and writes the heartbeat by which agents see that
//! the store works.
//!
//! ```text
//!  heartbeat ─▶ list numbers ─▶ list who uses them ─▶ unused: marked ─▶ unused in a later round: removed
//! ```
//!
//! Marks are known to this operator alone. A removal is one transaction: the number has the labels that
//! were seen, nobody uses them, nobody is just choosing a number for them, and the heartbeat is the one
//! that this operator wrote last, seconds ago. So nothing goes from a store that was restored from a backup,
//! in which users are missing. After that, which a watch of the heartbeat tells, and each time the store does
//! not answer, all marks are forgotten: nodes have a whole round to say again what they use.

mod actor;
mod answers;
mod sweep;
mod view;

pub(super) use actor::{StoreCollector, StoreCollectorPeers};
pub use view::StoreCollectorView;
