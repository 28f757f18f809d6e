//! What the actors' tests share: ports that answer when they are told to, a whole node in memory,
//! and a way to crash.

mod disk;
mod fate;
mod kernel;
mod kernel_state;
mod memory_disk;
mod memory_kernel;
mod residue;
mod world;

pub(crate) use disk::FakeDisk;
pub(crate) use fate::{Fate, Turn};
pub(crate) use kernel::FakeKernel;
pub(crate) use kernel_state::{KernelState, name};
pub(crate) use memory_disk::MemoryDisk;
pub(crate) use memory_kernel::MemoryKernel;
pub(crate) use residue::Residue;
pub(crate) use world::{Created, World, allow_from, pod, spec};

use crate::host::Reply;

/// A reply that makes the handler that answers it panic; quietly, for it is meant.
pub(crate) fn crash<T: 'static>() -> Reply<T> {
    Reply::to(|_| std::panic::resume_unwind(Box::new("on purpose")))
}
