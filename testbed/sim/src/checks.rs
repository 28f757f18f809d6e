//! What the whole node must be: when faults have ended, when all pods are gone, and whenever somebody asks.

mod at_rest;
mod devices;
mod endpoints;
mod foreign_changes;
mod host_endpoint;
mod in_force;
mod kvstore;
mod ready;
mod realised;
mod remote_cluster;
mod routes;

pub use self::realised::Realised;
