//! Whose a backend is: each service has it as it lists it, whatever others do, and who is listed keeps what
//! it has.

use serde_json::json;

use super::fixture::{Fixture, at, frontend, gone, place, service, slice};
use crate::{
    model::BackendId,
    ports::{BackendState, MemberKey, ServiceRows, service_flags},
    testing::{KernelServices, Landing, Turn},
};

use BackendState::{Active, Maintenance, Terminating};

const ONE: &str = "10.0.0.1:8080";
const TWO: &str = "10.0.0.2:8080";

/// How a frontend has each backend.
fn members(fixture: &Fixture, of: &str) -> Vec<(String, BackendState)> {
    let maps = fixture.maps();
    let Some(first) = maps.slots.get(&(frontend(of), 0)) else { return Vec::new() };
    let all = maps.members.iter().filter(|((key, _), _)| key.0 == first.id);
    all.map(|(_, row)| (row.at.socket().to_string(), row.state)).collect()
}

fn all(some: &[(&str, BackendState)]) -> Vec<(String, BackendState)> {
    some.iter().map(|(at, state)| ((*at).to_owned(), *state)).collect()
}

fn web(members: &[&str]) -> serde_json::Value {
    slice("web-a", "web", members)
}

#[test]
fn each_service_has_a_backend_in_a_state_of_its_own() {
    let fixture = Fixture::new();
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.1", "10.0.0.2"])]);
    fixture.tell(&[service("db", "10.96.0.2"), slice("db-a", "db", &["10.0.0.1"])]);
    fixture.tell(&[web(&["10.0.0.1-unready", "10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[TWO]));
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, Maintenance), (TWO, Active)]));
    assert_eq!(members(&fixture, "10.96.0.2:80"), all(&[(ONE, Active)]));
    assert_eq!(fixture.maps().backends[&(BackendId(1), true)].state, Active, "one has it so");
    fixture.tell(&[web(&["10.0.0.1-ending", "10.0.0.2"])]);
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, Terminating), (TWO, Active)]));
    // It leaves one service, and stays in the other.
    fixture.tell(&[web(&["10.0.0.2"])]);
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, Terminating), (TWO, Active)]));
    assert_eq!(members(&fixture, "10.96.0.2:80"), all(&[(ONE, Active)]));
    fixture.swept();
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(TWO, Active)]));
    assert_eq!(members(&fixture, "10.96.0.2:80"), all(&[(ONE, Active)]));
    fixture.tell(&[gone(service("db", "")), gone(slice("db-a", "db", &[]))]);
    assert_eq!(fixture.maps().members.len(), 1);
}

#[test]
fn who_is_not_ready_keeps_its_number_and_who_never_served_has_nothing_to_keep() {
    let mut fixture = Fixture::new();
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.1", "10.0.0.3-unready"])]);
    let id = fixture.maps().slots[&(frontend("10.96.0.1:80"), 1)].word;
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, Active)]));
    fixture.tell(&[web(&["10.0.0.1-unready", "10.0.0.3-unready"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoBackend);
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, Maintenance)]));
    // Also over a restart, of which nothing is to be seen.
    let before = fixture.kernel.writes().len();
    fixture.restart();
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.1-unready", "10.0.0.3-unready"])]);
    assert_eq!(fixture.writes_since(before), []);
    fixture.tell(&[web(&["10.0.0.1", "10.0.0.3-unready"])]);
    assert_eq!(fixture.maps().slots[&(frontend("10.96.0.1:80"), 1)].word, id);
    fixture.tell(&[web(&["10.0.0.3"])]);
    fixture.swept();
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[("10.0.0.3:8080", Active)]));
}

#[test]
fn who_serves_only_while_a_batch_is_written_keeps_what_it_has() {
    let fixture = Fixture::new();
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.1"])]);
    fixture.announce(&[web(&["10.0.0.1-unready", "10.0.0.2"])]);
    fixture.universe.settle();
    // What is written now has the other one serve, and clients find it there.
    fixture.announce(&[web(&["10.0.0.1", "10.0.0.2-unready"])]);
    fixture.settle();
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, Active), (TWO, Maintenance)]));
    // The same where nobody knows what became of the batch.
    fixture.tell(&[web(&["10.0.0.1", "10.0.0.2-unready", "10.0.0.3-unready"])]);
    fixture.announce(&[web(&["10.0.0.1", "10.0.0.2-unready", "10.0.0.3"])]);
    fixture.fate.at(0, Turn::Half);
    fixture.settle();
    fixture.announce(&[web(&["10.0.0.1", "10.0.0.2-unready", "10.0.0.3-unready"])]);
    fixture.wait(40);
    let three = ("10.0.0.3:8080", Maintenance);
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, Active), (TWO, Maintenance), three]));
}

