//! A fake kernel for tests of one actor: the test answers each job itself.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use crate::{
    host::Reply,
    ports::{Kernel, KernelDone, KernelError, KernelJob, KernelOp, KernelOutcome, Refusal},
};

/// A kernel that keeps jobs until the test answers them.
#[derive(Default)]
pub(crate) struct FakeKernel(RefCell<VecDeque<(KernelJob, Reply<KernelDone>)>>);

impl FakeKernel {
    pub(crate) fn new() -> Rc<Self> {
        Rc::default()
    }

    /// How many jobs wait for an answer.
    pub(crate) fn pending(&self) -> usize {
        self.0.borrow().len()
    }

    /// Does the oldest job; returns its steps.
    pub(crate) fn succeed(&self) -> Vec<KernelOp> {
        self.answer(|_| KernelOutcome::Done)
    }

    /// Does the oldest job, each step with the outcome that `of` says; returns its steps.
    pub(crate) fn answer(&self, of: impl FnMut(&KernelOp) -> KernelOutcome) -> Vec<KernelOp> {
        let (job, reply) = self.take();
        reply.send(KernelDone { outcomes: job.ops.iter().map(of).collect(), failed: None });
        job.ops
    }

    /// Fails the oldest job's first step; returns its steps.
    pub(crate) fn fail(&self) -> Vec<KernelOp> {
        let (job, reply) = self.take();
        reply.send(KernelDone { outcomes: Vec::new(), failed: Some((0, Self::error())) });
        job.ops
    }

    /// The error that [`FakeKernel::fail`] answers with.
    pub(crate) fn error() -> KernelError {
        KernelError {
            op: "update",
            about: "a map".into(),
            cause: "no space".into(),
            remedy: "make room",
            refusal: Refusal::MapFull,
        }
    }

    fn take(&self) -> (KernelJob, Reply<KernelDone>) {
        self.0.borrow_mut().pop_front().expect("a job was submitted")
    }
}

impl Kernel for FakeKernel {
    fn submit(&self, job: KernelJob, reply: Reply<KernelDone>) {
        self.0.borrow_mut().push_back((job, reply));
    }
}
