//! One endpoint: a pod's interface, its addresses, its identity, its policy, its programs.
//!
//! A build goes identity → state file → policy → permit → aside → flip → ipcache. Each step asks
//! somebody and goes on when the answer comes; `plan` decides what is written.

mod actor;
mod announcement;
mod answers;
mod audit;
mod news;
mod requests;
mod restored;

mod brought;
mod build;
mod desired;
mod heirs;
mod identity;
mod journal;
mod keep;
mod kind;
mod known;
mod log;
mod lost;
mod messages;
pub(crate) mod options;
mod own_rows;
mod patch;
mod peers;
mod plan;
mod reference;
mod save;
mod settle;
mod spec;
mod state;
mod steps;
mod teardown;
#[cfg(test)]
mod tests;
mod view;

pub use actor::{Endpoint, Observed, Seed};
pub use announcement::Announcement;
pub use brought::Brought;
pub use log::{Log, LogEntry};
pub use lost::Lost;
pub use messages::{EndpointMsg, Waiting};
pub use news::EndpointNews;
pub use own_rows::OwnRows;
pub use peers::{Peers, Settings};
pub use reference::Held;
pub use requests::{CreateError, Level, Patch, PatchError};
pub use restored::RestoredEndpoint;
pub use spec::EndpointSpec;
pub use state::State;
pub use view::{EndpointView, Health, HealthState, Realised};
