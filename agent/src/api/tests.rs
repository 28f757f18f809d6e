//! Tests of the API, over its routers and sockets, with fake actors behind them.

mod bodies;
mod client;
mod colony;
mod health;
mod metrics;
mod routes;
mod shapes;
