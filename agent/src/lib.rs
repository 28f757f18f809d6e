//! The node agent: wiring, and the outside world of its actors.

pub mod api;
pub mod boot;
mod cni_configuration;
pub mod config;
pub mod datapath;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gateway;
mod guarded;
pub mod health_ports;
pub mod hubble;
pub mod kube_proxy;
pub mod kvstore;
pub mod logging;
mod metrics_ports;
pub mod node_address;
pub mod node_facts;
pub mod node_health;
pub mod node_information;
pub mod node_name;
mod notices;
pub mod ports;
mod queued_deletions;
pub mod remembered;
pub mod run;
pub mod servers;
pub mod settings;
pub mod spans;
pub mod stop;
pub mod takeover;
pub mod uninstall;
pub mod wait_cycles;
pub mod watchdog;
