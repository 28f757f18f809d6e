//! An endpoint's state directory.

use std::{sync::Arc, time::Duration};

use super::{Endpoint, answers::EndpointAnswer};
use crate::{
    host::{AskError, Cx},
    model::Labels,
    mutants::{Mutant, mutated},
    ports::{DiskError, FsOp},
    state_directory::{EndpointRecord, OperatorLabels, Options, SecurityLabels, commit_plan},
};

/// How long the disk may take.
const DISK_PATIENCE: Duration = Duration::from_secs(60);

impl Endpoint {
    /// Writes its state directory.
    pub(super) fn save(&mut self, cx: &mut Cx<'_, Self>) {
        self.at_step("state file");
        self.saving = Some(self.edition);
        let ops = commit_plan(&self.record());
        self.write(cx, ops, EndpointAnswer::Saved);
    }

    /// Has its state directories written, behind what was to be done there before.
    pub(super) fn write(
        &mut self,
        cx: &mut Cx<'_, Self>,
        mut ops: Vec<FsOp>,
        then: impl FnOnce(Result<Result<(), DiskError>, AskError>) -> EndpointAnswer + 'static,
    ) {
        ops.splice(0..0, self.seed.untidied.iter().cloned());
        let reply = cx.expect("disk", DISK_PATIENCE, "its state directory", then);
        self.peers.disk.submit(ops, reply);
    }

    pub(super) fn saved(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), DiskError>, AskError>,
    ) {
        let written = self.saving.take();
        let error = match answer {
            Ok(Ok(())) => {
                self.seed.untidied.clear();
                // Not what was changed while it was being written.
                self.on_disk = written == Some(self.edition);
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        self.remember();
        match error {
            _ if self.teardown.is_some() => self.tear_down(cx),
            _ if self.build.is_none() => {}
            None => self.ask_policy(cx),
            // A new pod must not start unless a restart would find it; one that runs goes on:
            // the kernel's own record stands in for the file.
            Some(error) if self.begin.is_some() && !mutated(Mutant::StartedUnsaved) => {
                self.fail(cx, &format!("state was not written: {error}"));
            }
            Some(error) => {
                tracing::error!(endpoint = %self.id, error, "state was not written");
                self.note(cx, "Warning", &format!("state was not written: {error}"));
                self.ask_policy(cx);
            }
        }
    }

    /// Has the next life begin with what is so now.
    pub(super) fn remember(&mut self) {
        let seed = &mut *self.seed;
        seed.spec = Arc::clone(&self.spec);
        seed.identity = self.identity;
        seed.identity_labels = Arc::clone(&self.identity_labels);
        seed.user_labels = self.user_labels.clone();
        seed.options = Arc::clone(&self.options);
        seed.own_options = Arc::clone(&self.own_options);
        seed.on_disk = self.on_disk;
        seed.unlabelled = self.unlabelled;
        seed.deleted = self.teardown.is_some();
    }

    fn record(&self) -> EndpointRecord {
        let (custom, disabled) = &self.user_labels;
        let (identity, info) = self.orchestrator_labels();
        let labels = OperatorLabels {
            custom: Labels::clone(custom),
            orchestration_identity: identity,
            disabled: Labels::clone(disabled),
            orchestration_info: info,
        };
        let security =
            SecurityLabels { id: self.identity, labels: Labels::clone(&self.identity_labels) };
        EndpointRecord {
            id: self.id,
            labels,
            security,
            options: Options { map: Arc::clone(&self.options) },
            own_options: (*self.own_options).clone(),
            generation: 1,
            ..EndpointRecord::from(&*self.spec)
        }
    }
}
