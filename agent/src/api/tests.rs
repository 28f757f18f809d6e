//! Tests of the API, over its routers and sockets, with fake actors behind them.

mod bodies;
mod client;
mod health;
mod metrics;
pub(crate) mod node_supervisor;
mod routes;
mod shapes;
