//! Service, EndpointSlice and Endpoints, as far as policies ask.

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde_json::Value;

use super::scope::{CLUSTER_LABEL, NAMESPACE_LABEL};
use crate::{
    model::{
        Label, Labels,
        field::{Fault, Field, Mapping},
    },
    policy::rules::{
        PolicyError, Selector, SelectorKey, ServiceName,
        service_facts::{ServiceFact, ServiceObjectKey, ServiceReport},
    },
};

/// Label of an EndpointSlice that says whose addresses it lists.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Kinds that speak of services, in the versions that are understood.
const KINDS: [(&str, &[&str]); 3] = [
    ("Service", &["v1"]),
    ("EndpointSlice", &["discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"]),
    ("Endpoints", &["v1"]),
];

/// An object that speaks of a service, and what it says; or which one is refused, as far as that
/// could be read, and why.
type ServiceReadResult =
    Result<(ServiceObjectKey, ServiceReport), Box<(Option<ServiceObjectKey>, PolicyError)>>;

/// Reads an object; `None` if it is of another kind, or says nothing of any service. `cluster`
/// narrows pods to those that carry the label of that cluster.
pub(in crate::policy::rules) fn service(
    file: &str,
    document: &Value,
    cluster: Option<&str>,
) -> Option<ServiceReadResult> {
    let kind = document.get("kind").and_then(Value::as_str)?;
    let (kind, versions) = KINDS.into_iter().find(|(known, _)| *known == kind)?;
    let refused = |speaker: Option<ServiceObjectKey>, fault: Fault| {
        let Fault { path, problem, remedy } = fault;
        let object = speaker.as_ref().map(speaker_name);
        let error = PolicyError { file: file.to_owned(), object, path, problem, remedy };
        Box::new((speaker, error))
    };
    let root = Field::root(document);
    let name = match name(&root) {
        Ok(name) => name,
        Err(fault) => return Some(Err(refused(None, fault))),
    };
    let speaker = (kind, name.namespace.clone(), name.name.clone());
    let mapping = root.any_mapping().and_then(|mapping| {
        let written = mapping.need("apiVersion")?;
        if versions.contains(&written.text()?) {
            return Ok(mapping);
        }
        Err(written.fault(
            format!("{kind} of version {} is not known", written.value),
            format!("write {}", versions[0]),
        ))
    });
    let speech = mapping.and_then(|mapping| match kind {
        "Service" => itself(&mapping, &name, cluster).map(|said| Some((name, said))),
        "EndpointSlice" => slice(&mapping, name.namespace),
        _ => endpoints(&mapping).map(|nets| Some((name, ServiceFact::Addresses(nets)))),
    });
    match speech {
        Ok(speech) => speech.map(|(service, said)| Ok((speaker, ServiceReport { service, said }))),
        Err(fault) => Some(Err(refused(Some(speaker), fault))),
    }
}

/// An object as errors name it.
pub(in crate::policy::rules) fn speaker_name((kind, namespace, name): &ServiceObjectKey) -> String {
    format!("{kind} {namespace}/{name}")
}

fn name(root: &Field<'_>) -> Result<ServiceName, Fault> {
    let metadata = root.any_mapping()?.need("metadata")?.any_mapping()?;
    let name = metadata.need("name")?;
    if name.text()?.is_empty() {
        return Err(name.fault("the name is empty", "write a name"));
    }
    let namespace = metadata.get("namespace").map(|field| field.text()).transpose()?;
    let namespace = namespace.unwrap_or("default").to_owned();
    Ok(ServiceName { namespace, name: name.text()?.to_owned() })
}

fn itself(
    mapping: &Mapping<'_>,
    name: &ServiceName,
    cluster: Option<&str>,
) -> Result<ServiceFact, Fault> {
    let texts = |of: Option<Mapping<'_>>, name: &str| -> Result<Vec<(String, String)>, Fault> {
        let Some(all) = of.and_then(|of| of.get(name)) else { return Ok(Vec::new()) };
        let all = all.any_mapping()?;
        all.entries().map(|(key, value)| Ok((key.to_owned(), value.text()?.to_owned()))).collect()
    };
    let inside = |name| mapping.get(name).map(|field| field.any_mapping()).transpose();
    let mut labels = Labels::default();
    for (key, value) in texts(inside("metadata")?, "labels")? {
        labels.insert(Label::new("k8s", key, value));
    }
    let selected = texts(inside("spec")?, "selector")?;
    let pods = (!selected.is_empty()).then(|| {
        let place = [(NAMESPACE_LABEL, Some(name.namespace.as_str())), (CLUSTER_LABEL, cluster)];
        let place = place.into_iter().filter_map(|(key, value)| Some((key.into(), value?.into())));
        let all = selected.into_iter().chain(place);
        let labels = all.map(|(key, value)| (SelectorKey::new("k8s", key), value)).collect();
        Selector { labels, expressions: Vec::new() }
    });
    Ok(ServiceFact::Itself { labels, pods })
}

/// The service of a slice and its addresses; `None` if it is nobody's, or lists no addresses.
fn slice(
    mapping: &Mapping<'_>,
    namespace: String,
) -> Result<Option<(ServiceName, ServiceFact)>, Fault> {
    let labels = mapping.need("metadata")?.any_mapping()?.get("labels");
    let labels = labels.map(|field| field.any_mapping()).transpose()?;
    let Some(name) = labels.and_then(|labels| labels.get(SERVICE_LABEL)) else { return Ok(None) };
    let service = ServiceName { namespace, name: name.text()?.to_owned() };
    let kind = mapping.need("addressType")?;
    match kind.text()? {
        // Of version v1beta1, too.
        "IPv4" | "IPv6" | "IP" => {}
        "FQDN" => return Ok(None),
        other => {
            let problem = format!("unknown type of addresses {other:?}");
            return Err(kind.fault(problem, "write IPv4 or IPv6"));
        }
    }
    let mut nets = BTreeSet::new();
    for endpoint in mapping.list("endpoints")?.unwrap_or_default() {
        let endpoint = endpoint.any_mapping()?;
        let listed = endpoint.list("addresses")?.unwrap_or_default();
        let listed = listed.iter().map(address).collect::<Result<Vec<_>, _>>()?;
        if is_served(&endpoint)? {
            nets.extend(listed);
        }
    }
    Ok(Some((service, ServiceFact::Addresses(nets))))
}

/// Whether packets go there: it is ready, or it still serves while it ends. What is not said counts
/// as ready.
fn is_served(endpoint: &Mapping<'_>) -> Result<bool, Fault> {
    let Some(conditions) = endpoint.get("conditions") else { return Ok(true) };
    let conditions = conditions.any_mapping()?;
    let is = |name| conditions.get(name).map(|field| field.truth()).transpose();
    let ends = is("serving")?.unwrap_or(false) && is("terminating")?.unwrap_or(false);
    Ok(is("ready")?.unwrap_or(true) || ends)
}

fn endpoints(mapping: &Mapping<'_>) -> Result<BTreeSet<IpNet>, Fault> {
    let mut nets = BTreeSet::new();
    for subset in mapping.list("subsets")?.unwrap_or_default() {
        for listed in subset.any_mapping()?.list("addresses")?.unwrap_or_default() {
            nets.insert(address(&listed.any_mapping()?.need("ip")?)?);
        }
    }
    Ok(nets)
}

fn address(field: &Field<'_>) -> Result<IpNet, Fault> {
    field.address().map(IpNet::from)
}
