//! Definitions in a cluster in memory: what is brought, what stays, and what goes wrong meanwhile.

use std::{cell::RefCell, rc::Rc, time::Duration};

use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::{api_server::ClusterMsg, resources::definitions},
    host::{Behaviour, Cx, Message, NoAnswer, Ref, Reply, Universe},
    ports::{ClusterError, ObjectWrite, SCHEMA_VERSION_LABEL, Verb},
    testing::{MemoryCluster, World, crash},
};

const CARS: &str = "cars.example.org";
const DOGS: &str = "dogs.example.org";
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Notes which definitions it is told of.
struct Ear(Rc<RefCell<Vec<String>>>);

struct Served(String);

impl Message for Served {
    fn kind(&self) -> &'static str {
        "Served"
    }
}

impl Behaviour for Ear {
    type Msg = Served;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, msg: Served, _: &mut Cx<'_, Self>) {
        self.0.borrow_mut().push(msg.0);
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

fn definition(name: &str, version: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { SCHEMA_VERSION_LABEL: version } },
        "spec": { "group": "example.org", "versions": [schema("v2")] },
    })
}

fn schema(version: &str) -> Value {
    json!({ "name": version, "schema": { "openAPIV3Schema": { "type": "object" } } })
}

fn labelled(name: &str, labels: Value) -> Value {
    let mut object = definition(name, "");
    object["metadata"]["labels"] = labels;
    object
}

struct Fixture {
    universe: Universe,
    cluster: MemoryCluster,
    actors: Vec<Ref<DefinitionsMsg>>,
    heard: Rc<RefCell<Vec<String>>>,
}

impl Fixture {
    /// As many actors as that bring two definitions to a server that has none.
    fn of(actors: u64) -> Self {
        let (universe, cluster) = (Universe::default(), MemoryCluster::default());
        let heard = Rc::<RefCell<Vec<String>>>::default();
        let ear = Rc::clone(&heard);
        let ear = universe.spawn("ear", move || Ear(Rc::clone(&ear)));
        let spawn = |seed| {
            let port = Rc::new(cluster.clone());
            let peers = DefinitionsPeers { cluster: port, established: ear.outlet(Served) };
            let brought = [CARS, DOGS].map(|name| definition(name, "1.32.6"));
            universe.spawn("definitions", Definitions::factory(peers, brought.into(), seed))
        };
        let actors = (1..=actors).map(spawn).collect();
        Self { universe, cluster, actors, heard }
    }

    /// One that finds this definition of cars.
    fn finding(object: &Value) -> Self {
        let fixture = Self::of(1);
        fixture.cluster.define_as(object);
        fixture
    }

    fn advance(&self, span: Duration) {
        self.universe.advance(span);
    }

    /// What the server says arrives one after the other until nothing is on its way.
    fn deliver(&self) {
        self.universe.settle();
        while self.cluster.jobs() > 0 {
            self.cluster.step(0);
            self.universe.settle();
        }
    }

    fn ask<T: 'static>(&self, make: impl FnOnce(Reply<T>) -> DefinitionsMsg) -> Option<T> {
        let mut answer = self.universe.host.ask(&self.actors[0], SECOND, "a test", make);
        self.universe.settle();
        answer.now().map(Result::unwrap)
    }

    fn crash(&self) {
        self.actors[0].tell(DefinitionsMsg::Show(crash())).unwrap();
        self.universe.settle();
    }

    /// How cars stand.
    fn cars(&self) -> DefinitionState {
        self.ask(DefinitionsMsg::Show).unwrap().remove(0).state
    }

    fn all_established(&self) -> bool {
        self.ask(DefinitionsMsg::AwaitEstablished).is_some()
    }

    /// What of cars the server has.
    fn label(&self) -> Value {
        self.cluster.defined(CARS).unwrap()["metadata"]["labels"][SCHEMA_VERSION_LABEL].clone()
    }

    /// Writes since this was asked last, by definition and verb.
    fn writes(&self) -> Vec<(String, &'static str)> {
        let verb = |write: ObjectWrite| {
            let verb = match write.verb {
                Verb::Create(_) => "create",
                Verb::Merge(_) => "merge",
                _ => "else",
            };
            (write.key.name, verb)
        };
        self.cluster.take_writes().into_iter().map(verb).collect()
    }

    /// What it waits for, in words.
    fn why(&self) -> String {
        let chain = self.universe.host.with_waits(|waits| waits.chain(self.actors[0].id()));
        chain.into_iter().map(|wait| format!("{}\n", wait.why)).collect()
    }
}

