//! A counted reference to an identity that gives itself back, so that a crash leaks none.

use std::fmt;

use crate::{
    host::{AskError, Ref},
    policy::identity::{Identity, IdentityError, IdentityMsg},
};

/// A reference to an identity, given back when it is dropped: also when the answer that brought
/// it meets nobody any more.
pub struct IdentityReference {
    identity: Identity,
    owner: Ref<IdentityMsg>,
}

impl IdentityReference {
    /// Takes over the reference that comes with an answer.
    pub(crate) fn from_answer(
        owner: Ref<IdentityMsg>,
        answer: Result<Result<Identity, IdentityError>, AskError>,
    ) -> Result<Self, String> {
        match answer {
            Ok(Ok(identity)) => Ok(Self { identity, owner }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }
}

impl fmt::Debug for IdentityReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdentityReference({})", self.identity.id)
    }
}

impl Drop for IdentityReference {
    fn drop(&mut self) {
        // Nobody counts any more in an agent that ends.
        let _ = self.owner.tell(IdentityMsg::Release(self.identity.id));
    }
}
