//! An endpoint's state directory.

use std::{mem, sync::Arc, time::Duration};

use super::{
    Endpoint,
    answers::EndpointAnswer,
    phase::{BuildWait, EndpointPhase, TeardownWait},
};
use crate::{
    host::{AskError, Cx},
    model::Labels,
    ports::{DiskError, FsOp},
    state_directory::{EndpointRecord, OperatorLabels, Options, SecurityLabels},
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

    /// Its state file was written for a build. That goes on, or the teardown does that waited.
    pub(super) fn saved(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), DiskError>, AskError>,
    ) {
        match mem::take(&mut self.phase) {
            EndpointPhase::Building(build, BuildWait::StateFile { edition, brought }) => {
                let error = self.note_saved(edition, answer);
                self.build_saved(cx, build, brought, error.as_deref());
            }
            EndpointPhase::TearingDown(TeardownWait::StateFile { build, edition }, down) => {
                self.note_saved(edition, answer);
                self.tear_down_saved(cx, down, build);
            }
            // Whoever has it written waits for that.
            other => self.phase = other,
        }
    }

    /// Notes what became of the state file: why it was not written, if so.
    fn note_saved(
        &mut self,
        edition: u64,
        answer: Result<Result<(), DiskError>, AskError>,
    ) -> Option<String> {
        let error = match answer {
            Ok(Ok(())) => {
                self.lasting.untidied.clear();
                // Not what was changed while it was being written.
                self.record.on_disk = edition == self.edition;
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        self.remember();
        error
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