fn kind() -> &'static str {
    definitions().kind
}

#[test]
fn what_is_missing_is_made_and_then_the_server_is_left_alone() {
    let fixture = Fixture::of(1);
    fixture.universe.settle();
    assert!(!fixture.all_established(), "what is written is looked at again");
    fixture.advance(SECOND);
    assert!(fixture.all_established());
    assert_eq!(fixture.cars(), DefinitionState::Established);
    let made = [CARS, DOGS].map(|name| (name.to_owned(), "create"));
    assert_eq!(fixture.writes(), made);
    fixture.heard.borrow_mut().sort();
    assert_eq!(*fixture.heard.borrow(), [CARS, DOGS]);
    let made = fixture.cluster.defined(CARS).unwrap();
    assert_eq!(made["spec"], definition(CARS, "1.32.6")["spec"]);
    // Who removes one later meant to.
    fixture.cluster.define(CARS, false);
    fixture.advance(60 * MINUTE);
    assert_eq!((fixture.writes(), fixture.why()), (vec![], String::new()));
}

#[test]
fn what_is_older_or_says_nothing_is_replaced_as_a_whole() {
    for mut object in [
        definition(CARS, "1.9.0"),
        definition(CARS, "rubbish"),
        labelled(CARS, json!({ "theirs": "x" })),
        labelled(CARS, json!(null)),
        json!({
            "metadata": { "name": CARS, "labels": { SCHEMA_VERSION_LABEL: "9.0.0" } },
            "spec": { "versions": [{ "name": "v2" }] },
        }),
    ] {
        object["spec"]["versions"].as_array_mut().unwrap().push(schema("v1"));
        object["spec"]["conversion"] = json!({ "strategy": "Webhook" });
        let theirs = object["metadata"]["labels"]["theirs"].clone();
        let fixture = Fixture::finding(&object);
        fixture.advance(SECOND);
        assert!(fixture.all_established(), "{object}");
        assert_eq!(fixture.writes()[0], (CARS.to_owned(), "merge"));
        assert_eq!(fixture.label(), "1.32.6");
        let now = fixture.cluster.defined(CARS).unwrap();
        assert_eq!(now["spec"]["versions"], json!([schema("v2")]));
        assert_eq!(now["spec"].get("conversion"), None);
        assert_eq!(now["metadata"]["labels"]["theirs"], theirs, "what others say stays");
    }
}

#[test]
fn what_is_as_new_or_newer_stays() {
    for (version, state) in [
        ("1.32.6", DefinitionState::Established),
        ("v1.32.6", DefinitionState::Established),
        ("1.100.0", DefinitionState::Newer("1.100.0".to_owned())),
    ] {
        let fixture = Fixture::finding(&definition(CARS, version));
        fixture.advance(SECOND);
        assert!(fixture.all_established());
        assert_eq!((fixture.cars(), fixture.label()), (state, version.into()));
        assert_eq!(fixture.writes(), [(DOGS.to_owned(), "create")]);
    }
}

