//! What the nodes of a cluster tell each other: identities and their numbers, addresses and whose they
//! are. They share it through a key-value store, or through objects of their API server.
//!
//! ```text
//!   store ─► watcher (ip/v1) ────────────► addresses ─► identities, policy, ipcache
//!     ▲ ├──► watcher (identities/v1/id) ─► allocator ◄─ identities
//!     │ └──► watcher (nodes/v1) ─────────► nodes ─► ipcache
//!     └───── session ◄──── what this node announces ── addresses, allocator, nodes
//!
//!   sources of the cluster ─► CiliumIdentity ─► allocator ◄─ identities
//!                        └──► CiliumEndpoint ─► addresses ─► identities, policy, ipcache
//! ```
//!
//! Either widens what is known and never holds it back: without it, what an earlier run learned is in
//! force as it was. Keys, values and objects are Cilium's, whose agents may share them.

mod by_objects;
mod by_store;
#[cfg(test)]
pub(crate) mod tests;

pub use by_objects::CrdActors;
pub use by_store::KvActors;
