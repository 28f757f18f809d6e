//! Whom a document that is refused would be for, as far as that can be read; in doubt all of its
//! namespace, or everybody.

use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::{
    kubernetes, ranked_pods,
    scope::ParseContext,
    selector::{Keys, selector},
};
use crate::{
    model::{
        field::{Field, Mapping},
        place::Place,
    },
    policy::rules::{Bound, PolicyKind, PolicyName, Selector},
};

/// Everybody, nodes as well.
pub(in crate::policy::rules) fn anybody() -> Vec<Bound> {
    vec![Bound::Endpoints(Selector::default()), Bound::Nodes(Selector::default())]
}

/// Whom a document is for that names no object.
pub(super) fn of_nameless(document: &Field<'_>) -> Vec<Bound> {
    let Ok(mapping) = document.any_mapping() else { return anybody() };
    let kind = mapping.get("kind");
    match kind.as_ref().and_then(|kind| kind.value.as_str()) {
        Some("CiliumNetworkPolicy" | "NetworkPolicy") => {
            let metadata = mapping.get("metadata");
            let metadata = metadata.and_then(|metadata| metadata.any_mapping().ok());
            let namespace = metadata.and_then(|metadata| metadata.get("namespace"));
            match namespace.as_ref().map(|field| field.text()) {
                Some(Ok(namespace)) => vec![all_of(Some(namespace))],
                None => vec![all_of(Some("default"))],
                Some(Err(_)) => vec![all_of(None)],
            }
        }
        // What is no policy is for nobody.
        Some(kind)
            if !kind.ends_with("List")
                && !["CiliumClusterwideNetworkPolicy", "ClusterNetworkPolicy"].contains(&kind) =>
        {
            Vec::new()
        }
        _ => anybody(),
    }
}

/// Whom a policy of that name is for.
pub(super) fn of(document: &Field<'_>, name: &PolicyName) -> Vec<Bound> {
    if name.kind == PolicyKind::CiliumCIDRGroup {
        return Vec::new();
    }
    if name.kind == PolicyKind::ClusterNetworkPolicy {
        return of_ranked(document).unwrap_or_else(|| vec![all_of(None)]);
    }
    let namespace = name.namespace.as_deref();
    let all = || match namespace {
        Some(_) => vec![all_of(namespace)],
        None => anybody(),
    };
    let Ok(mapping) = document.any_mapping() else { return all() };
    let Ok(more) = mapping.list("specs") else { return all() };
    let specs = mapping.get("spec").into_iter().chain(more.unwrap_or_default());
    let each: Vec<_> = specs.map(|spec| of_spec(&spec, namespace).unwrap_or_else(all)).collect();
    if each.is_empty() { all() } else { each.concat() }
}

/// Whom a NetworkPolicy is for of that namespace.
pub(super) fn of_kubernetes(policy: &NetworkPolicy, namespace: &str) -> Vec<Bound> {
    let pods = policy.spec.as_ref();
    let pods = pods.and_then(|spec| kubernetes::subject(&Place::ROOT, spec, namespace).ok());
    vec![pods.map_or_else(|| all_of(Some(namespace)), Bound::Endpoints)]
}

fn of_ranked(document: &Field<'_>) -> Option<Vec<Bound>> {
    let spec = document.any_mapping().ok()?.get("spec")?;
    let subject = spec.any_mapping().ok()?.get("subject")?;
    Some(vec![Bound::Endpoints(ranked_pods::subject(&subject).ok()?)])
}

fn of_spec(spec: &Field<'_>, namespace: Option<&str>) -> Option<Vec<Bound>> {
    let spec = spec.any_mapping().ok()?;
    let pods = ["podSelector", "endpointSelector"].map(|key| read(&spec, key));
    match (pods, read(&spec, "nodeSelector")) {
        ([None, None], Some(nodes)) => Some(vec![Bound::Nodes(nodes.unwrap_or_default())]),
        ([Some(pods), None] | [None, Some(pods)], None) => {
            let mut pods = pods?;
            if let Some(namespace) = namespace {
                ParseContext::in_namespace(&mut pods, namespace);
            }
            Some(vec![Bound::Endpoints(pods)])
        }
        _ => None,
    }
}

/// A selector, if there is one; none in it if it cannot be read.
fn read(spec: &Mapping<'_>, key: &str) -> Option<Option<Selector>> {
    let keys = if key == "podSelector" { Keys::Pod } else { Keys::Cilium };
    spec.get(key).map(|field| selector(&field, keys).ok())
}

pub(super) fn all_of(namespace: Option<&str>) -> Bound {
    let mut all = Selector::default();
    if let Some(namespace) = namespace {
        ParseContext::in_namespace(&mut all, namespace);
    }
    Bound::Endpoints(all)
}
