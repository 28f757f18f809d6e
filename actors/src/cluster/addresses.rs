//! Which address is whose in the cluster: what other nodes say, in a key-value store or by objects
//! of the API server, goes to the ipcache once every policy knows the identity; what this node's
//! endpoints are goes to the store, if there is one.

mod actor;
mod adopt;
mod answers;
mod ends;
mod inherited;
mod messages;
mod names;
mod others;
pub(crate) mod pods;
mod remote;
mod remote_identities;
mod row;
mod spawn;
mod state;

pub use actor::{AddressesPeers, ClusterAddresses};
pub use inherited::InheritedAddresses;
pub use messages::{AddressesMsg, AddressesView};
