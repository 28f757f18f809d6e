//! Tests over real maps, programs and interfaces, each in namespaces of its own.

mod crashes;
mod hooks;
mod maps;
mod network;
mod policies;
mod port;
mod resizing;
mod sandbox;
mod sockets;
mod upgrade;
