//! A node for one test: its own network namespace, the programs, and rows for endpoints.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(dead_code, unreachable_pub, unused_imports, reason = "every test file uses its own part")]

pub mod btf;
pub mod dsr;
pub mod frame;
pub mod fuzz;
pub mod host;
pub mod listener;
pub mod node;
pub mod outside;
pub mod overlay;
pub mod pods;
pub mod rows;
pub mod seal;
pub mod services;
pub mod sockets;
pub mod talk;
pub mod tracked;
pub mod uplink;
pub mod wire;

pub use dsr::*;
pub use frame::*;
pub use host::*;
pub use listener::*;
pub use node::*;
pub use outside::{Ends, ends_of};
pub use pods::*;
pub use seal::*;
pub use services::*;
pub use sockets::*;
pub use tracked::*;
pub use uplink::*;
pub use wire::*;
