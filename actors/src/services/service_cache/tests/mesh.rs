//! What other clusters share, and what stays until they have spoken.

use serde_json::{Value, json};

use super::fixture::{Fixture, at, gone, service, slice};
use crate::{
    ports::BackendState,
    services::service_cache::{RemoteService, ServiceSource, ServicesMsg},
    testing::Landing,
};

fn fixture() -> Fixture {
    Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Mesh])
}

fn global() -> Value {
    let mut web = service("web", "10.96.0.1");
    web["metadata"]["annotations"] = json!({"service.cilium.io/global": "true"});
    web
}

/// What another cluster shares of it.
fn shared() -> RemoteService {
    serde_json::from_value(json!({
        "cluster": "far", "namespace": "shop", "name": "web", "shared": true,
        "backends": {"10.1.0.1": {"": {"Protocol": "TCP", "Port": 8080}}},
    }))
    .unwrap()
}

fn far(fixture: &Fixture, service: Option<RemoteService>) {
    far_says(fixture, Ok(service));
}

fn far_says(fixture: &Fixture, service: Result<Option<RemoteService>, String>) {
    let changes = vec![(("shop".to_owned(), "web".to_owned()), service)];
    let remote = ServicesMsg::Remote { cluster: "far".into(), changes, listed: true };
    fixture.services.tell(remote).unwrap();
    fixture.settle();
}

fn configured(fixture: &Fixture) {
    fixture.services.tell(ServicesMsg::Clusters(["far".into()].into())).unwrap();
    fixture.settle();
}

#[test]
fn backends_that_other_clusters_may_name_stay_until_they_have_spoken() {
    let mut fixture = fixture();
    let (web, here) = (global(), slice("web-a", "web", &["10.0.0.1"]));
    configured(&fixture);
    fixture.tell(&[web.clone(), here.clone()]);
    far(&fixture, Some(shared()));
    let both = at(&["10.0.0.1:8080", "10.1.0.1:8080"]);
    assert_eq!(fixture.landing("10.96.0.1:80"), both);
    fixture.restart();
    fixture.tell(&[web.clone(), here.clone(), service("db", "10.96.0.2")]);
    assert_eq!(fixture.landing("10.96.0.1:80"), both, "the other cluster was not heard");
    configured(&fixture);
    fixture.wait(60);
    assert_eq!(fixture.landing("10.96.0.1:80"), both);
    far(&fixture, Some(shared()));
    assert_eq!(fixture.landing("10.96.0.1:80"), both);
    fixture.restart();
    fixture.tell(&[web, here]);
    configured(&fixture);
    far(&fixture, None);
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]), "it shares it no more");
    fixture.swept();
    assert_eq!(fixture.maps().backends.len(), 1);
    fixture.tell(&[gone(service("web", ""))]);
    assert_eq!(fixture.landing("10.96.0.1:80"), Landing::NoService);
}

#[test]
fn while_another_cluster_is_silent_who_goes_here_goes() {
    let mut fixture = fixture();
    let everything = |web: &[&str], db: &[&str]| {
        let slices = [slice("web-a", "web", web), slice("db-a", "db", db)];
        [vec![global(), service("db", "10.96.0.2")], slices.to_vec()].concat()
    };
    configured(&fixture);
    fixture.tell(&everything(&["10.0.0.1", "10.0.0.2"], &["10.0.0.5", "10.0.0.6"]));
    far(&fixture, Some(shared()));
    let reported = fixture.gone.get();
    fixture.restart();
    configured(&fixture);
    // One of each service went while the agent was dead; the other cluster says nothing from here on.
    fixture.tell(&everything(&["10.0.0.1", "10.0.0.2"], &["10.0.0.5"]));
    let of_db = at(&["10.0.0.5:8080"]);
    assert_eq!(fixture.landing("10.96.0.2:80"), of_db);
    fixture.swept();
    assert_eq!(fixture.maps().backends.len(), 4, "to whom nobody is led is no more");
    assert_eq!(fixture.gone.get(), reported + 2, "who is connected to that one is told");
    // One who was named in this life goes, whenever it came.
    fixture.tell(&everything(&["10.0.0.2", "10.0.0.3"], &["10.0.0.5"]));
    assert_eq!(
        fixture.landing("10.96.0.1:80"),
        at(&["10.0.0.2:8080", "10.0.0.3:8080", "10.1.0.1:8080"])
    );
    fixture.tell(&everything(&["10.0.0.4"], &["10.0.0.5"]));
    assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.4:8080", "10.1.0.1:8080"]));
    fixture.swept();
    let backends = fixture.maps().backends;
    assert_eq!(backends.len(), 3);
    assert!(backends.values().all(|row| row.state == BackendState::Active));
    // Who is led to by nobody any more does not wait for it either.
    fixture.tell(&[gone(global())]);
    assert_eq!(fixture.maps().backends.len(), 1);
    far(&fixture, Some(shared()));
    assert_eq!(fixture.landing("10.96.0.2:80"), of_db);
}

