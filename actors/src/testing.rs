//! What tests and the simulator share: ports that answer when they are told to, a whole node in
//! memory, and a way to crash. Not in an agent: it is there for tests and with the feature
//! `simulation` only.

#![allow(clippy::unwrap_used, reason = "what surprises a test ends it")]

mod acknowledged;
#[cfg(test)]
mod disk;
mod fate;
#[cfg(test)]
mod kernel;
mod kernel_pages;
mod kernel_routing;
mod kernel_services;
mod kernel_state;
mod memory_cluster;
mod memory_disk;
mod memory_fs;
mod memory_health;
mod memory_kernel;
mod memory_kvstore;
mod memory_listeners;
mod memory_platter;
mod memory_remote_clusters;
mod memory_runtime;
mod patches;
mod residue;
mod samples;
mod settings;
mod verified;
mod world;

#[cfg(test)]
pub(crate) use disk::FakeDisk;
pub use fate::{Fate, Turn};
#[cfg(test)]
pub(crate) use kernel::FakeKernel;
pub use kernel_routing::KernelRouting;
pub use kernel_services::{KernelServices, Landing};
pub use kernel_state::KernelState;
pub use memory_cluster::MemoryCluster;
pub use memory_disk::MemoryDisk;
pub use memory_fs::MemoryFs;
pub use memory_health::MemoryHealth;
pub use memory_kernel::MemoryKernel;
pub use memory_kvstore::{KvLink, MemoryKvStore};
pub use memory_listeners::MemoryListeners;
pub use memory_remote_clusters::MemoryRemoteClusters;
pub use memory_runtime::MemoryRuntime;
pub use residue::Residue;
pub use samples::{allow_from, allow_to_nodes, link, node, pod, spec, to_http, with_http};
pub use world::{Created, World};

use crate::host::Reply;

/// A reply that makes the handler that answers it panic; quietly, for it is meant.
pub fn crash<T: 'static>() -> Reply<T> {
    Reply::to(|_| std::panic::resume_unwind(Box::new("on purpose")))
}
