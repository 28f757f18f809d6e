//! Prefixes that came with rules while no agent lived: every restored endpoint's policy is to know
//! them before they are mapped.

use std::{sync::Arc, time::Duration};

use super::{Endpoints, answers::EndpointsAnswer, child::SupervisedEndpoint, state::Inheriting};
use crate::{
    endpoints::endpoint::EndpointMsg,
    host::{AskError, Cx, Reply},
    model::EndpointId,
    policy::rules::{InheritResult, Successors},
};

/// How long an endpoint's policy may take. After that it counts as refused.
const PATIENCE: Duration = Duration::from_secs(10);

impl Endpoints {
    pub(super) fn inherit(
        &mut self,
        cx: &mut Cx<'_, Self>,
        successors: &Arc<Successors>,
        reply: Reply<InheritResult>,
    ) {
        let enforcing = |(&id, child): (&EndpointId, &SupervisedEndpoint)| {
            child.slot.map(|slot| (id, slot, child.address.clone()))
        };
        let all: Vec<_> = self.family.children.iter().filter_map(enforcing).collect();
        self.inheriting = Some(Inheriting { left: all.len(), outcome: Ok(()), reply });
        for (id, slot, endpoint) in all {
            let successors = Arc::clone(successors);
            cx.ask(
                &endpoint,
                PATIENCE,
                format!("endpoint {id} to know new prefixes"),
                |reply| EndpointMsg::Inherit { slot, successors, reply },
                move |answer| EndpointsAnswer::Inherited(id, answer),
            );
        }
        self.answer_inherited();
    }

    pub(super) fn inherited(&mut self, id: EndpointId, answer: Result<InheritResult, AskError>) {
        let Some(inheriting) = &mut self.inheriting else { return };
        inheriting.left = inheriting.left.saturating_sub(1);
        match answer {
            Ok(Ok(())) => {}
            // Who is gone enforces nothing; one that crashed does, and let the question go.
            Err(AskError::Gone) if !self.family.children.contains_key(&id) => {}
            Ok(Err(error)) => inheriting.outcome = Err(error),
            Err(error) => inheriting.outcome = Err(error.to_string().into()),
        }
        self.answer_inherited();
    }

    fn answer_inherited(&mut self) {
        if let Some(Inheriting { outcome, reply, .. }) = self.inheriting.take_if(|it| it.left == 0)
        {
            reply.send(outcome);
        }
    }
}
