//! What every store must do. The same file is compiled into the tests of the store in memory and
//! of those that agents use; `api` has the names it needs.

#![allow(clippy::unwrap_used, reason = "what surprises a test ends it")]

use std::{cell::RefCell, rc::Rc, time::Duration};

use super::api::{
    Change, Condition, KvStore, LeaseId, Listing, Pair, Put, Reply, Revision, Transaction, Watch,
    WatchEvent,
};

/// A store, and how it is made to go on.
pub(super) struct Fixture<'a> {
    pub(super) store: &'a dyn KvStore,
    /// Lets a moment pass.
    pub(super) pump: &'a dyn Fn(),
    /// A prefix that nobody else uses.
    pub(super) prefix: &'a str,
}

/// What a watch has told.
type Reported = Rc<RefCell<Vec<WatchEvent>>>;

impl Fixture<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Waits for an answer as long as it takes.
    pub(super) fn answer<T: 'static>(&self, ask: impl FnOnce(Reply<T>)) -> T {
        let slot = Rc::new(RefCell::new(None));
        let filled = Rc::clone(&slot);
        ask(Reply::to(move |answer| {
            filled.replace(Some(answer));
        }));
        loop {
            if let Some(answer) = slot.take() {
                return answer.expect("the store answers");
            }
            (self.pump)();
        }
    }

    /// All of a list, part by part.
    fn list(&self, prefix: &str) -> Listing {
        let mut all = Listing::default();
        loop {
            let from = all.next.take();
            let part = self.answer(|reply| self.store.list(prefix, from, reply)).unwrap();
            (all.revision, all.next) = (part.revision, part.next);
            all.pairs.extend(part.pairs);
            if all.next.is_none() {
                return all;
            }
        }
    }

    /// Names and values below the prefix.
    fn values(&self, name: &str) -> Vec<(String, String)> {
        let text = |pair: Pair| {
            let name = pair.key.strip_prefix(self.prefix).unwrap().to_owned();
            (name, String::from_utf8(pair.value).unwrap())
        };
        self.list(&self.key(name)).pairs.into_iter().map(text).collect()
    }

    fn commit(&self, when: Vec<Condition>, puts: &[(&str, &str)], deletes: &[&str]) -> bool {
        self.commit_leased(when, puts, deletes, None).unwrap()
    }

    fn commit_leased(
        &self,
        when: Vec<Condition>,
        puts: &[(&str, &str)],
        deletes: &[&str],
        lease: Option<LeaseId>,
    ) -> Result<bool, String> {
        let put = |&(name, value): &(&str, &str)| Put {
            key: self.key(name),
            value: value.as_bytes().to_vec(),
            lease,
        };
        let puts = puts.iter().map(put).collect();
        let deletes = deletes.iter().map(|name| self.key(name)).collect();
        let transaction = Transaction { when, puts, deletes };
        let done = self.answer(|reply| self.store.commit(transaction, reply));
        done.map_err(|error| error.to_string())
    }

    fn grant(&self, ttl: u64) -> LeaseId {
        self.answer(|reply| self.store.grant(Duration::from_secs(ttl), reply)).unwrap()
    }

    fn keep_alive(&self, lease: LeaseId) -> bool {
        self.answer(|reply| self.store.keep_alive(lease, reply)).unwrap()
    }

    fn watch(&self, from: Revision) -> (Watch, Reported) {
        let reported = Reported::default();
        let tell = {
            let reported = Rc::clone(&reported);
            Box::new(move |event| {
                reported.borrow_mut().push(event);
                true
            })
        };
        (self.store.watch(self.prefix, from, tell), reported)
    }

    /// Waits until a watch has told so many changes; all of them as `name=value`, or `name` gone.
    fn changes(&self, reported: &Reported, count: usize) -> Vec<String> {
        loop {
            let all: Vec<_> =
                reported.borrow().iter().flat_map(|event| self.words(event)).collect();
            if all.len() >= count {
                return all;
            }
            (self.pump)();
        }
    }

    fn words(&self, event: &WatchEvent) -> Vec<String> {
        let WatchEvent::Changed { changes, .. } = event else { return Vec::new() };
        let name = |key: &str| key.strip_prefix(self.prefix).unwrap().to_owned();
        let word = |change: &Change| match change {
            Change::Put(Pair { key, value }) => {
                format!("{}={}", name(key), String::from_utf8_lossy(value))
            }
            Change::Delete(key) => name(key),
        };
        changes.iter().map(word).collect()
    }
}

/// All of it.
pub(super) fn run(fixture: &Fixture<'_>) {
    lists_what_begins_so_by_key(fixture);
    does_all_of_a_transaction_or_nothing(fixture);
    tells_every_change_from_a_revision_on(fixture);
    keeps_what_is_bound_to_a_lease_while_that_lives(fixture);
    takes_many_keys(fixture);
}

