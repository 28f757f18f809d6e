//! One job on its way through the lanes: its steps go in order, up to the first that fails, and the
//! recorder hears when each began and ended.

use std::{iter, mem, rc::Rc, vec};

use volvox_actors::{
    host::{About, AskError, Clock, Current, KernelStep, Record, Reply, Time},
    ports::{KernelDone, KernelError, KernelJob, KernelOp, KernelOutcome},
};
use volvox_system::SystemClock;

use super::{Lanes, hooks::Place, step::Stepper};

/// When a thread began with a step, and when it had done it.
#[derive(Clone, Copy)]
struct Span {
    started: Time,
    ended: Time,
}

/// What came of a step in a lane of its own.
pub(super) struct Timed<T> {
    done: Result<T, KernelError>,
    span: Span,
}

impl<T> Timed<T> {
    /// Does one step.
    pub(super) fn of(work: impl FnOnce() -> Result<T, KernelError>) -> Self {
        let started = SystemClock.now();
        let done = work();
        Self { done, span: Span { started, ended: SystemClock.now() } }
    }
}

/// Does many steps at once; each took as long as all.
pub(super) fn timed<T>(work: impl FnOnce() -> Vec<Result<T, KernelError>>) -> Vec<Timed<T>> {
    let started = SystemClock.now();
    let all = work();
    let span = Span { started, ended: SystemClock.now() };
    all.into_iter().map(|done| Timed { done, span }).collect()
}

/// What came of a stretch of a job in the pool.
pub(super) struct Stretch {
    outcomes: Vec<KernelOutcome>,
    failed: Option<KernelError>,
    /// Of each step, also of the one that failed.
    spans: Vec<Span>,
}

/// Does steps in order, up to one that fails.
pub(super) fn stretch(stepper: &mut Stepper, ops: Vec<KernelOp>) -> Stretch {
    let mut stretch = Stretch {
        outcomes: Vec::with_capacity(ops.len()),
        failed: None,
        spans: Vec::with_capacity(ops.len()),
    };
    let mut started = SystemClock.now();
    for op in ops {
        let done = stepper.step(op);
        let ended = SystemClock.now();
        stretch.spans.push(Span { started, ended });
        started = ended;
        match done {
            Ok(outcome) => stretch.outcomes.push(outcome),
            Err(error) => {
                stretch.failed = Some(error);
                break;
            }
        }
    }
    stretch
}

/// A step that is with a lane, for the trace.
struct Reported {
    op: &'static str,
    about: About,
    write: bool,
}

impl Reported {
    fn of(op: &KernelOp) -> Self {
        Self { op: op.name(), about: op.about(), write: op.writes() }
    }
}

/// A job under way.
pub(super) struct Run {
    left: vec::IntoIter<KernelOp>,
    outcomes: Vec<KernelOutcome>,
    reply: Reply<KernelDone>,
    /// Who desired it, and over what.
    by: Current,
    /// The steps that a lane has now, and since when.
    with_lane: Vec<Reported>,
    submitted: Time,
}

/// Whether a step is the pool's.
fn is_pooled(op: &KernelOp) -> bool {
    !matches!(
        op,
        KernelOp::FlipPolicy { .. }
            | KernelOp::ClearSlot { .. }
            | KernelOp::Settle { .. }
            | KernelOp::ScrubConntrack { .. }
            | KernelOp::CollectConntrack { .. }
            | KernelOp::LoadPrograms
    )
}

/// Whether a step works at an interface or a route.
fn is_at_interface(op: &KernelOp) -> bool {
    matches!(
        op,
        KernelOp::Attach { .. }
            | KernelOp::Detach { .. }
            | KernelOp::LinkUp { .. }
            | KernelOp::LinkDown { .. }
            | KernelOp::DeletePair { .. }
            | KernelOp::PutRoute { .. }
            | KernelOp::DeleteRoute { .. }
    )
}

impl Run {
    pub(super) fn new(job: KernelJob, reply: Reply<KernelDone>) -> Self {
        Self {
            left: job.ops.into_iter(),
            outcomes: Vec::new(),
            reply,
            by: job.by,
            with_lane: Vec::new(),
            submitted: Time::default(),
        }
    }