#[test]
fn what_is_not_established_yet_is_waited_for() {
    let fixture = Fixture::of(1);
    fixture.cluster.hold_definitions(true);
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.cars(), DefinitionState::Unknown, "that takes its time");
    assert!(fixture.why().contains("not established"), "{}", fixture.why());
    fixture.advance(10 * MINUTE);
    let DefinitionState::Failing { why, tries } = fixture.cars() else { panic!("no failure") };
    assert!(why.contains("its conditions say why") && tries > 10, "{why} {tries}");
    assert_eq!(fixture.writes().len(), 2, "one write each");
    assert_eq!(*fixture.heard.borrow(), [""; 0]);
    fixture.cluster.hold_definitions(false);
    fixture.advance(MINUTE);
    assert!(fixture.all_established());
}

/// A tool that brings its own form of the object, without the label, each time it looks.
#[test]
fn who_undoes_it_again_and_again_is_named_and_answered_more_and_more_seldom() {
    let mut theirs = labelled(CARS, json!({ "theirs": "x" }));
    let fixture = Fixture::finding(&theirs);
    theirs["metadata"]["managedFields"] = json!([{ "manager": "gitops", "operation": "Update" }]);
    let mut undone = 0;
    let host = &fixture.universe.host;
    let end = host.now() + 600 * MINUTE;
    fixture.universe.settle();
    while host.now() < end {
        // It is faster than the look that follows a write.
        if fixture.writes().iter().any(|(name, _)| name == CARS) {
            undone += 1;
            fixture.cluster.define_as(&theirs);
        }
        let next = host.next_timer().map_or(SECOND, |next| next.since(host.now()));
        fixture.advance(next.max(Duration::from_micros(1)));
    }
    // 10, 20, 40 s and so on between two, and then an hour.
    assert!((15..=20).contains(&undone), "{undone} in ten hours");
    let DefinitionState::Failing { why, tries } = fixture.cars() else { panic!("no failure") };
    assert!(why.contains("managedFields name gitops") && tries >= 15, "{why} {tries}");
    assert!(!fixture.all_established());
    // Others do not wait for that, and once they stop it is done.
    assert!(fixture.heard.borrow().contains(&DOGS.to_owned()));
    fixture.advance(61 * MINUTE);
    assert!(fixture.all_established());
    assert_eq!((fixture.label(), fixture.cars()), ("1.32.6".into(), DefinitionState::Established));
}

/// Somebody else is ahead, between a look and the write that follows from it.
#[test]
fn after_a_conflict_it_is_decided_anew() {
    for (before, meanwhile, expected) in [
        (None, "1.32.6", DefinitionState::Established),
        (None, "2.0.0", DefinitionState::Newer("2.0.0".to_owned())),
        (Some("1.0.0"), "1.1.0", DefinitionState::Established),
        (Some("1.0.0"), "2.0.0", DefinitionState::Newer("2.0.0".to_owned())),
    ] {
        let fixture = Fixture::of(1);
        if let Some(version) = before {
            fixture.cluster.define_as(&definition(CARS, version));
        }
        fixture.cluster.be_slow();
        fixture.universe.settle();
        // The answer to the look is on its way.
        fixture.cluster.define_as(&definition(CARS, meanwhile));
        for _ in 0..10 {
            fixture.deliver();
            fixture.advance(SECOND);
        }
        assert_eq!(fixture.cars(), expected, "{before:?}, then {meanwhile}");
        assert!(fixture.all_established());
        let label = if meanwhile == "1.1.0" { "1.32.6" } else { meanwhile };
        assert_eq!(fixture.label(), label);
    }
}

#[test]
fn one_that_is_deleted_before_its_write_is_made() {
    let fixture = Fixture::finding(&definition(CARS, "1.0.0"));
    fixture.cluster.be_slow();
    fixture.universe.settle();
    fixture.cluster.define(CARS, false);
    for _ in 0..10 {
        fixture.deliver();
        fixture.advance(SECOND);
    }
    assert!(fixture.all_established());
    assert_eq!(fixture.label(), "1.32.6");
}

