use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Manifest, PodFacts,
    object::{Objects, Pod, PodName},
};
use crate::model::{Label, Labels, NamedPorts};

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
    /// What each pod was last found to be.
    facts: BTreeMap<PodName, PodFacts>,
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
            facts: BTreeMap::new(),
            asked: VecDeque::new(),
            complete: false,
        }
    }

    /// Takes in what changed; the pods that are different by it.
    pub(super) fn apply(&mut self, manifests: Vec<Manifest>) -> Vec<(PodName, PodFacts)> {
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
        self.facts.retain(|pod, _| pods.contains(pod));
        let mut changed = Vec::new();
        for pod in pods {
            let facts = self.compute(&pod);
            if self.facts.get(&pod) != Some(&facts) {
                self.facts.insert(pod.clone(), facts.clone());
                changed.push((pod, facts));
            }
        }
        changed
    }

    /// What is known of a pod. One that nobody described is remembered: its namespace may change.
    pub(super) fn facts_of(&mut self, pod: PodName) -> PodFacts {
        let facts = self.compute(&pod);
        if self.pod(&pod).is_none() && !self.facts.contains_key(&pod) {
            if self.asked.len() >= ASKED_MAX
                && let Some(oldest) = self.asked.pop_front()
                && self.pod(&oldest).is_none()
            {
                self.facts.remove(&oldest);
            }
            self.asked.push_back(pod.clone());
        }
        self.facts.insert(pod, facts.clone());
        facts
    }

    /// Names of a pod's ports; `None` if nobody described it.
    pub(super) fn ports_of(&self, pod: &PodName) -> Option<NamedPorts> {
        self.pod(pod).map(|pod| pod.named_ports.clone())
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

    fn compute(&self, pod: &PodName) -> PodFacts {
        let named_ports = self.ports_of(pod).unwrap_or_default();
        PodFacts { labels: self.labels(pod), named_ports }
    }

    fn labels(&self, pod: &PodName) -> Labels {
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
