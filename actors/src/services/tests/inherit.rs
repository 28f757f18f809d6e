//! What an earlier life left: numbers stay, what is broken is mended, what is no more goes.

use super::town::{Town, at, frontend, gone, place, service, slice};
use crate::{
    model::{BackendId, ServiceId},
    ports::BackendRow,
    services::ServiceSource,
    testing::{KernelServices, Landing},
};

fn served() -> Town {
    let town = Town::new();
    town.tell(&everything());
    town
}

fn everything() -> Vec<serde_json::Value> {
    vec![
        service("gone", "10.96.0.9"),
        service("web", "10.96.0.1"),
        service("db", "10.96.0.2"),
        slice("web-a", "web", &["10.0.0.1", "10.0.0.2"]),
        slice("db-a", "db", &["10.0.0.2", "10.0.0.3"]),
    ]
}

#[test]
fn a_restart_with_nothing_changed_writes_nothing() {
    let mut town = served();
    let (maps, list) = (town.maps(), town.list());
    let before = town.kernel.writes().len();
    town.restart();
    let known: Vec<_> = town.list().iter().map(|it| (it.id, it.frontend)).collect();
    assert_eq!(known, list.iter().map(|it| (it.id, it.frontend)).collect::<Vec<_>>());
    town.tell(&everything());
    assert_eq!(town.list(), list);
    assert_eq!(town.writes_since(before), []);
    assert_eq!((town.maps(), town.status().found), (maps, vec![]));
}

#[test]
fn what_went_while_the_agent_was_dead_goes_when_the_cluster_has_said_so() {
    let mut town = served();
    town.restart();
    town.wait(600);
    assert_eq!(town.landing("10.96.0.9:80"), Landing::NoBackend, "nobody said that it went");
    let all = everything();
    town.tell(&all[1..4]);
    assert_eq!(town.landing("10.96.0.9:80"), Landing::NoService);
    assert_eq!(town.landing("10.96.0.2:80"), Landing::NoBackend);
    assert_eq!(town.maps().backends.len(), 2);
    // Numbers that were had once are had by nobody else, also not in a later life.
    town.restart();
    town.tell(
        &[&all[1..4], &[service("new", "10.96.0.7"), slice("new-a", "new", &["10.0.0.9"])]]
            .concat(),
    );
    let list = town.list();
    let new = list.iter().find(|it| it.frontend == frontend("10.96.0.7:80")).unwrap();
    assert_eq!((new.id, new.backends[0].0), (ServiceId(4), BackendId(4)));
}

type Harm = fn(&mut KernelServices);

/// A way to harm the maps, and what then must still be served before anybody says anything.
const HARMS: &[(&str, Harm, &str)] = &[
    (
        "a slot is lost",
        |maps| assert!(maps.slots.remove(&(frontend("10.96.0.1:80"), 1)).is_some()),
        "is not whole",
    ),
    (
        "the first slot is lost",
        |maps| assert!(maps.slots.remove(&(frontend("10.96.0.1:80"), 0)).is_some()),
        "no first one",
    ),
    (
        "a backend is lost",
        |maps| assert!(maps.backends.remove(&(BackendId(3), true)).is_some()),
        "is not whole",
    ),
    (
        "replies are not translated",
        |maps| assert!(maps.reverse_nat.remove(&(ServiceId(3), true)).is_some()),
        "is not whole",
    ),
    (
        "two services have a number",
        |maps| {
            let id = maps.slots[&(frontend("10.96.0.2:80"), 0)].id;
            (0..=2).for_each(|slot| {
                maps.slots.get_mut(&(frontend("10.96.0.1:80"), slot)).unwrap().id = id
            });
        },
        "not its own",
    ),
    (
        "a service has number 0",
        |maps| {
            (0..=2).for_each(|slot| {
                maps.slots.get_mut(&(frontend("10.96.0.1:80"), slot)).unwrap().id = ServiceId(0)
            });
        },
        "not its own",
    ),
    (
        "a backend has two numbers",
        |maps| {
            let row =
                BackendRow { at: place("10.0.0.1:8080"), ..maps.backends[&(BackendId(1), true)] };
            maps.backends.insert((BackendId(99), true), row);
        },
        "has the numbers",
    ),
    (
        "rows are nobody's",
        |maps| {
            maps.reverse_nat.insert((ServiceId(77), true), "10.0.0.1:1".parse().unwrap());
            maps.affinity.insert((BackendId(5), ServiceId(77)));
            maps.ranges.insert((ServiceId(77), "10.0.0.0/8".parse().unwrap()));
            maps.maglev.insert((ServiceId(77), true), Vec::new());
        },
        "are nobody's",
    ),
    (
        "a slot says more than there is",
        |maps| {
            maps.slots.get_mut(&(frontend("10.96.0.1:80"), 0)).unwrap().count = 9;
        },
        "is not whole",
    ),
];

