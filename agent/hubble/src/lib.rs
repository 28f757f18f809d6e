//! Flows as Hubble shows them: kept in a ring that outlives a kill, named, filtered, and served over
//! gRPC so that Hubble's client, relay and UI work unchanged.
//!
//! The datapath's records are kept as they came, and are decoded when somebody asks. So a node of which
//! nobody asks anything pays for a copy of each record and no more.

pub mod agent_events;
pub mod client;
pub mod dashboard;
pub mod decode;
pub mod export;
pub mod filter;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod json;
pub mod mask;
pub mod messages;
pub mod metrics;
pub mod names;
pub mod observer;
mod packet;
pub mod peers;
mod read;
pub mod ring;
pub mod schema;
pub mod server;
mod service;
pub mod shown;
pub mod tap;
pub mod why;
mod wire;

pub use packet::flag_names;
