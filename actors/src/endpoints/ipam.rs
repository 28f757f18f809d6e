//! Who has which address. In memory; rebuilt from the endpoints at every start. There is one pool with one
//! prefix of each family, or there are several pools with several prefixes each.

mod actor;
mod allocations;
mod answers;
mod family;
mod messages;
mod pool;
mod several;
mod state;
#[cfg(test)]
mod tests;
mod waiting;

pub use actor::IpamView;
pub use allocations::Pools;
pub use family::AddressFamily;
pub use messages::{AddressLease, Allocated, IpamError, IpamMsg};
pub use several::{PoolUse, PoolsDemand, SeveralPools, counted};
pub use state::{Ipam, IpamPeers};
