//! Tests: identities are stored before they are told, and survive restarts and crashes.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use ipnet::IpNet;

use super::*;
use crate::{
    host::{Answer, AskError, Ref, Reply, Universe},
    model::{ClusterId, Families, IdentityId, Label, Labels},
    policy::identity::Introduction,
    ports::FsOp,
    state_directory::{IdentityChanges, IdentityTable, NumberedLabels, StateFiles},
    testing::{FakeDisk, crash},
};

const PATIENCE: Duration = Duration::from_secs(600);

type Resolved = Answer<Result<Identity, IdentityError>>;
type Numbered = Answer<Result<BTreeMap<IpNet, IdentityId>, IdentityError>>;

struct Fixture {
    universe: Universe,
    disk: Rc<FakeDisk>,
    identities: Ref<IdentityMsg>,
}

impl Fixture {
    fn new() -> Self {
        Self::over(FakeDisk::new())
    }

    /// The next life of an agent, with what the last one left on disk.
    fn over(disk: Rc<FakeDisk>) -> Self {
        let stored = IdentityTable::load(&*disk);
        Self::with(disk, &stored.value.unwrap_or_default(), stored.generation)
    }

    fn with(disk: Rc<FakeDisk>, table: &IdentityTable, generation: u32) -> Self {
        let universe = Universe::default();
        let make = Identities::factory(
            Rc::clone(&disk) as _,
            ("default", ClusterId(0)),
            Families::DUAL,
            table,
            generation,
        );
        let identities = universe.spawn("identities", make);
        Self { universe, disk, identities }
    }

    fn pose<T: 'static>(&self, make: impl FnOnce(Reply<T>) -> IdentityMsg) -> Answer<T> {
        let answer = self.universe.host.ask(&self.identities, PATIENCE, "a number", make);
        self.universe.settle();
        answer
    }

    fn resolve(&self, labels: &Labels, before: Option<u32>) -> Resolved {
        let (labels, before) = (labels.clone(), before.map(IdentityId));
        self.pose(|reply| IdentityMsg::Resolve { labels, before, reply })
    }

    /// Resolves, writing if that is needed.
    fn number(&self, labels: &Labels, before: Option<u32>) -> u32 {
        let mut answer = self.resolve(labels, before);
        if self.disk.pending() > 0 {
            self.succeed();
        }
        number(&mut answer)
    }

    fn prefixes(&self, expected: &[&str]) -> Numbered {
        let expected: BTreeSet<IpNet> = expected.iter().map(|text| text.parse().unwrap()).collect();
        self.pose(|reply| IdentityMsg::Prefixes { desired: expected, reply })
    }

    /// Another node uses these; the file that is written for it.
    fn adopt(&self, ids: impl IntoIterator<Item = u32>) -> Option<String> {
        let identities: BTreeMap<_, _> =
            ids.into_iter().map(|id| (IdentityId(id), app(&id.to_string()).into())).collect();
        let asked = identities.keys().copied().collect();
        let expected = Introduction { identities, ..Introduction::default() };
        let mut had = self.pose(|reply| IdentityMsg::Adopt { desired: expected, reply });
        let ops = if self.disk.pending() > 0 { self.succeed() } else { Vec::new() };
        assert_eq!(had.now(), Some(Ok(Ok(asked))));
        ops.first().map(|op| match op {
            FsOp::Write { path, .. } => path.display().to_string(),
            op => panic!("{op:?}"),
        })
    }

    fn get(&self, id: u32) -> Option<Identity> {
        self.pose(|reply| IdentityMsg::Get { id: IdentityId(id), reply }).now().unwrap().unwrap()
    }

    fn release(&self, id: u32) {
        self.identities.tell(IdentityMsg::Release(IdentityId(id))).unwrap();
        self.universe.settle();
    }

    fn succeed(&self) -> Vec<FsOp> {
        let ops = self.disk.succeed();
        self.universe.settle();
        ops
    }

    fn fail(&self) {
        self.disk.fail();
        self.universe.settle();
    }
}

fn app(name: &str) -> Labels {
    Labels::from_iter([Label::new("k8s", "app", name)])
}

fn web_was(id: u32) -> IdentityTable {
    let cluster = vec![NumberedLabels { id: IdentityId(id), labels: app("web") }];
    IdentityTable { cluster, ..IdentityTable::default() }
}

fn number(answer: &mut Resolved) -> u32 {
    answer.now().unwrap().unwrap().unwrap().id.0
}

fn numbers(answer: &mut Numbered) -> Vec<u32> {
    answer.now().unwrap().unwrap().unwrap().values().map(|id| id.0).collect()
}

#[test]
fn a_new_number_is_not_told_before_it_is_on_disk() {
    let fixture = Fixture::new();
    let mut web = fixture.resolve(&app("web"), None);
    assert_eq!((web.now(), fixture.disk.pending()), (None, 1));
    fixture.succeed();
    assert_eq!(number(&mut web), 256);
    assert_eq!(fixture.number(&app("web"), None), 256);
    assert_eq!(fixture.get(256).unwrap().references, 2);
    assert_eq!(fixture.disk.pending(), 0);
}

