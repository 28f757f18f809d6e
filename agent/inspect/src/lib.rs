//! What can be looked at of a node without asking an agent: flight records, what earlier runs left, records
//! of the datapath, manifests; and the page that shows them.
//!
//! The agent writes and serves them, the client reads and serves them by itself.

pub mod dashboard;
pub mod evidence;
pub mod flight;
pub mod http;
pub mod manifests;
pub mod monitor;
pub mod state_files;
pub mod trace;
