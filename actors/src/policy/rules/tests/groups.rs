//! Groups of prefixes, which policies name and which come and go beside them.

use serde_json::{Value, json};

use super::world::{World, no_services, pod, read};
use crate::{
    model::Labels,
    policy::rules::{IdentityView, Repository, Subject},
};

const GROUP_FILE: &str = "group.yaml";
const POLICY_FILE: &str = "policy.yaml";

fn group(name: &str, nets: &[&str]) -> Value {
    json!({
        "apiVersion": "cilium.io/v2alpha1",
        "kind": "CiliumCIDRGroup",
        "metadata": { "name": name, "labels": { "zone": name } },
        "spec": { "externalCIDRs": nets },
    })
}

fn policy(cidr_set: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "name": "one", "namespace": "default" },
        "spec": { "endpointSelector": { "matchLabels": { "app": "web" } },
                  "egress": [{ "toCIDRSet": cidr_set }] },
    })
}

/// The prefixes that need identities, and the rows of a web pod once these have them.
fn outcome(repository: &Repository) -> (Vec<String>, Vec<String>) {
    let world = World { repository: repository.clone(), ..World::new(Default::default()) };
    let resolved = world.resolve("web");
    let rows = resolved.rows.iter().map(|(key, entry)| format!("{key:?} {entry:?}"));
    (repository.cidrs().iter().map(ToString::to_string).collect(), rows.collect())
}

fn repository(sources: &[(&str, Vec<Value>)]) -> Repository {
    let mut repository = Repository::new(Default::default());
    for (source, documents) in sources {
        let report = repository.apply(source, &read(documents.clone()), &no_services());
        assert_eq!(report.rejected, []);
        assert_eq!(report.unsupported, []);
    }
    repository
}

#[test]
fn a_group_is_what_its_prefixes_are_whichever_comes_first() {
    let us = group("us", &["192.0.2.0/24", "198.51.100.0/24"]);
    let eu = group("eu", &["203.0.113.0/24"]);
    let all = |sources: &[(&str, Vec<Value>)]| outcome(&repository(sources));
    let named = vec![policy(json!([{ "cidrGroupRef": "us" }, { "cidr": "10.0.0.0/8" }]))];
    let written = vec![policy(json!([
        { "cidr": "192.0.2.0/24" }, { "cidr": "198.51.100.0/24" }, { "cidr": "10.0.0.0/8" },
    ]))];
    let expected = all(&[(POLICY_FILE, written)]);
    assert_eq!(expected.0.len(), 3);
    let groups = vec![us.clone(), eu.clone()];
    let together: Vec<Value> = groups.iter().chain(&named).cloned().collect();
    assert_eq!(all(&[(GROUP_FILE, groups.clone()), (POLICY_FILE, named.clone())]), expected);
    assert_eq!(all(&[(POLICY_FILE, named.clone()), (GROUP_FILE, groups.clone())]), expected);
    assert_eq!(all(&[(POLICY_FILE, together)]), expected);

    let labels = json!({ "matchExpressions": [
        { "key": "zone", "operator": "In", "values": ["us", "eu"] },
    ] });
    let selected = vec![policy(json!([{ "cidrGroupSelector": labels }]))];
    let (nets, _) = all(&[(GROUP_FILE, groups), (POLICY_FILE, selected)]);
    assert_eq!(nets, ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"]);
}

#[test]
fn exceptions_cut_the_prefixes_that_have_them() {
    let groups = vec![group("us", &["192.0.2.0/24", "198.51.100.0/24", "10.1.0.0/16"])];
    let except = json!(["192.0.2.128/25", "10.0.0.0/8"]);
    let named = vec![policy(json!([{ "cidrGroupRef": "us", "except": except }]))];
    let written = vec![policy(json!([
        { "cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"] }, { "cidr": "198.51.100.0/24" },
    ]))];
    let named = repository(&[(GROUP_FILE, groups), (POLICY_FILE, named)]);
    assert_eq!(outcome(&named), outcome(&repository(&[(POLICY_FILE, written)])));
}

#[test]
fn a_change_of_a_group_touches_whom_policies_that_name_it_select() {
    let (web, db): (Labels, Labels) = (pod("web", "default"), pod("db", "default"));
    let named = vec![policy(json!([{ "cidrGroupRef": "us" }]))];
    let mut repository = repository(&[
        (GROUP_FILE, vec![group("us", &["192.0.2.0/24"])]),
        (POLICY_FILE, named.clone()),
    ]);
    // Said once more, it is the same.
    assert!(!repository.apply(POLICY_FILE, &read(named), &no_services()).changed);
    let same = read(vec![group("us", &["192.0.2.7/24"])]);
    assert!(!repository.apply(GROUP_FILE, &same, &no_services()).changed, "host bits are cut off");

    let report =
        repository.apply(GROUP_FILE, &read(vec![group("us", &["203.0.113.0/24"])]), &no_services());
    assert!(report.changed && report.touches(&web) && !report.touches(&db));
    assert_eq!(outcome(&repository).0, ["203.0.113.0/24"]);

    let refused =
        repository.apply(GROUP_FILE, &read(vec![group("us", &["nonsense"])]), &no_services());
    assert!(refused.rejected[0].to_string().contains("spec.externalCIDRs[0]"));
    assert!(!refused.changed, "the version before stays in force");
    assert_eq!(outcome(&repository).0, ["203.0.113.0/24"]);

    let report = repository.apply(GROUP_FILE, &Ok(Vec::new()), &no_services());
    assert!(report.touches(&web));
    assert_eq!(outcome(&repository).0, [""; 0]);
}

#[test]
fn a_group_that_is_not_there_is_named_in_the_status() {
    let named = vec![policy(json!([{ "cidrGroupRef": "us" }]))];
    let mut repository = repository(&[(POLICY_FILE, named)]);
    let missing = |repository: &Repository| {
        let status = repository.status(&[] as &[Subject], &IdentityView::default());
        let all = status.into_iter().flat_map(|it| it.missing_groups);
        all.map(|it| (it.name, it.path)).collect::<Vec<_>>()
    };
    assert_eq!(missing(&repository), [("us".to_owned(), "spec.egress[0]".to_owned())]);
    repository.apply(GROUP_FILE, &read(vec![group("us", &[])]), &no_services());
    assert_eq!(missing(&repository), []);
}

#[test]
fn an_entry_names_prefixes_in_one_way() {
    let both = policy(json!([{ "cidrGroupRef": "us", "cidr": "10.0.0.0/8" }]));
    let none = policy(json!([{ "except": ["10.0.0.0/8"] }]));
    let mut repository = Repository::new(Default::default());
    for (document, problem) in [(both, "in two ways"), (none, "names no prefix")] {
        let report = repository.apply(POLICY_FILE, &read(vec![document]), &no_services());
        assert!(report.rejected[0].to_string().contains(problem), "{:?}", report.rejected);
    }
}