#[test]
fn questions_that_come_while_the_disk_writes_share_the_next_write() {
    let fixture = Fixture::new();
    let mut first = fixture.resolve(&app("a"), None);
    let mut rest = ["b", "c", "b", "a"].map(|name| fixture.resolve(&app(name), None));
    assert_eq!(fixture.disk.pending(), 1);
    fixture.succeed();
    assert_eq!(number(&mut first), 256);
    fixture.succeed();
    assert_eq!(rest.each_mut().map(number), [257, 258, 257, 256]);
    assert_eq!(fixture.disk.pending(), 0);
}

#[test]
fn numbers_are_the_same_after_a_restart() {
    let fixture = Fixture::new();
    let before: Vec<u32> = ["a", "b", "c"].map(|name| fixture.number(&app(name), None)).into();
    let mut cidrs = fixture.prefixes(&["10.0.0.0/8", "fd00::/8"]);
    fixture.succeed();
    assert_eq!(numbers(&mut cidrs), [1 << 24 | 1, 1 << 24 | 2]);

    let next = Fixture::over(fixture.disk);
    let mut after: Vec<u32> = ["c", "b", "a"].map(|name| next.number(&app(name), None)).into();
    after.reverse();
    assert_eq!(after, before);
    assert_eq!(numbers(&mut next.prefixes(&["fd00::/8"])), [1 << 24 | 2]);
    assert_eq!(next.number(&app("d"), None), 259);
}

#[test]
fn either_copy_on_disk_is_enough_and_the_older_one_is_replaced() {
    let fixture = Fixture::new();
    let path = |ops: Vec<FsOp>| match &ops[0] {
        FsOp::Write { path, .. } => path.display().to_string(),
        op => panic!("{op:?}"),
    };
    let mut paths = Vec::new();
    for name in ["a", "b", "c"] {
        fixture.resolve(&app(name), None);
        paths.push(path(fixture.succeed()));
        fixture.number(&app(name), None);
    }
    let [even, odd] = IdentityTable::SLOTS.paths();
    assert_eq!(paths, [odd.clone(), even, odd]);
}

#[test]
fn identities_of_other_nodes_are_kept_without_writing_all_of_them_anew() {
    let fixture = Fixture::new();
    let [table, other_table] = IdentityTable::SLOTS.paths();
    let [changes, other_changes] = IdentityChanges::SLOTS.paths();
    // Each life begins with the whole table.
    assert_eq!(fixture.adopt([5000]), Some(other_table.clone()));
    assert_eq!(fixture.adopt([5001, 5002]), Some(other_changes.clone()));
    assert_eq!(fixture.adopt([5001]), None);
    assert_eq!(fixture.adopt([5003]), Some(changes));
    let next = Fixture::over(Rc::clone(&fixture.disk));
    for id in 5000..5004 {
        assert_eq!(next.get(id).map(|it| it.labels), Some(app(&id.to_string()).into()), "{id}");
    }
    assert_eq!(next.adopt([5000, 5003]), None);
    assert_eq!(next.adopt([5004]), Some(table.clone()));
    assert_eq!(next.adopt([5005]), Some(other_changes));
    // What an endpoint of this node needs stands in the table itself.
    let web = next.number(&app("web"), None);
    let stored = IdentityTable::SLOTS.load(&*next.disk);
    assert_eq!((stored.generation, stored.value.unwrap().cluster.len()), (3, 7));
    // So does what would be long.
    assert_eq!(next.adopt(6000..6300), Some(table));
    let last = Fixture::over(Rc::clone(&next.disk));
    assert!([web, 5005, 6299].into_iter().all(|id| last.get(id).is_some()));
}

#[test]
fn local_numbers_are_also_left_in_the_form_that_cilium_reads() {
    let fixture = Fixture::new();
    fixture.prefixes(&["192.168.77.0/24"]);
    assert_eq!(fixture.succeed().len(), 2);
    let file = fixture.disk.read(IdentityTable::CILIUM_LOCAL).unwrap().unwrap();
    let local = IdentityTable::local_from_cilium(&file).unwrap();
    assert_eq!(local[0].id, IdentityId(1 << 24 | 1));
    assert_eq!(local[0].labels.to_texts(), ["cidr:192.168.77.0/24", "reserved:world-ipv4"]);
    fixture.resolve(&app("web"), None);
    assert_eq!(fixture.succeed().len(), 1);
}

#[test]
fn fixed_sets_have_their_numbers_without_a_write() {
    let fixture = Fixture::new();
    assert_eq!(fixture.number(&Labels::reserved("init"), None), 5);
    fixture.release(5);
    assert_eq!(fixture.get(2).unwrap().labels, Labels::reserved("world").into());
    let mut world = fixture.prefixes(&["0.0.0.0/0", "::/0"]);
    assert_eq!(numbers(&mut world), [9, 10]);
    assert_eq!(fixture.disk.pending(), 0);
}

