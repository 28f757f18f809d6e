//! The container runtime of this node, followed: endpoints whose containers are gone while nobody said DEL are
//! found, and endpoints whose pod nobody named learn it.
//!
//! ```text
//!             Follows                        Changed, or time
//!  connect ──────────▶ list all ──▶ at rest ─────────────────▶ look these up ─▶ ask the kernel
//!     ▲                                │ Ended, silence, an error                   │
//!     └────────── a longer pause ◀─────┘                          its interface is gone: it goes
//! ```
//!
//! What an event says is looked up, and what the runtime says of a container is only a reason to look at the
//! interface. A runtime that is away, empty or another one removes nothing.

mod actor;
mod answers;
mod messages;
mod rounds;
mod state;
#[cfg(test)]
mod tests;

pub use messages::{RuntimeFollowerMsg, RuntimeFollowerView};
pub use state::{RuntimeFollower, RuntimeFollowerPeers};
