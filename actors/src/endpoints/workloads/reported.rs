//! The facts about pods, namespaces and this node, merged from all sources; and the labels that
//! a pod gets from them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    PodFacts, PodPoolNames, PoolsRequest,
    object::{Pod, PodName, WorkloadObjects},
    pools::{KnownPools, PoolAnnotations},
};
use crate::{
    model::{ApiObject, Families, Label, Labels, Manifest, NamedPorts},
    ports::ObjectKey,
};

const NAMESPACE: &str = "io.kubernetes.pod.namespace";
const NAMESPACE_LABELS: &str = "io.cilium.k8s.namespace.labels.";
const CLUSTER: &str = "io.cilium.k8s.policy.cluster";
const ACCOUNT: &str = "io.cilium.k8s.policy.serviceaccount";
/// Label that the API server puts on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The source of what the cluster says of nodes.
const CLUSTER_NODES: &str = "nodes of the cluster";

/// How many pods that no manifest describes are remembered because somebody asked for them.
const ASKED_MAX: usize = 8_192;

/// All that is known of pods and namespaces, by the source that says it.
#[derive(Debug)]
pub(super) struct ReportedWorkloads {
    cluster: String,
    /// Name of this node.
    node: String,
    /// How it was last found to be labelled, if somebody looked.
    node_labels: Option<Option<Labels>>,
    sources: BTreeMap<String, WorkloadObjects>,
    /// Which sources describe a pod: the first by name counts.
    describers: BTreeMap<PodName, BTreeSet<String>>,
    /// What each pod was last found to be.
    facts: BTreeMap<PodName, PodFacts>,
    /// Pods that were asked for and that no manifest described, oldest first.
    asked: VecDeque<PodName>,
    /// Whether the first manifests were taken in.
    pub(super) complete: bool,
    /// What pools say of pods.
    pub(super) pools: KnownPools,
}

impl ReportedWorkloads {
    pub(super) fn new(cluster: String, node: String) -> Self {
        Self {
            cluster,
            node,
            node_labels: None,
            sources: BTreeMap::new(),
            describers: BTreeMap::new(),
            facts: BTreeMap::new(),
            asked: VecDeque::new(),
            complete: false,
            pools: KnownPools::default(),
        }
    }

    /// Takes in what changed; the pods that are different by it.
    pub(super) fn apply(&mut self, manifests: Vec<Manifest>) -> Vec<(PodName, PodFacts)> {
        let (mut pods, mut all) = (BTreeSet::new(), false);
        for Manifest { source, objects } in manifests {
            let values = match objects {
                Ok(values) => values,
                Err(error) => {
                    tracing::warn!(source, error, "not readable; what it said before stays");
                    continue;
                }
            };
            let before = self.sources.remove(&source).unwrap_or_default();
            let now = read(&source, &values, &before);
            // Labels of a namespace are labels of its pods.
            all |= before.namespaces != now.namespaces;
            self.describe(&source, &before, &now);
            pods.extend(before.pods.into_keys().chain(now.pods.keys().cloned()));
            if !values.is_empty() {
                self.sources.insert(source, now);
            }
        }
        self.complete = true;
        if all {
            pods.extend(self.describers.keys().chain(&self.asked).cloned());
        }
        let mut changed = Vec::new();
        for pod in pods {
            if !self.describers.contains_key(&pod) && !self.asked.contains(&pod) {
                self.facts.remove(&pod);
                continue;
            }
            let facts = self.compute(&pod);
            if self.facts.get(&pod) != Some(&facts) {
                self.facts.insert(pod.clone(), facts.clone());
                changed.push((pod, facts));
            }
        }
        changed
    }

    /// How this node is labelled, if that is news; `None` if nobody ever said it. If nobody says it
    /// any more, it is as it was.
    pub(super) fn relabelled(&mut self) -> Option<Option<Labels>> {
        let said = self.sources.values().find_map(|objects| objects.nodes.get(&self.node));
        let label = |(key, value): (&String, &String)| Label::new("k8s", key, value);
        let said = said.map(|labels| Labels::from_iter(labels.iter().map(label)));
        let said = said.or_else(|| self.node_labels.clone().flatten());
        let is_news = self.node_labels.as_ref() != Some(&said);
        is_news.then(|| self.node_labels.insert(said).clone())
    }

