//! A cell runs one behaviour: it takes messages from the mailbox, catches panics and makes it anew.
//! It also keeps the counters that are shown of an actor. The driver says when it runs.

use std::{
    any::Any,
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::{Rc, Weak},
    time::Duration,
};

use super::{
    Absorbed, Behaviour, Cx, Header, Home, Host, Lane, Message, Outcome, Pauses, Record, Ref,
    any_cell::{AnyCell, CellInfo},
    envelope::Envelope,
    home::OwnInbox,
    mailbox::{EnqueueOutcome, Mailbox},
    numbers::CellId,
    reference::Inbox,
    reply::drop_crashed,
    system::Current,
};
use crate::host::Time;

/// How long a cell rests after a crash: nothing, then twice as long each time, while crashes
/// follow each other within [`CRASH_MEMORY`].
const CRASH_RESTS: Pauses =
    Pauses::Doubling { first: Duration::from_millis(200), most: Duration::from_secs(30) };
const CRASH_MEMORY: Duration = Duration::from_secs(60);
const CRASHES_WITHOUT_REST: u32 = 3;

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

/// A behaviour with its mailbox, its crash policy and its trace.
pub(super) struct ActorCell<B: Behaviour> {
    host: Host,
    id: CellId,
    name: String,
    parent: Option<CellId>,
    me: Ref<B::Msg>,
    home: Home<B::Answer>,
    mailbox: RefCell<Mailbox<Mail<B>>>,
    behaviour: RefCell<Option<B>>,
    make: RefCell<Box<dyn FnMut() -> B>>,
    tally: RefCell<Tally>,
    #[cfg(any(test, feature = "simulation"))]
    poisoned: std::cell::Cell<bool>,
}

#[derive(Default)]
struct Tally {
    handled: u64,
    refused: u64,
    last_refused: Option<Time>,
    waited: Duration,
    busy: Duration,
    crashes: u32,
    crashes_in_a_row: u32,
    last_crash: Option<String>,
    crashed_at: Time,
    resting: bool,
}

impl Host {
    /// Brings a cell to life. `make` makes its behaviour, now and after every crash.
    pub fn spawn<B: Behaviour>(
        &self,
        name: impl Into<String>,
        capacity: usize,
        make: impl FnMut() -> B + 'static,
    ) -> Ref<B::Msg> {
        let id = self.number_cell();
        let parent = self.current().cell;
        let cell = ActorCell::new(self.clone(), id, name.into(), parent, capacity, Box::new(make));
        self.adopt(id, cell.name(), parent, cell.clone());
        cell.me().clone()
    }
}

impl<B: Behaviour> ActorCell<B> {
    pub(super) fn new(
        host: Host,
        id: CellId,
        name: String,
        parent: Option<CellId>,
        capacity: usize,
        make: Box<dyn FnMut() -> B>,
    ) -> Rc<Self> {
        Rc::new_cyclic(|me: &Weak<Self>| Self {
            host,
            id,
            name,
            parent,
            me: Ref::new(id, me.clone()),
            home: Home::new(me.clone()),
            mailbox: RefCell::new(Mailbox::new(capacity)),
            behaviour: RefCell::new(None),
            make: RefCell::new(make),
            tally: RefCell::default(),
            #[cfg(any(test, feature = "simulation"))]
            poisoned: std::cell::Cell::default(),
        })
    }

