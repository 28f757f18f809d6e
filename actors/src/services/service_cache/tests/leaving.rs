//! Who leaves a service keeps the TCP connections that he has of it: how long, and what ends that.

use super::fixture::{Fixture, at, frontend, gone, of_udp, place, service, slice};
use crate::{
    endpoints::supervisor::EndpointAddresses,
    model::{BackendId, Transport},
    ports::BackendState,
    services::service_cache::{BackendView, LeavingBackend, ServicesMsg},
    testing::Landing,
};

use BackendState::{Active, Terminating};

const WEB: &str = "10.96.0.1:80";
const ONE: &str = "10.0.0.1:8080";
const TWO: &str = "10.0.0.2:8080";

/// How a frontend has each backend.
fn members(fixture: &Fixture, of: &str) -> Vec<(String, BackendState)> {
    let maps = fixture.maps();
    let mut at = frontend(of.trim_end_matches("/UDP"));
    if of.ends_with("/UDP") {
        at.at.transport = Transport::UDP;
    }
    let Some(first) = maps.slots.get(&(at, 0)) else { return Vec::new() };
    let all = maps.members.iter().filter(|((key, _), _)| key.0 == first.id);
    all.map(|(_, row)| (row.at.socket().to_string(), row.state)).collect()
}

fn all(some: &[(&str, BackendState)]) -> Vec<(String, BackendState)> {
    some.iter().map(|(at, state)| ((*at).to_owned(), *state)).collect()
}

fn web(members: &[&str]) -> serde_json::Value {
    slice("web-a", "web", members)
}

/// A service with these, whom it lists.
fn serving(members: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    fixture.tell(&[service("web", "10.96.0.1"), web(members)]);
    fixture
}

fn leaving(fixture: &Fixture) -> Vec<LeavingBackend> {
    fixture.ask(ServicesMsg::Leaving)
}

fn unused(fixture: &Fixture, all: Vec<LeavingBackend>) {
    fixture.services.tell(ServicesMsg::Unused(all)).unwrap();
    fixture.settle();
}

/// The endpoint at an address comes, or ends.
fn endpoint(fixture: &Fixture, address: &str, answers: bool) {
    let addresses = [address.parse().unwrap()].into_iter().collect();
    fixture.services.tell(ServicesMsg::Endpoint(EndpointAddresses { addresses, answers })).unwrap();
    fixture.settle();
}

fn view(fixture: &Fixture, of: &str) -> Option<BackendView> {
    let all: Vec<BackendView> = fixture.ask(ServicesMsg::ListBackends);
    all.into_iter().find(|it| it.at == place(of))
}

#[test]
fn who_left_has_no_new_connections_and_keeps_those_of_before() {
    let fixture = serving(&["10.0.0.1", "10.0.0.2"]);
    let id = view(&fixture, ONE).unwrap().id;
    fixture.tell(&[web(&["10.0.0.2"])]);
    assert_eq!(fixture.landing(WEB), at(&[TWO]));
    assert_eq!(members(&fixture, WEB), all(&[(ONE, Terminating), (TWO, Active)]));
    // It is no backend of the service, and it is told why it is there.
    assert_eq!(fixture.list()[0].backends.len(), 1);
    let left = BackendView {
        id,
        at: place(ONE),
        state: Terminating,
        left: ["shop/web".to_owned()].into(),
    };
    assert_eq!(view(&fixture, ONE), Some(left));
    assert_eq!((fixture.status().backends, fixture.status().leaving), (1, 1));
    assert!(fixture.quarantine(ONE, true).now().unwrap().unwrap().is_err(), "nobody lists it");
    // Nobody at all: what is new is refused.
    fixture.tell(&[web(&[])]);
    assert_eq!(fixture.landing(WEB), Landing::NoBackend);
    assert_eq!(members(&fixture, WEB), all(&[(ONE, Terminating), (TWO, Terminating)]));
    fixture.wait(100_000);
    assert_eq!(members(&fixture, WEB).len(), 2, "time proves nothing");
    // Who comes back has the number that he had.
    fixture.tell(&[web(&["10.0.0.1"])]);
    assert_eq!(view(&fixture, ONE).map(|it| (it.id, it.left.len())), Some((id, 0)));
    assert_eq!(members(&fixture, WEB), all(&[(ONE, Active), (TWO, Terminating)]));
    // With the service all of it goes.
    fixture.tell(&[gone(service("web", ""))]);
    assert!(fixture.maps().members.is_empty() && fixture.maps().backends.is_empty());
    assert_eq!(leaving(&fixture), []);
}

