//! A batch of ipcache writes: the kernel job that it becomes, and how to read the job's result.

use ipnet::IpNet;

use crate::ports::{IpcacheRow, KernelDone, KernelError, KernelJob, KernelOp, Refusal};

/// Rows that are written together: additions first, so that no address is unknown in between.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct IpcacheBatch {
    pub(super) puts: Vec<(IpNet, IpcacheRow)>,
    pub(super) deletes: Vec<IpNet>,
    /// Whether it only removes, because additions found no room.
    pub(super) makes_room: bool,
}

/// How one kind of row fared.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RowsOutcome {
    /// All are in the kernel.
    Written,
    /// Any number of them may be.
    Unknown(KernelError),
    /// None is: what came before failed.
    Untouched(KernelError),
}

impl IpcacheBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty()
    }

    pub(super) fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        self.puts.iter().map(|&(prefix, _)| prefix).chain(self.deletes.iter().copied())
    }

    pub(super) fn job(&self) -> KernelJob {
        let puts = (!self.puts.is_empty()).then(|| KernelOp::PutIpcache(self.puts.clone()));
        let deletes =
            (!self.deletes.is_empty()).then(|| KernelOp::DeleteIpcache(self.deletes.clone()));
        KernelJob::new(puts.into_iter().chain(deletes).collect())
    }

    /// How additions and removals fared.
    pub(super) fn fates(
        &self,
        done: Result<KernelDone, KernelError>,
    ) -> (RowsOutcome, RowsOutcome) {
        match done {
            Err(error) => (RowsOutcome::Unknown(error.clone()), RowsOutcome::Unknown(error)),
            Ok(KernelDone { failed: None, .. }) => (RowsOutcome::Written, RowsOutcome::Written),
            Ok(KernelDone { failed: Some((0, error)), .. }) if !self.puts.is_empty() => {
                (RowsOutcome::Unknown(error.clone()), RowsOutcome::Untouched(error))
            }
            Ok(KernelDone { failed: Some((_, error)), .. }) => {
                (RowsOutcome::Written, RowsOutcome::Unknown(error))
            }
        }
    }
}

impl RowsOutcome {
    pub(super) fn found_no_room(&self) -> bool {
        matches!(self, Self::Unknown(error) if error.refusal == Refusal::MapFull)
    }

    pub(super) fn result(&self) -> Result<(), KernelError> {
        match self {
            Self::Written => Ok(()),
            Self::Unknown(error) | Self::Untouched(error) => Err(error.clone()),
        }
    }
}
