//! Tests over real maps, programs and interfaces, each in namespaces of its own.

mod crashes;
mod devices;
mod hooks;
mod maps;
mod nat;
mod network;
mod policies;
mod port;
mod resizing;
mod routing;
pub(crate) mod sandbox;
pub(crate) mod services;
mod signals;
mod sockets;
mod stale_sockets;
mod upgrade;
