//! Security identities: a number for each set of labels, the same number after every restart.

mod actor;
mod allocations;
mod answers;
mod cidr;
mod filter;
mod introduction;
mod messages;
mod moves;
mod numbered;
mod numbering;
mod numbers;
pub mod reserved;
mod round;
mod tables;
#[cfg(test)]
mod tests;
mod uses;

pub use actor::{Identities, IdentitiesView};
pub use filter::{FilterError, LabelFilter};
pub use introduction::Introduction;
pub use messages::{Identity, IdentityError, IdentityMsg};
pub(crate) use numbered::Numbered;
pub use numbering::Numbering;
