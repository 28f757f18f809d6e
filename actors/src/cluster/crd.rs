//! What the nodes of a cluster tell each other through objects of its API server: identities and
//! their numbers (CiliumIdentity), addresses and whose they are (CiliumEndpoint).
//!
//! ```text
//!   sources of the cluster ─► CiliumIdentity ─► allocator ◄─ identities
//!                        └──► CiliumEndpoint ─► addresses ─► identities, policy, ipcache
//! ```
//!
//! As with a store, what the API server says widens what is known and never holds it back. Objects
//! are Cilium's, whose agents may share the cluster and whose operator removes what nobody uses.

mod actors;
mod endpoints;
mod identities;
mod identity;
#[cfg(test)]
pub(crate) mod tests;

pub use actors::CrdActors;
pub(crate) use endpoints::PodAddresses;
pub(crate) use identity::identity;
