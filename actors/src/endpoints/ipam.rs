//! Who has which address. In memory; rebuilt from the endpoints at every start.

mod actor;
mod answers;
mod ledger;
mod messages;
mod pool;
#[cfg(test)]
mod tests;

pub use actor::{Ipam, IpamView};
pub use ledger::Pools;
pub use messages::{Allocated, Family, IpamError, IpamMsg, Lease};
