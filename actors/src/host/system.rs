//! The host: it takes in cells, runs them, fires timers, and registers every wait. It notes what caused each
//! message. The driver decides when it does all that. `Host::spawn` is in `cell.rs`.

use std::{borrow::Cow, cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use super::{
    Answer, AskError, Beat, CellId, CellInfo, EnvelopeId, Hears, Message, NoRecorder, Record,
    Recorder, Ref, RootId, TimerId, Wait, WaitId, Waits, Whom, any_cell::AnyCell, reply::Slot,
    timers::Timers,
};
use crate::host::{Clock, Time};

/// No wait is open that does not last already.
const NEVER: Time = Time(u64::MAX);
/// How many messages a cell handles before others get their turn.
const TURN_MESSAGES_MAX: usize = 16;

/// Says when cells run and timers fire.
///
/// A host rings for a cell when its mailbox turns from empty to not empty; the driver then calls
/// [`Host::run`] soon, on the host's own thread and never from within `ring` itself.
pub trait Driver {
    /// A cell was spawned.
    fn spawned(&self, host: &Host, cell: CellId);

    /// That cell has something to do.
    fn ring(&self, cell: CellId);

    /// The next timer is due then; [`Host::fire_due`] is desired.
    fn wake_at(&self, at: Time);

    /// A cell is no more.
    fn stopped(&self, cell: CellId);
}

/// What is being handled right now: the cause of whatever is sent or done meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Current {
    /// The actor that handles it; `None` outside.
    pub cell: Option<CellId>,
    /// The message.
    pub envelope: EnvelopeId,
    /// The outside event behind it.
    pub root: RootId,
}

struct Shared {
    clock: Rc<dyn Clock>,
    driver: Rc<dyn Driver>,
    recorder: RefCell<Box<dyn Recorder>>,
    beat: Arc<Beat>,
    waits: RefCell<Waits>,
    /// When the next wait that is open begins to last.
    lasting: std::cell::Cell<Time>,
    timers: RefCell<Timers>,
    cells: RefCell<BTreeMap<CellId, Rc<dyn AnyCell>>>,
    current: std::cell::Cell<Current>,
    next_cell: std::cell::Cell<u32>,
    next_envelope: std::cell::Cell<u64>,
    next_root: std::cell::Cell<u64>,
}

/// All cells of one agent, their clock, timers, waits and trace. Cheap to clone; one thread only.
#[derive(Clone)]
pub struct Host(Rc<Shared>);

impl Host {
    /// A host without cells.
    pub fn new(clock: Rc<dyn Clock>, driver: Rc<dyn Driver>, recorder: Box<dyn Recorder>) -> Self {
        Self(Rc::new(Shared {
            clock,
            driver,
            recorder: RefCell::new(recorder),
            beat: Arc::default(),
            waits: RefCell::default(),
            lasting: std::cell::Cell::new(NEVER),
            timers: RefCell::default(),
            cells: RefCell::default(),
            current: std::cell::Cell::default(),
            next_cell: std::cell::Cell::new(1),
            next_envelope: std::cell::Cell::new(1),
            next_root: std::cell::Cell::new(1),
        }))
    }

    /// The number of the next cell.
    pub(super) fn number_cell(&self) -> CellId {
        CellId(self.0.next_cell.replace(self.0.next_cell.get() + 1))
    }

    /// Takes in a cell that is to live from now on.
    pub(super) fn adopt(
        &self,
        id: CellId,
        name: &str,
        parent: Option<CellId>,
        cell: Rc<dyn AnyCell>,
    ) {
        self.0.cells.borrow_mut().insert(id, cell);
        self.record(Record::Spawned { cell: id, name, parent, at: self.now() });
        self.0.driver.spawned(self, id);
        self.ring(id);
    }

