//! The outside world of the node agent.

pub mod api;
pub mod boot;
pub mod client;
pub mod cni;
pub mod config;
pub mod dashboard;
pub mod delete_queue;
pub mod evidence;
pub mod faces;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gateway;
mod guarded;
pub mod health_ports;
pub mod heap;
mod host_header;
pub mod life;
pub mod logging;
pub mod monitor;
pub mod netns;
pub mod node_address;
pub mod node_facts;
pub mod node_information;
pub mod ports;
mod queued_deletions;
pub mod remembered;
pub mod resident;
pub mod rest_client;
pub mod rest_model;
pub mod settings;
pub mod terminal;
mod threads;
pub mod trace;
pub mod uninstall;
pub mod wait_cycles;
pub mod watchdog;
