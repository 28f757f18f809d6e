//! The agent's REST API as its clients and its server both know it: the shapes of what is said, the client,
//! and the queue in which a deletion waits for an agent that does not run.

pub mod client;
pub mod delete_queue;
pub mod models;

pub use client::{RestClient, RestError, escape};
