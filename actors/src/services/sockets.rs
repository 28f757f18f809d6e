//! Ends sockets that are connected to a backend that is no more: who balances by socket has chosen for
//! as long as the socket lives, and a datagram socket never hears that its backend is gone.

mod actor;
mod answers;
mod messages;
#[cfg(test)]
mod tests;

pub use actor::{Sockets, SocketsPeers};
pub use messages::{SocketsMsg, SocketsStatus};
