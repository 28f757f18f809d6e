//! What other clusters share, and what stays until they have spoken.

use serde_json::{Value, json};

use super::town::{Town, at, gone, service, slice};
use crate::{
    ports::BackendState,
    services::service_cache::{RemoteService, ServiceSource, ServicesMsg},
    testing::Landing,
};

fn town() -> Town {
    Town::told_by(&[ServiceSource::Cluster, ServiceSource::Mesh])
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

fn far(town: &Town, service: Option<RemoteService>) {
    far_says(town, Ok(service));
}

fn far_says(town: &Town, service: Result<Option<RemoteService>, String>) {
    let changes = vec![(("shop".to_owned(), "web".to_owned()), service)];
    let remote = ServicesMsg::Remote { cluster: "far".into(), changes, listed: true };
    town.services.tell(remote).unwrap();
    town.settle();
}

fn configured(town: &Town) {
    town.services.tell(ServicesMsg::Clusters(["far".into()].into())).unwrap();
    town.settle();
}

#[test]
fn backends_that_other_clusters_may_name_stay_until_they_have_spoken() {
    let mut town = town();
    let (web, here) = (global(), slice("web-a", "web", &["10.0.0.1"]));
    configured(&town);
    town.tell(&[web.clone(), here.clone()]);
    far(&town, Some(shared()));
    let both = at(&["10.0.0.1:8080", "10.1.0.1:8080"]);
    assert_eq!(town.landing("10.96.0.1:80"), both);
    town.restart();
    town.tell(&[web.clone(), here.clone(), service("db", "10.96.0.2")]);
    assert_eq!(town.landing("10.96.0.1:80"), both, "the other cluster was not heard");
    configured(&town);
    town.wait(60);
    assert_eq!(town.landing("10.96.0.1:80"), both);
    far(&town, Some(shared()));
    assert_eq!(town.landing("10.96.0.1:80"), both);
    town.restart();
    town.tell(&[web, here]);
    configured(&town);
    far(&town, None);
    assert_eq!(town.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]), "it shares it no more");
    assert_eq!(town.maps().backends.len(), 1);
    town.tell(&[gone(service("web", ""))]);
    assert_eq!(town.landing("10.96.0.1:80"), Landing::NoService);
}

#[test]
fn while_another_cluster_is_silent_who_goes_here_goes() {
    let mut town = town();
    let everything = |web: &[&str], db: &[&str]| {
        let slices = [slice("web-a", "web", web), slice("db-a", "db", db)];
        [vec![global(), service("db", "10.96.0.2")], slices.to_vec()].concat()
    };
    configured(&town);
    town.tell(&everything(&["10.0.0.1", "10.0.0.2"], &["10.0.0.5", "10.0.0.6"]));
    far(&town, Some(shared()));
    let told = town.gone.get();
    town.restart();
    configured(&town);
    // One of each service went while the agent was dead; the other cluster says nothing from here on.
    town.tell(&everything(&["10.0.0.1", "10.0.0.2"], &["10.0.0.5"]));
    let of_db = at(&["10.0.0.5:8080"]);
    assert_eq!(town.landing("10.96.0.2:80"), of_db);
    assert_eq!(town.maps().backends.len(), 4, "to whom nobody is led is no more");
    assert_eq!(town.gone.get(), told + 1, "who is connected to that one is told");
    // One who was named in this life goes, whenever it came.
    town.tell(&everything(&["10.0.0.2", "10.0.0.3"], &["10.0.0.5"]));
    assert_eq!(
        town.landing("10.96.0.1:80"),
        at(&["10.0.0.2:8080", "10.0.0.3:8080", "10.1.0.1:8080"])
    );
    town.tell(&everything(&["10.0.0.4"], &["10.0.0.5"]));
    assert_eq!(town.landing("10.96.0.1:80"), at(&["10.0.0.4:8080", "10.1.0.1:8080"]));
    let backends = town.maps().backends;
    assert_eq!(backends.len(), 3);
    assert!(backends.values().all(|row| row.state == BackendState::Active));
    // Who is led to by nobody any more does not wait for it either.
    town.tell(&[gone(global())]);
    assert_eq!(town.maps().backends.len(), 1);
    far(&town, Some(shared()));
    assert_eq!(town.landing("10.96.0.2:80"), of_db);
}

#[test]
fn what_another_cluster_writes_and_nobody_can_read_takes_nobody_away() {
    let mut town = town();
    let (web, here) = (global(), slice("web-a", "web", &["10.0.0.1"]));
    let tell = |town: &Town, rubbish: bool| {
        configured(town);
        town.tell(&[web.clone(), here.clone()]);
        match rubbish {
            true => far_says(town, Err("no mapping".to_owned())),
            false => far(town, Some(shared())),
        }
    };
    tell(&town, false);
    let both = at(&["10.0.0.1:8080", "10.1.0.1:8080"]);
    for restarts in [false, true] {
        if restarts {
            town.restart();
        }
        tell(&town, true);
        assert_eq!(town.landing("10.96.0.1:80"), both, "{restarts}");
        let refused = &town.status().refused;
        assert!(
            refused.iter().any(|(from, it)| from == "cluster far" && it.problem == "no mapping")
        );
        // Others of the service come and go meanwhile.
        town.tell(&[slice("web-a", "web", &["10.0.0.2"])]);
        assert_eq!(town.landing("10.96.0.1:80"), at(&["10.0.0.2:8080", "10.1.0.1:8080"]));
        town.tell(std::slice::from_ref(&here));
    }
    far(&town, None);
    let alone = at(&["10.0.0.1:8080"]);
    assert_eq!(town.landing("10.96.0.1:80"), alone);
    assert_eq!(town.maps().backends.len(), 1);
    assert!(town.status().refused.is_empty());
    // It is held no longer than the cluster is there.
    far(&town, Some(shared()));
    town.restart();
    tell(&town, true);
    assert_eq!(town.landing("10.96.0.1:80"), both);
    town.services.tell(ServicesMsg::Clusters(Default::default())).unwrap();
    town.settle();
    assert_eq!(town.landing("10.96.0.1:80"), alone);
    assert_eq!(town.maps().backends.len(), 1);
    assert!(town.status().refused.is_empty());
}

#[test]
fn one_cluster_comes_first_if_that_is_asked_for_and_it_has_somebody() {
    let town = town();
    configured(&town);
    far(&town, Some(shared()));
    let here = |state: &str| slice("web-a", "web", &[&format!("10.0.0.1{state}")]);
    for (affinity, first, second) in
        [("local", "10.0.0.1:8080", "10.1.0.1:8080"), ("remote", "10.1.0.1:8080", "10.0.0.1:8080")]
    {
        let mut web = global();
        web["metadata"]["annotations"]["service.cilium.io/affinity"] = json!(affinity);
        town.tell(&[web, here("")]);
        far(&town, Some(shared()));
        assert_eq!(town.landing("10.96.0.1:80"), at(&[first]), "{affinity}");
        match affinity {
            "local" => town.tell(&[here("-unready")]),
            _ => far(&town, None),
        }
        assert_eq!(town.landing("10.96.0.1:80"), at(&[second]), "{affinity}");
    }
}
