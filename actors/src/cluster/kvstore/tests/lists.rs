//! Tests: a prefix of the store that is listed in pages, also if the list breaks off.

use std::{cell::RefCell, rc::Rc, time::Duration};

use crate::{
    cluster::kvstore::{Followed, Update, WatcherMsg},
    host::{Behaviour, Cx, Lane, Message, NoAnswer, Ref, Time, Universe},
    ports::{Change, KvStore},
    testing::{KvLink, MemoryKvStore},
};

const PREFIX: &str = "some/";

struct Heard(Update);

impl Message for Heard {
    fn kind(&self) -> &'static str {
        "Heard"
    }

    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// What a listener was told: a key that is there, or one with a minus that is not; `.` for all.
type Words = Rc<RefCell<Vec<String>>>;

struct Listener(Words);

impl Behaviour for Listener {
    type Msg = Heard;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, Heard(update): Heard, _: &mut Cx<'_, Self>) {
        let word = |change: &Change| match change {
            Change::Put(pair) => pair.key[PREFIX.len()..].to_owned(),
            Change::Delete(key) => format!("-{}", &key[PREFIX.len()..]),
        };
        let mut words = self.0.borrow_mut();
        words.extend(update.changes.iter().map(word));
        words.extend(update.listed.then(|| ".".to_owned()));
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

struct Fixture {
    universe: Universe,
    store: MemoryKvStore,
    words: Words,
    _watcher: Ref<WatcherMsg>,
}

impl Fixture {
    fn new(keys: &[&str]) -> Self {
        let (universe, store) = (Universe::default(), MemoryKvStore::default());
        keys.iter().for_each(|key| store.put(&format!("{PREFIX}{key}"), "x"));
        let words = Words::default();
        let reported = Rc::clone(&words);
        let listener = universe.spawn("listener", move || Listener(Rc::clone(&reported)));
        let followed: Rc<dyn KvStore> = Rc::new(store.clone());
        let followed = Followed::new(&followed, PREFIX);
        let _watcher = followed.tell(&universe.host, "watcher", 1, &listener, Heard);
        universe.settle();
        Self { universe, store, words, _watcher }
    }

    fn now(&self) -> Time {
        Time::default() + Duration::from_secs(1)
    }

    /// The store does one thing; what was heard by then.
    fn step(&self) -> String {
        self.store.step(self.now(), 0);
        self.universe.settle();
        self.words.take().join(" ")
    }

    fn delete(&self, key: &str) {
        self.store.delete(&format!("{PREFIX}{key}"));
    }
}

#[test]
fn a_list_is_told_page_by_page_and_ends_with_the_last() {
    let fixture = Fixture::new(&["a", "b", "c", "d", "e", "f", "g"]);
    // As it was when it began: what came since is told behind it.
    assert_eq!(fixture.step(), "a b c");
    fixture.delete("a");
    fixture.delete("g");
    assert_eq!(fixture.step(), "d e f");
    assert_eq!(fixture.step(), "g .");
    // Its watch begins, and goes on from there.
    assert_eq!([fixture.step(), fixture.step()], ["", "-a -g"]);
}

#[test]
fn what_a_list_that_broke_off_did_not_come_to_is_not_gone() {
    let fixture = Fixture::new(&["a", "b", "c", "d", "e", "f", "g"]);
    for _ in 0..3 {
        fixture.step();
    }
    fixture.delete("b");
    fixture.store.compact();
    // Its watch learns that it must list again, and the store is gone amid that.
    assert_eq!(fixture.step(), "");
    assert_eq!(fixture.step(), "");
    fixture.store.set_link(KvLink::Down);
    assert_eq!(fixture.step(), "");
    fixture.store.set_link(KvLink::Up);
    fixture.universe.advance(Duration::from_secs(10));
    assert_eq!([fixture.step(), fixture.step()], ["", "-b ."]);
}

#[test]
fn a_list_whose_rest_is_not_kept_begins_anew() {
    let fixture = Fixture::new(&["a", "b", "c", "d"]);
    assert_eq!(fixture.step(), "a b c");
    fixture.store.compact();
    assert_eq!(fixture.step(), "");
    fixture.universe.advance(Duration::from_secs(10));
    assert_eq!([fixture.step(), fixture.step()], ["", "d ."]);
}
