//! What a build asks of the disk and of other actors, and what each answer makes of it.

use std::{rc::Rc, sync::Arc, time::Duration};

use ipnet::IpNet;

use super::super::{
    Endpoint,
    answers::EndpointAnswer,
    phase::{Build, BuildWait},
    stage::BuildStage,
    target::TargetPolicy,
};
use crate::{
    endpoints::build_queue::{BuildQueueMsg, Permit},
    host::{AskError, Cx},
    mutants::{Mutant, mutated},
    policy::{
        ipcache::{IpcacheEntry, IpcacheMsg},
        rules::{EndpointPolicy, PolicyMsg},
    },
    ports::KernelError,
};

/// How long the policy may take; it waits for the first manifests at start.
const POLICY_PATIENCE: Duration = Duration::from_secs(60);
/// How long a permit may take: the whole node may be building.
const PERMIT_PATIENCE: Duration = Duration::from_secs(300);
/// How long the ipcache may take; it retries behind its answer.
const MAP_PATIENCE: Duration = Duration::from_secs(30);

impl Endpoint {
    /// The state file was not written. Why the build fails, if it does.
    pub(super) fn save_failed(&mut self, cx: &Cx<'_, Self>) -> Option<String> {
        let error = format!("state was not written: {}", self.saving.error.take()?);
        // A new pod must not start unless a restart would find it; one that runs goes on: the
        // kernel's own record stands in for the file.
        if self.is_new() && !mutated(Mutant::StartedUnsaved) {
            return Some(error);
        }
        tracing::error!(endpoint = %self.id, error);
        self.note(cx, "Warning", &error);
        None
    }

    /// Has the policy told.
    pub(super) fn ask_policy(&mut self, cx: &mut Cx<'_, Self>, build: Build) {
        let subject = self.subject();
        let peers = Rc::clone(&self.peers);
        let why = "the policy of its identity";
        if self.may_keep() {
            let make = |reply| PolicyMsg::ResolveOrKeep { subject, reply };
            let then = EndpointAnswer::ResolvedOrRetained;
            cx.ask(&peers.policy, POLICY_PATIENCE, why, make, then);
        } else {
            let make = |reply| PolicyMsg::Resolve { subject, reply };
            cx.ask(&peers.policy, POLICY_PATIENCE, why, make, EndpointAnswer::Resolved);
        }
        self.wait(build, BuildWait::Policy);
    }

    pub(in super::super) fn resolved_or_kept(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Option<Arc<EndpointPolicy>>, AskError>,
    ) {
        if matches!(answer, Ok(None)) {
            self.await_policies(cx);
        }
        self.resolved(
            cx,
            answer.map(|policy| policy.map_or(TargetPolicy::Retained, TargetPolicy::Resolved)),
        );
    }

    pub(in super::super) fn resolved(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<TargetPolicy, AskError>,
    ) {
        let taken = self.phase.take_build(|awaited| match awaited {
            BuildWait::Policy => Ok(()),
            other => Err(other),
        });
        let Some((build, ())) = taken else { return };
        match answer {
            Ok(target) => self.advance(cx, build, BuildStage::Compare(target)),
            Err(error) => self.fail(cx, build, &format!("policy was not computed: {error}")),
        }
    }

    /// Has a permit given.
    pub(super) fn ask_permit(&mut self, cx: &mut Cx<'_, Self>, build: Build, target: TargetPolicy) {
        let (endpoint, class) = (self.id, build.trigger.class);
        let peers = Rc::clone(&self.peers);
        cx.ask(
            &peers.build_queue,
            PERMIT_PATIENCE,
            "a build permit",
            |reply| BuildQueueMsg::Acquire { endpoint, class, reply },
            EndpointAnswer::Permitted,
        );
        self.wait(build, BuildWait::Permit(target));
    }

    pub(in super::super) fn permitted(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Permit, AskError>,
    ) {
        let taken = self.phase.take_build(|awaited| match awaited {
            BuildWait::Permit(target) => Ok(target),
            other => Err(other),
        });
        let Some((build, target)) = taken else { return };
        match answer {
            Ok(permit) => self.advance(cx, build, BuildStage::Permitted(target, permit)),
            Err(error) => self.fail(cx, build, &format!("no build permit: {error}")),
        }
    }

    /// What others are to know of its addresses, unless they do.
    pub(super) fn unmapped_entries(&self) -> Option<Vec<(IpNet, IpcacheEntry)>> {
        let entries = self.ipcache_entries();
        (self.mapped.as_ref() != Some(&entries)).then_some(entries)
    }

    /// Has others learn which identity its addresses have.
    pub(super) fn map_addresses(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        target: TargetPolicy,
        entries: Vec<(IpNet, IpcacheEntry)>,
    ) {
        let peers = Rc::clone(&self.peers);
        let reported = entries.clone();
        cx.ask(
            &peers.ipcache,
            MAP_PATIENCE,
            "its addresses in the ipcache",
            |reply| IpcacheMsg::Upsert { entries, reply },
            move |answer| EndpointAnswer::Mapped(reported, answer),
        );
        self.wait(build, BuildWait::Ipcache(target));
    }

    pub(in super::super) fn mapped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        reported: Vec<(IpNet, IpcacheEntry)>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        self.mapped = matches!(answer, Ok(Ok(()))).then_some(reported);
        let taken = self.phase.take_build(|awaited| match awaited {
            BuildWait::Ipcache(target) => Ok(target),
            other => Err(other),
        });
        let Some((build, target)) = taken else { return };
        let error = match answer {
            Ok(Ok(())) => return self.advance(cx, build, BuildStage::Done(target)),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        self.fail_after(cx, build, &target, &format!("ipcache was not written: {error}"));
    }
}
