//! The disk port in memory: jobs run step by step, and steps may fail or meet a power cut.
//! The files themselves are in `memory_fs`.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use super::{
    acknowledged::Acknowledged,
    fate::{Fate, Turn},
    memory_fs::MemoryFs,
};
use crate::{
    host::Reply,
    ports::{
        Disk, DiskError, FsOp,
        disk::{FsStep, steps},
    },
};

type DiskReply = Reply<Result<(), DiskError>>;
type OnDiskStep = Box<dyn FnMut(&FsStep)>;

/// A disk in memory that does one step at a time, in order.
#[derive(Clone, Default)]
pub struct MemoryDisk(Rc<MemoryDiskState>);

#[derive(Default)]
struct MemoryDiskState {
    files: RefCell<MemoryFs>,
    jobs: RefCell<VecDeque<DiskJob>>,
    /// What was answered to be done, and what was tried in vain.
    acknowledged: RefCell<Acknowledged>,
    log: RefCell<Vec<FsStep>>,
    unlogged: Cell<bool>,
    watch: RefCell<Option<OnDiskStep>>,
    fate: Fate,
}

struct DiskJob {
    ops: Vec<FsOp>,
    /// What is left of it; `None` before its turn has come.
    left: Option<VecDeque<FsStep>>,
    reply: DiskReply,
}

impl MemoryDisk {
    /// An empty one.
    pub fn new(fate: &Fate) -> Self {
        Self(Rc::new(MemoryDiskState { fate: fate.clone(), ..MemoryDiskState::default() }))
    }

    /// What is on it.
    pub fn files(&self) -> MemoryFs {
        self.0.files.borrow().clone()
    }

    /// Changes what is on it behind everyone's back, for good.
    pub fn tamper(&self, change: impl FnOnce(&mut MemoryFs)) {
        let mut files = self.0.files.borrow_mut();
        change(&mut files);
        files.sync();
        *self.0.acknowledged.borrow_mut() = Acknowledged::all_of(&files);
    }

    /// Every step that was done, in order.
    pub fn log(&self) -> Vec<FsStep> {
        self.0.log.borrow().clone()
    }

    /// Keeps no log from now on: long runs have no use for it.
    pub fn forget_steps(&self) {
        self.0.unlogged.set(true);
    }

    /// Shows each step that was done.
    pub fn watch(&self, watch: impl FnMut(&FsStep) + 'static) {
        *self.0.watch.borrow_mut() = Some(Box::new(watch));
    }

    /// How many jobs are under way.
    pub fn jobs(&self) -> usize {
        self.0.jobs.borrow().len()
    }

    /// Looks at what is on it.
    pub fn with<T>(&self, look: impl FnOnce(&MemoryFs) -> T) -> T {
        look(&self.0.files.borrow())
    }

    /// Does the next step; false if there is none.
    pub fn step(&self) -> bool {
        let Some(mut job) = self.0.jobs.borrow_mut().pop_front() else { return false };
        let left = job.left.get_or_insert_with(|| steps(&job.ops).into());
        let Some(step) = left.pop_front() else {
            self.0.acknowledged.borrow_mut().done(&job.ops, &self.0.files.borrow());
            job.reply.send(Ok(()));
            return true;
        };
        let done = match self.0.fate.turn(step.name()) {
            Turn::Work => self.0.files.borrow_mut().step(&step),
            Turn::Fail | Turn::Refuse(_) | Turn::Half => Err("it was asked to fail".to_owned()),
            Turn::Die => {
                left.push_front(step);
                self.0.jobs.borrow_mut().push_front(job);
                return true;
            }
        };
        match done {
            Ok(()) => {
                self.took_place(step);
                self.0.jobs.borrow_mut().push_front(job);
            }
            Err(cause) => {
                if let Some(path) = step.leaves() {
                    self.0.files.borrow_mut().destroy(&path);
                }
                self.0.acknowledged.borrow_mut().in_doubt(&job.ops);
                let path = "memory".into();
                let remedy = "let it work";
                job.reply.send(Err(DiskError { op: step.name(), path, cause, remedy }));
            }
        }
        true
    }

    fn took_place(&self, step: FsStep) {
        if let Some(watch) = self.0.watch.borrow_mut().as_mut() {
            watch(&step);
        }
        if !self.0.unlogged.get() {
            self.0.log.borrow_mut().push(step);
        }
    }

    /// Forgets what was not done: the agent is dead.
    pub fn forget(&self) {
        let jobs = self.0.jobs.take();
        // The one under way may be done in part.
        if let Some(job) = jobs.front().filter(|job| job.left.is_some()) {
            self.0.acknowledged.borrow_mut().in_doubt(&job.ops);
        }
        drop(jobs);
        *self.0.watch.borrow_mut() = None;
    }

    /// What an agent does before it reads: see [`MemoryFs::sweep`].
    pub fn sweep(&self) {
        self.0.files.borrow_mut().sweep();
    }

    /// The machine lost power, and its agent is dead: of what was not synced `choose` says what is left, of so many
    /// possibilities each. With `tmpfs` the state directory was in memory and is empty. Returns what
    /// is not as it was answered to be.
    pub fn cut_power(&self, tmpfs: bool, choose: &mut dyn FnMut(usize) -> usize) -> Vec<String> {
        let mut files = self.0.files.borrow_mut();
        files.cut_power(choose);
        if tmpfs {
            let all = files.names("");
            let lost = all.iter().filter(|name| *name != "lib");
            lost.for_each(|name| files.destroy(name.as_ref()));
            files.sync();
        }
        let before = self.0.acknowledged.replace(Acknowledged::all_of(&files));
        before.complaints(&files, tmpfs)
    }
}

impl Disk for MemoryDisk {
    fn submit(&self, ops: Vec<FsOp>, reply: DiskReply) {
        self.0.jobs.borrow_mut().push_back(DiskJob { ops, left: None, reply });
    }
}