#[test]
fn maps_are_evidence_and_are_verified() {
    for (what, harm, finding) in HARMS {
        let mut town = served();
        let whole = town.maps();
        town.kernel.tamper(|state| harm(&mut state.services));
        town.restart();
        let found = town.status().found;
        assert!(found.iter().any(|it| it.contains(finding)), "{what}: {found:?}");
        // At once, from what is left: every frontend leads to somebody who is there.
        for at in ["10.96.0.1:80", "10.96.0.2:80", "10.96.0.9:80"] {
            assert!(
                !matches!(town.landing(at), Landing::Broken(_)),
                "{what}: {:?}",
                town.landing(at)
            );
        }
        assert_eq!(town.landing("10.96.0.2:80"), at(&["10.0.0.2:8080", "10.0.0.3:8080"]), "{what}");
        town.tell(&everything());
        let (maps, all) = (town.maps(), ["10.96.0.1:80", "10.96.0.2:80", "10.96.0.9:80"]);
        for at in all {
            assert_eq!(maps.landing(frontend(at)), whole.landing(frontend(at)), "{what}");
        }
        let sizes = |maps: &KernelServices| {
            (
                maps.slots.len(),
                maps.backends.len(),
                maps.reverse_nat.len(),
                maps.affinity.len(),
                maps.ranges.len(),
                maps.maglev.len(),
            )
        };
        assert_eq!(sizes(&maps), sizes(&whole), "{what}: nothing is left over");
        let id = |maps: &KernelServices, at| maps.slots[&(frontend(at), 0)].id;
        for at in ["10.96.0.2:80", "10.96.0.9:80"] {
            assert_eq!(id(&maps, at), id(&whole, at), "{what}: {at} is untouched");
        }
    }
}

#[test]
fn backends_that_other_clusters_may_name_stay_until_they_have_spoken() {
    let mut town = Town::told_by(&[ServiceSource::Cluster, ServiceSource::Mesh]);
    let mut web = service("web", "10.96.0.1");
    web["metadata"]["annotations"] = serde_json::json!({"service.cilium.io/global": "true"});
    let here = slice("web-a", "web", &["10.0.0.1"]);
    let remote: crate::clustermesh::RemoteService = serde_json::from_value(serde_json::json!({
        "cluster": "far", "namespace": "shop", "name": "web", "shared": true,
        "backends": {"10.1.0.1": {"": {"Protocol": "TCP", "Port": 8080}}},
    }))
    .unwrap();
    let far = |town: &Town, service| {
        let changes = vec![(("shop".to_owned(), "web".to_owned()), service)];
        let remote =
            crate::services::ServicesMsg::Remote { cluster: "far".into(), changes, listed: true };
        town.services.tell(remote).unwrap();
        town.settle();
    };
    let configured = |town: &Town, all: &[&str]| {
        let all = all.iter().map(|it| (*it).into()).collect();
        town.services.tell(crate::services::ServicesMsg::Clusters(all)).unwrap();
        town.settle();
    };
    configured(&town, &["far"]);
    town.tell(&[web.clone(), here.clone()]);
    far(&town, Some(remote.clone()));
    let both = at(&["10.0.0.1:8080", "10.1.0.1:8080"]);
    assert_eq!(town.landing("10.96.0.1:80"), both);
    town.restart();
    town.tell(&[web.clone(), here.clone(), service("db", "10.96.0.2")]);
    assert_eq!(town.landing("10.96.0.1:80"), both, "the other cluster was not heard");
    configured(&town, &["far"]);
    town.wait(60);
    assert_eq!(town.landing("10.96.0.1:80"), both);
    far(&town, Some(remote));
    assert_eq!(town.landing("10.96.0.1:80"), both);
    town.restart();
    town.tell(&[web, here]);
    configured(&town, &["far"]);
    far(&town, None);
    assert_eq!(town.landing("10.96.0.1:80"), at(&["10.0.0.1:8080"]), "it shares it no more");
    assert_eq!(town.maps().backends.len(), 1);
    town.tell(&[gone(service("web", ""))]);
    assert_eq!(town.landing("10.96.0.1:80"), Landing::NoService);
}
