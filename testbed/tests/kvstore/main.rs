//! A store that nodes share: a real etcd, alone and under a real agent.

mod api;
#[path = "../../../actors/src/cluster/kvstore/tests/conformance.rs"]
mod conformance;
mod embedded;
mod mesh;
mod nodes;
mod outages;
mod ports;
mod replaced;
mod setup;
mod sharing;
mod store;
mod trust;