    /// Hands the next stretch to its lane, or answers.
    pub(super) fn go_on(mut self, lanes: &Rc<Lanes>) {
        self.submitted = lanes.host.now();
        let stretch = self.left.as_slice().iter().take_while(|op| is_pooled(op)).count();
        if stretch > 0 {
            return self.hand_to_pool(stretch, lanes);
        }
        let Some(op) = self.left.next() else { return self.end(None) };
        self.with_lane.push(Reported::of(&op));
        match op {
            KernelOp::FlipPolicy { slot } => {
                lanes.flip.submit(slot, self.after_write(lanes));
            }
            KernelOp::ClearSlot { slot } => {
                let slots: Vec<_> = iter::once(slot).chain(self.clears()).collect();
                lanes.clear.submit(slots, self.after_write(lanes));
            }
            KernelOp::Settle { endpoint, ifindex } => {
                lanes.settle.submit(Place { endpoint, ifindex }, self.after_write(lanes));
            }
            KernelOp::ScrubConntrack { addresses } => {
                lanes.scrub.submit(addresses, self.after_write(lanes));
            }
            KernelOp::CollectConntrack { families, backends } => {
                lanes.collect.submit((families, backends), self.after(lanes));
            }
            _ => lanes.load.submit((), self.after_write(lanes)),
        }
    }

    fn hand_to_pool(mut self, steps: usize, lanes: &Rc<Lanes>) {
        let pooled: Vec<_> = self.left.by_ref().take(steps).collect();
        self.with_lane.extend(pooled.iter().map(Reported::of));
        let next = Rc::clone(lanes);
        let at_interfaces = pooled.iter().any(is_at_interface);
        if at_interfaces {
            lanes.pace.begin();
        }
        let reply = Reply::to(move |stretch| {
            if at_interfaces {
                next.pace.end();
            }
            self.stretched(stretch, &next);
        });
        lanes.pool.submit(pooled, reply);
    }

    fn stretched(mut self, stretch: Result<Stretch, AskError>, lanes: &Rc<Lanes>) {
        // Where the worker panicked there is no answer, and dropping the reply says so.
        let Ok(Stretch { outcomes, failed, spans }) = stretch else { return };
        self.tell(spans, failed.as_ref(), lanes);
        self.outcomes.extend(outcomes);
        match failed {
            None => self.go_on(lanes),
            Some(error) => self.end(Some(error)),
        }
    }

    /// Goes on when a step is done.
    fn after(self, lanes: &Rc<Lanes>) -> Reply<Timed<KernelOutcome>> {
        let next = Rc::clone(lanes);
        Reply::to(move |done| self.stepped(done, &next))
    }

    /// Goes on when the steps are done of which none reads anything.
    fn after_write(self, lanes: &Rc<Lanes>) -> Reply<Timed<()>> {
        let next = Rc::clone(lanes);
        Reply::to(move |timed: Result<Timed<()>, _>| {
            let done = timed.map(|Timed { done, span }| Timed {
                done: done.map(|()| KernelOutcome::Done),
                span,
            });
            self.stepped(done, &next);
        })
    }

    /// Takes the slots of further steps that empty one: together they cost no more than one.
    fn clears(&mut self) -> Vec<u32> {
        let mut slots = Vec::new();
        while let Some(KernelOp::ClearSlot { slot }) = self.left.as_slice().first() {
            slots.push(*slot);
            self.with_lane.extend(self.left.next().as_ref().map(Reported::of));
        }
        slots
    }

    fn stepped(mut self, timed: Result<Timed<KernelOutcome>, AskError>, lanes: &Rc<Lanes>) {
        let Ok(Timed { done, span }) = timed else { return };
        let steps = self.with_lane.len();
        self.tell(iter::repeat_n(span, steps), done.as_ref().err(), lanes);
        match done {
            Ok(outcome) => {
                self.outcomes.extend(iter::repeat_n(outcome, steps));
                self.go_on(lanes);
            }
            Err(error) => self.end(Some(error)),
        }
    }

    /// Tells the recorder what the lane did: in order, the last of it failed if something did.
    fn tell(
        &mut self,
        spans: impl IntoIterator<Item = Span, IntoIter: ExactSizeIterator>,
        failed: Option<&KernelError>,
        lanes: &Lanes,
    ) {
        let spans = spans.into_iter();
        let failed = failed.map(ToString::to_string);
        let last = spans.len().saturating_sub(1);
        for (at, (reported, span)) in
            mem::take(&mut self.with_lane).into_iter().zip(spans).enumerate()
        {
            lanes.host.record(Record::Kernel(KernelStep {
                cell: self.by.cell,
                cause: self.by.envelope,
                root: self.by.root,
                op: reported.op,
                about: reported.about,
                write: reported.write,
                submitted: self.submitted,
                started: span.started,
                ended: span.ended,
                failed: failed.as_deref().filter(|_| at == last),
            }));
        }
    }

    fn end(self, failed: Option<KernelError>) {
        let at = self.outcomes.len();
        let failed = failed.map(|error| (at, error));
        self.reply.send(KernelDone { outcomes: self.outcomes, failed });
    }
}
