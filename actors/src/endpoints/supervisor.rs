//! The supervisor of all endpoints: it spawns them, numbers them, finds them.

mod abandoned;
mod actor;
mod announcer;
mod answers;
mod barrier;
mod check;
mod child;
mod create;
mod host;
mod look;
mod messages;
mod news;
mod numbers;
mod policy;
mod probe;
mod regenerations;
mod restored;
mod state;
mod successors;
mod sweep;
mod target;
#[cfg(test)]
mod tests;

pub use actor::EndpointsStatus;
pub use announcer::{Announcer, EndpointAddresses, EndpointChange};
pub use look::{Abandoned, KernelLook};
pub use messages::{DeleteError, EndpointReference, EndpointsMsg, NotFound};
pub use regenerations::{Lengths, Regenerations};
pub use state::{Endpoints, Schedule};
pub use target::{TargetError, word_means};