    /// The cluster says this of nodes; of others than this one nothing is noted.
    pub(super) fn node(&mut self, objects: Vec<(ObjectKey, Option<ApiObject>)>) {
        let own = objects.into_iter().filter(|(key, _)| key.name == self.node);
        for node in own.filter_map(|(_, node)| node) {
            let before = self.sources.remove(CLUSTER_NODES).unwrap_or_default();
            self.sources.insert(CLUSTER_NODES.to_owned(), read(CLUSTER_NODES, &[node], &before));
        }
    }

    /// A source describes other pods than before.
    fn describe(&mut self, source: &str, before: &WorkloadObjects, now: &WorkloadObjects) {
        for pod in before.pods.keys().filter(|pod| !now.pods.contains_key(*pod)) {
            if let Some(sources) = self.describers.get_mut(pod) {
                sources.remove(source);
                if sources.is_empty() {
                    self.describers.remove(pod);
                }
            }
        }
        for pod in now.pods.keys() {
            self.describers.entry(pod.clone()).or_default().insert(source.to_owned());
        }
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

    /// Whether somebody described that very pod.
    pub(super) fn describes(&self, pod: &PodName, uid: &str) -> bool {
        let is_meant = |known: &str| uid.is_empty() || known.is_empty() || known == uid;
        self.pod(pod).is_some_and(|pod| is_meant(&pod.uid))
    }

    /// Names of a pod's ports; `None` if nobody described it.
    pub(super) fn ports_of(&self, pod: &PodName) -> Option<NamedPorts> {
        self.pod(pod).map(|pod| pod.named_ports.clone())
    }

    /// Of which pools its addresses are.
    pub(super) fn pools_of(&self, request: PoolsRequest) -> Result<PodPoolNames, String> {
        let PoolsRequest { pod, families, chosen, default } = request;
        let names = match chosen {
            Some(pool) => PodPoolNames::both(Some(pool)),
            None => self.annotated_or_selected(&pod, families)?,
        };
        Ok(self.pools.with_masquerading(names, &default))
    }

    fn annotated_or_selected(
        &self,
        pod: &PodName,
        families: Families,
    ) -> Result<PodPoolNames, String> {
        let nothing = PoolAnnotations::default();
        let own = self.pod(pod).map_or(&nothing, |pod| &pod.pools);
        let mut of_namespaces = self.sources.values();
        let of_namespace = of_namespaces.find_map(|it| it.namespace_pools.get(&pod.0));
        let of_namespace = of_namespace.unwrap_or(&nothing);
        self.pools.choose(pod, self.labels(pod), own, of_namespace, families)
    }

    /// Sources, pods and namespaces that are known.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let pods = self.sources.values().map(|objects| objects.pods.len()).sum();
        let namespaces = self.sources.values().map(|objects| objects.namespaces.len()).sum();
        (self.sources.len(), pods, namespaces)
    }

    /// What the first source by name says.
    fn pod(&self, pod: &PodName) -> Option<&Pod> {
        let first = self.describers.get(pod)?.first()?;
        self.sources.get(first)?.pods.get(pod)
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

/// What a source says now, and said `before` of objects that cannot be used as they are now.
fn read(source: &str, values: &[ApiObject], before: &WorkloadObjects) -> WorkloadObjects {
    let (mut objects, mut errors) = (WorkloadObjects::default(), Vec::new());
    values.iter().for_each(|value| objects.take(value, before, &mut errors));
    for error in errors {
        tracing::warn!(source, %error, "not taken in; what it was before stays");
    }
    objects
}

/// A pod must not claim for itself what says where it is and who it is.
pub(crate) fn is_given_by_the_cluster(key: &str) -> bool {
    matches!(key, NAMESPACE | CLUSTER | ACCOUNT) || key.starts_with(NAMESPACE_LABELS)
}
