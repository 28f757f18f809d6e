//! Whether the agent enforces all that was applied, by its own word: rules as they were written, the
//! revision that each endpoint has, labels, and services.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{World, broken};
use crate::{
    chaos::history::{ManifestName, NAMESPACE, Name},
    lab::{Inventory, Node},
};

impl World<'_> {
    /// Waits until all manifests and labels are in force.
    pub(super) fn wait_until_applied(&mut self) -> Result<()> {
        let rules: BTreeMap<ManifestName, Vec<Value>> = self
            .manifests
            .iter()
            .filter(|(name, _)| name.kind.ends_with("policy"))
            .map(|(name, object)| (name.clone(), specs(object)))
            .collect();
        let labels: Vec<_> = self
            .pods
            .values()
            .map(|member| (member.pod.container_id.clone(), member.labels.clone()))
            .collect();
        broken(self.node.wait_for_api())?;
        let waited = self.node.wait("not all that was applied is in force", |node| {
            let (revision, written) = rules_of(node)?;
            if written != rules {
                return Ok(false);
            }
            let endpoints = node.endpoints()?;
            let is_there = |(container, labels): &(String, super::Labels)| {
                let its = endpoints.iter().find(|endpoint| {
                    endpoint["status"]["external-identifiers"]["container-id"] == **container
                });
                its.is_some_and(|endpoint| has(endpoint, labels, revision))
            };
            Ok(labels.iter().all(is_there))
        });
        broken(waited)?;
        self.wait_for_services()?;
        let found = Inventory::read(&self.node)?;
        self.judge.inventory().settle(&found);
        Ok(())
    }
}

/// The rules of a policy.
fn specs(object: &Value) -> Vec<Value> {
    let several = object["specs"].as_array().cloned().unwrap_or_default();
    object.get("spec").cloned().into_iter().chain(several).collect()
}

/// The revision of the rules, and what the agent has of each policy: rules as they were written.
fn rules_of(node: &Node) -> Result<(u64, BTreeMap<ManifestName, Vec<Value>>)> {
    let policy: Value = node.rest().get("/policy")?;
    let text = policy["policy"].as_str().context("no rules")?;
    let rules: Vec<Value> = serde_json::from_str(text)?;
    let mut policies = BTreeMap::<_, Vec<_>>::new();
    for mut rule in rules {
        let labels = rule["labels"].take();
        let labels = labels.as_array().cloned().unwrap_or_default();
        let label = |key: &str| {
            let its = labels.iter().find(|label| label["key"] == key);
            its.and_then(|label| label["value"].as_str()).map(str::to_owned)
        };
        let kind = label("policy-derived-from").unwrap_or_default().to_lowercase();
        let namespace = label("io.cilium.k8s.policy.namespace");
        let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        let name = Name { namespace, name: label("io.cilium.k8s.policy.name").unwrap_or_default() };
        if let Some(rule) = rule.as_object_mut() {
            rule.remove("labels");
        }
        policies.entry(ManifestName { kind, name }).or_default().push(rule);
    }
    Ok((policy["revision"].as_u64().context("no revision")?, policies))
}

/// Whether an endpoint has these labels, and rules of that revision.
fn has(endpoint: &Value, labels: &super::Labels, revision: u64) -> bool {
    let status = &endpoint["status"];
    let relevant = status["labels"]["security-relevant"].as_array().cloned().unwrap_or_default();
    let relevant: BTreeSet<_> = relevant.iter().filter_map(Value::as_str).collect();
    let all =
        labels.iter().all(|(key, value)| relevant.contains(format!("k8s:{key}={value}").as_str()));
    let realised = status["policy"]["realized"]["policy-revision"].as_u64();
    all && realised.is_some_and(|realised| realised >= revision) && status["state"] == "ready"
}