#[test]
fn datagrams_go_to_who_is_listed() {
    let fixture = Fixture::new();
    let web = |members| of_udp(web(members));
    fixture.tell(&[of_udp(service("web", "10.96.0.1")), web(&["10.0.0.1", "10.0.0.2"])]);
    let of = "10.96.0.1:80/UDP";
    assert_eq!(members(&fixture, of).len(), 2);
    fixture.tell(&[web(&["10.0.0.2"])]);
    assert_eq!(members(&fixture, of), all(&[(TWO, Active)]));
    assert_eq!((fixture.maps().backends.len(), leaving(&fixture)), (1, vec![]));
}

#[test]
fn each_service_is_left_for_itself() {
    let fixture = serving(&["10.0.0.1", "10.0.0.2"]);
    fixture.tell(&[service("db", "10.96.0.2"), slice("db-a", "db", &["10.0.0.1"])]);
    fixture.tell(&[web(&["10.0.0.2"])]);
    assert_eq!(members(&fixture, WEB), all(&[(ONE, Terminating), (TWO, Active)]));
    assert_eq!(members(&fixture, "10.96.0.2:80"), all(&[(ONE, Active)]));
    assert_eq!(fixture.maps().backends[&(BackendId(1), true)].state, Active);
    assert_eq!((fixture.status().backends, fixture.status().leaving), (2, 0));
    fixture.swept();
    assert_eq!(members(&fixture, WEB), all(&[(TWO, Active)]));
    assert_eq!(members(&fixture, "10.96.0.2:80"), all(&[(ONE, Active)]));
}

#[test]
fn a_sweep_proves_something_of_who_left_before_it_only() {
    let fixture = serving(&["10.0.0.1", "10.0.0.2"]);
    // Not before the kernel keeps new connections away.
    fixture.announce(&[web(&["10.0.0.2"])]);
    fixture.universe.settle();
    assert_eq!(leaving(&fixture), []);
    fixture.settle();
    let first = leaving(&fixture);
    assert_eq!(first.len(), 1);
    // It came back meanwhile, and may have connections where the sweep was already.
    fixture.tell(&[web(&["10.0.0.1", "10.0.0.2"])]);
    fixture.tell(&[web(&["10.0.0.2"])]);
    unused(&fixture, first);
    assert_eq!(members(&fixture, WEB), all(&[(ONE, Terminating), (TWO, Active)]));
    // The same of one that left another service since.
    let second = leaving(&fixture);
    fixture.tell(&[service("db", "10.96.0.2"), slice("db-a", "db", &["10.0.0.1"])]);
    fixture.tell(&[slice("db-a", "db", &["10.0.0.2"])]);
    unused(&fixture, second);
    assert_eq!(members(&fixture, WEB).len(), 2);
    unused(&fixture, leaving(&fixture));
    assert_eq!(members(&fixture, WEB), all(&[(TWO, Active)]));
    assert_eq!(fixture.maps().backends.len(), 1);
    // A number is had once.
    fixture.tell(&[web(&["10.0.0.1"])]);
    assert_eq!(view(&fixture, ONE).unwrap().id, BackendId(3));
}

