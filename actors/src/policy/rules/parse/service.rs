//! Service, EndpointSlice and Endpoints, as far as policies ask.

use std::collections::BTreeSet;

use ipnet::IpNet;
use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::{EndpointConditions, EndpointSlice},
};

use super::scope::{CLUSTER_LABEL, NAMESPACE_LABEL};
use crate::{
    model::{ApiObject, Label, Labels, field::Fault, place::Place},
    policy::rules::{
        PolicyError, Selector, SelectorKey, ServiceName,
        service_facts::{ServiceFact, ServiceObjectKey, ServiceReport},
    },
};

/// Label of an EndpointSlice that says whose addresses it lists.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Kinds that speak of services.
const KINDS: [&str; 3] = ["Service", "EndpointSlice", "Endpoints"];

/// An object that speaks of a service, and what it says; or which one is refused, as far as that
/// could be read, and why.
type ServiceReadResult =
    Result<(ServiceObjectKey, ServiceReport), Box<(Option<ServiceObjectKey>, PolicyError)>>;

/// Reads an object; `None` if it is of another kind, or says nothing of any service. `cluster`
/// narrows pods to those that carry the label of that cluster.
pub(in crate::policy::rules) fn service(
    file: &str,
    document: &ApiObject,
    cluster: Option<&str>,
) -> Option<ServiceReadResult> {
    let kind = match document {
        ApiObject::Service(_) => KINDS[0],
        ApiObject::EndpointSlice(_) => KINDS[1],
        ApiObject::Endpoints(_) => KINDS[2],
        ApiObject::Malformed(object) if KINDS.contains(&object.kind) => object.kind,
        _ => return None,
    };
    let refused = |speaker: Option<ServiceObjectKey>, fault: Fault| {
        let Fault { path, problem, remedy } = fault;
        let object = speaker.as_ref().map(speaker_name);
        let error = PolicyError { file: file.to_owned(), object, path, problem, remedy };
        Box::new((speaker, error))
    };
    let Some((namespace, name)) = document.name() else {
        let fault = match document {
            ApiObject::Malformed(object) => object.fault.clone(),
            _ => Place::ROOT.key("metadata").missing("name"),
        };
        return Some(Err(refused(None, fault)));
    };
    let namespace = if namespace.is_empty() { "default" } else { namespace }.to_owned();
    let speaker = (kind, namespace.clone(), name.to_owned());
    let name = ServiceName { namespace, name: name.to_owned() };
    let speech = match document {
        ApiObject::Service(service) => {
            let said = itself(service, &name, cluster);
            Ok(Some((name, said)))
        }
        ApiObject::EndpointSlice(it) => slice(it, name.namespace),
        ApiObject::Endpoints(it) => {
            endpoints(it).map(|nets| Some((name, ServiceFact::Addresses(nets))))
        }
        ApiObject::Malformed(object) => Err(object.fault.clone()),
        _ => return None,
    };
    match speech {
        Ok(speech) => speech.map(|(service, said)| Ok((speaker, ServiceReport { service, said }))),
        Err(fault) => Some(Err(refused(Some(speaker), fault))),
    }
}

/// An object as errors name it.
pub(in crate::policy::rules) fn speaker_name((kind, namespace, name): &ServiceObjectKey) -> String {
    format!("{kind} {namespace}/{name}")
}

fn itself(service: &Service, name: &ServiceName, cluster: Option<&str>) -> ServiceFact {
    let mut labels = Labels::default();
    for (key, value) in service.metadata.labels.iter().flatten() {
        labels.insert(Label::new("k8s", key, value));
    }
    let selected = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let pods = selected.filter(|selected| !selected.is_empty()).map(|selected| {
        let place = [(NAMESPACE_LABEL, Some(name.namespace.as_str())), (CLUSTER_LABEL, cluster)];
        let place = place.into_iter().filter_map(|(key, value)| Some((key, value?.to_owned())));
        let own = selected.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let all = own.chain(place);
        let labels = all.map(|(key, value)| (SelectorKey::new("k8s", key), value)).collect();
        Selector { labels, expressions: Vec::new() }
    });
    ServiceFact::Itself { labels, pods }
}

/// The service of a slice and its addresses; `None` if it is nobody's, or lists no addresses.
fn slice(
    slice: &EndpointSlice,
    namespace: String,
) -> Result<Option<(ServiceName, ServiceFact)>, Fault> {
    let labels = slice.metadata.labels.as_ref();
    let Some(name) = labels.and_then(|labels| labels.get(SERVICE_LABEL)) else { return Ok(None) };
    let service = ServiceName { namespace, name: name.clone() };
    match Place::ROOT.need("addressType", &slice.address_type)? {
        // Of version v1beta1, too.
        "IPv4" | "IPv6" | "IP" => {}
        "FQDN" => return Ok(None),
        other => {
            let problem = format!("unknown type of addresses {other:?}");
            return Err(Place::ROOT.key("addressType").fault(problem, "write IPv4 or IPv6"));
        }
    }
    let mut nets = BTreeSet::new();
    let place = Place::ROOT.key("endpoints");
    for (at, endpoint) in place.each(Some(&slice.endpoints)) {
        let place = at.key("addresses");
        let listed = place.each(Some(&endpoint.addresses)).map(|(at, text)| address(&at, text));
        let listed = listed.collect::<Result<Vec<_>, _>>()?;
        if is_served(endpoint.conditions.as_ref()) {
            nets.extend(listed);
        }
    }
    Ok(Some((service, ServiceFact::Addresses(nets))))
}

/// Whether packets go there: it is ready, or it still serves while it ends. What is not said counts
/// as ready.
fn is_served(conditions: Option<&EndpointConditions>) -> bool {
    let Some(is) = conditions else { return true };
    let ends = is.serving.unwrap_or(false) && is.terminating.unwrap_or(false);
    is.ready.unwrap_or(true) || ends
}

fn endpoints(endpoints: &Endpoints) -> Result<BTreeSet<IpNet>, Fault> {
    let mut nets = BTreeSet::new();
    let place = Place::ROOT.key("subsets");
    for (at, subset) in place.each(endpoints.subsets.as_ref()) {
        let place = at.key("addresses");
        for (at, listed) in place.each(subset.addresses.as_ref()) {
            nets.insert(address(&at.key("ip"), at.need("ip", &listed.ip)?)?);
        }
    }
    Ok(nets)
}

fn address(at: &Place<'_>, text: &str) -> Result<IpNet, Fault> {
    at.address(text).map(IpNet::from)
}