#[test]
fn who_is_refused_goes_on_once_it_is_allowed_and_others_do_not_wait() {
    let fixture = Fixture::finding(&definition(DOGS, "1.32.6"));
    let refused = ClusterError::Refused("cannot create customresourcedefinitions".to_owned());
    fixture.cluster.fail_writes(kind(), Some(refused));
    fixture.advance(SECOND);
    assert_eq!(*fixture.heard.borrow(), [DOGS]);
    let DefinitionState::Failing { why, tries: 1 } = fixture.cars() else { panic!("no failure") };
    assert!(why.contains("cannot create") && why.contains("ClusterRole"), "{why}");
    assert!(fixture.why().contains("in its ClusterRole"), "{}", fixture.why());
    fixture.advance(10 * MINUTE);
    let tries = fixture.writes().len();
    assert!((13..=22).contains(&tries), "half a minute between two of {tries}");
    fixture.cluster.fail_writes(kind(), None);
    fixture.advance(MINUTE);
    assert!(fixture.all_established());
}

#[test]
fn what_the_server_does_not_take_is_named_and_rarely_tried_again() {
    let fixture = Fixture::finding(&definition(CARS, "1.0.0"));
    let said = "status.storedVersions[0]: must appear in spec.versions".to_owned();
    fixture.cluster.fail_writes(kind(), Some(ClusterError::Invalid(said.clone())));
    fixture.advance(SECOND);
    let DefinitionState::Failing { why, .. } = fixture.cars() else { panic!("no failure") };
    assert!(why.contains(&said), "{why}");
    fixture.writes();
    fixture.advance(60 * MINUTE);
    let tries = fixture.writes().len();
    assert!((2 * 4..=2 * 6).contains(&tries), "{tries}, of both");
    fixture.cluster.fail_writes(kind(), None);
    fixture.advance(11 * MINUTE);
    assert!(fixture.all_established());
}

#[test]
fn a_server_that_is_down_is_asked_by_one_question_with_bounded_pauses() {
    let fixture = Fixture::of(1);
    fixture.cluster.set_down(true);
    fixture.advance(SECOND);
    let DefinitionState::Failing { why, .. } = fixture.cars() else { panic!("no failure") };
    assert!(why.contains("connection refused"), "{why}");
    assert_eq!(fixture.why().lines().count(), 1, "{}", fixture.why());
    fixture.advance(60 * MINUTE);
    let DefinitionState::Failing { tries, .. } = fixture.cars() else { panic!("no failure") };
    assert!((120..=260).contains(&tries), "{tries}");
    fixture.cluster.set_down(false);
    fixture.advance(31 * SECOND);
    assert!(fixture.all_established());
}

#[test]
fn a_server_that_says_nothing_is_given_up_and_one_that_is_busy_is_left_alone() {
    let fixture = Fixture::of(1);
    fixture.cluster.set_hung(true);
    fixture.advance(SECOND);
    assert!(fixture.why().contains("is as it should be"), "{}", fixture.why());
    fixture.advance(5 * MINUTE);
    assert!(matches!(fixture.cars(), DefinitionState::Failing { .. }));
    fixture.cluster.set_hung(false);
    let busy = ClusterError::Busy { after: 10 * MINUTE, said: "too many".to_owned() };
    fixture.cluster.fail(kind(), Some(busy));
    fixture.advance(3 * MINUTE);
    fixture.cluster.fail(kind(), None);
    fixture.advance(6 * MINUTE);
    assert!(!fixture.all_established());
    fixture.advance(5 * MINUTE);
    assert!(fixture.all_established());
}

#[test]
fn two_at_once_do_no_harm() {
    for slow in [false, true] {
        let fixture = Fixture::of(2);
        fixture.cluster.define_as(&definition(DOGS, "1.0.0"));
        if slow {
            fixture.cluster.be_slow();
        }
        for _ in 0..20 {
            fixture.deliver();
            fixture.advance(SECOND);
        }
        for actor in &fixture.actors {
            let host = &fixture.universe.host;
            let mut done = host.ask(actor, SECOND, "a test", DefinitionsMsg::AwaitEstablished);
            fixture.universe.settle();
            assert_eq!(done.now(), Some(Ok(())));
        }
        let writes = fixture.writes();
        let taken = fixture.cluster.defined(DOGS).unwrap()["metadata"]["resourceVersion"].clone();
        assert!(writes.len() <= 4, "{writes:?}");
        assert_eq!(taken, "3", "one change of each after the first: {writes:?}");
        assert_eq!(fixture.label(), "1.32.6");
    }
}

