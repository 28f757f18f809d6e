//! An endpoint's state directory.

use std::{mem, sync::Arc, time::Duration};

use super::{
    Endpoint,
    answers::EndpointAnswer,
    phase::{BuildWait, EndpointPhase, TeardownWait},
    record::Saving,
};
use crate::{
    host::{AskError, Cx},
    model::Labels,
    ports::{DiskError, FsOp},
    state_directory::{EndpointRecord, OperatorLabels, Options, SecurityLabels, commit_plan},
};

/// How long the disk may take.
const DISK_PATIENCE: Duration = Duration::from_secs(60);

impl Endpoint {
    /// Has its state directories written, behind what was to be done there before.
    pub(super) fn write(
        &mut self,
        cx: &mut Cx<'_, Self>,
        mut ops: Vec<FsOp>,
        then: impl FnOnce(Result<Result<(), DiskError>, AskError>) -> EndpointAnswer + 'static,
    ) {
        ops.splice(0..0, self.lasting.untidied.iter().cloned());
        let reply = cx.expect("disk", DISK_PATIENCE, "its state directory", then);
        self.peers.disk.submit(ops, reply);
    }

    /// Its state file says no more what is so.
    pub(super) fn outdate(&mut self) {
        self.record.on_disk = false;
        self.saving.outdated = true;
    }

    /// Whether its state file, if there is one, says something else than the kernel's record is to say. That of a
    /// new endpoint is on its way, and there is no older one.
    pub(super) fn is_unsaved(&self) -> bool {
        !(self.record.on_disk || self.is_new() && self.saving.error.is_none())
    }

    /// Has its state file written as it is to be now.
    pub(super) fn save(&mut self, cx: &mut Cx<'_, Self>) {
        let writes = self.saving.writes + 1;
        self.saving = Saving { writes, is_under_way: true, ..Saving::default() };
        let ops = commit_plan(&self.state_file());
        self.write(cx, ops, move |answer| EndpointAnswer::Saved(writes, answer));
    }

    /// Its state file was written, or not. Who waited for that goes on: a build, or the teardown.
    pub(super) fn saved(
        &mut self,
        cx: &mut Cx<'_, Self>,
        write: u64,
        answer: Result<Result<(), DiskError>, AskError>,
    ) {
        let error = match answer {
            Ok(Ok(())) => {
                self.lasting.untidied.clear();
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if write != self.saving.writes {
            // The disk has a newer one behind it.
            return self.remember();
        }
        // Not what was changed while it was being written.
        self.record.on_disk = error.is_none() && !self.saving.outdated;
        self.remember();
        (self.saving.is_under_way, self.saving.error) = (false, error);
        match mem::take(&mut self.phase) {
            EndpointPhase::Building(build, BuildWait::StateFile(next)) => {
                self.advance(cx, build, next);
            }
            EndpointPhase::TearingDown(TeardownWait::StateFile, down) => {
                self.take_all_down(cx, down);
            }
            // Nobody has come so far yet.
            other => self.phase = other,
        }
    }

    /// Has the next run begin with what is so.
    pub(super) fn remember(&mut self) {
        self.lasting.record = self.record.clone();
    }

    /// What its state file is to hold.
    pub(super) fn state_file(&self) -> EndpointRecord {
        let (custom, disabled) = &self.record.user_labels;
        let (identity, info) = self.orchestrator_labels();
        let labels = OperatorLabels {
            custom: Labels::clone(custom),
            orchestration_identity: identity,
            disabled: Labels::clone(disabled),
            orchestration_info: info,
        };
        let security = SecurityLabels {
            id: self.record.identity,
            labels: Labels::clone(&self.record.identity_labels),
        };
        EndpointRecord {
            id: self.id,
            labels,
            security,
            options: Options { map: Arc::clone(&self.record.options) },
            own_options: (*self.record.own_options).clone(),
            generation: 1,
            ..EndpointRecord::from(&*self.record.spec)
        }
    }
}
