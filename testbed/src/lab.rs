//! Nodes in namespaces of their own.
//!
//! Everything here lives in one process tree that is the only user of its network, mount and
//! process namespaces: when its first process ends, in whatever way, the kernel removes the pods,
//! the interfaces, the programs and the files. Nothing of the machine itself is touched.

mod api_client;
mod api_server;
mod authority;
mod binaries;
mod browser;
pub mod build;
mod cgroup;
mod client;
pub mod cni;
mod confinement;
mod container_runtime;
mod direct;
mod disk;
mod enter;
mod etcd;
mod foreign_program;
mod former;
mod http;
pub mod image;
mod inventory;
mod kubernetes;
mod metrics;
mod neighbour;
mod netns;
mod node;
pub mod objects;
mod operator;
pub mod other_node;
mod pod;
mod process;
mod programs;
mod proxy;
mod rest;
mod setup;
mod store;
mod strace;
mod sys;
mod test_cluster;
mod wait;
mod watchdog;

pub use api_client::ApiClient;
pub use api_server::{ApiServer, Asked};
pub use authority::{Authority, Validity};
pub use binaries::Binaries;
pub use browser::{Browser, Page};
pub use cgroup::Cgroup;
pub use confinement::{Confinement, Controller, Janitor};
pub use container_runtime::ContainerRuntime;
pub use disk::Disk;
pub use enter::{NODE_NAME, again, command, inside, is_inside, seen_inside, test};
pub use etcd::Etcd;
pub use foreign_program::ForeignProgram;
pub use former::Former;
pub use http::http_get;
pub use inventory::Inventory;
pub use kubernetes::{Kubernetes, Machine, Part};
pub use metrics::Metrics;
pub use neighbour::Neighbour;
pub use netns::{Netns, ip};
pub use node::{Node, path};
pub use operator::Operator;
pub use pod::{Pod, Through};
pub use process::{Process, Usage};
pub use proxy::{Passage, Proxy, Speaks};
pub use rest::{Answer, Rest};
pub use rustix::process::Signal;
pub use setup::Setup;
pub use store::{Pair, Store};
pub use strace::{Calls, Injection, before_all, before_death};
pub(crate) use sys::{PrefixMap, cpu_time};
pub use test_cluster::{Member, TestCluster};
pub use wait::{PATIENCE, wait_for};