    /// Does something that comes from outside: all it sends is traced back to `what`.
    pub fn outside<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        let root = RootId(self.0.next_root.replace(self.0.next_root.get() + 1));
        self.record(Record::Root { root, what, at: self.now() });
        self.within(Current { cell: None, envelope: EnvelopeId::default(), root }, act)
    }

    /// Asks an actor from outside.
    pub fn ask<M: Message, T: 'static>(
        &self,
        to: &Ref<M>,
        patience: Duration,
        why: impl Into<Cow<'static, str>>,
        make: impl FnOnce(super::Reply<T>) -> M,
    ) -> Answer<T> {
        let (sender, receiver) = futures_channel::oneshot::channel();
        // The asker may have gone away; then nobody needs the answer.
        let slot = Slot::new(move |answer| drop(sender.send(answer)));
        let slot = self.open_ask(None, Whom::Cell(to.id()), patience, why.into(), slot);
        pose(to, slot, make);
        Answer(receiver)
    }

    /// A wait from outside for somebody outside, which is shown like any other: until the reply is
    /// dropped, or its time is over.
    pub fn await_port(
        &self,
        port: &'static str,
        patience: Duration,
        why: impl Into<Cow<'static, str>>,
    ) -> super::Reply<()> {
        let nobody = Slot::new(|_| {});
        super::Reply::over(self.open_ask(None, Whom::Port(port), patience, why.into(), nobody))
    }

    /// Handles some messages of a cell. Whether it has more.
    pub fn run(&self, id: CellId) -> bool {
        let Some(cell) = self.cell(id) else { return false };
        let more = (0..TURN_MESSAGES_MAX).all(|_| cell.run_one());
        if more {
            self.0.driver.ring(id);
        }
        more
    }

    /// Handles exactly one message of a cell; for schedulers that choose every step.
    pub fn run_one(&self, id: CellId) -> bool {
        let Some(cell) = self.cell(id) else { return false };
        let more = cell.run_one();
        if more {
            self.0.driver.ring(id);
        }
        more
    }

    /// Fires every timer that is due, then tells the driver of the next.
    pub fn fire_due(&self) {
        let now = self.now();
        loop {
            let due = self.0.timers.borrow_mut().take_due(now);
            match due {
                Some(then) => then(),
                None => break,
            }
        }
        if let Some(next) = self.next_timer() {
            self.0.driver.wake_at(next);
        }
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Time> {
        self.0.timers.borrow().next()
    }

    /// Calls `then` at that time.
    pub fn at(&self, at: Time, then: impl FnOnce() + 'static) -> TimerId {
        let first_before = self.next_timer();
        let id = self.0.timers.borrow_mut().at(at, Box::new(then));
        if first_before.is_none_or(|first| at < first) {
            self.0.driver.wake_at(at);
        }
        id
    }

    /// Forgets a timer; one that fired is fine.
    pub fn cancel(&self, timer: TimerId) {
        let then = self.0.timers.borrow_mut().cancel(timer);
        drop(then);
    }

    /// Monotonic time.
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// Nanoseconds since 1970, UTC.
    pub fn wall(&self) -> u64 {
        self.0.clock.wall()
    }

    /// What each cell shows of itself, in the order of their birth.
    pub fn cells(&self) -> Vec<CellInfo> {
        self.0.cells.borrow().values().map(|cell| cell.info()).collect()
    }

    /// The observable state of one cell; `None` if there is none or it is handling a message.
    pub fn observe(&self, id: CellId) -> Option<serde_json::Value> {
        self.cell(id)?.observe()
    }

    /// Has a cell panic behind the next message that it handles; quietly, for it is meant.
    #[cfg(any(test, feature = "simulation"))]
    pub fn poison(&self, id: CellId) {
        if let Some(cell) = self.cell(id) {
            cell.poison();
        }
    }

    /// Every open wait.
    pub fn with_waits<T>(&self, look: impl FnOnce(&Waits) -> T) -> T {
        look(&self.0.waits.borrow())
    }

    /// Tells the recorder of waits that last. The host does it when a message is handled; whoever
    /// has a clock of his own may have it done while none is.
    pub fn tell_waits(&self) {
        let now = self.now();
        if now >= self.0.lasting.get() {
            let tell = |wait: &Wait| self.record(Record::WaitLasts { wait });
            let next = self.0.waits.borrow_mut().tell_lasting(now, tell);
            self.0.lasting.set(next.unwrap_or(NEVER));
        }
    }

    /// Replaces the recorder, returns the one before.
    pub fn set_recorder(&self, recorder: Box<dyn Recorder>) -> Box<dyn Recorder> {
        self.0.recorder.replace(recorder)
    }

    /// What its thread is at, to be watched from another one.
    pub fn beat(&self) -> Arc<Beat> {
        Arc::clone(&self.0.beat)
    }

    pub(super) fn handling(&self, actor: &str, message: &'static str, since: Time) {
        self.0.beat.begin(actor, message, since);
        if since >= self.0.lasting.get() {
            self.tell_waits();
        }
    }

    pub(super) fn handled(&self) {
        self.0.beat.end();
    }

    /// Keeps a record.
    pub fn record(&self, record: Record<'_>) {
        self.0.recorder.borrow_mut().record(record);
    }

    pub(super) fn open_ask<T: 'static>(
        &self,
        who: Option<CellId>,
        whom: Whom,
        patience: Duration,
        why: Cow<'static, str>,
        slot: Slot<T>,
    ) -> Slot<T> {
        let since = self.now();
        let until = since + patience;
        let id = self.begin_wait(who, whom, why, since, until);
        // The deadline stands in its own slot so that the answer, coming first, takes it along.
        let deadline = Rc::new(std::cell::Cell::new(None));
        let (host, timer) = (self.clone(), Rc::clone(&deadline));
        let outer = Slot::new(move |answer: Result<T, AskError>| {
            if let Some(timer) = timer.take() {
                host.cancel(timer);
            }
            host.end_wait(id, answer.is_ok());
            slot.finish(answer);
        });
        let late = outer.clone();
        deadline.set(Some(self.at(until, move || late.finish(Err(AskError::Deadline)))));
        outer
    }

    pub(super) fn within<T>(&self, current: Current, act: impl FnOnce() -> T) -> T {
        let before = self.0.current.replace(current);
        let result = act();
        self.0.current.set(before);
        result
    }

    /// What is being handled right now.
    pub fn current(&self) -> Current {
        self.0.current.get()
    }

    pub(super) fn next_envelope(&self) -> EnvelopeId {
        EnvelopeId(self.0.next_envelope.replace(self.0.next_envelope.get() + 1))
    }

    pub(super) fn ring(&self, id: CellId) {
        self.0.driver.ring(id);
    }

    /// Lets everything go that holds this host in turn; nothing of it is recorded.
    pub(super) fn end(&self) {
        self.0.recorder.replace(Box::new(NoRecorder));
        let cells = self.0.cells.take();
        let timers = self.0.timers.take();
        let waits = self.0.waits.take();
        drop((cells, timers, waits));
    }

    pub(super) fn forget(&self, id: CellId) {
        let cell = self.0.cells.borrow_mut().remove(&id);
        self.0.driver.stopped(id);
        self.record(Record::Stopped { cell: id, at: self.now() });
        drop(cell);
    }

    fn cell(&self, id: CellId) -> Option<Rc<dyn AnyCell>> {
        self.0.cells.borrow().get(&id).cloned()
    }

    fn begin_wait(
        &self,
        who: Option<CellId>,
        whom: Whom,
        why: Cow<'static, str>,
        since: Time,
        until: Time,
    ) -> WaitId {
        let mut waits = self.0.waits.borrow_mut();
        let wait = waits.begin(who, whom, why, since, until);
        self.0.lasting.set(self.0.lasting.get().min(wait.lasts_from()));
        self.record(Record::WaitBegan { wait });
        wait.id
    }

    fn end_wait(&self, id: WaitId, answered: bool) {
        let ended: Option<Wait> = self.0.waits.borrow_mut().end(id);
        if let Some(wait) = ended {
            self.record(Record::WaitEnded { wait: &wait, answered, at: self.now() });
        }
    }
}

/// Puts a question into a mailbox; a refusal is its answer.
pub(super) fn pose<M, T: 'static>(
    to: &impl Hears<M>,
    slot: Slot<T>,
    make: impl FnOnce(super::Reply<T>) -> M,
) {
    if let Err(refused) = to.hear(make(super::Reply::over(slot.clone()))) {
        slot.finish(Err(if refused.gone { AskError::Gone } else { AskError::Full }));
    }
}
