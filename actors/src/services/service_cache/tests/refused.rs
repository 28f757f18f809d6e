//! What is refused keeps what it was, also over a restart.

use serde_json::{Value, json};

use super::fixture::{Fixture, at, frontend, gone, service, slice};
use crate::{
    model::Manifest,
    services::service_cache::{ServiceSource, ServicesMsg},
    testing::Landing,
};

fn everything() -> [Value; 4] {
    let members = &["10.0.0.1", "10.0.0.2"];
    [
        service("web", "10.96.0.1"),
        slice("web-a", "web", members),
        service("db", "10.96.0.2"),
        slice("db-a", "db", &["10.0.0.3"]),
    ]
}

#[test]
fn a_service_that_is_refused_after_a_restart_stays_as_it_was() {
    let mut fixture = Fixture::new();
    let [mut web, members, db, of_db] = everything();
    fixture.tell(&everything());
    let id = fixture.maps().slots[&(frontend("10.96.0.1:80"), 0)].id;
    let both = at(&["10.0.0.1:8080", "10.0.0.2:8080"]);
    web["metadata"]["annotations"] = json!({"service.cilium.io/global": "yes"});
    fixture.restart();
    fixture.tell(&[web.clone(), members.clone(), gone(db.clone()), gone(of_db)]);
    assert_eq!(fixture.landing("10.96.0.1:80"), both);
    assert_eq!(fixture.landing("10.96.0.2:80"), Landing::NoService, "others go");
    assert_eq!(fixture.maps().backends.len(), 2);
    assert_eq!(fixture.status().refused.len(), 1);
    // Whatever is wrong with it next.
    web["spec"]["sessionAffinity"] = json!("Cookie");
    fixture.tell(&[web.clone(), db]);
    assert_eq!(fixture.landing("10.96.0.1:80"), both);
    let [whole, ..] = everything();
    fixture.tell(&[whole, slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.2:8080"]));
    assert_eq!(fixture.maps().slots[&(frontend("10.96.0.1:80"), 0)].id, id);
    fixture.swept();
    assert_eq!((fixture.status().refused, fixture.maps().backends.len()), (vec![], 1));
    // One that is refused and then gone goes.
    fixture.restart();
    fixture.tell(&[web.clone(), members]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.2:8080"]));
    fixture.tell(&[gone(web)]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoService);
    assert_eq!(fixture.maps().backends.len(), 0);
}

#[test]
fn a_slice_that_is_refused_after_a_restart_names_whom_it_named() {
    let mut fixture = Fixture::new();
    let [web, mut members, db, of_db] = everything();
    fixture.tell(&everything());
    members["endpoints"][0]["addresses"] = json!(["fd00::1"]);
    fixture.restart();
    fixture.tell(&[web.clone(), members.clone(), db, of_db]);
    let both = at(&["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert_eq!(fixture.landing("10.96.0.1:80"), both);
    let next = slice("web-b", "web", &["10.0.0.9"]);
    fixture.tell(&[next]);
    assert_eq!(
        fixture.landing("10.96.0.1:80"),
        at(&["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.9:8080"])
    );
    fixture.tell(&[slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.2:8080", "10.0.0.9:8080"]));
    fixture.swept();
    assert_eq!(fixture.maps().backends.len(), 3);
    assert_eq!(fixture.status().refused, []);
}

#[test]
fn of_a_file_that_cannot_be_read_all_stays() {
    let mut fixture = Fixture::told_by(&[ServiceSource::Manifests]);
    let file = |fixture: &Fixture, objects: Result<Vec<Value>, String>| {
        let objects = objects.map(|all| all.into_iter().map(Into::into).collect());
        let manifest = Manifest { source: "web.yaml".to_owned(), objects };
        fixture.services.tell(ServicesMsg::Manifests(vec![manifest])).unwrap();
        fixture.settle();
    };
    file(&fixture, Ok(everything().to_vec()));
    let before = fixture.maps();
    fixture.restart();
    file(&fixture, Err("line 7: what is this".to_owned()));
    assert_eq!(fixture.maps(), before);
    let [web, members, ..] = everything();
    file(&fixture, Ok(vec![web, members]));
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080", "10.0.0.2:8080"]));
    assert_eq!(fixture.landing("10.96.0.2:80"), Landing::NoService);
    assert_eq!(fixture.maps().backends.len(), 2);
    // What was read in this life stays as well, and a file that is gone says nothing.
    file(&fixture, Err("line 7: what is this".to_owned()));
    assert_eq!(fixture.maps().backends.len(), 2);
    file(&fixture, Ok(vec![]));
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoService);
}
