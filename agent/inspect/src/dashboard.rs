//! The dashboard: one page, embedded, that shows what the flight recorder kept.
//!
//! The running agent serves it on loopback (`--dashboard-addr`), `volvox dashboard` serves it over
//! files. It reads the record's file and not the actors, on a thread of its own, so that looking
//! costs the actors nothing; only the page of one actor or endpoint asks them. Nothing here changes
//! anything, and pages of other origins are refused.

mod error;
mod faults;
mod flight;
mod guard;
mod live;
mod lives;
mod page;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::{Router, middleware::from_fn, routing::get};

pub use error::DashboardError;
pub use faults::{FAULTS, Fault};
pub use lives::{Lives, Opened};

/// The page and what it asks; `agent` answers what only a running agent knows, below `/api`.
pub fn router(lives: Lives, agent: Router) -> Router {
    let records = Router::new()
        .route("/lives", get(lives::list))
        .route("/flight", get(flight::get))
        .route("/live", get(live::get))
        .route("/faults", get(faults::get))
        .with_state(Arc::new(lives));
    Router::new()
        .nest("/api", records.merge(agent))
        .fallback(page::get)
        .layer(from_fn(guard::guard))
}
