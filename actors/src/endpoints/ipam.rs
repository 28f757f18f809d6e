//! Who has which address. In memory; rebuilt from the endpoints at every start.

mod actor;
mod allocations;
mod answers;
mod messages;
mod pool;
#[cfg(test)]
mod tests;

pub use actor::{Ipam, IpamView};
pub use allocations::Pools;
pub use messages::{AddressFamily, AddressLease, Allocated, IpamError, IpamMsg};