fn lists_what_begins_so_by_key(fixture: &Fixture<'_>) {
    assert_eq!(fixture.values(""), []);
    assert!(fixture.commit(vec![], &[("a/2", "two"), ("a/1", ""), ("b", "x")], &[]));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(fixture.values("a/"), [pair("a/1", ""), pair("a/2", "two")]);
    assert_eq!(fixture.values("c"), []);
    let before = fixture.list(fixture.prefix).revision;
    assert!(fixture.commit(vec![], &[], &["a/1", "a/2", "b", "absent"]));
    assert_eq!(fixture.values(""), []);
    assert!(fixture.list(fixture.prefix).revision > before);
}

fn does_all_of_a_transaction_or_nothing(fixture: &Fixture<'_>) {
    let absent = |name: &str| Condition::Absent(fixture.key(name));
    let none_below = |name: &str| Condition::NoneBelow(fixture.key(name));
    let is =
        |name: &str, value: &str| Condition::ValueIs(fixture.key(name), value.as_bytes().to_vec());
    assert!(fixture.commit(vec![absent("id/1"), none_below("user/")], &[("id/1", "x")], &[]));
    assert!(!fixture.commit(vec![absent("id/1")], &[("id/1", "y"), ("other", "y")], &[]));
    assert!(!fixture.commit(vec![is("id/1", "y")], &[], &["id/1"]));
    assert!(!fixture.commit(vec![is("missing", "")], &[("other", "y")], &[]));
    assert!(fixture.commit(vec![is("id/1", "x")], &[("user/here", "1")], &[]));
    assert!(!fixture.commit(vec![absent("id/2"), none_below("user/")], &[("id/2", "x")], &[]));
    assert!(fixture.commit(vec![none_below("user/x")], &[], &["id/1", "user/here"]));
    assert_eq!(fixture.values(""), []);
}

fn tells_every_change_from_a_revision_on(fixture: &Fixture<'_>) {
    let before = fixture.list(fixture.prefix).revision;
    let next = Revision(before.0 + 1);
    let (early, reported) = fixture.watch(next);
    assert!(fixture.commit(vec![], &[("a", "1"), ("b", "1")], &[]));
    assert!(fixture.commit(vec![], &[("a", "2")], &["b"]));
    let all = ["a=1", "b=1", "a=2", "b"];
    assert_eq!(fixture.changes(&reported, 4), all);
    // One that begins late hears of the same.
    let (late, same) = fixture.watch(next);
    assert_eq!(fixture.changes(&same, 4), all);
    // Its revisions are those to go on from.
    let last =
        match reported.borrow().iter().rfind(|event| matches!(event, WatchEvent::Changed { .. })) {
            Some(WatchEvent::Changed { revision, .. }) => *revision,
            other => panic!("{other:?}"),
        };
    let (third, rest) = fixture.watch(Revision(last.0 + 1));
    // One that was dropped hears of nothing any more.
    drop(early);
    assert!(fixture.commit(vec![], &[], &["a"]));
    assert_eq!(fixture.changes(&rest, 1), ["a"]);
    assert_eq!(fixture.changes(&same, 5).len(), 5);
    assert_eq!(fixture.changes(&reported, 4).len(), 4);
    drop((late, third));
}

fn keeps_what_is_bound_to_a_lease_while_that_lives(fixture: &Fixture<'_>) {
    let long = fixture.grant(900);
    assert_eq!(fixture.commit_leased(vec![], &[("mine", "1")], &[], Some(long)), Ok(true));
    let next = Revision(fixture.list(fixture.prefix).revision.0 + 1);
    // On a slow machine it may run out before it is used.
    let short = loop {
        let short = fixture.grant(1);
        if fixture.commit_leased(vec![], &[("short", "1")], &[], Some(short)) == Ok(true) {
            break short;
        }
    };
    assert_ne!(short, long);
    assert!(fixture.keep_alive(long));
    let (watch, reported) = fixture.watch(next);
    assert_eq!(fixture.changes(&reported, 2), ["short=1", "short"]);
    assert_eq!(fixture.values("").len(), 1);
    assert!(!fixture.keep_alive(short));
    let lost = fixture.commit_leased(vec![], &[("short", "2")], &[], Some(short)).unwrap_err();
    assert!(lost.contains("lease not found"), "{lost}");
    // A key that is written without a lease is not bound any more: see what is left of it.
    assert!(fixture.commit(vec![], &[], &["mine"]));
    drop(watch);
}

fn takes_many_keys(fixture: &Fixture<'_>) {
    let names: Vec<String> = (0..6000).map(|number| format!("many/{number:05}")).collect();
    for some in names.chunks(100) {
        let puts: Vec<_> = some.iter().map(|name| (name.as_str(), "value")).collect();
        assert!(fixture.commit(vec![], &puts, &[]));
    }
    let found = fixture.values("many/");
    assert!(found.iter().map(|(name, _)| name).eq(&names));
    for some in names.chunks(100) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        assert!(fixture.commit(vec![], &[], &some));
    }
}
