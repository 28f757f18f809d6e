mod bodies;
pub(crate) mod colony;
mod health;
mod metrics;
mod routes;
mod shapes;
