//! The node's host endpoint: made by this supervisor if it is desired and did not come back, labelled
//! as the node is, and nobody else's to change or delete.

use super::{DeleteError, Endpoints, child::SupervisedEndpoint, state::EndpointsState};
use crate::{
    endpoints::{
        endpoint::{EndpointSpec, Patch, PatchError},
        workloads::PodFacts,
    },
    host::Cx,
    model::{Labels, NamedPorts},
};

impl Endpoints {
    /// Makes the host endpoint if it is desired and is not there.
    pub(super) fn make_host(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.family.host || self.family.children.values().any(|it| it.view.spec.is_host()) {
            return;
        }
        let Some(id) = self.family.numbers.next() else {
            // It is tried again with the next look.
            tracing::error!("every endpoint number is taken: policies of nodes are not enforced");
            return;
        };
        self.spawn(cx, id, EndpointSpec::host(), None);
        self.label_host();
    }

    /// This node is labelled so. What it said last is true until it says something else.
    pub(super) fn node(&mut self, labels: Option<Labels>) {
        self.family.node_labels = Some(labels);
        self.label_host();
    }

    /// Tells the host endpoint how the node is labelled, once that is known. Where nobody says it,
    /// it is as its record has it.
    pub(super) fn label_host(&mut self) {
        let EndpointsState { node_labels, children, .. } = &mut *self.family;
        let Some(labels) = node_labels else { return };
        let host = children.values_mut().find(|child| child.view.spec.is_host());
        let Some(host) = host else { return };
        let labels = labels.as_ref().unwrap_or(&host.view.spec.labels).clone();
        host.describe(&PodFacts { labels, named_ports: NamedPorts::new() });
    }
}

/// Why an endpoint cannot be deleted.
pub(super) fn undeletable(child: &SupervisedEndpoint) -> Option<DeleteError> {
    child.view.spec.is_host().then(|| {
        DeleteError::Refused(format!(
            "endpoint {} is the node itself: it is there as long as the agent runs with \
             --enable-host-firewall; to be rid of it, start the agent without",
            child.view.id
        ))
    })
}

/// Why an endpoint cannot be changed so. Options of the node itself can be.
pub(super) fn unchangeable(child: &SupervisedEndpoint, patch: &Patch) -> Option<PatchError> {
    let Patch { labels, custom, disabled, named_ports, interface, .. } = patch;
    let relabels = [labels, custom, disabled].into_iter().any(Option::is_some);
    let changes = relabels || named_ports.is_some() || interface.is_some();
    (child.view.spec.is_host() && changes).then(|| {
        PatchError::Invalid(format!(
            "endpoint {} is the node itself: it has no interface of its own, and its labels are \
             those of its Node object; label that one (kubectl label node)",
            child.view.id
        ))
    })
}
