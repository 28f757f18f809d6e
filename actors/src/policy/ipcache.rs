//! Which identity an address has, for every address that is known.

mod actor;
mod answers;
mod batch;
mod claims;
mod messages;
mod sweep;
mod table;
#[cfg(test)]
mod tests;

pub use actor::Ipcache;
pub use messages::{IpcacheEntry, IpcacheMsg, IpcacheSource, IpcacheView};
