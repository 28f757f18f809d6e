//! The kernel port in memory: it queues jobs and runs their steps in the order that a test chooses.
//! What a step changes is in `kernel_state`.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use super::{
    fate::{Fate, Turn},
    kernel_services,
    kernel_state::{KernelState, is_read, refused},
};
use crate::{
    host::{Current, Host, KernelStep, Record, Reply, Time},
    ports::{Kernel, KernelDone, KernelError, KernelJob, KernelOp, KernelOutcome, Refusal},
};

type OnKernelStep = Box<dyn FnMut(&KernelState, &KernelOp)>;
type StepFilter = Box<dyn Fn(&KernelOp) -> bool>;

/// A kernel in memory. It does one step at a time when it is told to, so that steps of several
/// jobs may come in any order, and fails as its [`Fate`] says.
#[derive(Clone, Default)]
pub struct MemoryKernel(Rc<MemoryKernelState>);

#[derive(Default)]
struct MemoryKernelState {
    state: RefCell<KernelState>,
    jobs: RefCell<VecDeque<Run>>,
    log: RefCell<Vec<KernelOp>>,
    unlogged: Cell<bool>,
    watch: RefCell<Option<OnKernelStep>>,
    host: RefCell<Option<Host>>,
    holds: Cell<bool>,
    stalled: RefCell<Option<StepFilter>>,
    refused: RefCell<Option<StepFilter>>,
    fate: Fate,
}

/// A job under way.
struct Run {
    left: VecDeque<KernelOp>,
    outcomes: Vec<KernelOutcome>,
    reply: Reply<KernelDone>,
    /// Over which message it was asked for, and when, if that is recorded.
    by: Current,
    submitted: Time,
}

impl MemoryKernel {
    /// One without interfaces.
    pub fn new(fate: &Fate) -> Self {
        Self(Rc::new(MemoryKernelState { fate: fate.clone(), ..MemoryKernelState::default() }))
    }

    /// What it holds.
    pub fn state(&self) -> KernelState {
        self.0.state.borrow().clone()
    }

    /// Changes what it holds behind everyone's back.
    pub fn tamper(&self, change: impl FnOnce(&mut KernelState)) {
        change(&mut self.0.state.borrow_mut());
    }

    /// Every step that changed something, in order.
    pub fn writes(&self) -> Vec<KernelOp> {
        self.0.log.borrow().clone()
    }

    /// Keeps no log from now on: long runs have no use for it.
    pub fn forget_steps(&self) {
        self.0.unlogged.set(true);
    }

    /// Looks at what it holds.
    pub fn with<T>(&self, look: impl FnOnce(&KernelState) -> T) -> T {
        look(&self.0.state.borrow())
    }

    /// Shows each step that was done, and what the kernel holds then.
    pub fn watch(&self, watch: impl FnMut(&KernelState, &KernelOp) + 'static) {
        *self.0.watch.borrow_mut() = Some(Box::new(watch));
    }

    /// Has steps recorded, as those of production are, until the agent dies.
    pub fn record_to(&self, host: &Host) {
        *self.0.host.borrow_mut() = Some(host.clone());
    }

    /// From now on nothing is done, or again.
    pub fn hold(&self, holds: bool) {
        self.0.holds.set(holds);
    }

    /// From now on jobs stop at steps of which that is true, and others go on.
    pub fn stall(&self, stalled: impl Fn(&KernelOp) -> bool + 'static) {
        *self.0.stalled.borrow_mut() = Some(Box::new(stalled));
    }

    /// From now on steps are refused of which that is true.
    pub fn refuse(&self, refused: impl Fn(&KernelOp) -> bool + 'static) {
        *self.0.refused.borrow_mut() = Some(Box::new(refused));
    }

    /// How many jobs are under way.
    pub fn jobs(&self) -> usize {
        self.0.jobs.borrow().len()
    }

    /// How many of these are not stopped.
    pub fn able(&self) -> usize {
        (0..self.jobs()).take_while(|nth| self.going_on(*nth).is_some()).count()
    }

