//! What the agent says of endpoints to who listens to it.

use std::sync::Arc;

use crate::{
    endpoints::endpoint::EndpointView,
    ports::{AgentNews, AgentNotices},
};

/// An endpoint was made or deleted.
pub(super) fn endpoint_news(view: &EndpointView, deleted: bool) -> AgentNews {
    let labels = match view.identity_labels.is_empty() {
        true => Arc::new(view.spec.labels.clone()),
        false => Arc::clone(&view.identity_labels),
    };
    AgentNews::Endpoint {
        id: view.id,
        labels,
        namespace: view.spec.namespace.clone(),
        pod: view.spec.pod_name.clone(),
        deleted,
    }
}

/// Says that a build ended, if one did.
pub(super) fn tell_build(
    notices: Option<&dyn AgentNotices>,
    before: &EndpointView,
    now: &EndpointView,
) {
    let Some(notices) = notices else { return };
    let (id, labels) = (now.id, Arc::clone(&now.identity_labels));
    // An actor that crashed counts from the beginning again.
    let grew = |before: u64, now: u64| now > if now < before { 0 } else { before };
    if grew(before.counts.builds, now.counts.builds) {
        notices.happened(AgentNews::Regenerated { id, labels, error: None });
    } else if grew(before.counts.failures, now.counts.failures) {
        let error = now.last_error.clone().or_else(|| Some(Arc::from("the build failed")));
        notices.happened(AgentNews::Regenerated { id, labels, error });
    }
}
