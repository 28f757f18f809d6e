//! Policy: which identities there are, which addresses have them, and who may talk to whom.

pub mod identity;
pub mod ipcache;
pub mod rules;
