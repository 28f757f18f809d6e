//! Addresses of actors: through one a message reaches a mailbox, or comes back.

use std::{fmt, rc::Weak};

use super::{CellId, Message};

/// A cell as its mailbox shows it to whoever has a message for it.
pub(super) trait Inbox<M> {
    fn put(&self, msg: M) -> Result<(), M>;
}

/// The address of an actor that can be told an `M`. Does not keep it alive.
pub struct Ref<M: Message> {
    id: CellId,
    inbox: Weak<dyn Inbox<M>>,
}

/// The mailbox was full, or the actor is gone: the message comes back.
pub struct Full<M> {
    /// The message that was not taken.
    pub msg: M,
    /// Whether the actor is gone for ever.
    pub gone: bool,
}

impl<M> fmt::Display for Full<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.gone { "the actor is gone" } else { "its mailbox is full" })
    }
}

impl<M> fmt::Debug for Full<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<M> std::error::Error for Full<M> {}

impl<M: Message> Ref<M> {
    pub(super) fn new(id: CellId, inbox: Weak<dyn Inbox<M>>) -> Self {
        Self { id, inbox }
    }

    /// Its number.
    pub fn id(&self) -> CellId {
        self.id
    }

    /// Whether it still lives.
    pub fn is_alive(&self) -> bool {
        self.inbox.strong_count() > 0
    }

    /// Puts a message into its mailbox.
    pub fn tell(&self, msg: M) -> Result<(), Full<M>> {
        match self.inbox.upgrade() {
            Some(cell) => cell.put(msg).map_err(|msg| Full { msg, gone: false }),
            None => Err(Full { msg, gone: true }),
        }
    }
}

impl<M: Message> Clone for Ref<M> {
    fn clone(&self) -> Self {
        Self { id: self.id, inbox: Weak::clone(&self.inbox) }
    }
}

impl<M: Message> fmt::Debug for Ref<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({})", self.id)
    }
}
