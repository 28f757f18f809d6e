//! How an endpoint gets its identity, and what happens when its labels change: a build takes an
//! identity once everyone's policy knows it. Until then the endpoint goes on under the one that it
//! has, and can be built with that: others may wait for it to know theirs.

use std::{mem, rc::Rc, sync::Arc, time::Duration};

use super::{
    Endpoint, EndpointState,
    actor::answer_all,
    answers::EndpointAnswer,
    kind::numbered,
    naming::{Identification, Progress},
    phase::Build,
    reference::IdentityReference,
    trigger::Trigger,
};
use crate::{
    endpoints::endpoint::{Level, PatchError},
    host::{AskError, Cx},
    model::{EndpointKind, IdentityId, Labels},
    mutants::{Mutant, mutated},
    policy::{
        identity::IdentityMsg,
        rules::{IdentityUser, PolicyMsg},
    },
};

/// How long an identity may take: it is stored before it is used.
const IDENTITY_PATIENCE: Duration = Duration::from_secs(120);
/// How long everyone's policy may take to learn a new identity. After that the endpoint goes on:
/// one that never acknowledges must not hold up the rest.
const LEARN_PATIENCE: Duration = Duration::from_secs(30);

impl Endpoint {
    /// Has the identity of its labels found, for a build that begins then.
    pub(super) fn identify(&mut self, cx: &mut Cx<'_, Self>, trigger: Trigger) {
        if let Some(under_way) = &mut self.naming.identification {
            return under_way.trigger.merge(trigger);
        }
        let reason = Arc::clone(&trigger.reason);
        let edition = self.edition;
        self.naming.identification =
            Some(Identification { trigger, progress: Progress::Asked, edition });
        if self.state == EndpointState::Ready && self.is_relabelled() {
            self.become_state(cx, EndpointState::WaitingForIdentity, &reason);
            self.publish(cx);
        }
        self.ask_identity(cx);
    }

    /// Whether its labels are others than those of its identity: what it enforces is not its own
    /// policy. With the same labels it only gets another number.
    pub(super) fn is_relabelled(&self) -> bool {
        *self.record.identity_labels != self.identity_labels()
    }

    /// The labels that it is to have an identity of.
    fn identity_labels(&self) -> Labels {
        let labels = self.split_labels().0;
        if labels.is_empty() { Labels::reserved("init") } else { labels }
    }

    fn ask_identity(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(under_way) = &mut self.naming.identification else { return };
        (under_way.edition, under_way.progress) = (self.edition, Progress::Asked);
        let (mut labels, info) = self.split_labels();
        if labels.is_empty() {
            labels = Labels::reserved("init");
        }
        self.naming.info_labels = Arc::new(info);
        // Only for the labels that it stood for: for others it would be somebody else's.
        let same = *self.record.identity_labels == labels;
        if same {
            labels = Labels::clone(&self.record.identity_labels);
        }
        let before =
            (same && self.record.identity != IdentityId::INIT).then_some(self.record.identity);
        let labels = numbered(self.record.spec.kind, &labels).into_owned();
        let peers = Rc::clone(&self.peers);
        let owner = peers.identities.clone();
        cx.ask(
            &peers.identities,
            IDENTITY_PATIENCE,
            format!("the identity of {labels}"),
            |reply| IdentityMsg::Resolve { labels, before, reply },
            move |answer| EndpointAnswer::Identified(IdentityReference::from_answer(owner, answer)),
        );
    }

    pub(super) fn identified(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<IdentityReference, String>,
    ) {
        let Some(under_way) = &mut self.naming.identification else { return };
        if under_way.edition != self.edition {
            return self.ask_identity(cx);
        }
        let held = match answer {
            Ok(held) => held,
            Err(error) => return self.unidentified(cx, &error),
        };
        let identity = held.identity().clone();
        under_way.progress = Progress::Learning(held);
        // The node itself is known to everyone always.
        let known = self.record.spec.is_host()
            || self.has_identity(&identity.labels, identity.id)
                && self.naming.ports_known.as_ref() == Some(&self.record.spec.named_ports);
        if known || mutated(Mutant::IdentityBeforePolicies) {
            return self.identity_known(cx);
        }
        let named_ports = self.record.spec.named_ports.clone();
        let identity_users =
            vec![IdentityUser { endpoint: self.id, identity: identity.id, named_ports }];
        let peers = Rc::clone(&self.peers);
        cx.ask(
            &peers.policy,
            LEARN_PATIENCE,
            format!("everyone's policy to know identity {}", identity.id),
            |reply| PolicyMsg::Learn { identities: vec![identity], identity_users, reply },
            EndpointAnswer::Learned,
        );
    }