#[test]
fn what_another_cluster_writes_and_nobody_can_read_takes_nobody_away() {
    let mut fixture = fixture();
    let (web, here) = (global(), slice("web-a", "web", &["10.0.0.1"]));
    let tell = |fixture: &Fixture, rubbish: bool| {
        configured(fixture);
        fixture.tell(&[web.clone(), here.clone()]);
        match rubbish {
            true => far_says(fixture, Err("no mapping".to_owned())),
            false => far(fixture, Some(shared())),
        }
    };
    tell(&fixture, false);
    let both = at(&["10.0.0.1:8080", "10.1.0.1:8080"]);
    for restarts in [false, true] {
        if restarts {
            fixture.restart();
        }
        tell(&fixture, true);
        assert_eq!(fixture.landing("10.96.0.1:80"), both, "{restarts}");
        let refused = &fixture.status().refused;
        assert!(
            refused.iter().any(|(from, it)| from == "cluster far" && it.problem == "no mapping")
        );
        // Others of the service come and go meanwhile.
        fixture.tell(&[slice("web-a", "web", &["10.0.0.2"])]);
        assert_eq!(fixture.landing("10.96.0.1:80"), at(&["10.0.0.2:8080", "10.1.0.1:8080"]));
        fixture.tell(std::slice::from_ref(&here));
    }
    far(&fixture, None);
    let alone = at(&["10.0.0.1:8080"]);
    assert_eq!(fixture.landing("10.96.0.1:80"), alone);
    fixture.swept();
    assert_eq!(fixture.maps().backends.len(), 1);
    assert!(fixture.status().refused.is_empty());
    // It is held no longer than the cluster is there.
    far(&fixture, Some(shared()));
    fixture.restart();
    tell(&fixture, true);
    assert_eq!(fixture.landing("10.96.0.1:80"), both);
    fixture.services.tell(ServicesMsg::Clusters(Default::default())).unwrap();
    fixture.settle();
    assert_eq!(fixture.landing("10.96.0.1:80"), alone);
    fixture.swept();
    assert_eq!(fixture.maps().backends.len(), 1);
    assert!(fixture.status().refused.is_empty());
}

#[test]
fn one_cluster_comes_first_if_that_is_asked_for_and_it_has_somebody() {
    let fixture = fixture();
    configured(&fixture);
    far(&fixture, Some(shared()));
    let here = |state: &str| slice("web-a", "web", &[&format!("10.0.0.1{state}")]);
    for (affinity, first, second) in
        [("local", "10.0.0.1:8080", "10.1.0.1:8080"), ("remote", "10.1.0.1:8080", "10.0.0.1:8080")]
    {
        let mut web = global();
        web["metadata"]["annotations"]["service.cilium.io/affinity"] = json!(affinity);
        fixture.tell(&[web, here("")]);
        far(&fixture, Some(shared()));
        assert_eq!(fixture.landing("10.96.0.1:80"), at(&[first]), "{affinity}");
        match affinity {
            "local" => fixture.tell(&[here("-unready")]),
            _ => far(&fixture, None),
        }
        assert_eq!(fixture.landing("10.96.0.1:80"), at(&[second]), "{affinity}");
    }
}