#[test]
fn a_crash_at_any_moment_loses_nothing() {
    // Each answer of the server is such a moment: a look, a write and a look, of two.
    for moment in 0..6 {
        let fixture = Fixture::of(1);
        fixture.cluster.define_as(&definition(CARS, "1.0.0"));
        fixture.cluster.be_slow();
        let mut delivered = 0;
        for _ in 0..20 {
            fixture.universe.settle();
            while fixture.cluster.jobs() > 0 {
                if delivered == moment {
                    fixture.crash();
                }
                fixture.cluster.step(0);
                delivered += 1;
                fixture.universe.settle();
            }
            fixture.advance(SECOND);
        }
        assert!(delivered > moment, "there was no such moment");
        assert!(fixture.all_established(), "moment {moment}");
        assert_eq!(fixture.label(), "1.32.6");
        assert!(fixture.writes().len() <= 4, "moment {moment}");
    }
}

#[test]
fn what_was_done_is_not_asked_again_after_a_crash() {
    let fixture = Fixture::of(1);
    fixture.advance(SECOND);
    assert!(fixture.all_established());
    fixture.cluster.define(CARS, false);
    fixture.writes();
    fixture.crash();
    fixture.advance(MINUTE);
    assert!(fixture.all_established());
    assert_eq!(fixture.writes(), []);
}

/// Sources that wait for a definition list as soon as the server serves its objects.
#[test]
fn who_waits_for_a_definition_goes_on_with_it() {
    let (mut world, cluster) = (World::off(), MemoryCluster::new());
    let name = "ciliumnetworkpolicies.cilium.io";
    cluster.define(name, false);
    let policies = || cluster.lists_of("CiliumNetworkPolicy");
    world.cluster = Some(cluster.clone());
    world.settings.definitions = vec![definition(name, "1.32.6")];
    cluster.hold_definitions(true);
    world.boot();
    world.advance(5 * SECOND);
    assert_eq!(policies(), 1);
    cluster.hold_definitions(false);
    let began = policies();
    let mut waited = Duration::ZERO;
    let actor = world.node_supervisor().definitions.clone().unwrap();
    while world.ask(&actor, DefinitionsMsg::Show)[0].state != DefinitionState::Established {
        world.advance(SECOND);
        waited += SECOND;
        assert!(waited < 5 * SECOND, "the source looks itself after ten");
    }
    world.settle();
    assert!(policies() > began, "listed at once");
}

#[test]
fn nodes_are_known_by_their_nodes_only_if_cilium_nodes_do_not_get_defined() {
    for refused in [false, true] {
        let (mut world, cluster) = (World::off(), MemoryCluster::new());
        let name = "ciliumnodes.cilium.io";
        cluster.define(name, false);
        if refused {
            cluster.fail_writes(kind(), Some(ClusterError::Refused("no right".to_owned())));
        }
        world.cluster = Some(cluster);
        world.settings.definitions = vec![definition(name, "1.32.6")];
        world.boot();
        world.advance(MINUTE);
        let follower = world.node_supervisor().cluster.clone().unwrap();
        let all = world.ask(&follower, ClusterMsg::Show);
        assert_eq!(all.iter().any(|it| it.name == "other nodes"), refused);
    }
}

#[test]
fn nobody_brings_what_nobody_asked_for() {
    let (mut world, cluster) = (World::off(), MemoryCluster::default());
    world.cluster = Some(cluster.clone());
    world.boot();
    world.advance(MINUTE);
    assert!(world.node_supervisor().definitions.is_none());
    let written = cluster.take_writes().into_iter().any(|it| it.resource.kind == kind());
    assert!(!written);
}
