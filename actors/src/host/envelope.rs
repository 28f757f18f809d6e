//! Envelopes: where a message comes from, what caused it, and what became of it.

use serde::{Deserialize, Serialize};

use super::{CellId, RootId, numbers::EnvelopeId};
use crate::host::Time;

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
