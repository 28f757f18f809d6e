//! Tests: sources replace their documents, and a bad one leaves what is in force.

use serde_json::{Value, json};

use super::world::{World, no_services, pod, read};
use crate::policy::rules::{IdentityView, PolicySettings, Repository, Subject};

fn policy(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "name": name },
        "spec": { "endpointSelector": { "matchLabels": { "app": app } }, "ingress": [{}] },
    })
}

fn broken(name: &str) -> Value {
    let mut policy = policy(name, "web");
    policy["spec"]["ingress"] = json!([{ "fromCIDR": ["nonsense"] }]);
    policy
}

fn in_force(repository: &Repository) -> Vec<&str> {
    repository.policies().map(|(_, policy)| policy.name.name.as_str()).collect()
}

fn repository() -> Repository {
    let mut repository = Repository::new(PolicySettings::default());
    repository.apply(
        "a.yaml",
        &read(vec![policy("one", "web"), policy("two", "db")]),
        &no_services(),
    );
    repository
}

#[test]
fn a_refused_document_leaves_its_earlier_version_and_its_neighbours() {
    let mut repository = repository();
    let report = repository.apply(
        "a.yaml",
        &read(vec![broken("one"), policy("two", "mail")]),
        &no_services(),
    );
    assert_eq!(in_force(&repository), ["one", "two"]);
    assert_eq!(report.rejected.len(), 1);
    assert_eq!(report.accepted.len(), 1);
    assert!(report.changed);
    assert!(
        repository.selects(&pod("web", "default")) && repository.selects(&pod("mail", "default"))
    );
    assert!(!repository.selects(&pod("db", "default")));
}

#[test]
fn an_unreadable_file_leaves_everything_in_force() {
    let mut repository = repository();
    let report =
        repository.apply("a.yaml", &Err("line 3: tabs are not allowed".to_owned()), &no_services());
    assert_eq!(in_force(&repository), ["one", "two"]);
    assert!(!report.changed);
    assert_eq!(
        report.rejected[0].to_string(),
        "a.yaml: line 3: tabs are not allowed; correct the file; \
         what it said before stays in force"
    );
    let report =
        repository.apply("a.yaml", &read(vec![json!(7), policy("two", "db")]), &no_services());
    assert_eq!(in_force(&repository), ["one", "two"]);
    assert!(!report.changed && report.rejected.len() == 1);
}

#[test]
fn a_policy_that_is_gone_is_gone() {
    let mut repository = repository();
    let report = repository.apply("a.yaml", &read(vec![policy("two", "db")]), &no_services());
    assert_eq!(in_force(&repository), ["two"]);
    assert!(report.touches(&pod("web", "default")) && !report.touches(&pod("db", "default")));
    assert!(repository.apply("a.yaml", &Ok(Vec::new()), &no_services()).changed);
    assert_eq!(in_force(&repository), [""; 0]);
}

#[test]
fn the_revision_counts_changes_only() {
    let mut repository = repository();
    assert_eq!(repository.revision(), 2);
    let same = repository.apply(
        "a.yaml",
        &read(vec![policy("one", "web"), policy("two", "db")]),
        &no_services(),
    );
    assert!(!same.changed && !same.touches(&pod("web", "default")));
    repository.apply("b.yaml", &read(vec![broken("three")]), &no_services());
    assert_eq!(repository.revision(), 2);
    repository.apply("b.yaml", &read(vec![policy("three", "web")]), &no_services());
    assert_eq!(repository.revision(), 3);
}

#[test]
fn a_change_touches_whom_it_selected_and_whom_it_selects() {
    let mut repository = repository();
    let report = repository.apply(
        "a.yaml",
        &read(vec![policy("one", "mail"), policy("two", "db")]),
        &no_services(),
    );
    assert!(report.touches(&pod("web", "default")) && report.touches(&pod("mail", "default")));
    assert!(!report.touches(&pod("db", "default")));
}

#[test]
fn one_object_twice_in_a_file_is_refused() {
    let mut repository = repository();
    let report = repository.apply(
        "b.yaml",
        &read(vec![policy("x", "web"), policy("x", "db")]),
        &no_services(),
    );
    assert_eq!(in_force(&repository), ["one", "two", "x"]);
    assert!(report.rejected[0].to_string().contains("the file holds this object twice"));
}

#[test]
fn status_tells_what_is_selected_and_what_is_wrong() {
    let mut repository = repository();
    repository.apply(
        "a.yaml",
        &read(vec![broken("one"), policy("two", "nobody"), json!(7)]),
        &no_services(),
    );
    let endpoints = [pod("web", "default"), pod("web", "default"), pod("db", "default")];
    let endpoints = endpoints.map(|labels| Subject { labels: labels.into(), ..Subject::default() });
    let status = repository.status(&endpoints, &IdentityView::default());
    let lines: Vec<_> = status
        .iter()
        .map(|it| {
            (it.policy.as_ref().map(|name| name.name.as_str()), it.selects, it.error.is_some())
        })
        .collect();
    assert_eq!(lines, [(Some("one"), 2, true), (Some("two"), 0, false), (None, 0, true)]);
}

#[test]
fn only_peers_that_are_selected_concern_an_endpoint() {
    let mut policy = policy("one", "web");
    policy["spec"]["ingress"] = json!([{ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] }]);
    let world = World::with([policy]);
    let concerns = |subject: &str, peer: &str| {
        let facts = super::world::facts(pod(peer, "default"));
        let rules = world.repository.concerned(&[facts]);
        rules.iter().any(|rule| rule.selects(&pod(subject, "default")))
    };
    assert!(concerns("web", "db"));
    assert!(!concerns("web", "mail") && !concerns("db", "db"));
}

#[test]
fn a_policy_that_fits_no_endpoints_map_is_refused_and_its_earlier_version_stays() {
    let mut repository =
        Repository::new(PolicySettings { rows_max: 4, ..PolicySettings::default() });
    let with = |ingress: &[&str], egress: &[&str]| {
        let mut policy = policy("one", "web");
        policy["spec"]["ingress"] =
            json!([{ "fromCIDR": ingress }, { "fromCIDR": ["10.1.0.0/16"] }]);
        policy["spec"]["egress"] = json!([{ "toCIDR": egress }]);
        read(vec![policy, self::policy("two", "db")])
    };
    // Of one prefix there is one identity, and all of a family is the world.
    let fits = with(&["10.1.0.0/16", "10.2.0.0/16", "0.0.0.0/0"], &["10.3.0.0/16", "fd00::/8"]);
    assert_eq!(repository.apply("a.yaml", &fits, &no_services()).rejected, []);
    let before = repository.cidrs();
    let large = with(&["10.1.0.0/16", "10.2.0.0/16"], &["10.3.0.0/16", "10.4.0.0/16", "fd00::/8"]);
    let report = repository.apply("a.yaml", &large, &no_services());
    let [error] = &report.rejected[..] else { panic!("{report:?}") };
    assert_eq!(
        error.to_string(),
        "a.yaml: CiliumNetworkPolicy default/one: spec.egress[0]: with this the rule names more than \
         4 prefixes, for which no endpoint's policy has room; name wider ones, or start the agent \
         with a larger --bpf-policy-map-max"
    );
    assert!(!report.changed);
    assert_eq!((in_force(&repository), repository.cidrs()), (vec!["one", "two"], before));
}
