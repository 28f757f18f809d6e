//! Changes at run time: of priorities, of peers that come and go, and at a node that lives.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{
    super::world::{Other, facts, pod},
    ranked, ranked_world,
};
use crate::{
    model::{Direction, IdentityId},
    policy::rules::{PeerFacts, lookup},
};

const DB: Other = Other::Identity(1001);

fn policy(name: &str, priority: u16, action: &str) -> Value {
    let db = json!({ "pods": {
        "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": "db" } } } });
    ranked(name, "Admin", priority, json!({ "ingress": [{ "action": action, "from": [db] }] }))
}

#[test]
fn a_priority_that_changes_is_in_force_and_touches_whom_it_selects() {
    let mut world = ranked_world(&[policy("a", 1, "Accept"), policy("b", 2, "Deny")]);
    assert!(world.ingress(DB, 6, 80).passes());
    let report = world.apply([policy("a", 3, "Accept"), policy("b", 2, "Deny")]);
    assert!(report.changed && report.touches(&pod("web", "default")));
    assert!(!world.ingress(DB, 6, 80).passes());
    // A policy that goes leaves the word to the next.
    world.apply([policy("a", 3, "Accept")]);
    assert!(world.ingress(DB, 6, 80).passes());
    assert!(!world.apply([policy("a", 3, "Accept")]).changed);
}

#[test]
fn policies_of_one_priority_are_named() {
    let world =
        ranked_world(&[policy("a", 1, "Accept"), policy("b", 1, "Deny"), policy("c", 2, "Deny")]);
    let status = world.repository.status(&[], &world.view());
    let shared: Vec<_> = status
        .iter()
        .map(|it| {
            let names = it.same_priority.iter().map(|name| name.name.as_str());
            (it.policy.as_ref().unwrap().name.as_str(), names.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(shared, [("a", vec!["b"]), ("b", vec!["a"]), ("c", vec![])]);
}

#[test]
fn a_peer_that_comes_concerns_whom_a_rule_with_it_binds() {
    let world = ranked_world(&[policy("a", 1, "Deny")]);
    let mut view = world.view();
    let new = PeerFacts { labels: Arc::new(pod("db", "third")), ..facts(pod("db", "third")) };
    let concerned = world.repository.concerned(std::slice::from_ref(&new));
    assert_eq!(concerned.len(), 1);
    let passes = |view: &_| {
        let rows = world.resolve_in("web", "default", view).rows;
        lookup(&rows, Direction::Ingress, IdentityId(3000), 6, 80).passes()
    };
    assert!(passes(&view));
    view.insert(IdentityId(3000), new);
    assert!(!passes(&view));
    view.remove(IdentityId(3000));
    assert!(passes(&view));
}

#[test]
fn a_newer_version_that_is_refused_leaves_the_older_in_force() {
    let mut world = ranked_world(&[policy("a", 1, "Deny")]);
    let report = world.apply([policy("a", 1, "Allow")]);
    assert_eq!((report.rejected.len(), report.changed), (1, false));
    assert!(!world.ingress(DB, 6, 80).passes());
    let refused: BTreeSet<_> = world
        .repository
        .refused()
        .map(|(refused, stays)| (refused.error.path.clone(), stays))
        .collect();
    assert_eq!(refused, [("spec.ingress[0].action".to_owned(), true)].into());
}