    /// Does the next step of the `nth` job; false if there is none.
    pub fn step(&self, nth: usize) -> bool {
        if self.0.holds.get() {
            return false;
        }
        let Some(nth) = self.going_on(nth) else { return false };
        let Some(mut run) = self.0.jobs.borrow_mut().remove(nth) else { return false };
        let Some(op) = run.left.pop_front() else {
            run.reply.send(KernelDone { outcomes: run.outcomes, failed: None });
            return true;
        };
        let done = match self.0.fate.turn(op.name()) {
            Turn::Work if self.0.is_refused(&op) => Err(refused(op.name(), Refusal::Other)),
            Turn::Work => self.0.state.borrow_mut().step(&op),
            Turn::Fail => Err(refused(op.name(), Refusal::Other)),
            Turn::Refuse(refusal) => Err(refused(op.name(), refusal)),
            Turn::Half => {
                let first = half(&op);
                if let Some(first) = first {
                    let done = self.0.state.borrow_mut().step(&first);
                    if done.is_ok() {
                        self.took_place(&first);
                    }
                }
                Err(refused(op.name(), Refusal::NoMemory))
            }
            Turn::Die => {
                run.left.push_front(op);
                self.0.jobs.borrow_mut().insert(nth, run);
                return true;
            }
        };
        self.record(&run, &op, done.as_ref().err());
        match done {
            Ok(outcome) => {
                self.took_place(&op);
                run.outcomes.push(outcome);
                self.0.jobs.borrow_mut().insert(nth, run);
            }
            Err(error) => {
                let failed = Some((run.outcomes.len(), error));
                run.reply.send(KernelDone { outcomes: run.outcomes, failed });
            }
        }
        true
    }

    /// Place of the `nth` job that is not stopped.
    fn going_on(&self, nth: usize) -> Option<usize> {
        let (jobs, stalled) = (self.0.jobs.borrow(), self.0.stalled.borrow());
        let stops =
            |run: &Run| run.left.front().zip(stalled.as_ref()).is_some_and(|(op, is)| is(op));
        jobs.iter().enumerate().filter(|(_, run)| !stops(run)).map(|(at, _)| at).nth(nth)
    }

    fn record(&self, run: &Run, op: &KernelOp, failed: Option<&KernelError>) {
        let Some(host) = self.0.host.borrow().clone() else { return };
        let now = host.now();
        let failed = failed.map(ToString::to_string);
        host.record(Record::Kernel(KernelStep {
            cell: run.by.cell,
            cause: run.by.envelope,
            root: run.by.root,
            op: op.name(),
            about: op.about(),
            write: op.writes(),
            submitted: run.submitted,
            started: now,
            ended: now,
            failed: failed.as_deref(),
        }));
    }

    fn took_place(&self, op: &KernelOp) {
        if is_read(op) {
            return;
        }
        if !self.0.unlogged.get() {
            self.0.log.borrow_mut().push(op.clone());
        }
        if let Some(watch) = self.0.watch.borrow_mut().as_mut() {
            watch(&self.0.state.borrow(), op);
        }
    }

    /// Forgets what was not done: the agent is dead. What was built aside goes with it.
    pub fn forget(&self) {
        // One that goes may let the next begin.
        while self.jobs() > 0 {
            let jobs = self.0.jobs.take();
            drop(jobs);
        }
        self.0.holds.set(false);
        *self.0.watch.borrow_mut() = None;
        *self.0.host.borrow_mut() = None;
        *self.0.stalled.borrow_mut() = None;
        *self.0.refused.borrow_mut() = None;
        self.0.state.borrow_mut().aside = BTreeMap::new();
    }
}

impl MemoryKernelState {
    fn is_refused(&self, op: &KernelOp) -> bool {
        self.refused.borrow().as_ref().is_some_and(|refused| refused(op))
    }
}

/// The first half of a batch; `None` if the step is none.
fn half(op: &KernelOp) -> Option<KernelOp> {
    Some(match op {
        KernelOp::PutIpcache(rows) => KernelOp::PutIpcache(rows[..rows.len() / 2].to_vec()),
        KernelOp::DeleteIpcache(all) => KernelOp::DeleteIpcache(all[..all.len() / 2].to_vec()),
        KernelOp::PutUnmasqueraded(all) => {
            KernelOp::PutUnmasqueraded(all[..all.len() / 2].to_vec())
        }
        other => return kernel_services::half(other),
    })
}

impl Kernel for MemoryKernel {
    fn submit(&self, job: KernelJob, reply: Reply<KernelDone>) {
        let host = self.0.host.borrow();
        let submitted = host.as_ref().map(Host::now).unwrap_or_default();
        let (left, by) = (job.ops.into(), job.by);
        let run = Run { left, outcomes: Vec::new(), reply, by, submitted };
        self.0.jobs.borrow_mut().push_back(run);
    }
}
