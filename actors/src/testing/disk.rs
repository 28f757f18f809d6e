//! A fake disk for tests of one actor: the test answers each submission itself.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    rc::Rc,
};

use crate::{
    host::Reply,
    ports::{Disk, DiskError, FsOp},
    state_directory::StateFiles,
};

type PendingWrite = (Vec<FsOp>, Reply<Result<(), DiskError>>);

/// A disk that keeps steps until the test answers them.
#[derive(Default)]
pub(crate) struct FakeDisk {
    pending: RefCell<VecDeque<PendingWrite>>,
    files: RefCell<BTreeMap<PathBuf, Vec<u8>>>,
}

impl FakeDisk {
    pub(crate) fn new() -> Rc<Self> {
        Rc::default()
    }

    /// How many submissions wait for an answer.
    pub(crate) fn pending(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Does the oldest submission: whole files are written, other steps are only taken note of.
    pub(crate) fn succeed(&self) -> Vec<FsOp> {
        let (ops, reply) = self.take();
        for op in &ops {
            if let FsOp::Write { path, bytes } = op {
                self.files.borrow_mut().insert(path.clone(), bytes.clone());
            }
        }
        reply.send(Ok(()));
        ops
    }

    /// Fails the oldest submission.
    pub(crate) fn fail(&self) {
        let (_, reply) = self.take();
        reply.send(Err(Self::error()));
    }

    /// The error that [`FakeDisk::fail`] answers with.
    pub(crate) fn error() -> DiskError {
        DiskError {
            op: "write",
            path: "lib/identities.json".into(),
            cause: "no space left".into(),
            remedy: "free some",
        }
    }

    fn take(&self) -> PendingWrite {
        self.pending.borrow_mut().pop_front().expect("something was submitted")
    }
}

impl Disk for FakeDisk {
    fn submit(&self, ops: Vec<FsOp>, reply: Reply<Result<(), DiskError>>) {
        self.pending.borrow_mut().push_back((ops, reply));
    }
}

/// What is on it, for whoever starts again.
impl StateFiles for FakeDisk {
    fn directories(&self, _: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.files.borrow().get(&PathBuf::from(path)).cloned())
    }
}
