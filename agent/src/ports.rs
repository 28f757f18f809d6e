//! What the actors ask of the world, done for real.

mod cluster_directory;
mod disk;
mod ears;
pub(crate) mod embedded;
pub mod files;
mod links;
pub mod manifests;
mod signals;
mod workers;

pub use cluster_directory::ClusterDirectory;
pub use disk::{Directories, DirectoriesError, DiskFiles, DiskPort, DiskTrouble, Steps, hold_bpf};
pub use ears::{Ear, Ears};
pub use embedded::Embedded;
pub use links::{LinkWatch, LinkWatchError};
pub use signals::{Full, SignalWatch, SignalWatchError};
pub use workers::{Workers, WorkersError};
