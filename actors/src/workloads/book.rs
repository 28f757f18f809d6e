use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Manifest,
    object::{Objects, Pod, PodName},
};
use crate::model::{Label, Labels};

const NAMESPACE: &str = "io.kubernetes.pod.namespace";
const NAMESPACE_LABELS: &str = "io.cilium.k8s.namespace.labels.";
const CLUSTER: &str = "io.cilium.k8s.policy.cluster";
const ACCOUNT: &str = "io.cilium.k8s.policy.serviceaccount";
/// Label that the API server puts on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// How many pods that no manifest describes are remembered because somebody asked for them.
const ASKED_MAX: usize = 8_192;

/// All that is known of pods and namespaces, by the source that says it.
#[derive(Debug)]
pub(super) struct Book {
    cluster: String,
    sources: BTreeMap<String, Objects>,
    /// Each pod's labels as they were last computed.
    labels: BTreeMap<PodName, Labels>,
    /// Pods that were asked for and that no manifest described, oldest first.
    asked: VecDeque<PodName>,
    /// Whether the first manifests were taken in.
    pub(super) complete: bool,
}

impl Book {
    pub(super) fn new(cluster: String) -> Self {
        Self {
            cluster,
            sources: BTreeMap::new(),
            labels: BTreeMap::new(),
            asked: VecDeque::new(),
            complete: false,
        }
    }

    /// Takes in what changed; the pods whose labels did.
    pub(super) fn apply(&mut self, manifests: Vec<Manifest>) -> Vec<(PodName, Labels)> {
        for Manifest { source, objects } in manifests {
            match objects {
                Ok(values) if values.is_empty() => {
                    self.sources.remove(&source);
                }
                Ok(values) => self.read(source, &values),
                Err(error) => {
                    tracing::warn!(source, error, "not readable; what it said before stays")
                }
            }
        }
        self.complete = true;
        let known = self.sources.values().flat_map(|objects| objects.pods.keys());
        let pods: BTreeSet<_> = known.chain(&self.asked).cloned().collect();
        self.labels.retain(|pod, _| pods.contains(pod));
        let mut changed = Vec::new();
        for pod in pods {
            let labels = self.compute(&pod);
            if self.labels.get(&pod) != Some(&labels) {
                self.labels.insert(pod.clone(), labels.clone());
                changed.push((pod, labels));
            }
        }
        changed
    }

    /// A pod's labels. One that nobody described is remembered: its namespace may change.
    pub(super) fn labels_of(&mut self, pod: PodName) -> Labels {
        let labels = self.compute(&pod);
        if self.pod(&pod).is_none() && !self.labels.contains_key(&pod) {
            if self.asked.len() >= ASKED_MAX
                && let Some(oldest) = self.asked.pop_front()
                && self.pod(&oldest).is_none()
            {
                self.labels.remove(&oldest);
            }
            self.asked.push_back(pod.clone());
        }
        self.labels.insert(pod, labels.clone());
        labels
    }

    /// Sources, pods and namespaces that are known.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let pods = self.sources.values().map(|objects| objects.pods.len()).sum();
        let namespaces = self.sources.values().map(|objects| objects.namespaces.len()).sum();
        (self.sources.len(), pods, namespaces)
    }

    fn read(&mut self, source: String, values: &[serde_json::Value]) {
        let before = self.sources.remove(&source).unwrap_or_default();
        let (mut objects, mut errors) = (Objects::default(), Vec::new());
        values.iter().for_each(|value| objects.take(value, &before, &mut errors));
        for error in errors {
            tracing::warn!(source, %error, "not taken in; what it was before stays");
        }
        self.sources.insert(source, objects);
    }

    /// What the first source by name says.
    fn pod(&self, pod: &PodName) -> Option<&Pod> {
        self.sources.values().find_map(|objects| objects.pods.get(pod))
    }

    fn compute(&self, pod: &PodName) -> Labels {
        let described = self.pod(pod);
        let own = described.into_iter().flat_map(|pod| &pod.labels);
        let mut labels: Labels = own
            .filter(|(key, _)| !is_given_by_the_cluster(key))
            .map(|(key, value)| Label::new("k8s", key, value))
            .collect();
        let mut add = |key: &str, value: &str| labels.insert(Label::new("k8s", key, value));
        add(NAMESPACE, &pod.0);
        add(CLUSTER, &self.cluster);
        add(ACCOUNT, described.map_or("default", |pod| &pod.account));
        let namespace = self.sources.values().find_map(|objects| objects.namespaces.get(&pod.0));
        for (key, value) in namespace.into_iter().flatten() {
            add(&format!("{NAMESPACE_LABELS}{key}"), value);
        }
        if namespace.is_some() {
            add(&format!("{NAMESPACE_LABELS}{NAMESPACE_NAME}"), &pod.0);
        }
        labels
    }
}

/// A pod must not claim for itself what says where it is and who it is.
fn is_given_by_the_cluster(key: &str) -> bool {
    matches!(key, NAMESPACE | CLUSTER | ACCOUNT) || key.starts_with(NAMESPACE_LABELS)
}
