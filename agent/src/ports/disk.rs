//! The state and library directories.
//!
//! One thread writes, in order; before the actors live, [`DiskFiles`] reads and [`Directories`]
//! makes sure that no other agent does the same.

mod directories;
mod files;
mod steps;
mod trouble;
mod unread;

pub use directories::{Directories, DirectoriesError, hold_bpf};
pub use files::DiskFiles;
pub use steps::Steps;
pub use trouble::DiskTrouble;
use volvox_actors::{
    host::Reply,
    ports::{Disk, DiskError, FsOp},
};

use super::{Workers, WorkersError};

/// How many jobs are with the writing thread at once; more wait with the actors.
const BOUND: usize = 64;

/// Writes for the actors on a thread of its own.
pub struct DiskPort {
    workers: Workers<Vec<FsOp>, Result<(), DiskError>>,
}

impl DiskPort {
    /// Starts the thread. To be called on the actors' thread, within its actix system.
    pub fn start(steps: &Steps) -> Result<Self, WorkersError> {
        let workers = Workers::start("disk", 1, BOUND, |_| {
            let steps = steps.clone();
            move |ops: Vec<FsOp>| steps.run(&ops)
        })?;
        Ok(Self { workers })
    }

    /// Waits until all is written that was to be. What is submitted later is not begun.
    pub async fn finish(&self) {
        self.workers.finish().await;
    }
}

impl Disk for DiskPort {
    fn submit(&self, ops: Vec<FsOp>, reply: Reply<Result<(), DiskError>>) {
        self.workers.submit(ops, reply);
    }
}

#[cfg(test)]
mod tests;
