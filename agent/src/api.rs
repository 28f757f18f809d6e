//! The REST API, as Cilium 1.19's clients know it, and Prometheus' metrics.
//!
//! It lives on a thread of its own and reaches the actors through a
//! [`Gateway`](crate::gateway::Gateway): a slow client or a big answer never holds up an actor.
//! Every body is bounded in size and time before anybody looks at it; every refusal is one JSON
//! string that names the thing and the remedy.

mod bounds;
mod causes;
mod collector;
mod container_runtime;
mod destination;
mod devices;
mod endpoint_name;
mod endpoint_spec;
mod error;
mod extract;
mod facts;
mod features;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod handlers;
mod health_port;
mod health_socket;
mod kube_proxy_healthz;
mod limiter;
mod mesh;
mod metrics;
mod node_health;
mod opening;
mod pools;
mod reviewed;
mod router;
mod runtime_options;
mod services;
mod services_by;
mod sharing;
mod sources;
#[cfg(test)]
pub(crate) mod tests;
mod troubles;
mod verify;
mod views;

pub use collector::StatusCollector;
pub use facts::Facts;
pub use features::Features;
pub use health_port::health_router;
pub use health_socket::{health_socket_beside, health_socket_router};
pub use kube_proxy_healthz::kube_proxy_healthz_router;
pub use limiter::Limiter;
pub use opening::{Opener, Opening, opening};
pub use reviewed::Reviewer;
pub use router::{
    Api, dashboard_router, flow_metrics_router, for_reviewed, metrics_router, router,
};
pub use runtime_options::RuntimeOptions;
pub use services_by::KubeProxyLook;
