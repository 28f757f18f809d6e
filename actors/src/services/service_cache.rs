//! Services: the one owner of frontends, backends and their numbers.
//!
//! ```text
//!   cluster ──┐  objects                        frontends, backends        ┌─► reverse translation
//!   manifests ┼─────────► reported ─► expand ─► claims ─► table ─┐             ├─► affinity, ranges
//!   other     │                                              ├─► batch ─► kernel ─► slots ─► first slot
//!   clusters ─┘                 │      maps ─► inherited ─► backends                      │
//!                            health                          └───────────────── removals ◄─┘
//! ```

mod actor;
mod annotations;
mod answers;
mod backends;
mod balancing;
mod batch;
mod claims;
mod dense;
mod departures;
mod expand;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod health;
mod host_port;
mod ingress;
mod inherited;
mod leaving;
mod listed;
pub mod maglev;
mod messages;
mod object;
mod pressure;
mod refused;
mod remote;
mod remote_service;
mod reported;
mod shape;
mod shown;
mod slice;
mod source_object;
mod state;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod weight;
mod wildcards;
mod writing;

pub use balancing::{Algorithm, Balancing, Choice};
pub use messages::{
    BackendView, ClusterObject, LeavingBackend, RemoteChange, ServiceSource, ServiceView,
    ServicesMsg, ServicesStatus, UnknownBackend,
};
pub use refused::RefusedServiceObject;
pub use remote_service::{RemotePort, RemoteService};
pub use state::{Services, ServicesSettings};
