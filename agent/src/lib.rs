//! The outside world of the node agent.

pub mod api;
pub mod boot;
pub mod client;
pub mod cni;
pub mod config;
pub mod dashboard;
pub mod delete_queue;
pub mod faces;
pub mod gateway;
pub mod health_ports;
pub mod heap;
pub mod life;
pub mod logging;
pub mod monitor;
pub mod netns;
pub mod node_address;
pub mod node_information;
pub mod ports;
pub mod remembered;
pub mod rest_client;
pub mod rest_model;
pub mod settings;
pub mod trace;
pub mod uninstall;
pub mod wait_cycles;
pub mod watchdog;
