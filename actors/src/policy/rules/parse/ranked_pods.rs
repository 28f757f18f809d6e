//! Reads the ways in which ClusterNetworkPolicy selects pods, of its subject and of peers.

use super::{
    scope::NAMESPACE_LABEL,
    selector::{Keys, selector},
};
use crate::{
    model::field::{Fault, Field},
    policy::rules::{Selector, SelectorKey},
};

/// Whom the policy is for: pods only, never those of a node's own network.
pub(super) fn subject(field: &Field<'_>) -> Result<Selector, Fault> {
    let mapping = field.any_mapping()?;
    let mut ways = mapping.entries();
    match (ways.next(), ways.next()) {
        (Some(("namespaces", namespaces)), None) => in_namespaces(&namespaces),
        (Some(("pods", pods)), None) => in_pods(&pods),
        (None, _) => {
            Err(field.fault("the policy selects nobody", "add namespaces or pods to the subject"))
        }
        (Some((_, way)), None) => Err(way.fault(
            "unknown way to select a subject",
            "write namespaces or pods; another one needs a newer agent",
        )),
        (Some(_), Some((_, second))) => {
            Err(second.fault("two ways to select the subject", "write namespaces or pods"))
        }
    }
}

/// All pods of some namespaces. Who has no namespace is no pod.
pub(super) fn in_namespaces(field: &Field<'_>) -> Result<Selector, Fault> {
    Ok(selector(field, Keys::Namespace)?.and_exists(SelectorKey::new("k8s", NAMESPACE_LABEL)))
}

/// Some pods of some namespaces.
pub(super) fn in_pods(field: &Field<'_>) -> Result<Selector, Fault> {
    let mapping = field.mapping(&["namespaceSelector", "podSelector"])?;
    let mut all = in_namespaces(&mapping.need("namespaceSelector")?)?;
    let pods = selector(&mapping.need("podSelector")?, Keys::Pod)?;
    all.labels.extend(pods.labels);
    all.expressions.extend(pods.expressions);
    Ok(all)
}