    /// There is none. What it is built with goes on; it is tried again later.
    fn unidentified(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        let Some(under_way) = self.naming.identification.take() else { return };
        let (step, trigger) = (under_way.step(), under_way.trigger);
        let error = format!("no identity: {error}");
        if self.phase.is_idle() {
            return self.fail(cx, Build { trigger, since: cx.now(), step }, &error);
        }
        self.note(cx, "Failed", &format!("Error regenerating endpoint: {error}"));
        self.desired.owed = self.desired.owed.max(Some(trigger.level));
        answer_all(trigger.waiting, &Err(PatchError::Failed(error)));
    }

    pub(super) fn learned(&mut self, cx: &mut Cx<'_, Self>, answer: Result<u64, AskError>) {
        if let Err(error) = answer {
            tracing::warn!(
                endpoint = %self.id, %error,
                "not every endpoint's policy knows its new identity yet; going on"
            );
        }
        self.identity_known(cx);
    }

    /// The next build takes it: now if none runs.
    fn identity_known(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(under_way) = &mut self.naming.identification else { return };
        if under_way.edition != self.edition {
            return self.ask_identity(cx);
        }
        under_way.progress = match mem::replace(&mut under_way.progress, Progress::Asked) {
            Progress::Learning(held) => Progress::Known(held),
            other => other,
        };
        let trigger = Trigger::new(Level::Load, Arc::from("identity is set"), Vec::new());
        if self.phase.is_building() { self.store(trigger) } else { self.build_from(cx, trigger) }
    }

    /// Takes the identity that everyone knows, if there is one: what is to be built with it.
    pub(super) fn take_identity(&mut self, cx: &mut Cx<'_, Self>) -> Option<Trigger> {
        let under_way = self.naming.identification.as_ref()?;
        if !matches!(under_way.progress, Progress::Known(_)) {
            return None;
        }
        if under_way.edition != self.edition {
            // Labels changed meanwhile.
            self.ask_identity(cx);
            return None;
        }
        let Identification { trigger, progress, .. } = self.naming.identification.take()?;
        let Progress::Known(held) = progress else { return None };
        let identity = held.identity().clone();
        self.references.push(held);
        self.naming.stale = false;
        self.naming.ports_known = Some(self.record.spec.named_ports.clone());
        let labels = match self.record.spec.kind {
            EndpointKind::Pod | EndpointKind::Health => identity.labels,
            EndpointKind::Host => Arc::new(self.split_labels().0),
        };
        if !self.has_identity(&labels, identity.id) {
            self.record.identity = identity.id;
            self.record.identity_labels = labels;
            self.outdate();
            if let Some(known) = &mut self.datapath.known {
                known.record.is_right = false;
            }
        }
        if mutated(Mutant::IdentityReleasedEarly) {
            self.keep_only_identity();
        }
        if self.state == EndpointState::WaitingForIdentity {
            self.become_state(cx, EndpointState::Ready, "identity is set");
            self.note(cx, "OK", "Set identity for this endpoint");
        }
        Some(trigger)
    }

    fn has_identity(&self, labels: &Arc<Labels>, id: IdentityId) -> bool {
        self.record.identity == id && self.record.identity_labels == *labels
    }

    /// No packet can carry the identities before any more: they are given back.
    pub(super) fn keep_only_identity(&mut self) {
        // Names of ports are told by identity, also of one that is on its way.
        if self.naming.identification.is_some() {
            return;
        }
        let references = &mut *self.references;
        let current =
            references.iter().rposition(|held| held.identity().id == self.record.identity);
        let current = current.map(|place| references.swap_remove(place));
        let given_back = mem::replace(references, current.into_iter().collect());
        if given_back.iter().any(|held| held.identity().id != self.record.identity) {
            let only =
                PolicyMsg::BearsOnly { endpoint: self.id, identity: Some(self.record.identity) };
            if let Err(refused) = self.peers.policy.tell(only) {
                tracing::warn!(endpoint = %self.id, %refused, "names of its ports stay known twice");
            }
        }
        drop(given_back);
    }
}
