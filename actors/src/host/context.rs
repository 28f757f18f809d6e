//! The context that a handler gets: through it an actor asks others, sets timers and stops.

use std::{borrow::Cow, time::Duration};

use super::{
    AskError, Behaviour, CellId, Hears, Home, Host, Record, Ref, Reply, TimerId, Whom,
    behaviour::Cx, reply::Slot, system::pose,
};
use crate::host::Time;

impl<B: Behaviour> Cx<'_, B> {
    /// Its address, for others.
    pub fn me(&self) -> &Ref<B::Msg> {
        self.me
    }

    /// Its address for itself and its ports.
    pub fn home(&self) -> &Home<B::Answer> {
        self.home
    }

    /// Its own number.
    pub fn id(&self) -> CellId {
        self.me.id()
    }

    /// The host, to hand on to children or to look at.
    pub fn host(&self) -> &Host {
        self.host
    }

    /// Monotonic time.
    pub fn now(&self) -> Time {
        self.host.now()
    }

    /// Nanoseconds since 1970, UTC.
    pub fn wall(&self) -> u64 {
        self.host.wall()
    }

    /// Asks another actor, by its address or through an outlet; the answer, or why there is none, comes back as what `then` makes of it.
    /// Lost if this behaviour crashes meanwhile.
    pub fn ask<N, T: 'static>(
        &mut self,
        to: &impl Hears<N>,
        patience: Duration,
        why: impl Into<Cow<'static, str>>,
        make: impl FnOnce(Reply<T>) -> N,
        then: impl FnOnce(Result<T, AskError>) -> B::Answer + 'static,
    ) {
        let slot = self.open(Whom::Cell(to.id()), patience, why.into(), then);
        pose(to, slot, make);
    }

    /// A reply to hand to a port; like [`Cx::ask`], but whoever is asked is outside the host.
    pub fn expect<T: 'static>(
        &mut self,
        port: &'static str,
        patience: Duration,
        why: impl Into<Cow<'static, str>>,
        then: impl FnOnce(Result<T, AskError>) -> B::Answer + 'static,
    ) -> Reply<T> {
        Reply::over(self.open(Whom::Port(port), patience, why.into(), then))
    }

    /// A reply to hand to a port for what may never come: nobody waits for it, and there is no
    /// deadline. When it comes it is an event from outside of that name. Lost if this behaviour
    /// crashes meanwhile.
    pub fn heed<T: 'static>(
        &mut self,
        what: impl Into<Cow<'static, str>>,
        then: impl FnOnce(Result<T, AskError>) -> B::Answer + 'static,
    ) -> Reply<T> {
        let (home, life) = (self.home.clone(), self.home.life());
        let (host, what) = (self.host.clone(), what.into());
        Reply::to(move |answer| {
            // Whoever lets it go says nothing of the world outside.
            match answer {
                Ok(_) => host.outside(&what, || home.answer(life, then(answer))),
                Err(_) => home.answer(life, then(answer)),
            }
        })
    }

    /// Comes back to it after a while.
    pub fn after(&mut self, span: Duration, answer: B::Answer) -> TimerId {
        let (home, life) = (self.home.clone(), self.home.life());
        let (host, current) = (self.host.clone(), self.host.current());
        self.host.at(self.now() + span, move || {
            host.within(current, || home.answer(life, answer));
        })
    }

    /// Forgets a timer; one that fired is fine.
    pub fn cancel(&mut self, timer: TimerId) {
        self.host.cancel(timer);
    }

    /// Says for the trace that its state changed.
    pub fn state_changed(&self, from: &'static str, to: &'static str, why: &str) {
        let (cell, at) = (self.id(), self.now());
        self.host.record(Record::State { cell, from, to, why, at });
    }

    /// Stops after this message. What waits in the mailbox is discarded.
    pub fn stop(&mut self) {
        *self.stop = true;
    }

    fn open<T: 'static>(
        &mut self,
        whom: Whom,
        patience: Duration,
        why: Cow<'static, str>,
        then: impl FnOnce(Result<T, AskError>) -> B::Answer + 'static,
    ) -> Slot<T> {
        let (home, life) = (self.home.clone(), self.home.life());
        // The answer belongs to the chain of the question, whoever gives it and whenever.
        let (host, current) = (self.host.clone(), self.host.current());
        let slot = Slot::new(move |answer| {
            host.within(current, || home.answer(life, then(answer)));
        });
        self.host.open_ask(Some(self.id()), whom, patience, why, slot)
    }
}
