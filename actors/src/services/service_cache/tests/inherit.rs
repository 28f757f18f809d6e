//! What an earlier run left: numbers stay, what is broken is mended, what is no more goes.

use super::fixture::{Fixture, at, frontend, gone, place, service, slice};
use crate::{
    model::{BackendId, ServiceId},
    ports::BackendRow,
    services::service_cache::ServiceSource,
    testing::{KernelServices, Landing},
};

fn served() -> Fixture {
    let fixture = Fixture::new();
    fixture.tell(&everything());
    fixture
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
    let mut fixture = served();
    let (maps, list) = (fixture.maps(), fixture.list());
    let before = fixture.kernel.writes().len();
    fixture.restart();
    let known: Vec<_> = fixture.list().iter().map(|it| (it.id, it.frontend)).collect();
    assert_eq!(known, list.iter().map(|it| (it.id, it.frontend)).collect::<Vec<_>>());
    fixture.tell(&everything());
    assert_eq!(fixture.list(), list);
    assert_eq!(fixture.writes_since(before), []);
    assert_eq!((fixture.maps(), fixture.status().found), (maps, vec![]));
}

#[test]
fn what_went_while_the_agent_was_dead_goes_when_the_cluster_has_said_so() {
    let mut fixture = served();
    fixture.restart();
    fixture.wait(600);
    assert_eq!(fixture.landing("10.96.0.9:80"), Landing::NoBackend, "nobody said that it went");
    let all = everything();
    fixture.tell(&all[1..4]);
    assert_eq!(fixture.landing("10.96.0.9:80"), Landing::NoService);
    assert_eq!(fixture.landing("10.96.0.2:80"), Landing::NoBackend);
    fixture.swept();
    assert_eq!(fixture.maps().backends.len(), 2);
    // Numbers that were had once are had by nobody else, also not in a later life.
    fixture.restart();
    fixture.tell(
        &[&all[1..4], &[service("new", "10.96.0.7"), slice("new-a", "new", &["10.0.0.9"])]]
            .concat(),
    );
    let list = fixture.list();
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
        "a backend's row says that it is another's",
        |maps| {
            let key = (BackendId(3), true);
            let row = maps.backends.remove(&key).unwrap();
            maps.mistaken.insert(key, row.at);
        },
        "another one's tag",
    ),
    (
        "a backend of the other family has the number of one",
        |maps| {
            let at = place("[fd00::1]:8080");
            let row = BackendRow { at, ..maps.backends[&(BackendId(1), true)] };
            maps.backends.insert((BackendId(1), false), row);
        },
        "which is that of 10.0.0.2:8080",
    ),
    (
        "a backend has number 0",
        |maps| {
            let at = place("10.0.0.77:8080");
            let row = BackendRow { at, ..maps.backends[&(BackendId(1), true)] };
            maps.backends.insert((BackendId(0), true), row);
        },
        "has number 0, which is nobody's",
    ),
    (
        "a service has a last slot that is far away, and there is hardly any room",
        |maps| {
            maps.room = 20;
            let row = maps.slots[&(frontend("10.96.0.1:80"), 1)];
            maps.slots.insert((frontend("10.96.0.1:80"), 65_535), row);
        },
        "is not whole",
    ),
    (
        "a service has the highest number",
        |maps| {
            let at = frontend("10.96.0.1:80");
            let rows = maps.slots.iter_mut().filter(|((it, _), _)| *it == at);
            rows.for_each(|(_, row)| row.id = ServiceId(u16::MAX));
        },
        "is not whole",
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
        let mut fixture = served();
        let whole = fixture.maps();
        fixture.kernel.tamper(|state| harm(&mut state.services));
        fixture.restart();
        let found = fixture.status().found;
        assert!(found.iter().any(|it| it.contains(finding)), "{what}: {found:?}");
        // At once, from what is left: every frontend leads to somebody who is there.
        for at in ["10.96.0.1:80", "10.96.0.2:80", "10.96.0.9:80"] {
            assert!(
                !matches!(fixture.landing(at), Landing::Broken(_)),
                "{what}: {:?}",
                fixture.landing(at)
            );
        }
        assert_eq!(
            fixture.landing("10.96.0.2:80"),
            at(&["10.0.0.2:8080", "10.0.0.3:8080"]),
            "{what}"
        );
        fixture.tell(&everything());
        let (maps, all) = (fixture.maps(), ["10.96.0.1:80", "10.96.0.2:80", "10.96.0.9:80"]);
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
fn rubbish_gives_nobody_a_number_of_another() {
    let harms: [Harm; 3] = [
        |maps| {
            let row =
                BackendRow { at: place("203.0.113.9:1"), ..maps.backends[&(BackendId(1), true)] };
            maps.backends.insert((BackendId(u32::MAX), true), row);
        },
        |maps| maps.unused.backend = u32::MAX,
        |maps| {
            let row =
                BackendRow { at: place("203.0.113.9:1"), ..maps.backends[&(BackendId(1), true)] };
            maps.backends.insert((BackendId(5), true), row);
        },
    ];
    for (nth, harm) in harms.iter().enumerate() {
        let mut fixture = served();
        let before = fixture.maps().landing(frontend("10.96.0.1:80"));
        fixture.kernel.tamper(|state| harm(&mut state.services));
        fixture.restart();
        let mut all = everything();
        for n in 0..4 {
            let name = format!("new-{n}");
            all.push(service(&name, &format!("10.96.1.{n}")));
            all.push(slice(&name, &name, &[&format!("10.0.1.{n}")]));
        }
        fixture.tell(&all);
        for n in 0..4 {
            let lands = fixture.landing(&format!("10.96.1.{n}:80"));
            assert_eq!(lands, at(&[&format!("10.0.1.{n}:8080")]), "{nth}");
        }
        assert_eq!(fixture.landing("10.96.0.1:80"), before, "{nth}");
        assert_eq!(fixture.maps().backends.len(), 7, "{nth}: what nobody names is gone");
        assert!(fixture.maps().unused.backend < 20, "{nth}");
        let (maps, writes) = (fixture.maps(), fixture.kernel.writes().len());
        fixture.restart();
        fixture.tell(&all);
        assert_eq!((fixture.maps(), fixture.writes_since(writes)), (maps, vec![]), "{nth}");
    }
}

#[test]
fn numbers_of_rows_that_are_nobody_s_are_given_to_nobody() {
    let mut fixture = served();
    let own = fixture.maps().unused.service;
    fixture.kernel.tamper(|state| {
        let orphan = (ServiceId(u16::try_from(own).unwrap()), true);
        state.services.reverse_nat.insert(orphan, "192.0.2.1:1".parse().unwrap());
    });
    fixture.restart();
    fixture.tell(&[everything(), vec![service("new", "10.96.0.7")]].concat());
    assert_eq!(fixture.landing("10.96.0.7:80"), Landing::NoBackend);
    assert_eq!(fixture.maps().reverse_nat.len(), 4, "the orphan is gone, nobody else");
}

#[test]
fn a_number_that_is_had_again_is_forgotten_by_connections_also_if_that_fails_at_first() {
    let mut fixture = served();
    fixture.kernel.tamper(|state| state.services.unused.service = 0x1_0000);
    fixture.restart();
    fixture.tell(&everything());
    let before = fixture.kernel.writes().len();
    fixture.fate.refuses("ForgetServices");
    fixture.tell(&[service("new", "10.96.0.7")]);
    fixture.fate.is_kind();
    fixture.wait(40);
    assert_eq!(fixture.landing("10.96.0.7:80"), Landing::NoBackend);
    let writes = fixture.writes_since(before);
    assert!(writes.iter().any(|it| it.name() == "ForgetServices"), "{writes:?}");
}

#[test]
fn tables_without_backends_are_of_their_family() {
    let mut fixture = Fixture::told_by(&[ServiceSource::Cluster, ServiceSource::Node]);
    fixture.host_addresses(&["fd00::7"]);
    let mut web = service("web", "fd96::1");
    web["spec"]["type"] = serde_json::json!("NodePort");
    web["spec"]["ports"] = serde_json::json!([{"port": 80, "nodePort": 30080}]);
    fixture.tell(&[web.clone()]);
    let maps = fixture.maps();
    assert!(!maps.maglev.is_empty() && maps.maglev.keys().all(|(_, is_ipv4)| !is_ipv4));
    let before = fixture.kernel.writes().len();
    fixture.restart();
    assert_eq!(fixture.status().found, Vec::<String>::new());
    fixture.host_addresses(&["fd00::7"]);
    fixture.tell(&[web.clone()]);
    assert_eq!(fixture.writes_since(before), []);
    fixture.tell(&[gone(web)]);
    assert!(fixture.maps().maglev.is_empty());
}