    pub(super) fn me(&self) -> &Ref<B::Msg> {
        &self.me
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn trace(&self, header: Header, started: Time, ended: Time, outcome: Outcome) {
        self.host.record(Record::Message { header, started, ended, outcome });
    }

    /// Traces a message that was not handled.
    fn unhandled(&self, header: Header, at: Time, outcome: Outcome) {
        self.trace(header, at, at, outcome);
    }

    /// Calls into the behaviour, made first if there is none; whether it wants to stop.
    fn call(&self, act: impl FnOnce(&mut B, &mut Cx<'_, B>)) -> Result<bool, String> {
        catch_unwind(AssertUnwindSafe(|| {
            let mut stop = false;
            let (me, home) = (&self.me, &self.home);
            let mut cx = Cx { host: &self.host, me, home, stop: &mut stop };
            let mut place = self.behaviour.borrow_mut();
            let behaviour = match place.as_mut() {
                Some(behaviour) => behaviour,
                None => {
                    let behaviour = place.insert((self.make.borrow_mut())());
                    behaviour.started(&mut cx);
                    behaviour
                }
            };
            act(behaviour, &mut cx);
            #[cfg(any(test, feature = "simulation"))]
            if self.poisoned.take() {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
            stop
        }))
        .map_err(|panic| words(panic.as_ref()))
    }

    fn crashed(&self, kind: &'static str, cause: String) {
        let now = self.host.now();
        tracing::error!(cell = %self.name, message = kind, %cause, "handler panicked; actor restarted");
        self.host.record(Record::Crash { cell: self.id, kind, cause: &cause, at: now });
        let broken = self.behaviour.borrow_mut().take();
        // Dropping it answers whom it owed an answer.
        drop_crashed(broken);
        let rest = {
            let mut tally = self.tally.borrow_mut();
            let recent = now.since(tally.crashed_at) < CRASH_MEMORY;
            tally.crashes += 1;
            tally.crashes_in_a_row = if recent { tally.crashes_in_a_row + 1 } else { 1 };
            tally.crashed_at = now;
            tally.last_crash = Some(cause);
            let over = tally.crashes_in_a_row.saturating_sub(CRASHES_WITHOUT_REST);
            tally.resting = over > 0;
            tally.resting.then(|| CRASH_RESTS.after(over))
        };
        match rest {
            None => self.host.ring(self.id),
            Some(rest) => {
                let home = self.home.clone();
                self.host.at(now + rest, move || home.wake());
            }
        }
    }

    fn discard_all(&self) {
        while let Some(envelope) = self.take() {
            self.unhandled(envelope.header, self.host.now(), Outcome::Discarded);
        }
    }

    fn take(&self) -> Option<Envelope<Mail<B>>> {
        self.mailbox.borrow_mut().take()
    }

    /// Handles a message, or only brings the behaviour to life if there is none.
    fn handle(&self, envelope: Option<Envelope<Mail<B>>>) {
        let header = envelope.as_ref().map(|envelope| envelope.header);
        let started = self.host.now();
        let current = header.map_or_else(Current::default, |header| Current {
            cell: Some(self.id),
            envelope: header.id,
            root: header.root,
        });
        let current = Current { cell: Some(self.id), ..current };
        self.host.handling(&self.name, header.map_or("", |header| header.kind), started);
        if let Some(header) = header {
            self.host.record(Record::Handling { header, started });
        }
        let called = self.host.within(current, || {
            self.call(|behaviour, cx| match envelope.map(|envelope| envelope.msg) {
                Some(Mail::Reported(msg)) => behaviour.handle(msg, cx),
                Some(Mail::Own(answer)) => behaviour.answered(answer, cx),
                None => {}
            })
        });
        self.host.handled();
        let outcome = if called.is_ok() { Outcome::Handled } else { Outcome::Crashed };
        if let Some(header) = header {
            let ended = self.host.now();
            let mut tally = self.tally.borrow_mut();
            tally.handled += 1;
            tally.waited += started.since(header.enqueued);
            tally.busy += ended.since(started);
            drop(tally);
            self.trace(header, started, ended, outcome);
        }
        match called {
            Ok(false) => {}
            Ok(true) => {
                self.discard_all();
                self.host.forget(self.id);
            }
            Err(cause) => self.crashed(header.map_or("started", |header| header.kind), cause),
        }
    }
}

impl<B: Behaviour> ActorCell<B> {
    /// Writes on the envelope of something that comes now.
    fn envelope(&self, msg: Mail<B>) -> Envelope<Mail<B>> {
        let current = self.host.current();
        let header = Header {
            id: self.host.next_envelope(),
            kind: msg.kind(),
            from: current.cell,
            to: self.id,
            cause: current.envelope,
            root: current.root,
            enqueued: self.host.now(),
        };
        Envelope { header, msg }
    }

    /// Puts it into its lane; it comes back if there is no room.
    fn put_mail(&self, msg: Mail<B>) -> Result<(), Mail<B>> {
        let envelope = self.envelope(msg);
        let header = envelope.header;
        let put = self.mailbox.borrow_mut().put(envelope);
        match put {
            EnqueueOutcome::Queued => {
                self.host.ring(self.id);
                Ok(())
            }
            EnqueueOutcome::Absorbed => {
                self.unhandled(header, header.enqueued, Outcome::Absorbed);
                Ok(())
            }
            EnqueueOutcome::Full(envelope) => {
                let mut tally = self.tally.borrow_mut();
                tally.refused += 1;
                tally.last_refused = Some(header.enqueued);
                drop(tally);
                self.unhandled(header, header.enqueued, Outcome::Refused);
                Err(envelope.msg)
            }
        }
    }
}

impl<B: Behaviour> Inbox<B::Msg> for ActorCell<B> {
    fn put(&self, msg: B::Msg) -> Result<(), B::Msg> {
        match self.put_mail(Mail::Reported(msg)) {
            Err(Mail::Reported(msg)) => Err(msg),
            Err(Mail::Own(_)) => unreachable!("what is told comes back as it was"),
            Ok(()) => Ok(()),
        }
    }
}

impl<B: Behaviour> OwnInbox<B::Answer> for ActorCell<B> {
    fn put_own(&self, answer: B::Answer) -> bool {
        self.put_mail(Mail::Own(answer)).is_ok()
    }

    fn put_answer(&self, answer: B::Answer) {
        let envelope = self.envelope(Mail::Own(answer));
        self.mailbox.borrow_mut().put_answer(envelope);
        self.host.ring(self.id);
    }

    /// Which life of the behaviour this is: answers to an earlier one mean nothing to it.
    fn life(&self) -> u32 {
        self.tally.borrow().crashes
    }

    fn wake(&self) {
        self.tally.borrow_mut().resting = false;
        self.host.ring(self.id);
    }
}

impl<B: Behaviour> AnyCell for ActorCell<B> {
    #[cfg(any(test, feature = "simulation"))]
    fn poison(&self) {
        self.poisoned.set(true);
    }

    fn run_one(&self) -> bool {
        if self.tally.borrow().resting {
            return false;
        }
        let envelope = self.take();
        if envelope.is_some() || self.behaviour.borrow().is_none() {
            self.handle(envelope);
        }
        self.mailbox.borrow().len() > 0 && !self.tally.borrow().resting
    }

    fn info(&self) -> CellInfo {
        let tally = self.tally.borrow();
        CellInfo {
            id: self.id,
            name: self.name.clone(),
            parent: self.parent,
            waiting: self.mailbox.borrow().len(),
            handled: tally.handled,
            refused: tally.refused,
            last_refused: tally.last_refused,
            waited: tally.waited,
            busy: tally.busy,
            crashes: tally.crashes,
            last_crash: tally.last_crash.clone(),
            crash_looping: tally.crashes_in_a_row > CRASHES_WITHOUT_REST
                && self.host.now().since(tally.crashed_at) < CRASH_MEMORY,
        }
    }

    fn observe(&self) -> Option<serde_json::Value> {
        let behaviour = self.behaviour.try_borrow().ok()?;
        serde_json::to_value(behaviour.as_ref()?.observe()).ok()
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}
