//! The address that an actor has for itself alone: where its answers go.

use std::rc::Weak;

use super::Message;

/// A cell as it shows itself to its own questions, timers and ports.
pub(super) trait OwnInbox<A> {
    fn put_own(&self, answer: A) -> bool;
    fn put_answer(&self, answer: A);
    fn life(&self) -> u32;
    fn wake(&self);
}

/// The way to an actor for what it alone is told: of its ports, and of itself. Does not keep it alive.
pub struct Home<A: Message>(Weak<dyn OwnInbox<A>>);

impl<A: Message> Home<A> {
    pub(super) fn new(inbox: Weak<dyn OwnInbox<A>>) -> Self {
        Self(inbox)
    }

    /// Puts something into its mailbox, into the lane of its kind; false if that is full, or the actor
    /// is gone.
    pub fn tell(&self, answer: A) -> bool {
        self.0.upgrade().is_some_and(|cell| cell.put_own(answer))
    }

    /// Puts an answer into its mailbox; one for an earlier run of the behaviour is dropped.
    pub(super) fn answer(&self, life: u32, answer: A) {
        if let Some(cell) = self.0.upgrade()
            && cell.life() == life
        {
            cell.put_answer(answer);
        }
    }

    /// Which life of the behaviour this is.
    pub(super) fn life(&self) -> u32 {
        self.0.upgrade().map_or(0, |cell| cell.life())
    }

    /// Ends its rest after a crash.
    pub(super) fn wake(&self) {
        if let Some(cell) = self.0.upgrade() {
            cell.wake();
        }
    }
}

impl<A: Message> Clone for Home<A> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}