#[test]
fn who_is_no_more_chosen_by_a_policy_keeps_what_it_has() {
    let fixture = Fixture::new();
    let mut service = service("web", "10.96.0.1");
    fixture.tell(&[service.clone(), web(&["10.0.0.1@here", "10.0.0.2"])]);
    service["spec"]["internalTrafficPolicy"] = json!("Local");
    fixture.tell(&[service]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&[ONE]));
    assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, Active), (TWO, Terminating)]));
}

#[test]
fn rows_that_are_wrong_or_nobodys_are_seen_to_at_start() {
    let mut fixture = Fixture::new();
    let reported = [service("web", "10.96.0.1"), web(&["10.0.0.1", "10.0.0.2"])];
    fixture.tell(&reported);
    let right = fixture.maps();
    let first = *right.members.keys().next().unwrap();
    type Damage = fn(&mut KernelServices, &(MemberKey, bool));
    let damages: [(&str, Damage); 4] = [
        ("one is missing", |maps, key| {
            maps.members.remove(key);
        }),
        ("one is elsewhere", |maps, key| {
            maps.members.get_mut(key).unwrap().at = place("10.9.9.9:1");
        }),
        ("one has no such state", |maps, key| {
            maps.members.get_mut(key).unwrap().state = Maintenance;
        }),
        ("there is one of no service", |maps, key| {
            let row = maps.members[key];
            maps.members.insert(((crate::model::ServiceId(77), BackendId(1)), true), row);
        }),
    ];
    for (what, damage) in damages {
        fixture.kernel.tamper(|state| damage(&mut state.services, &first));
        fixture.restart();
        assert_ne!(fixture.status().found, [""; 0], "{what}");
        fixture.tell(&reported);
        fixture.wait(1);
        let unused = right.unused;
        assert_eq!(KernelServices { unused, ..fixture.maps() }, right, "{what}");
    }
}

#[test]
fn a_batch_that_is_cut_off_anywhere_leaves_nobody_without_its_row() {
    let fixture = Fixture::new();
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.1", "10.0.0.2"])]);
    for nth in 0..8 {
        let states = if nth % 2 == 0 { ["-unready", ""] } else { ["", "-unready"] };
        let [one, two] = [("10.0.0.1", states[0]), ("10.0.0.2", states[1])];
        fixture.announce(&[web(&[&format!("{}{}", one.0, one.1), &format!("{}{}", two.0, two.1)])]);
        fixture.fate.at(nth % 4, Turn::Half);
        fixture.settle();
        fixture.wait(40);
        let listed = if nth % 2 == 0 { [Maintenance, Active] } else { [Active, Maintenance] };
        assert_eq!(members(&fixture, "10.96.0.1:80"), all(&[(ONE, listed[0]), (TWO, listed[1])]));
    }
    let puts = fixture.kernel.writes();
    let is_members = |op: &crate::ports::KernelOp| {
        matches!(op, crate::ports::KernelOp::PutServices(ServiceRows::Members(_)))
    };
    assert!(puts.iter().any(is_members));
}

#[test]
fn flags_of_policies_are_where_they_count() {
    let fixture = Fixture::new();
    let mut service = service("web", "10.96.0.1");
    service["spec"]["internalTrafficPolicy"] = json!("Local");
    service["spec"]["externalIPs"] = json!(["198.51.100.1"]);
    fixture.tell(&[service, web(&["10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoBackend);
    assert_eq!(
        fixture.landing("198.51.100.1:80"),
        at(&[TWO]),
        "the policy is about the address inside"
    );
    let flags = |at: &str| fixture.maps().slots[&(frontend(at), 0)].flags;
    assert_ne!(flags("10.96.0.1:80") & service_flags::INTERNAL_LOCAL, 0);
    assert_eq!(flags("198.51.100.1:80") & service_flags::INTERNAL_LOCAL, 0);
}
