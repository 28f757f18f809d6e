//! A small world in which policies are tried.

use std::{net::IpAddr, sync::Arc};

use serde_json::Value;

use crate::{
    model::{ApiObject, Direction, IdentityId, Labels, NamedPorts},
    policy::{
        identity::reserved,
        rules::{
            ApplyReport, IdentityView, KnownServices, PeerFacts, PolicySettings, Repository,
            Resolved, Subject, Verdict, lookup,
        },
    },
};

/// First number of local prefixes.
const LOCAL: u32 = IdentityId::MIN_LOCAL_CIDR.0;

/// Pods by identity, label `app` and namespace.
pub(super) const PODS: [(u32, &str, &str); 5] = [
    (1000, "web", "default"),
    (1001, "db", "default"),
    (1002, "mail", "default"),
    (1003, "web", "other"),
    (1004, "db", "other"),
];

/// Names of the pods' ports: identity, name, protocol, number. Those of one identity may differ.
pub(super) const NAMED: [(u32, &str, u8, u16); 6] = [
    (1000, "http", 6, 80),
    (1000, "dns", 17, 8),
    (1001, "http", 6, 81),
    (1001, "http", 6, 8),
    (1002, "dns", 6, 79),
    (1003, "http", 17, 80),
];

/// A repository, and the identities that are known to it.
pub(super) struct World {
    pub(super) repository: Repository,
    pub(super) services: KnownServices,
    pub(super) named_ports: NamedPorts,
}

/// The other side of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Other {
    Identity(u32),
    Address(IpAddr),
}

impl World {
    pub(super) fn new(settings: PolicySettings) -> Self {
        let repository = Repository::new(settings);
        Self { repository, services: no_services(), named_ports: NamedPorts::new() }
    }

    /// A world with these documents, none of which is refused.
    pub(super) fn with(documents: impl IntoIterator<Item = Value>) -> Self {
        let mut world = Self::new(PolicySettings::default());
        let report = world.apply(documents);
        assert_eq!(report.rejected, []);
        world
    }

    pub(super) fn apply(&mut self, documents: impl IntoIterator<Item = Value>) -> ApplyReport {
        self.apply_from("test.yaml", &Ok(documents.into_iter().collect()))
    }

    /// As the owner of the rules does it.
    pub(super) fn apply_from(
        &mut self,
        source: &str,
        documents: &Result<Vec<Value>, String>,
    ) -> ApplyReport {
        let cluster = self.repository.settings().cluster.clone().map(|it| it.name);
        let documents = &documents.clone().and_then(read);
        let changed = self.services.apply(source, documents, cluster.as_deref());
        let mut report = self.repository.apply(source, documents, &self.services);
        report.join(self.repository.resolve_services(&self.services, &changed));
        report
    }

    /// Every identity: reserved ones, pods, and a local one for each prefix.
    pub(super) fn view(&self) -> IdentityView {
        let mut view = IdentityView::default();
        for (id, labels) in reserved::identities() {
            view.insert(id, facts(labels));
        }
        for (id, app, namespace) in PODS {
            let named_ports = Arc::new(named_ports(id));
            view.insert(IdentityId(id), PeerFacts { named_ports, ..facts(pod(app, namespace)) });
        }
        for (id, net) in (LOCAL..).map(IdentityId).zip(self.repository.cidrs()) {
            let labels = reserved::prefix_labels(&net, self.repository.settings().families);
            view.insert(id, PeerFacts { prefix: Some(net), ..facts(labels) });
        }
        view
    }

    pub(super) fn resolve(&self, app: &str) -> Resolved {
        self.resolve_in(app, "default", &self.view())
    }

    pub(super) fn resolve_in(&self, app: &str, namespace: &str, view: &IdentityView) -> Resolved {
        let labels = Arc::new(pod(app, namespace));
        self.repository.resolve(&Subject { labels, named_ports: self.named_ports.clone() }, view)
    }

    /// The identity that the ipcache has for the other side of a packet.
    pub(super) fn identity_of(&self, other: Other) -> IdentityId {
        let address = match other {
            Other::Identity(id) => return IdentityId(id),
            Other::Address(address) => address,
        };
        let known = (LOCAL..).map(IdentityId).zip(self.repository.cidrs());
        let holding = known.filter(|(_, net)| net.contains(&address));
        match holding.max_by_key(|(_, net)| net.prefix_len()) {
            Some((id, _)) => id,
            None if address.is_ipv4() => IdentityId::WORLD_IPV4,
            None => IdentityId::WORLD_IPV6,
        }
    }

    /// What becomes of a packet from that side to the pod `web`, by the rows of its policy map.
    pub(super) fn ingress(&self, from: Other, protocol: u8, port: u16) -> Verdict {
        self.verdict(Direction::Ingress, from, protocol, port)
    }

    /// What becomes of a packet to that side from the pod `web`.
    pub(super) fn egress(&self, to: Other, protocol: u8, port: u16) -> Verdict {
        self.verdict(Direction::Egress, to, protocol, port)
    }

    fn verdict(&self, direction: Direction, other: Other, protocol: u8, port: u16) -> Verdict {
        lookup(&self.resolve("web").rows, direction, self.identity_of(other), protocol, port)
    }
}

/// No services.
/// Documents as they are read.
pub(super) fn read(documents: Vec<Value>) -> Result<Vec<ApiObject>, String> {
    Ok(ApiObject::all(documents))
}

pub(super) fn no_services() -> KnownServices {
    KnownServices::default()
}

pub(super) fn pod(app: &str, namespace: &str) -> Labels {
    let texts = [
        format!("k8s:app={app}"),
        format!("k8s:io.kubernetes.pod.namespace={namespace}"),
        format!("k8s:io.cilium.k8s.namespace.labels.team={namespace}-team"),
        "k8s:io.cilium.k8s.policy.cluster=default".to_owned(),
    ];
    Labels::parse(texts.iter().map(String::as_str)).unwrap()
}

/// Names of the ports of those who have that identity.
pub(super) fn named_ports(identity: u32) -> NamedPorts {
    let mut named = NamedPorts::new();
    for (_, name, protocol, port) in NAMED.into_iter().filter(|(id, ..)| *id == identity) {
        named.entry(name.to_owned()).or_default().insert((protocol, port));
    }
    named
}

pub(super) fn facts(labels: Labels) -> PeerFacts {
    PeerFacts { labels: Arc::new(labels), ..PeerFacts::default() }
}

pub(super) fn address(text: &str) -> Other {
    Other::Address(text.parse().unwrap())
}

/// The pod of that app and namespace.
pub(super) fn pod_of(app: &str, namespace: &str) -> Other {
    let pod = PODS.into_iter().find(|pod| (pod.1, pod.2) == (app, namespace));
    Other::Identity(pod.unwrap().0)
}
