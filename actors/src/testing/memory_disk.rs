use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use super::{
    fate::{Fate, Turn},
    memory_fs::MemoryFs,
};
use crate::{
    host::Reply,
    ports::{Disk, DiskError, FsOp},
};

type Answer = Reply<Result<(), DiskError>>;

/// A disk in memory that does one step at a time, in order.
#[derive(Clone, Default)]
pub struct MemoryDisk(Rc<Inner>);

#[derive(Default)]
struct Inner {
    files: RefCell<MemoryFs>,
    jobs: RefCell<VecDeque<(VecDeque<FsOp>, Answer)>>,
    log: RefCell<Vec<FsOp>>,
    unlogged: Cell<bool>,
    fate: Fate,
}

impl MemoryDisk {
    /// An empty one.
    pub fn new(fate: &Fate) -> Self {
        Self(Rc::new(Inner { fate: fate.clone(), ..Inner::default() }))
    }

    /// What is on it.
    pub fn files(&self) -> MemoryFs {
        self.0.files.borrow().clone()
    }

    /// Changes what is on it behind everyone's back.
    pub fn tamper(&self, change: impl FnOnce(&mut MemoryFs)) {
        change(&mut self.0.files.borrow_mut());
    }

    /// Every step that was done, in order.
    pub fn log(&self) -> Vec<FsOp> {
        self.0.log.borrow().clone()
    }

    /// Keeps no log from now on: long runs have no use for it.
    pub fn forget_steps(&self) {
        self.0.unlogged.set(true);
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
        let Some((mut ops, reply)) = self.0.jobs.borrow_mut().pop_front() else { return false };
        let Some(op) = ops.pop_front() else {
            reply.send(Ok(()));
            return true;
        };
        match self.0.fate.turn(name(&op)) {
            Turn::Work => {
                if !self.0.unlogged.get() {
                    self.0.log.borrow_mut().push(op.clone());
                }
                let done = self.0.files.borrow_mut().apply(&op);
                match done {
                    Ok(()) => self.0.jobs.borrow_mut().push_front((ops, reply)),
                    Err(cause) => reply.send(Err(error(&op, cause))),
                }
            }
            Turn::Fail | Turn::Refuse(_) | Turn::Half => {
                reply.send(Err(error(&op, "it was asked to fail".to_owned())))
            }
            Turn::Die => self.0.jobs.borrow_mut().push_front((ops, reply)),
        }
        true
    }

    /// Forgets what was not done: the agent is dead.
    pub fn forget(&self) {
        let jobs = self.0.jobs.take();
        drop(jobs);
    }
}

impl Disk for MemoryDisk {
    fn submit(&self, ops: Vec<FsOp>, reply: Answer) {
        self.0.jobs.borrow_mut().push_back((ops.into(), reply));
    }
}

fn name(op: &FsOp) -> &'static str {
    match op {
        FsOp::MakeDir(_) => "MakeDir",
        FsOp::Write { .. } => "Write",
        FsOp::LinkMissing { .. } => "LinkMissing",
        FsOp::Exchange(..) => "Exchange",
        FsOp::Rename(..) => "Rename",
        FsOp::Remove(_) => "Remove",
    }
}

fn error(op: &FsOp, cause: String) -> DiskError {
    DiskError { op: name(op), path: "memory".into(), cause, remedy: "let it work" }
}