#[test]
fn of_an_unchanged_restart_nothing_is_to_be_seen() {
    let mut fixture = serving(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    let told = [service("web", "10.96.0.1"), web(&["10.0.0.2", "10.0.0.3"])];
    fixture.tell(&told);
    let before = fixture.kernel.writes().len();
    for _ in 0..3 {
        fixture.restart();
        fixture.wait(600);
        assert_eq!(leaving(&fixture), [], "nobody said yet who is listed");
        fixture.tell(&told);
        fixture.wait(600);
        assert_eq!(fixture.writes_since(before), []);
        assert_eq!(leaving(&fixture).len(), 1);
    }
    // One that leaves while there is no agent.
    fixture.restart();
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.3"])]);
    let three = "10.0.0.3:8080";
    let expected = all(&[(ONE, Terminating), (TWO, Terminating), (three, Active)]);
    assert_eq!(members(&fixture, WEB), expected);
    fixture.restart();
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.3"])]);
    fixture.swept();
    assert_eq!(members(&fixture, WEB), all(&[(three, Active)]));
    assert_eq!(fixture.maps().backends.len(), 1);
    assert_eq!(fixture.status().found, [""; 0]);
}

#[test]
fn a_crash_forgets_nobody() {
    let fixture = serving(&["10.0.0.1", "10.0.0.2"]);
    fixture.tell(&[web(&["10.0.0.2"])]);
    fixture.universe.host.poison(fixture.services.id());
    fixture.tell(&[web(&["10.0.0.2"])]);
    fixture.wait(40);
    assert_eq!(members(&fixture, WEB), all(&[(ONE, Terminating), (TWO, Active)]));
    fixture.swept();
    assert_eq!(members(&fixture, WEB), all(&[(TWO, Active)]));
}

#[test]
fn where_an_endpoint_ends_nobody_answers() {
    let fixture = serving(&["10.0.0.1", "10.0.0.2"]);
    fixture.tell(&[web(&["10.0.0.2"])]);
    endpoint(&fixture, "10.0.0.7", false);
    assert_eq!(members(&fixture, WEB).len(), 2);
    endpoint(&fixture, "10.0.0.1", false);
    assert_eq!(members(&fixture, WEB), all(&[(TWO, Active)]));
    // The cluster says later that it left.
    endpoint(&fixture, "10.0.0.2", false);
    assert_eq!(members(&fixture, WEB), all(&[(TWO, Active)]), "it is listed");
    fixture.tell(&[web(&["10.0.0.3"])]);
    assert_eq!(members(&fixture, WEB), all(&[("10.0.0.3:8080", Active)]));
    // Who has the address next is another one.
    fixture.tell(&[web(&["10.0.0.2", "10.0.0.3"])]);
    fixture.tell(&[web(&["10.0.0.3"])]);
    assert_eq!(members(&fixture, WEB), all(&[("10.0.0.3:8080", Active), (TWO, Terminating)]));
    // His predecessor's connections are not his.
    endpoint(&fixture, "10.0.0.2", true);
    assert_eq!(members(&fixture, WEB), all(&[("10.0.0.3:8080", Active)]));
}

#[test]
fn an_address_that_is_had_again_before_the_cluster_noticed_answers() {
    let fixture = serving(&["10.0.0.1", "10.0.0.2"]);
    endpoint(&fixture, "10.0.0.1", false);
    endpoint(&fixture, "10.0.0.1", true);
    fixture.tell(&[web(&["10.0.0.2"])]);
    assert_eq!(members(&fixture, WEB), all(&[(ONE, Terminating), (TWO, Active)]));
}

/// A service with room for so many rows, which had these one after the other.
fn with_room(room: usize, rounds: std::ops::Range<u32>) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.kernel.tamper(|state| state.services.room = room);
    fixture.restart();
    fixture.tell(&[service("web", "10.96.0.1")]);
    for round in rounds {
        fixture.tell(&[web(&[&format!("10.0.1.{round}")])]);
    }
    fixture
}

#[test]
fn the_oldest_go_where_a_map_fills_up() {
    let fixture = with_room(20, 0..15);
    assert_eq!(members(&fixture, WEB).len(), 15);
    for round in 15..30 {
        fixture.tell(&[web(&[&format!("10.0.1.{round}")])]);
        let members = members(&fixture, WEB);
        assert_eq!(members.len(), 18.min(round + 1), "as many as 90 % of 20 are");
        let newest = format!("10.0.1.{}:8080", round - 1);
        assert!(members.contains(&(newest, Terminating)));
        let oldest = format!("10.0.1.{}:8080", round + 1 - members.len());
        assert!(members.contains(&(oldest, Terminating)));
    }
    assert!(fixture.status().problems.is_empty());
}

#[test]
fn who_is_listed_has_the_room_of_who_left() {
    let fixture = with_room(20, 0..15);
    let many: Vec<_> = (1..=15).map(|n| format!("10.0.2.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    fixture.tell(&[web(&many)]);
    fixture.wait(1);
    let Landing::At(all) = fixture.landing(WEB) else { panic!("{:?}", fixture.landing(WEB)) };
    assert_eq!(all.len(), 15);
    assert!(fixture.status().problems.is_empty(), "{:?}", fixture.status().problems);
    assert!(members(&fixture, WEB).len() <= 20);
}

#[test]
fn where_connections_are_to_end_with_their_backend_they_do() {
    let mut fixture = serving(&["10.0.0.1", "10.0.0.2"]);
    fixture.tell(&[web(&["10.0.0.2"])]);
    assert_eq!(members(&fixture, WEB).len(), 2);
    fixture.ends_tcp = true;
    fixture.restart();
    fixture.tell(&[service("web", "10.96.0.1"), web(&["10.0.0.2"])]);
    assert_eq!(members(&fixture, WEB), all(&[(TWO, Active)]));
    let told = fixture.gone.get();
    fixture.tell(&[web(&["10.0.0.3"])]);
    assert_eq!(members(&fixture, WEB), all(&[("10.0.0.3:8080", Active)]));
    assert!(fixture.gone.get() > told, "who is connected to that one is told");
}
