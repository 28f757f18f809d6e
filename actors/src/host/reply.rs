//! Questions and answers: each question gets exactly one answer, or the reason why there is none.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use futures_channel::oneshot;
use serde::Serialize;

use super::{Message, Ref};

/// Why an ask has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum AskError {
    /// The mailbox was full.
    #[error("its mailbox is full")]
    Full,
    /// The deadline passed.
    #[error("no answer before the deadline")]
    Deadline,
    /// A handler panicked while the actor had the question.
    #[error("it crashed over the question")]
    Crashed,
    /// The actor stopped, or let the question go.
    #[error("it is gone")]
    Gone,
}

type ReplyCallback<T> = Box<dyn FnOnce(Result<T, AskError>)>;

/// A slot that the answer or the deadline empties, whichever comes first.
pub(super) struct Slot<T>(Rc<RefCell<Option<ReplyCallback<T>>>>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: 'static> Slot<T> {
    pub(super) fn new(then: impl FnOnce(Result<T, AskError>) + 'static) -> Self {
        Self(Rc::new(RefCell::new(Some(Box::new(then)))))
    }

    pub(super) fn finish(&self, result: Result<T, AskError>) {
        let then = self.0.borrow_mut().take();
        if let Some(then) = then {
            then(result);
        }
    }
}

/// The right to answer one question, once. Dropped unanswered, it says so to who asked.
pub struct Reply<T: 'static> {
    slot: Slot<T>,
}

impl<T: 'static> Reply<T> {
    /// A reply that hands its answer to a closure; for ports and tests.
    pub fn to(then: impl FnOnce(Result<T, AskError>) + 'static) -> Self {
        Self { slot: Slot::new(then) }
    }

    pub(super) fn over(slot: Slot<T>) -> Self {
        Self { slot }
    }

    /// Answers. Too late is fine: nobody hears it.
    pub fn send(self, value: T) {
        self.slot.finish(Ok(value));
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_closed(&self) -> bool {
        self.slot.0.borrow().is_none()
    }
}

thread_local! {
    /// A behaviour is being dropped because it crashed.
    static CRASHING: Cell<bool> = const { Cell::new(false) };
}

/// Whether what is dropped now is dropped because its actor crashed.
pub(crate) fn is_crash() -> bool {
    CRASHING.get()
}

/// Drops what a crash left; whoever still waited for an answer of it hears of the crash.
pub(super) fn drop_crashed<T>(broken: T) {
    CRASHING.set(true);
    // Its own drop must not take the host along.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
    CRASHING.set(false);
}

impl<T: 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        let crashed = std::thread::panicking() || is_crash();
        let error = if crashed { AskError::Crashed } else { AskError::Gone };
        self.slot.finish(Err(error));
    }
}

impl<T: 'static> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reply")
    }
}

type Gathered<T> = Box<dyn FnOnce(Vec<Option<T>>)>;

/// What several have answered to one question; handed on once each has answered, or will not.
struct GatheredReplies<T> {
    answers: RefCell<Vec<Option<T>>>,
    then: RefCell<Option<Gathered<T>>>,
}

impl<T> Drop for GatheredReplies<T> {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then(self.answers.take());
        }
    }
}

/// Asks each of them the same, and hands on what each answers, in their order; none of who will not.
/// There is no deadline but that of who waits for it in the end.
pub fn gather<M: Message, T: 'static>(
    them: &[Ref<M>],
    make: impl Fn(Reply<T>) -> M,
    then: impl FnOnce(Vec<Option<T>>) + 'static,
) {
    let answers = RefCell::new(them.iter().map(|_| None).collect());
    let then = RefCell::new(Some(Box::new(then) as Gathered<T>));
    let gathering = Rc::new(GatheredReplies { answers, then });
    for (place, one) in them.iter().enumerate() {
        let gathering = Rc::clone(&gathering);
        let reply = Reply::to(move |answer: Result<T, AskError>| {
            gathering.answers.borrow_mut()[place] = answer.ok();
        });
        // A full mailbox lets the question go: it has no answer then.
        drop(one.tell(make(reply)));
    }
}

/// The answer to come to a question asked from outside the host.
pub struct Answer<T>(pub(super) oneshot::Receiver<Result<T, AskError>>);

impl<T> Answer<T> {
    /// The answer, if it is already there.
    pub fn now(&mut self) -> Option<Result<T, AskError>> {
        match self.0.try_recv() {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => Some(Err(AskError::Gone)),
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(AskError::Gone)))
    }
}
