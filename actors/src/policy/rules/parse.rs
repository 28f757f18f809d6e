//! From manifests to rules.

mod cidr;
mod cidr_group;
mod cilium;
mod cilium_peers;
mod cilium_ports;
mod icmp;
mod kubernetes;
mod meant;
mod port;
mod ranked;
mod ranked_peers;
mod ranked_pods;
mod ranked_ports;
mod scope;
mod selector;
mod service;
mod side;
mod to_services;

use serde_json::Value;

use self::scope::ParseContext;
pub use self::selector::{namespace_selector, pod_selector};
pub(super) use self::{
    meant::anybody,
    service::{service, speaker_name},
};
use super::{Bound, Policy, PolicyError, PolicyKind, PolicyName, PolicySettings};
use crate::model::{
    Labels,
    field::{Fault, Field, Mapping},
};

/// Kinds that a source may hold beside policies, and that are not looked at here.
const NOT_POLICIES: &[&str] =
    &["EndpointSlice", "Endpoints", "Ingress", "Namespace", "Pod", "Service"];

/// A document that was refused, and whose it is as far as that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedDocument {
    /// The object, so that an earlier version of it can stay in force.
    pub name: Option<PolicyName>,
    /// Why.
    pub error: PolicyError,
    /// Whom it would be for; whoever may be meant, if that cannot be read.
    pub meant: Vec<Bound>,
}

impl RefusedDocument {
    /// Whether an endpoint with these labels may be meant.
    pub fn means(&self, labels: &Labels) -> bool {
        self.meant.iter().any(|bound| bound.includes(labels))
    }
}

/// Reads the policies and groups of prefixes of one document: one, those of a `List`, or none if it
/// is a Pod, a Namespace or speaks of a service. `settings` are those of all policies.
pub fn parse(
    file: &str,
    document: &Value,
    settings: &PolicySettings,
) -> Vec<Result<Policy, RefusedDocument>> {
    let mut policies = Vec::new();
    read(file, &Field::root(document), settings, &mut policies);
    policies
}

fn read(
    file: &str,
    document: &Field<'_>,
    settings: &PolicySettings,
    policies: &mut Vec<Result<Policy, RefusedDocument>>,
) {
    let listed = document.any_mapping().and_then(|mapping| items(&mapping));
    match listed {
        Err(fault) => policies.push(Err(refused(file, document, None, fault))),
        Ok(Some(items)) => items.iter().for_each(|item| read(file, item, settings, policies)),
        Ok(None) => match name(document) {
            Err(fault) => policies.push(Err(refused(file, document, None, fault))),
            Ok(None) => {}
            Ok(Some(name)) => {
                let policy = policy(file, document, &name, settings);
                policies.push(policy.map_err(|fault| refused(file, document, Some(name), fault)));
            }
        },
    }
}

fn refused(
    file: &str,
    document: &Field<'_>,
    name: Option<PolicyName>,
    fault: Fault,
) -> RefusedDocument {
    let meant = match &name {
        Some(name) => meant::of(document, name),
        None => meant::of_nameless(document),
    };
    let Fault { path, problem, remedy } = fault;
    let object = name.as_ref().map(PolicyName::to_string);
    let error = PolicyError { file: file.to_owned(), object, path, problem, remedy };
    RefusedDocument { name, error, meant }
}

/// The items, if it is a list of objects.
fn items<'a>(document: &Mapping<'a>) -> Result<Option<Vec<Field<'a>>>, Fault> {
    let kind = document.need("kind")?;
    if kind.text()?.ends_with("List") { document.list("items") } else { Ok(None) }
}

/// Which policy it is; `None` if it is one of the kinds that are not looked at.
fn name(document: &Field<'_>) -> Result<Option<PolicyName>, Fault> {
    let mapping = document.any_mapping()?;
    let kind_field = mapping.need("kind")?;
    let (kind, versions): (_, &[&str]) = match kind_field.text()? {
        "CiliumNetworkPolicy" => (PolicyKind::CiliumNetworkPolicy, &["cilium.io/v2"]),
        "CiliumClusterwideNetworkPolicy" => {
            (PolicyKind::CiliumClusterwideNetworkPolicy, &["cilium.io/v2"])
        }
        "NetworkPolicy" => (PolicyKind::NetworkPolicy, &["networking.k8s.io/v1"]),
        "CiliumCIDRGroup" => (PolicyKind::CiliumCIDRGroup, &["cilium.io/v2", "cilium.io/v2alpha1"]),
        "ClusterNetworkPolicy" => {
            (PolicyKind::ClusterNetworkPolicy, &["policy.networking.k8s.io/v1alpha2"])
        }
        other if NOT_POLICIES.contains(&other) => return Ok(None),
        other => {
            return Err(kind_field.fault(
                format!("unknown kind {other:?}"),
                "write CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy, NetworkPolicy, \
                 ClusterNetworkPolicy or CiliumCIDRGroup",
            ));
        }
    };
    let metadata = mapping.need("metadata")?.any_mapping()?;
    let name = metadata.need("name")?;
    if name.text()?.is_empty() {
        return Err(name.fault("the name is empty", "write a name"));
    }
    let namespace = metadata.get("namespace").map(|field| field.text()).transpose()?;
    let namespace = match kind {
        PolicyKind::CiliumClusterwideNetworkPolicy
        | PolicyKind::CiliumCIDRGroup
        | PolicyKind::ClusterNetworkPolicy => None,
        _ => Some(namespace.unwrap_or("default").to_owned()),
    };
    let written = mapping.need("apiVersion")?;
    if !versions.contains(&written.text()?) {
        return Err(written.fault(
            format!("{kind} of version {} is not known", written.value),
            format!("write {}", versions[0]),
        ));
    }
    Ok(Some(PolicyName { kind, namespace, name: name.text()?.to_owned() }))
}

fn policy(
    file: &str,
    document: &Field<'_>,
    name: &PolicyName,
    settings: &PolicySettings,
) -> Result<Policy, Fault> {
    if name.kind == PolicyKind::CiliumCIDRGroup {
        let group = Some(cidr_group::group(document)?);
        let (rules, unsupported, written) = (Vec::new(), Vec::new(), Vec::new());
        return Ok(Policy { name: name.clone(), rules, group, unsupported, written });
    }
    let read = match name.kind {
        PolicyKind::NetworkPolicy => kubernetes::rule,
        PolicyKind::ClusterNetworkPolicy => ranked::rule,
        _ => cilium::rule,
    };
    let mut known = vec!["apiVersion", "kind", "metadata", "spec", "status"];
    if matches!(
        name.kind,
        PolicyKind::CiliumNetworkPolicy | PolicyKind::CiliumClusterwideNetworkPolicy
    ) {
        known.push("specs");
    }
    let mapping = document.mapping(&known)?;
    let mut scope = ParseContext { file, name, settings, unsupported: Vec::new() };
    let mut specs = Vec::from_iter(mapping.get("spec"));
    specs.extend(mapping.list("specs")?.unwrap_or_default());
    if specs.is_empty() {
        mapping.need("spec")?;
    }
    let mut rules = Vec::new();
    for spec in &specs {
        rules.push(read(spec, &mut scope)?);
    }
    Ok(Policy {
        name: name.clone(),
        rules,
        group: None,
        unsupported: scope.unsupported,
        written: specs.iter().map(|spec| spec.value.clone()).collect(),
    })
}
