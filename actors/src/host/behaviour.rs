//! The contract between an actor and the host: what an actor does, and the context that its handlers get.

use serde::Serialize;

use super::{Home, Host, Ref, message::Message};

/// What an actor does: pure state, and what it makes of each message.
pub trait Behaviour: Sized + 'static {
    /// What it can be told.
    type Msg: Message;
    /// What comes of its own questions, timers and ports. Nobody else can send one: only a [`Home`](super::Home) and
    /// what [`Cx`] opens carry it. [`NoAnswer`](super::NoAnswer) if it asks nobody.
    type Answer: Message;
    /// What it shows of itself, to tests and to people.
    type Observed: Serialize;

    /// Called before the first message, and again after a crash with a behaviour made anew.
    fn started(&mut self, _cx: &mut Cx<'_, Self>) {}

    /// Handles one message. Never waits: what it waits for comes back as an answer.
    fn handle(&mut self, msg: Self::Msg, cx: &mut Cx<'_, Self>);

    /// Handles one answer.
    fn answered(&mut self, answer: Self::Answer, cx: &mut Cx<'_, Self>);

    /// The state that may be seen from outside.
    fn observe(&self) -> Self::Observed;
}

/// What a handler can do besides changing its state.
pub struct Cx<'a, B: Behaviour> {
    pub(super) host: &'a Host,
    pub(super) me: &'a Ref<B::Msg>,
    pub(super) home: &'a Home<B::Answer>,
    pub(super) stop: &'a mut bool,
}
