//! How an operator ends: once, for one reason, which the program is told.

use std::rc::Rc;

use crate::host::{Reply, Survives};

/// Why an operator ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperatorEnd {
    /// Another one leads, or the Lease could not be renewed in time.
    #[error("this operator does not lead any more: {0}")]
    LeadershipLost(String),
    /// An actor crashed, and what it knew is gone.
    #[error("actor {0} crashed: the operator begins anew")]
    Crashed(&'static str),
    /// An actor did not take what it was told.
    #[error("actor {0} has too much to do: the operator begins anew")]
    Overrun(&'static str),
}

/// What the program hears when the operator ends. Clones are the same one.
#[derive(Clone)]
pub(super) struct Ending(Rc<Survives<Option<Reply<OperatorEnd>>>>);

impl Ending {
    pub(super) fn new(reply: Reply<OperatorEnd>) -> Self {
        Self(Rc::new(Survives::new(Some(reply))))
    }

    /// The first reason counts.
    pub(super) fn end(&self, why: OperatorEnd) {
        let reply = self.0.lend().take();
        if let Some(reply) = reply {
            tracing::warn!(%why, "operator ends");
            reply.send(why);
        }
    }
}

/// The only life of an actor: after a crash it does not know any more what it knew.
#[derive(Clone)]
pub(super) struct OnlyLife {
    name: &'static str,
    begun: Rc<Survives<bool>>,
    pub(super) ending: Ending,
}

impl OnlyLife {
    pub(super) fn new(name: &'static str, ending: &Ending) -> Self {
        Self { name, begun: Rc::new(Survives::new(false)), ending: ending.clone() }
    }

    /// Whether this is the first life; the operator ends if it is not.
    pub(super) fn begin(&self) -> bool {
        let is_first = !std::mem::replace(&mut *self.begun.lend(), true);
        if !is_first {
            self.ending.end(OperatorEnd::Crashed(self.name));
        }
        is_first
    }
}
