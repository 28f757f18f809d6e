//! What the actors ask of the world, done for real.

mod causes;
mod clock;
pub mod cluster;
mod clusters;
mod disk;
mod ears;
pub mod files;
pub mod flight;
pub mod kernel;
pub mod kvstore;
mod links;
pub mod manifests;
mod mapping;
pub mod netlink;
mod signals;
pub mod sysctl;
mod workers;

pub use clock::SystemClock;
pub use clusters::ClusterDirectory;
pub use disk::{Directories, DirectoriesError, DiskFiles, DiskPort, DiskTrouble, Steps, hold_bpf};
pub use ears::{Ear, Ears};
pub use links::{LinkWatch, LinkWatchError};
pub use signals::{Full, SignalWatch, SignalWatchError};
pub use workers::{Workers, WorkersError};
