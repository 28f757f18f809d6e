//! Envelopes: where a message comes from, what caused it, and what became of it.

use serde::{Deserialize, Serialize};

use super::{Absorbed, Behaviour, CellId, Lane, Message, RootId};
use crate::host::Time;

/// Number of an envelope, counted from 1 for each life of a host. 0 is none.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EnvelopeId(pub u64);

/// What is written on an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Header {
    /// Its number.
    pub id: EnvelopeId,
    /// The message's kind.
    pub kind: &'static str,
    /// Who sent it; `None` from outside.
    pub from: Option<CellId>,
    /// Whom it is for.
    pub to: CellId,
    /// The message whose handling led to it.
    pub cause: EnvelopeId,
    /// The outside event that began it all.
    pub root: RootId,
    /// When it was put into the mailbox.
    pub enqueued: Time,
}

/// A message with its envelope.
pub(super) struct Envelope<M> {
    pub(super) header: Header,
    pub(super) msg: M,
}

/// What is in a mailbox: what somebody told, or what the actor itself is to hear.
pub(super) enum Mail<B: Behaviour> {
    Reported(B::Msg),
    Own(B::Answer),
}

impl<B: Behaviour> Message for Mail<B> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Reported(msg) => msg.kind(),
            Self::Own(answer) => answer.kind(),
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::Reported(msg) => msg.lane(),
            Self::Own(answer) => answer.lane(),
        }
    }

    fn absorb(&mut self, incoming: Self) -> Absorbed<Self> {
        fn wrap<M, W>(absorbed: Absorbed<M>, wrap: impl FnOnce(M) -> W) -> Absorbed<W> {
            match absorbed {
                Absorbed::Yes => Absorbed::Yes,
                Absorbed::No(msg) => Absorbed::No(wrap(msg)),
            }
        }
        match (self, incoming) {
            (Self::Reported(waiting), Self::Reported(msg)) => {
                wrap(waiting.absorb(msg), Self::Reported)
            }
            (Self::Own(waiting), Self::Own(answer)) => wrap(waiting.absorb(answer), Self::Own),
            (_, incoming) => Absorbed::No(incoming),
        }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Its handler returned.
    Handled,
    /// Its handler panicked; the behaviour was made anew.
    Crashed,
    /// One that already waited stands for it.
    Absorbed,
    /// The mailbox was full; it was handed back.
    Refused,
    /// The actor stopped before its turn came.
    Discarded,
}
