//! Who has which address. In memory; rebuilt from the endpoints at every start. There is one pool with one
//! prefix of each family, or there are several pools with several prefixes each.

mod actor;
mod allocations;
mod answers;
mod messages;
mod pool;
mod several;
#[cfg(test)]
mod tests;
mod waiting;

pub use actor::{Ipam, IpamPeers, IpamView};
pub use allocations::Pools;
pub use messages::{AddressFamily, AddressLease, Allocated, IpamError, IpamMsg};
pub use several::{PoolUse, PoolsDemand, SeveralPools, counted};
