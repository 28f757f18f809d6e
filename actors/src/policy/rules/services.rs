//! Services: a clause names them, objects say what they are, and the repository brings the two
//! together whenever either changes.
//!
//! A service with a selector means the pods that it selects; one without means the addresses that
//! its EndpointSlices, or its Endpoints, list.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{
    CidrMatch, Peer, Policy, PolicyError, Selector,
    error::twice,
    parse,
    peer::{ServiceBy, ServiceMatch, ServiceName, ServiceSelector},
    service_facts::{ServiceFact, ServiceObjectKey, ServiceReport},
};
use crate::model::{ApiObject, Labels};

impl ServiceSelector {
    /// Whether that may be one of them, whatever its labels are.
    fn may_mean(&self, service: &ServiceName) -> bool {
        let named = match &self.by {
            ServiceBy::Name(name) => *name == service.name,
            ServiceBy::Labels(_) => true,
        };
        named && self.namespace.as_ref().is_none_or(|desired| *desired == service.namespace)
    }

    fn means(&self, service: &ServiceName, labels: &Labels) -> bool {
        let labelled = match &self.by {
            ServiceBy::Name(_) => true,
            ServiceBy::Labels(selector) => selector.matches(labels),
        };
        labelled && self.may_mean(service)
    }
}

impl ServiceMatch {
    /// The services that are meant, of which none is known yet.
    pub(super) fn new(which: ServiceSelector) -> Self {
        Self { which, services: BTreeSet::new(), peers: BTreeSet::new() }
    }

    /// Puts in what it comes to, given these services; whether that is anything new.
    pub(super) fn resolve(&mut self, all: &KnownServices) -> bool {
        let (mut services, mut peers) = (BTreeSet::new(), BTreeSet::new());
        for (name, speeches) in all.candidates(&self.which) {
            let Some(meaning) = meaning(speeches) else { continue };
            if self.which.means(name, meaning.labels) {
                services.insert(name.clone());
                peers.extend(meaning.peers());
            }
        }
        let changed = services != self.services || peers != self.peers;
        (self.services, self.peers) = (services, peers);
        changed
    }
}

impl Policy {
    fn service_matches(&self) -> impl Iterator<Item = (&str, &ServiceMatch)> {
        self.peers().filter_map(|(path, peer)| match peer {
            Peer::Service(service) => Some((path, service)),
            _ => None,
        })
    }

    /// Whether a clause of it names services.
    pub(super) fn names_services(&self) -> bool {
        self.service_matches().next().is_some()
    }

    /// Whether a clause of it may mean one of these.
    pub(super) fn names_any(&self, services: &BTreeSet<ServiceName>) -> bool {
        let mut all = self.service_matches();
        all.any(|(_, named)| services.iter().any(|service| named.which.may_mean(service)))
    }

    /// Services that it names and that there are not, each with the clause.
    pub(super) fn missing_services(&self) -> Vec<MissingService> {
        let missing = self.service_matches().filter(|(_, named)| named.services.is_empty());
        missing
            .map(|(path, named)| MissingService {
                which: named.which.to_string(),
                path: path.to_owned(),
            })
            .collect()
    }

    /// Puts in what its services come to; whether that is anything new.
    pub(super) fn resolve_services(&mut self, services: &KnownServices) -> bool {
        let mut changed = false;
        for peer in self.peers_mut() {
            if let Peer::Service(named) = peer {
                changed |= named.resolve(services);
            }
        }
        changed
    }
}

/// Services that a clause names and that there are not: nobody is meant by them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingService {
    /// Which, `namespace/name`; `*` is every namespace.
    pub which: String,
    /// Path of the clause.
    pub path: String,
}

/// What objects say of a service, by the source that has them.
type ServiceFacts = BTreeMap<(String, ServiceObjectKey), ServiceFact>;

/// All that is known of services, by the source that says it.
#[derive(Clone, Debug, Default)]
pub struct KnownServices {
    speeches: BTreeMap<ServiceName, ServiceFacts>,
    sources: BTreeMap<String, SourceServices>,
}

/// What a source holds.
#[derive(Clone, Debug, Default)]
struct SourceServices {
    /// Of which service each object speaks.
    speakers: BTreeMap<ServiceObjectKey, ServiceName>,
    rejected: Vec<PolicyError>,
}

/// What documents say of services.
#[derive(Default)]
struct Documents {
    speeches: BTreeMap<ServiceObjectKey, ServiceReport>,
    /// Objects that are refused, as far as it could be read which, and why.
    refused: Vec<Option<ServiceObjectKey>>,
    rejected: Vec<PolicyError>,
}

fn read(source: &str, documents: &[ApiObject], cluster: Option<&str>) -> Documents {
    let mut all = Documents::default();
    for document in documents {
        match parse::service(source, document, cluster) {
            None => {}
            Some(Ok((speaker, _))) if all.speeches.contains_key(&speaker) => {
                all.rejected.push(twice(source, parse::speaker_name(&speaker)));
            }
            Some(Ok((speaker, speech))) => drop(all.speeches.insert(speaker, speech)),
            Some(Err(read)) => {
                let (speaker, error) = *read;
                all.refused.push(speaker);
                all.rejected.push(error);
            }
        }
    }
    all
}

