//! Interfaces, addresses, routes and traffic-control filters, by routing netlink.
//!
//! Everything is synchronous: one [`Socket`] per thread, one request at a time, each answered by
//! the kernel before the call returns. What a call says of an interface is meant in the network
//! namespace in which its socket was opened.

mod address;
mod carrier;
mod changes;
mod device;
mod error;
mod filter;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod link;
mod local_rule;
mod message;
mod netfilter;
mod netns_id;
mod node_route;
mod route;
mod sock_diag;
mod socket;
mod source_route;
mod veth;

pub use changes::Changes;
pub use device::{DEVICE_GROUP, Device};
pub use error::NetlinkError;
pub use filter::{Direction, Filter};
pub use netfilter::{Netfilter, TableFamily};
pub use node_route::NodeRoutes;
pub use route::{DefaultRoute, ROUTE_PROTOCOL};
pub use sock_diag::{Connected, Protocol, SockDiag};
pub use socket::Socket;
pub use veth::Veth;

#[cfg(test)]
mod tests;
