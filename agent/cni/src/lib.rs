//! The CNI plugin `volvox-cni` (CNI specification 0.3.0 to 1.1.0).
//!
//! A container runtime starts it for each pod with parameters in the environment and the network's
//! configuration on standard input; it makes the pod's interface, and the agent makes it an
//! endpoint. Whatever goes wrong on the way is undone before the error is told.

mod add;
mod attachment;
mod cancel;
mod chained;
mod check;
mod composition;
mod config;
mod conflist;
mod del;
mod delete;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gc;
mod interface;
mod invocation;
mod logging;
mod result;
mod run;
mod status;
mod undo;
mod version;

pub use composition::{Composition, CustomConflist, CustomConflistError};
pub use config::{NetworkConfig, PLUGIN_TYPE};
pub use conflist::{CONFLIST_FILE, Conflist, ConflistError};
pub use error::{CniError, ErrorCode};
pub use invocation::{Command, Invocation};
pub use result::PreviousResult;
pub use run::run;
pub use version::CniVersion;

#[cfg(test)]
mod tests;
