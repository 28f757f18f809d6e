//! The numbers of identities in the cluster: which there are, and which this node uses.
//!
//! One actor has them handed out, wherever the cluster keeps them: its backend knows how a number
//! is claimed there, in a key-value store or as an object of the API server. Numbers of an earlier
//! life are claimed again once the cluster answers.

mod actor;
mod answers;
mod choose;
mod claim;
mod directory;
mod messages;
mod objects;
mod state;
mod stored;

use std::sync::Arc;

use crate::model::{IdentityId, Labels};

pub(crate) use answers::AllocatorAnswer;
pub use claim::ClaimError;
pub(crate) use claim::{Candidate, Claim, Found, Standing};
pub(crate) use directory::Directory;
pub use directory::Entry;
pub use messages::{AllocatorMsg, AllocatorNews, AllocatorView};
pub(crate) use objects::{ObjectIdentities, identity as read_object};
pub use state::Allocator;
pub(crate) use state::AllocatorBackend;
pub(crate) use stored::{StoredIdentities, identity as read_pair};

/// Who has numbers handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The store that the nodes share; this node alone if there is none.
    #[default]
    Kvstore,
    /// The API server, as objects.
    Crd,
}

/// What became of an identity: its labels, or none if it is gone.
pub(crate) type Renewed = (IdentityId, Option<Arc<Labels>>);
