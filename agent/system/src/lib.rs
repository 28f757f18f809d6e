//! The operating system as the programs of a node meet it: network namespaces, netlink, settings of the
//! kernel, memory, threads, time, and the terminal of whoever started them.

pub mod causes;
mod clock;
pub mod duration;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod heap;
pub mod icmp;
pub mod mapping;
pub mod netlink;
pub mod netns;
pub mod resident;
pub mod sysctl;
pub mod tcp;
pub mod terminal;
pub mod threads;

pub use clock::SystemClock;
