//! HTTP as the agent and the client both serve it: listeners, the limits of each connection, and how a
//! request is refused. What is answered is left to routers.

mod error;
mod events;
pub mod host_header;
mod places;
mod server;
mod socket;
mod tls;

pub use error::{Answer, ApiError, json_response, ok};
pub use events::{Beat, event_stream};
pub use places::Places;
pub use server::{HEAD_PATIENCE, Server, Socket, Terms, listen, serve};
pub use socket::{SocketError, bind, inode, unbind};
pub use tls::{Tls, TlsError, TlsFiles, TlsListener};
