//! What the readers of one policy object share: its name, the settings, how selectors are
//! narrowed, and the list of what is not supported.

use std::sync::Arc;

use crate::{
    model::Direction,
    policy::rules::{
        ClauseOrigin, Effect, OwnCluster, PolicyName, PolicySettings, Selector, SelectorKey,
        Unsupported,
    },
};

/// Label of the namespace that a pod lives in.
pub(super) const NAMESPACE_LABEL: &str = "io.kubernetes.pod.namespace";
/// What a namespace's own labels are prefixed with.
pub(super) const NAMESPACE_LABELS: &str = "io.cilium.k8s.namespace.labels.";
/// Label of the cluster that a pod lives in.
pub(super) const CLUSTER_LABEL: &str = "io.cilium.k8s.policy.cluster";

/// The object that is being read, and what of it turns out not to be supported.
pub(super) struct ParseContext<'a> {
    /// File, or whatever else it comes from.
    pub(super) file: &'a str,
    /// The object.
    pub(super) name: &'a PolicyName,
    /// What applies to all policies.
    pub(super) settings: &'a PolicySettings,
    /// What is not supported.
    pub(super) unsupported: Vec<Unsupported>,
}

impl ParseContext<'_> {
    /// Notes a part that is not supported.
    pub(super) fn not_supported(&mut self, path: &str, effect: Effect) {
        self.unsupported.push(Unsupported {
            file: self.file.to_owned(),
            object: self.name.to_string(),
            path: path.to_owned(),
            effect,
        });
    }

    /// Where a clause is written.
    pub(super) fn origin(&self, direction: Direction, path: &str) -> Arc<ClauseOrigin> {
        Arc::new(ClauseOrigin {
            source: self.file.to_owned(),
            policy: self.name.clone(),
            direction,
            path: path.to_owned(),
            ranked: None,
        })
    }

    /// Narrows a selector to a namespace.
    pub(super) fn in_namespace(selector: &mut Selector, namespace: &str) {
        selector.labels.insert(SelectorKey::new("k8s", NAMESPACE_LABEL), namespace.to_owned());
    }

    /// Narrows a peer's selector to this cluster, unless it names one itself.
    pub(super) fn in_cluster(&self, selector: &mut Selector) {
        let own = self.settings.cluster.as_ref().filter(|cluster| cluster.by_default);
        let Some(OwnCluster { name, .. }) = own else { return };
        if !selector.keys().any(|key| key.key == CLUSTER_LABEL) {
            selector.labels.insert(SelectorKey::new("k8s", CLUSTER_LABEL), name.clone());
        }
    }

    /// Selects every pod of this cluster.
    pub(super) fn cluster_pods(&self) -> Selector {
        match self.settings.cluster_name() {
            Some(cluster) => Selector::label(SelectorKey::new("k8s", CLUSTER_LABEL), cluster),
            None => Selector::default().and_exists(SelectorKey::new("k8s", NAMESPACE_LABEL)),
        }
    }
}
