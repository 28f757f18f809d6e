mod bodies;
pub(crate) mod colony;
mod metrics;
mod routes;
mod shapes;
