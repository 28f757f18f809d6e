//! Addresses of nodes on their way into the ipcache. An identity that stands for labels is kept on
//! disk and known to every policy before an address has it, and forgotten after the last one lost
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ipnet::IpNet;

use super::{
    RemoteNodes,
    answers::RemoteNodesAnswer,
    messages::{NodePrefixes, UnknownIdentities},
};
use crate::{
    host::{AskError, Cx},
    model::IdentityId,
    policy::{
        identity::{Identity, IdentityError, IdentityMsg, Introduction},
        ipcache::{IpcacheMsg, IpcacheSource},
        rules::PolicyMsg,
    },
    ports::KernelError,
};

/// How long another supervisor may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the first policies may take before they are asked for again.
const POLICIES_PATIENCE: Duration = Duration::from_secs(600);
/// After that long, what was not done is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

impl RemoteNodes {
    /// No endpoint can learn of an identity before.
    pub(super) fn await_policies(&self, cx: &mut Cx<'_, Self>) {
        let policy = self.peers.policy.clone();
        let why = "the first policies, before identities of nodes";
        cx.ask(&policy, POLICIES_PATIENCE, why, PolicyMsg::Ready, RemoteNodesAnswer::PoliciesReady);
    }

    /// Takes the next step, unless one is under way.
    pub(super) fn proceed(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.step.is_idle() {
            return;
        }
        let state = &mut *self.state;
        let super::actor::RemoteNodesState { reported, numbers, .. } = state;
        if let Some(rows) = reported.next(|id| numbers.is_known(id)) {
            self.step.asked();
            return self.remove(cx, rows);
        }
        let strangers = reported.strangers(|id| numbers.is_known(id));
        if !strangers.is_empty() && self.ready {
            let strangers = numbers.labels(strangers);
            self.step.asked();
            return self.adopt(cx, strangers);
        }
        let over = match numbers.is_empty() {
            true => Vec::new(),
            false => numbers.give_up(&reported.used()),
        };
        if !over.is_empty()
            && let Err(refused) = self.peers.identities.tell(IdentityMsg::Abandon(over))
        {
            tracing::warn!(%refused, "identities that no node has stay known");
        }
    }

    fn adopt(&mut self, cx: &mut Cx<'_, Self>, strangers: UnknownIdentities) {
        let identities = self.peers.identities.clone();
        let desired = Introduction { identities: strangers.clone(), named_ports: BTreeMap::new() };
        cx.ask(
            &identities,
            PATIENCE,
            format!("{} identities of nodes to be kept", strangers.len()),
            |reply| IdentityMsg::Adopt { desired, reply },
            move |answer| RemoteNodesAnswer::Adopted(strangers, answer),
        );
    }

    pub(super) fn adopted(
        &mut self,
        cx: &mut Cx<'_, Self>,
        strangers: UnknownIdentities,
        answer: Result<Result<BTreeSet<IdentityId>, IdentityError>, AskError>,
    ) {
        let had = match answer {
            Ok(Ok(had)) => had,
            Ok(Err(error)) => return self.failed(cx, &error.to_string()),
            Err(error) => return self.failed(cx, &error.to_string()),
        };
        if had.len() < strangers.len() {
            let why = "numbers of nodes' labels are in use for something else";
            return self.failed(cx, why);
        }
        let identity = |(id, labels)| Identity { id, labels, prefix: None, references: 0 };
        let identities = strangers.into_iter().map(identity).collect();
        let (policy, named_ports) = (self.peers.policy.clone(), BTreeMap::new());
        cx.ask(
            &policy,
            PATIENCE,
            "every policy to know identities of nodes",
            |reply| PolicyMsg::Acquaint { identities, named_ports, reply },
            move |answer| RemoteNodesAnswer::Learned(had, answer),
        );
    }

    pub(super) fn learned(
        &mut self,
        cx: &mut Cx<'_, Self>,
        ids: BTreeSet<IdentityId>,
        answer: Result<(), AskError>,
    ) {
        match answer {
            Ok(()) => {
                self.step.succeeded();
                self.state.numbers.learned(ids);
            }
            Err(error) => self.failed(cx, &error.to_string()),
        }
    }

    /// One that passes from node to node is not in both: what goes, goes first.
    fn remove(&mut self, cx: &mut Cx<'_, Self>, rows: NodePrefixes) {
        let gone = rows.iter().filter(|(_, seat)| seat.is_none());
        let prefixes: Vec<IpNet> = gone.map(|(&prefix, _)| prefix).collect();
        if prefixes.is_empty() {
            return self.upsert(cx, rows);
        }
        let ipcache = self.peers.ipcache.clone();
        cx.ask(
            &ipcache,
            PATIENCE,
            format!("{} addresses of other nodes out of the ipcache", prefixes.len()),
            |reply| IpcacheMsg::Remove { prefixes, source: IpcacheSource::RemoteNode, reply },
            move |answer| RemoteNodesAnswer::Removed(rows, answer),
        );
    }

    pub(super) fn removed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        rows: NodePrefixes,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        match answer {
            Ok(Ok(())) => self.upsert(cx, rows),
            Ok(Err(error)) => self.unwritten(cx, rows, &error),
            Err(error) => self.failed(cx, &error.to_string()),
        }
    }

    fn upsert(&mut self, cx: &mut Cx<'_, Self>, rows: NodePrefixes) {
        let there = rows.iter().filter_map(|(&prefix, seat)| Some((prefix, (*seat)?.entry())));
        let entries: Vec<_> = there.collect();
        let ipcache = self.peers.ipcache.clone();
        cx.ask(
            &ipcache,
            PATIENCE,
            format!("{} addresses of other nodes in the ipcache", entries.len()),
            |reply| IpcacheMsg::Upsert { entries, reply },
            move |answer| RemoteNodesAnswer::Reported(rows, answer),
        );
    }

    pub(super) fn reported(
        &mut self,
        cx: &mut Cx<'_, Self>,
        rows: NodePrefixes,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        match answer {
            Ok(Ok(())) => {
                self.step.succeeded();
                self.state.reported.reported(rows);
            }
            Ok(Err(error)) => self.unwritten(cx, rows, &error),
            Err(error) => self.failed(cx, &error.to_string()),
        }
    }

    /// What is in force of these is not known: whoever an address was is somebody until it is.
    fn unwritten(&mut self, cx: &mut Cx<'_, Self>, rows: NodePrefixes, error: &KernelError) {
        self.step.answered();
        self.state.reported.failed(rows);
        tracing::warn!(%error, "addresses of other nodes are not in force yet; trying again");
        cx.after(AGAIN_AFTER, RemoteNodesAnswer::Again);
    }

    /// A step was not done; it is tried again later.
    fn failed(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        tracing::warn!(error, "addresses of other nodes are not all in force; trying again");
        self.step.pause(cx, AGAIN_AFTER, RemoteNodesAnswer::Again);
    }
}
