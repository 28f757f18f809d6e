//! The program `volvox-operator`: wiring of the operator's actors with an API server, settings, health
//! and metrics.

pub mod run;
mod serve;
pub mod settings;
pub mod store;