/// What a service comes to.
#[derive(PartialEq, Eq)]
struct ResolvedService<'a> {
    labels: &'a Labels,
    pods: Option<&'a Selector>,
    /// Those behind it, if it selects no pods.
    addresses: BTreeSet<IpNet>,
}

impl ResolvedService<'_> {
    fn peers(&self) -> BTreeSet<Peer> {
        let pods = self.pods.map(|pods| Peer::Labels(pods.clone()));
        let cidr = |net: &IpNet| Peer::Cidr(CidrMatch { net: *net, except: BTreeSet::new() });
        pods.into_iter().chain(self.addresses.iter().map(cidr)).collect()
    }
}

/// What a service comes to by what is said of it; nothing if no Service is there. Where two sources
/// describe it, the first one is meant.
fn meaning(speeches: &ServiceFacts) -> Option<ResolvedService<'_>> {
    let (labels, pods) = speeches.values().find_map(|said| match said {
        ServiceFact::Itself { labels, pods } => Some((labels, pods.as_ref())),
        ServiceFact::Addresses(_) => None,
    })?;
    let listed = speeches.values().filter_map(|said| match said {
        ServiceFact::Addresses(nets) if pods.is_none() => Some(nets),
        _ => None,
    });
    Some(ResolvedService { labels, pods, addresses: listed.flatten().copied().collect() })
}

impl KnownServices {
    /// Takes the documents of a source in place of those it had; the services that mean something
    /// else by it. Of an object that is refused an earlier version stays.
    pub fn apply(
        &mut self,
        source: &str,
        documents: &Result<Vec<ApiObject>, String>,
        cluster: Option<&str>,
    ) -> BTreeSet<ServiceName> {
        // Of a file that cannot be read, the owner of the rules complains.
        let Ok(documents) = documents else { return BTreeSet::new() };
        let Documents { speeches: new, refused, rejected } = read(source, documents, cluster);
        if new.is_empty() && rejected.is_empty() && !self.sources.contains_key(source) {
            return BTreeSet::new();
        }
        let old = self.sources.remove(source).unwrap_or_default();
        for error in rejected.iter().filter(|error| !old.rejected.contains(error)) {
            tracing::error!(file = source, %error, "refused; what it was before stays");
        }
        let nameless = refused.contains(&None);
        let mut speakers = BTreeMap::new();
        let mut changed =
            BTreeMap::<ServiceName, Vec<(ServiceObjectKey, Option<ServiceFact>)>>::new();
        for (speaker, service) in old.speakers {
            let stays = nameless || refused.contains(&Some(speaker.clone()));
            match new.get(&speaker) {
                None if stays => drop(speakers.insert(speaker, service)),
                Some(speech) if speech.service == service => {}
                _ => changed.entry(service).or_default().push((speaker, None)),
            }
        }
        for (speaker, ServiceReport { service, said }) in new {
            changed.entry(service.clone()).or_default().push((speaker.clone(), Some(said)));
            speakers.insert(speaker, service);
        }
        if !speakers.is_empty() || !rejected.is_empty() {
            self.sources.insert(source.to_owned(), SourceServices { speakers, rejected });
        }
        changed.retain(|service, now| self.say(source, service, std::mem::take(now)));
        changed.into_keys().collect()
    }

    /// Takes in what objects of a source say of a service; whether that means something else.
    fn say(
        &mut self,
        source: &str,
        service: &ServiceName,
        now: Vec<(ServiceObjectKey, Option<ServiceFact>)>,
    ) -> bool {
        let before = self.speeches.remove(service).unwrap_or_default();
        let mut after = before.clone();
        for (speaker, said) in now {
            let speaker = (source.to_owned(), speaker);
            match said {
                Some(said) => drop(after.insert(speaker, said)),
                None => drop(after.remove(&speaker)),
            }
        }
        let changed = meaning(&before) != meaning(&after);
        if !after.is_empty() {
            self.speeches.insert(service.clone(), after);
        }
        changed
    }

    /// Those that a clause may name, whatever their labels are.
    fn candidates(
        &self,
        which: &ServiceSelector,
    ) -> impl Iterator<Item = (&ServiceName, &ServiceFacts)> {
        let name = match (&which.namespace, &which.by) {
            (Some(_), ServiceBy::Name(name)) => name.clone(),
            _ => String::new(),
        };
        let namespace = which.namespace.clone();
        let first = ServiceName { namespace: namespace.clone().unwrap_or_default(), name };
        let inside =
            move |name: &ServiceName| namespace.as_ref().is_none_or(|it| *it == name.namespace);
        let all = self.speeches.range(first..).take_while(move |(name, _)| inside(name));
        all.filter(|(name, _)| which.may_mean(name))
    }

    /// Objects that were refused, with their sources.
    pub fn rejected(&self) -> impl Iterator<Item = (&str, &PolicyError)> {
        self.sources.iter().flat_map(|(source, held)| {
            held.rejected.iter().map(move |error| (source.as_str(), error))
        })
    }
}
