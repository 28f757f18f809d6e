//! What is refused keeps what it was, also over a restart.

use serde_json::{Value, json};

use super::town::{Town, at, frontend, gone, service, slice};
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
    let mut town = Town::new();
    let [mut web, members, db, of_db] = everything();
    town.tell(&everything());
    let id = town.maps().slots[&(frontend("10.96.0.1:80"), 0)].id;
    let both = at(&["10.0.0.1:8080", "10.0.0.2:8080"]);
    web["metadata"]["annotations"] = json!({"service.cilium.io/global": "yes"});
    town.restart();
    town.tell(&[web.clone(), members.clone(), gone(db.clone()), gone(of_db)]);
    assert_eq!(town.landing("10.96.0.1:80"), both);
    assert_eq!(town.landing("10.96.0.2:80"), Landing::NoService, "others go");
    assert_eq!(town.maps().backends.len(), 2);
    assert_eq!(town.status().refused.len(), 1);
    // Whatever is wrong with it next.
    web["spec"]["sessionAffinity"] = json!("Cookie");
    town.tell(&[web.clone(), db]);
    assert_eq!(town.landing("10.96.0.1:80"), both);
    let [whole, ..] = everything();
    town.tell(&[whole, slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!(town.landing("10.96.0.1:80"), at(&["10.0.0.2:8080"]));
    assert_eq!(town.maps().slots[&(frontend("10.96.0.1:80"), 0)].id, id);
    assert_eq!((town.status().refused, town.maps().backends.len()), (vec![], 1));
    // One that is refused and then gone goes.
    town.restart();
    town.tell(&[web.clone(), members]);
    assert_eq!(town.landing("10.96.0.1:80"), at(&["10.0.0.2:8080"]));
    town.tell(&[gone(web)]);
    assert_eq!(town.landing("10.96.0.1:80"), Landing::NoService);
    assert_eq!(town.maps().backends.len(), 0);
}

#[test]
fn a_slice_that_is_refused_after_a_restart_names_whom_it_named() {
    let mut town = Town::new();
    let [web, mut members, db, of_db] = everything();
    town.tell(&everything());
    members["endpoints"][0]["addresses"] = json!(["fd00::1"]);
    town.restart();
    town.tell(&[web.clone(), members.clone(), db, of_db]);
    let both = at(&["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert_eq!(town.landing("10.96.0.1:80"), both);
    let next = slice("web-b", "web", &["10.0.0.9"]);
    town.tell(&[next]);
    assert_eq!(
        town.landing("10.96.0.1:80"),
        at(&["10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.9:8080"])
    );
    town.tell(&[slice("web-a", "web", &["10.0.0.2"])]);
    assert_eq!(town.landing("10.96.0.1:80"), at(&["10.0.0.2:8080", "10.0.0.9:8080"]));
    assert_eq!(town.maps().backends.len(), 3);
    assert_eq!(town.status().refused, []);
}

#[test]
fn of_a_file_that_cannot_be_read_all_stays() {
    let mut town = Town::told_by(&[ServiceSource::Manifests]);
    let file = |town: &Town, objects: Result<Vec<Value>, String>| {
        let manifest = Manifest { source: "web.yaml".to_owned(), objects };
        town.services.tell(ServicesMsg::Manifests(vec![manifest])).unwrap();
        town.settle();
    };
    file(&town, Ok(everything().to_vec()));
    let before = town.maps();
    town.restart();
    file(&town, Err("line 7: what is this".to_owned()));
    assert_eq!(town.maps(), before);
    let [web, members, ..] = everything();
    file(&town, Ok(vec![web, members]));
    assert_eq!(town.landing("10.96.0.1:80"), at(&["10.0.0.1:8080", "10.0.0.2:8080"]));
    assert_eq!(town.landing("10.96.0.2:80"), Landing::NoService);
    assert_eq!(town.maps().backends.len(), 2);
    // What was read in this life stays as well, and a file that is gone says nothing.
    file(&town, Err("line 7: what is this".to_owned()));
    assert_eq!(town.maps().backends.len(), 2);
    file(&town, Ok(vec![]));
    assert_eq!(town.landing("10.96.0.1:80"), Landing::NoService);
}
