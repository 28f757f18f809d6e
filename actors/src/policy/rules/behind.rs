//! Changes that some endpoints may not enforce yet, and waiting until they do. The rules before stay
//! known till then, for these endpoints go on by them.

use std::collections::BTreeSet;

use super::{Policies, Touched, actor::ENFORCE_PATIENCE, answers::PolicyAnswer};
use crate::{
    host::{AskError, Cx},
    policy::rules::{AwaitedEndpoints, PolicyNews, Reached},
};

impl Policies {
    /// Waits until endpoints enforce what they are told here, or were told before.
    pub(super) fn await_enforced(
        &mut self,
        cx: &mut Cx<'_, Self>,
        revision: u64,
        touched: Touched,
        awaited: AwaitedEndpoints,
    ) {
        let endpoints = self.peers.endpoints.clone();
        let strangers = BTreeSet::new();
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "every endpoint to enforce the new rules",
            |reply| PolicyNews::PolicyChanged { revision, touched, strangers, awaited, reply },
            move |answer| PolicyAnswer::Enforced { revision, answer },
        );
    }

    pub(super) fn enforced(
        &mut self,
        cx: &mut Cx<'_, Self>,
        revision: u64,
        answer: Result<Reached, AskError>,
    ) {
        if let Ok(Reached::Everyone) = answer {
            self.known.behind.retain(|behind| behind.revision > revision);
            self.retry(cx);
            return self.answer_idle();
        }
        if let Err(error) = answer {
            tracing::warn!(revision, %error, "not every endpoint enforces the new rules yet");
        }
        for behind in self.known.behind.iter_mut().filter(|behind| behind.revision <= revision) {
            behind.by_most = true;
        }
        self.answer_idle();
        if self.known.behind.last().is_some_and(|newest| newest.revision == revision) {
            self.await_enforced(cx, revision, Touched::default(), AwaitedEndpoints::Everyone);
        }
    }
}
