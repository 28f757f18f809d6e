//! How an endpoint gets its identity, and what happens when its labels change.

use std::{rc::Rc, sync::Arc, time::Duration};

use super::{Endpoint, EndpointMsg, reference::Held};
use crate::{
    host::{AskError, Cx},
    identity::IdentityMsg,
    model::{IdentityId, Labels},
    mutants::{Mutant, mutated},
    policy::{Bearer, PolicyMsg},
};

/// How long an identity may take: it is stored before it is used.
const IDENTITY_PATIENCE: Duration = Duration::from_secs(120);
/// How long everyone's policy may take to learn a new identity. After that the endpoint goes on:
/// one that never acknowledges must not hold up the rest.
const LEARN_PATIENCE: Duration = Duration::from_secs(30);

impl Endpoint {
    pub(super) fn identify(&mut self, cx: &mut Cx<'_, Self>) {
        self.at_step("identity");
        let edition = self.edition;
        let (mut labels, info) = self.split_labels();
        if labels.is_empty() {
            labels = Labels::reserved("init");
        }
        self.info_labels = Arc::new(info);
        // Only for the labels that it stood for: for others it would be somebody else's.
        let same = *self.identity_labels == labels;
        let before = (same && self.identity != IdentityId::INIT).then_some(self.identity);
        let peers = Rc::clone(&self.peers);
        let owner = peers.identities.clone();
        cx.ask(
            &peers.identities,
            IDENTITY_PATIENCE,
            format!("the identity of {labels}"),
            |reply| IdentityMsg::Resolve { labels, before, reply },
            move |answer| EndpointMsg::Identified(edition, Held::from_answer(owner, answer)),
        );
    }

    pub(super) fn identified(
        &mut self,
        cx: &mut Cx<'_, Self>,
        edition: u64,
        answer: Result<Held, String>,
    ) {
        let held = match answer {
            Ok(held) if self.build.is_some() => held,
            Ok(_) => return,
            Err(error) => return self.fail(cx, &format!("no identity: {error}")),
        };
        // Labels that changed meanwhile are for the next build.
        self.identity_stale = edition != self.edition;
        let identity = held.identity().clone();
        self.references.borrow_mut().push(held);
        let same = identity.id == self.identity && identity.labels == self.identity_labels;
        if same && self.ports_known.as_ref() == Some(&self.spec.named_ports) {
            return self.after_identity(cx);
        }
        if !same {
            self.identity = identity.id;
            self.identity_labels = Arc::clone(&identity.labels);
            self.on_disk = false;
            if let Some(known) = &mut self.known {
                known.recorded = false;
            }
        }
        let named_ports = self.spec.named_ports.clone();
        self.ports_known = Some(named_ports.clone());
        let bearers = vec![Bearer { endpoint: self.id, identity: identity.id, named_ports }];
        // Whoever changes the policy from now on must find this endpoint by its new labels.
        self.publish(cx);
        if mutated(Mutant::IdentityReleasedEarly) {
            self.keep_only_identity();
        }
        if mutated(Mutant::IdentityBeforePolicies) {
            return self.after_identity(cx);
        }
        self.at_step("learn");
        let peers = Rc::clone(&self.peers);
        cx.ask(
            &peers.policy,
            LEARN_PATIENCE,
            format!("everyone's policy to know identity {}", identity.id),
            |reply| PolicyMsg::Learn { identities: vec![identity], bearers, reply },
            EndpointMsg::Learned,
        );
    }

    pub(super) fn learned(&mut self, cx: &mut Cx<'_, Self>, answer: Result<u64, AskError>) {
        if self.build.is_none() {
            return;
        }
        if let Err(error) = answer {
            tracing::warn!(
                endpoint = %self.id, identity = %self.identity, %error,
                "not every endpoint's policy knows the identity yet; going on"
            );
        }
        self.after_identity(cx);
    }

    /// No packet can carry the identities before any more: they are given back.
    pub(super) fn keep_only_identity(&mut self) {
        let mut references = self.references.borrow_mut();
        let current = references.iter().rposition(|held| held.identity().id == self.identity);
        let current = current.map(|place| references.swap_remove(place));
        let given_back = std::mem::replace(&mut *references, current.into_iter().collect());
        drop(references);
        if given_back.iter().any(|held| held.identity().id != self.identity) {
            let only = PolicyMsg::BearsOnly { endpoint: self.id, identity: Some(self.identity) };
            if let Err(refused) = self.peers.policy.tell(only) {
                tracing::warn!(endpoint = %self.id, %refused, "names of its ports stay known twice");
            }
        }
        drop(given_back);
    }
}
