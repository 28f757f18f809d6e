//! One endpoint: a pod's interface, its addresses, its identity, its policy, its programs.
//!
//! `phase` says what it is at. A build goes identity → state file → policy → permit → aside → flip →
//! ipcache (`build/advance`), a teardown the other way (`teardown`). Each step asks somebody and goes on
//! when the answer comes; `plan` decides what is written.

mod actor;
mod announcement;
mod answers;
mod audit;
mod brought;
mod build;
mod chained;
mod datapath;
mod desired;
mod identity;
mod journal;
mod keep;
mod kind;
mod log;
mod lost;
mod masquerade;
mod messages;
mod naming;
mod news;
pub(crate) mod options;
mod own_rows;
mod patch;
mod peers;
mod phase;
mod plan;
mod probed;
mod realised;
mod record;
mod reference;
mod requests;
mod restored;
mod results;
mod save;
mod settle;
mod spec;
mod stage;
mod state;
mod successors;
mod target;
mod teardown;
#[cfg(test)]
mod tests;
mod trigger;
mod view;

pub use actor::{Endpoint, EndpointActorStatus};
pub use announcement::Announcement;
pub use chained::chained_datapath;
pub use kind::HEALTH_OWNER;
pub use log::{Log, LogEntry};
pub use lost::Lost;
pub use masquerade::{unmasqueraded_in_kernel, unmasqueraded_properties};
pub use messages::{Brought, BuiltReply, EndpointMsg};
pub use news::EndpointNews;
pub use own_rows::OwnRows;
pub use peers::{EndpointPeers, Settings};
pub use reference::IdentityReference;
pub use requests::{CreateError, Level, Patch, PatchError};
pub use restored::RestoredEndpoint;
pub use settle::SETTLE_AFTER;
pub use spec::EndpointSpec;
pub use state::EndpointState;
pub use view::{BuildCounts, EndpointView, HealthState, HealthView, Realised};