#[test]
fn a_number_from_before_is_kept_if_it_is_free() {
    let fixture = Fixture::new();
    assert_eq!(fixture.number(&app("web"), Some(24534)), 24534);
    // The same number for another set: the second one gets a new one.
    assert_eq!(fixture.number(&app("db"), Some(24534)), 24535);
    assert_eq!(fixture.number(&app("web"), Some(24534)), 24534);
    // A set that is in use has one number, whatever a late endpoint had.
    assert_eq!(fixture.number(&app("web"), Some(300)), 24534);
    // Numbers that are fixed, or of another kind, are not to be had.
    assert_eq!(fixture.number(&app("x"), Some(5)), 24536);
    assert_eq!(fixture.number(&app("y"), Some(1 << 24 | 1)), 24537);
}

#[test]
fn an_unused_set_goes_back_to_the_number_that_the_kernel_still_has() {
    let fixture = Fixture::with(FakeDisk::new(), &web_was(300), 1);
    assert_eq!(fixture.number(&app("web"), Some(500)), 500);
    assert_eq!(fixture.get(300), None);
    assert_eq!(fixture.number(&app("web"), Some(300)), 500);
}

#[test]
fn of_two_that_want_the_same_number_at_once_one_gets_it() {
    let fixture = Fixture::new();
    fixture.resolve(&app("first"), None);
    let mut both = ["a", "b"].map(|name| fixture.resolve(&app(name), Some(400)));
    fixture.succeed();
    fixture.succeed();
    assert_eq!(both.each_mut().map(number), [400, 401]);
}

#[test]
fn a_failing_disk_hands_nothing_out_and_is_tried_again() {
    let fixture = Fixture::new();
    let mut failed = fixture.resolve(&app("web"), None);
    let mut cidrs = fixture.prefixes(&["10.0.0.0/8"]);
    fixture.fail();
    let not_stored = IdentityError::NotStored(FakeDisk::error());
    assert_eq!(failed.now(), Some(Ok(Err(not_stored.clone()))));
    fixture.fail();
    assert_eq!(cidrs.now(), Some(Ok(Err(not_stored))));
    assert_eq!((fixture.get(256), fixture.get(1 << 24 | 1)), (None, None));
    assert_eq!(fixture.number(&app("db"), None), 256);
    assert_eq!(IdentityTable::SLOTS.load(&*fixture.disk).generation, 1);
}

#[test]
fn a_number_that_is_being_given_up_is_not_told_any_more() {
    let fixture = Fixture::with(FakeDisk::new(), &web_was(300), 1);
    let mut moving = fixture.resolve(&app("web"), Some(500));
    let mut late = fixture.resolve(&app("web"), None);
    assert_eq!(late.now(), None);
    fixture.succeed();
    assert_eq!((number(&mut moving), number(&mut late)), (500, 500));
    assert_eq!(fixture.disk.pending(), 0);
}

#[test]
fn the_last_set_of_prefixes_is_in_force() {
    let fixture = Fixture::new();
    let mut first = fixture.prefixes(&["10.0.0.0/8", "10.1.0.0/16"]);
    let mut second = fixture.prefixes(&["10.1.0.0/16"]);
    fixture.succeed();
    assert_eq!(numbers(&mut first), [1 << 24 | 1, 1 << 24 | 2]);
    assert_eq!(numbers(&mut second), [1 << 24 | 2]);
    let references = |id| fixture.get(id).map(|identity| identity.references);
    assert_eq!(references(1 << 24 | 1), Some(0));
    assert_eq!(references(1 << 24 | 2), Some(1));
    assert_eq!(fixture.get(1 << 24 | 2).unwrap().prefix, "10.1.0.0/16".parse().ok());
    // Given back is not forgotten.
    assert_eq!(numbers(&mut fixture.prefixes(&["10.0.0.0/8"])), [1 << 24 | 1]);
    assert_eq!(fixture.disk.pending(), 0);
}

#[test]
fn a_crash_forgets_neither_numbers_nor_who_uses_them() {
    let fixture = Fixture::new();
    fixture.number(&app("web"), None);
    let mut under_way = fixture.resolve(&app("db"), None);
    fixture.identities.tell(IdentityMsg::List(crash())).unwrap();
    fixture.universe.settle();
    assert!(matches!(under_way.now(), Some(Err(AskError::Crashed | AskError::Gone))));
    assert_eq!(fixture.get(256).unwrap().references, 1);
    fixture.succeed();
    assert_eq!(fixture.get(257), None);
    assert_eq!(fixture.number(&app("cache"), None), 257);
    let stored = IdentityTable::SLOTS.load(&*fixture.disk).value.unwrap();
    assert_eq!(stored.cluster.last().unwrap().labels, app("cache"));
}

#[test]
fn who_no_longer_waits_uses_no_number() {
    let fixture = Fixture::new();
    let gone = fixture.universe.host.ask(
        &fixture.identities,
        Duration::from_secs(1),
        "a number",
        |reply| IdentityMsg::Resolve { labels: app("web"), before: None, reply },
    );
    fixture.universe.advance(Duration::from_secs(2));
    drop(gone);
    fixture.succeed();
    assert_eq!(fixture.get(256).unwrap().references, 0);
}
