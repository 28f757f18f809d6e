//! Prefixes of pools that this node has: it asks for them in its CiliumNode, takes up what it is given, and
//! gives back what nobody here needs.
//!
//! ```text
//!  given: in the CiliumNode ─▶ on disk ─▶ addresses are handed out
//!  given back: surplus ─▶ IPAM closes it, if nobody has an address ─▶ on disk ─▶ out of the CiliumNode,
//!              in the version that was seen ─▶ seen to be out ─▶ forgotten
//! ```
//!
//! Whoever is given a prefix next must not meet an address of it here. So what is given back is never opened
//! again: IPAM closes it for as long as it knows it, and the disk says so before the API server is told,
//! whose answer may be lost, or arrive when another life runs. A write that is late changes nothing: it is
//! for one version of the object. Where the disk says nothing at all, the object is marked first: so what an
//! earlier life wrote arrives before, and is seen, or never.
//!
//! A prefix that is new here may hold pods that came back: IPAM looks for them. One that somebody else takes
//! out of the CiliumNode hands out nothing more; as long as a pod has an address of it, it is claimed again.

mod actor;
mod answers;
mod messages;
mod phase;
mod plan;
mod seen;
mod settings;
#[cfg(test)]
mod tests;

pub use actor::{OwnPrefixes, OwnPrefixesPeers};
pub use messages::{OwnPrefix, OwnPrefixesMsg, OwnPrefixesView};
pub use seen::{Requests, requested_json};
pub use settings::{OwnPrefixesSettings, PodPoolsSettings};
