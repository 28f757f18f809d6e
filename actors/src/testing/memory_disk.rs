use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use super::fate::{Fate, Turn};
use crate::{
    host::Reply,
    ports::{Disk, DiskError, FsOp},
    state::tests::MemoryFs,
};

type Answer = Reply<Result<(), DiskError>>;

/// A disk in memory that does one step at a time, in order.
#[derive(Clone, Default)]
pub(crate) struct MemoryDisk(Rc<Inner>);

#[derive(Default)]
struct Inner {
    files: RefCell<MemoryFs>,
    jobs: RefCell<VecDeque<(VecDeque<FsOp>, Answer)>>,
    log: RefCell<Vec<FsOp>>,
    fate: Fate,
}

impl MemoryDisk {
    /// An empty one.
    pub(crate) fn new(fate: &Fate) -> Self {
        Self(Rc::new(Inner { fate: fate.clone(), ..Inner::default() }))
    }

    /// What is on it.
    pub(crate) fn files(&self) -> MemoryFs {
        self.0.files.borrow().clone()
    }

    /// Changes what is on it behind everyone's back.
    pub(crate) fn tamper(&self, change: impl FnOnce(&mut MemoryFs)) {
        change(&mut self.0.files.borrow_mut());
    }

    /// Every step that was done, in order.
    pub(crate) fn log(&self) -> Vec<FsOp> {
        self.0.log.borrow().clone()
    }

    /// Does the next step; false if there is none.
    pub(crate) fn step(&self) -> bool {
        let Some((mut ops, reply)) = self.0.jobs.borrow_mut().pop_front() else { return false };
        let Some(op) = ops.pop_front() else {
            reply.send(Ok(()));
            return true;
        };
        match self.0.fate.turn(name(&op)) {
            Turn::Work => {
                self.0.log.borrow_mut().push(op.clone());
                let done = self.0.files.borrow_mut().apply(&op);
                match done {
                    Ok(()) => self.0.jobs.borrow_mut().push_front((ops, reply)),
                    Err(cause) => reply.send(Err(error(&op, cause))),
                }
            }
            Turn::Fail => reply.send(Err(error(&op, "it was asked to fail".to_owned()))),
            Turn::Die => self.0.jobs.borrow_mut().push_front((ops, reply)),
        }
        true
    }

    /// Forgets what was not done: the agent is dead.
    pub(crate) fn forget(&self) {
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
