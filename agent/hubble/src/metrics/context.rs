//! The labels that tell of a flow's ends: which are wanted, and what they say.

use super::{Labels, MetricsError};
use crate::{
    messages::{Flow, FlowEndpoint, direction},
    shown::APPS,
};

/// What an end can be told by.
const TELLING: &[&str] = &[
    "identity",
    "namespace",
    "pod",
    "pod-name",
    "dns",
    "ip",
    "reserved-identity",
    "workload",
    "workload-name",
    "app",
];
/// What `labelsContext` can name, in the order in which it is told.
const LABELS: &[&str] = &[
    "source_ip",
    "source_pod",
    "source_namespace",
    "source_workload",
    "source_workload_kind",
    "source_app",
    "destination_ip",
    "destination_pod",
    "destination_namespace",
    "destination_workload",
    "destination_workload_kind",
    "destination_app",
    "traffic_direction",
];
const OPTIONS: [&str; 7] = [
    "sourceContext",
    "sourceEgressContext",
    "sourceIngressContext",
    "destinationContext",
    "destinationEgressContext",
    "destinationIngressContext",
    "labelsContext",
];

/// One end of a flow.
struct End<'a> {
    endpoint: Option<&'a FlowEndpoint>,
    address: &'a str,
    names: &'a [String],
}

/// How one end is told: by the first of these that says something, and otherwise where the flow leaves or
/// comes to the endpoint that saw it.
#[derive(Clone, Debug, Default)]
struct Told {
    usual: Vec<&'static str>,
    egress: Vec<&'static str>,
    ingress: Vec<&'static str>,
}

/// Which labels are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    source: Told,
    destination: Told,
    labels: Vec<&'static str>,
}

impl Context {
    /// Names of what can be set.
    pub(super) fn options() -> impl Iterator<Item = &'static str> {
        OPTIONS.into_iter()
    }

    /// Takes an option; false if it is none of these.
    pub(super) fn set(
        &mut self,
        metric: &'static str,
        key: &str,
        value: &str,
    ) -> Result<bool, MetricsError> {
        let Some(option) = OPTIONS.into_iter().find(|option| *option == key) else {
            return Ok(false);
        };
        let (known, to, between) = match option {
            "sourceContext" => (TELLING, &mut self.source.usual, '|'),
            "sourceEgressContext" => (TELLING, &mut self.source.egress, '|'),
            "sourceIngressContext" => (TELLING, &mut self.source.ingress, '|'),
            "destinationContext" => (TELLING, &mut self.destination.usual, '|'),
            "destinationEgressContext" => (TELLING, &mut self.destination.egress, '|'),
            "destinationIngressContext" => (TELLING, &mut self.destination.ingress, '|'),
            _ => (LABELS, &mut self.labels, ','),
        };
        for word in value.split(between) {
            let found = known.iter().find(|known| **known == word);
            let Some(found) = found else {
                let value = word.to_owned();
                return Err(MetricsError::Value { metric, option, value, known });
            };
            to.push(*found);
        }
        if option == "labelsContext" {
            self.labels = LABELS.iter().copied().filter(|it| self.labels.contains(it)).collect();
        }
        Ok(true)
    }

    /// Says who the ends of a flow are.
    pub(super) fn add(&self, flow: &Flow, labels: &mut Labels) {
        let [source, destination] = ends(flow);
        let way = flow.traffic_direction;
        for (name, told, end) in
            [("source", &self.source, &source), ("destination", &self.destination, &destination)]
        {
            if told.is_wanted() {
                let words = told.words(way).iter();
                let said = words.map(|word| end.say(word)).find(|said| !said.is_empty());
                labels.push((name, said.unwrap_or_default()));
            }
        }
        for name in &self.labels {
            let said = match name.split_once('_') {
                Some(("source", what)) => source.label(what),
                Some(("destination", what)) => destination.label(what),
                _ => match way {
                    direction::INGRESS => "ingress".to_owned(),
                    direction::EGRESS => "egress".to_owned(),
                    _ => "unknown".to_owned(),
                },
            };
            labels.push((name, said));
        }
    }

    /// Whether a series tells of that pod, `NAMESPACE/NAME`.
    pub(super) fn is_of(&self, labels: &Labels, pod: &str) -> bool {
        let value = |name: &str| {
            let found = labels.iter().find(|(known, _)| *known == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let (namespace, short) = pod.split_once('/').unwrap_or(("", pod));
        ["source", "destination"].into_iter().any(|end| {
            let of_labels = [format!("{end}_pod"), format!("{end}_namespace")];
            value(end) == pod
                || (value(&of_labels[0]) == short && value(&of_labels[1]) == namespace)
        })
    }
}

impl Told {
    fn is_wanted(&self) -> bool {
        !(self.usual.is_empty() && self.egress.is_empty() && self.ingress.is_empty())
    }

    fn words(&self, way: i32) -> &[&'static str] {
        match way {
            direction::INGRESS if !self.ingress.is_empty() => &self.ingress,
            direction::EGRESS if !self.egress.is_empty() => &self.egress,
            _ => &self.usual,
        }
    }
}

fn ends(flow: &Flow) -> [End<'_>; 2] {
    let ip = flow.ip.as_ref();
    [
        End {
            endpoint: flow.source.as_ref(),
            address: ip.map_or("", |ip| &ip.source),
            names: &flow.source_names,
        },
        End {
            endpoint: flow.destination.as_ref(),
            address: ip.map_or("", |ip| &ip.destination),
            names: &flow.destination_names,
        },
    ]
}

impl End<'_> {
    /// What a word of [`TELLING`] says.
    fn say(&self, word: &str) -> String {
        let within_namespace = |what| within(&self.label("namespace"), &self.label(what));
        match word {
            "dns" => self.names.join(","),
            "identity" => self.endpoint.map_or(String::new(), |it| it.labels.join(",")),
            "pod" => within_namespace("pod"),
            "pod-name" => self.label("pod"),
            "reserved-identity" => self.endpoint.map_or(String::new(), reserved),
            "workload" => within_namespace("workload"),
            "workload-name" => self.label("workload"),
            same => self.label(same),
        }
    }

    /// What a label of [`LABELS`] says, behind whose it is.
    fn label(&self, what: &str) -> String {
        if what == "ip" {
            return self.address.to_owned();
        }
        let Some(endpoint) = self.endpoint else { return String::new() };
        let workload = endpoint.workloads.first();
        match what {
            "pod" => endpoint.pod_name.clone(),
            "namespace" => endpoint.namespace.clone(),
            "workload" => workload.map_or(String::new(), |it| it.name.clone()),
            "workload_kind" => workload.map_or(String::new(), |it| it.kind.clone()),
            _ => {
                let labels = &endpoint.labels;
                let app = |key: &&str| labels.iter().find_map(|label| label.strip_prefix(*key));
                APPS.iter().find_map(app).unwrap_or_default().to_owned()
            }
        }
    }
}

/// A name within a namespace, if there is one.
fn within(namespace: &str, name: &str) -> String {
    match (namespace, name) {
        (_, "") => String::new(),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// What no pod is: the API server is told before the world or the host that it is as well.
fn reserved(endpoint: &FlowEndpoint) -> String {
    let mut all = endpoint.labels.iter().filter(|label| label.starts_with("reserved:"));
    let server = endpoint.labels.iter().find(|label| *label == "reserved:kube-apiserver");
    server.or_else(|| all.next()).cloned().unwrap_or_default()
}
