//! From manifests to rules.

mod cidr;
mod cidr_group;
mod cilium;
mod cilium_peers;
mod cilium_ports;
mod icmp;
mod kubernetes;
mod label_selector;
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

use k8s_openapi::api::networking::v1::NetworkPolicy;

use self::scope::ParseContext;
pub use self::selector::{namespace_selector, pod_selector};
pub(super) use self::{
    meant::anybody,
    service::{service, speaker_name},
};
use super::{Bound, Policy, PolicyError, PolicyKind, PolicyName, PolicySettings};
use crate::model::{
    ApiObject, Labels, MalformedObject,
    field::{Fault, Field, Mapping},
    place::Place,
};

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
    document: &ApiObject,
    settings: &PolicySettings,
) -> Vec<Result<Policy, RefusedDocument>> {
    let mut policies = Vec::new();
    read(file, document, &Place::ROOT, settings, &mut policies);
    policies
}

fn read(
    file: &str,
    document: &ApiObject,
    place: &Place<'_>,
    settings: &PolicySettings,
    policies: &mut Vec<Result<Policy, RefusedDocument>>,
) {
    match document {
        ApiObject::NetworkPolicy(policy) => {
            let read = of_kubernetes(file, policy, place, settings);
            policies.push(read.map_err(|refused| *refused));
        }
        ApiObject::List(items) => {
            let place = place.key("items");
            for (index, item) in items.iter().enumerate() {
                read(file, item, &place.index(index), settings, policies);
            }
        }
        ApiObject::Json(value) => {
            policies.extend(of_json(file, &Field::listed(place, value), settings));
        }
        ApiObject::Malformed(object) if object.kind == "NetworkPolicy" => {
            policies.push(Err(malformed(file, object, place)));
        }
        // Beside policies a source may hold others, which are not looked at here.
        _ => {}
    }
}

/// Reads a NetworkPolicy.
fn of_kubernetes(
    file: &str,
    policy: &NetworkPolicy,
    place: &Place<'_>,
    settings: &PolicySettings,
) -> Result<Policy, Box<RefusedDocument>> {
    let namespace = policy.metadata.namespace.as_deref().filter(|text| !text.is_empty());
    let namespace = namespace.unwrap_or("default");
    let metadata = place.key("metadata");
    let name = match metadata.need("name", policy.metadata.name.as_deref().unwrap_or_default()) {
        Ok(name) => name.to_owned(),
        Err(fault) => {
            let meant = vec![meant::all_of(Some(namespace))];
            return Err(refusal(file, None, fault, meant).into());
        }
    };
    let kind = PolicyKind::NetworkPolicy;
    let name = PolicyName { kind, namespace: Some(namespace.to_owned()), name };
    let scope = ParseContext { file, name: &name, settings, unsupported: Vec::new() };
    let rule = match &policy.spec {
        Some(spec) => kubernetes::rule(&place.key("spec"), spec, &scope),
        None => Err(place.missing("spec")),
    };
    match rule {
        Ok(rule) => Ok(Policy {
            rules: vec![rule],
            group: None,
            unsupported: Vec::new(),
            // What was read from JSON can be written as JSON.
            written: vec![serde_json::to_value(&policy.spec).unwrap_or_default()],
            name,
        }),
        Err(fault) => {
            let meant = meant::of_kubernetes(policy, namespace);
            Err(refusal(file, Some(name), fault, meant).into())
        }
    }
}

/// Refuses a NetworkPolicy that is not what its type says.
fn malformed(file: &str, object: &MalformedObject, place: &Place<'_>) -> RefusedDocument {
    let document = Field::listed(place, object.value());
    let mut fault = object.fault.clone();
    fault.path = match place.path() {
        whole if whole.is_empty() => fault.path,
        whole => format!("{whole}.{}", fault.path),
    };
    // A version that is not known is the fault itself.
    let name = name(&document).ok().flatten();
    refused(file, &document, name, fault)
}

/// Reads a document of another kind.
fn of_json(
    file: &str,
    document: &Field<'_>,
    settings: &PolicySettings,
) -> Option<Result<Policy, RefusedDocument>> {
    let listed = document.any_mapping().and_then(|mapping| not_a_list(&mapping));
    match listed.and_then(|()| name(document)) {
        Err(fault) => Some(Err(refused(file, document, None, fault))),
        Ok(None) => None,
        Ok(Some(name)) => {
            let policy = policy(file, document, &name, settings);
            Some(policy.map_err(|fault| refused(file, document, Some(name), fault)))
        }
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
    refusal(file, name, fault, meant)
}

fn refusal(
    file: &str,
    name: Option<PolicyName>,
    fault: Fault,
    meant: Vec<Bound>,
) -> RefusedDocument {
    let Fault { path, problem, remedy } = fault;
    let object = name.as_ref().map(PolicyName::to_string);
    let error = PolicyError { file: file.to_owned(), object, path, problem, remedy };
    RefusedDocument { name, error, meant }
}

fn unknown_kind(path: &str, kind: &serde_json::Value) -> Fault {
    Fault {
        path: path.to_owned(),
        problem: format!("unknown kind {kind}"),
        remedy: "write CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy, NetworkPolicy, \
                 ClusterNetworkPolicy or CiliumCIDRGroup"
            .to_owned(),
    }
}

/// Complains of a list without members: others were taken apart.
fn not_a_list(document: &Mapping<'_>) -> Result<(), Fault> {
    let kind = document.need("kind")?;
    match kind.text()?.ends_with("List") {
        true => document.list("items").map(drop),
        false => Ok(()),
    }
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
        _ => return Err(unknown_kind(&kind_field.path(), kind_field.value)),
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
