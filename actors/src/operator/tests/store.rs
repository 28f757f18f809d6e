//! Identities of the kvstore: who uses none goes, whoever is used stays.

use super::*;
use crate::{
    cluster::kvstore::{HEARTBEAT, IDENTITIES, IDENTITY_LOCKS, IDENTITY_USERS},
    testing::KvLink,
};

const SHOP: &str = "k8s:app=shop;k8s:io.kubernetes.pod.namespace=a/b;";
const DB: &str = "k8s:app=db;";

struct StoreTest {
    operator: TestOperator,
    store: MemoryKvStore,
}

impl StoreTest {
    fn new(cluster: &MemoryCluster) -> Self {
        let store = MemoryKvStore::default();
        let operator = operator_with(cluster, Some(store.clone()), "a", |_| ());
        let test = Self { operator, store };
        test.pass(MINUTE);
        test
    }

    /// Time passes in which the store answers.
    fn pass(&self, span: Duration) {
        for _ in 0..span.as_secs() {
            self.operator.pass(Duration::from_secs(1));
            while self.store.step(self.operator.universe.host.now(), 0) {
                self.operator.universe.settle();
            }
        }
    }

    fn define(&self, number: u64, labels: &str) {
        self.store.put(&format!("{IDENTITIES}{number}"), labels);
    }

    fn use_it(&self, labels: &str, number: u64) {
        self.store.put(&format!("{IDENTITY_USERS}{labels}/10.0.0.1"), &number.to_string());
    }

    fn stop_using(&self, labels: &str) {
        self.store.delete(&format!("{IDENTITY_USERS}{labels}/10.0.0.1"));
    }

    fn stands(&self, number: u64) -> bool {
        self.store.get(&format!("{IDENTITIES}{number}")).is_some()
    }

    fn view(&self) -> StoreCollectorView {
        let answer = Rc::new(RefCell::new(StoreCollectorView::default()));
        let heard = Rc::clone(&answer);
        self.operator.supervisor.show(OperatorQuestions {
            store: Reply::to(move |view: Result<StoreCollectorView, _>| {
                *heard.borrow_mut() = view.unwrap();
            }),
            ..unasked()
        });
        self.operator.universe.settle();
        answer.take()
    }
}

#[test]
fn an_identity_that_nobody_uses_goes_in_the_second_round() {
    let test = StoreTest::new(&cluster());
    test.define(70_000, SHOP);
    test.define(70_001, DB);
    test.use_it(DB, 70_001);
    test.store.put(&format!("{IDENTITIES}what"), "k8s:app=who;");
    test.pass(16 * MINUTE);
    let view = test.view();
    assert_eq!((view.known, view.unused, view.removed), (2, 1, 0));
    assert!(test.stands(70_000));
    test.pass(15 * MINUTE);
    assert!(!test.stands(70_000) && test.stands(70_001));
    assert_eq!((test.view().removed, test.operator.ended()), (1, None));
    // What is no number is nobody's to remove.
    assert!(test.store.get(&format!("{IDENTITIES}what")).is_some());
}

#[test]
fn who_is_used_again_in_between_stays_and_so_does_who_is_just_chosen() {
    let test = StoreTest::new(&cluster());
    test.define(70_000, SHOP);
    test.define(70_001, DB);
    test.pass(16 * MINUTE);
    test.use_it(SHOP, 70_000);
    // An agent of Cilium chooses a number for these labels.
    test.store.put(&format!("{IDENTITY_LOCKS}{DB}/lock"), "");
    test.pass(16 * MINUTE);
    assert!(test.stands(70_000) && test.stands(70_001));
    // It begins anew for who is left again.
    test.stop_using(SHOP);
    test.store.delete(&format!("{IDENTITY_LOCKS}{DB}/lock"));
    test.pass(16 * MINUTE);
    assert!(test.stands(70_000) && !test.stands(70_001));
    test.pass(15 * MINUTE);
    assert!(!test.stands(70_000));
}

#[test]
fn what_a_cilium_endpoint_has_stays_though_its_node_is_silent() {
    let cluster = cluster();
    cluster.apply(json!({
        "kind": "CiliumEndpoint", "apiVersion": "cilium.io/v2",
        "metadata": { "name": "web", "namespace": "shop", "uid": "e" },
        "status": { "identity": { "id": 70_000 } },
    }));
    let test = StoreTest::new(&cluster);
    cluster.apply(json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "name": "web", "namespace": "shop", "uid": "p" },
        "status": { "phase": "Running" },
    }));
    test.define(70_000, SHOP);
    test.pass(60 * MINUTE);
    assert!(test.stands(70_000));
    // Of which CiliumEndpoints there are must be known.
    cluster.fail("CiliumEndpoint", Some(ClusterError::Unreachable("refused".to_owned())));
    test.define(70_001, DB);
    test.pass(60 * MINUTE);
    assert!(test.stands(70_000) && test.stands(70_001));
}

#[test]
fn the_heartbeat_is_written_each_minute_and_an_outage_begins_the_rounds_anew() {
    let test = StoreTest::new(&cluster());
    let first = test.store.get(HEARTBEAT).unwrap();
    test.define(70_000, SHOP);
    test.pass(10 * MINUTE);
    assert_ne!(test.store.get(HEARTBEAT).unwrap(), first);
    let beats = test.view().beats;
    assert!((10..=12).contains(&beats), "{beats}");
    test.pass(6 * MINUTE);
    assert_eq!(test.view().unused, 1);
    test.store.set_link(KvLink::Down);
    test.pass(5 * MINUTE);
    let view = test.view();
    assert!(view.error.unwrap().contains("connection refused"));
    // The next round marks again, and only the one behind it removes. Heartbeats do not pile up.
    test.store.set_link(KvLink::Up);
    test.pass(12 * MINUTE);
    assert!(test.stands(70_000));
    assert_eq!(test.view().error, None);
    test.pass(15 * MINUTE);
    assert!(!test.stands(70_000));
    let beats = test.view().beats - view.beats;
    assert!((26..=29).contains(&beats), "{beats} in 27 minutes");
}

#[test]
fn a_watch_that_ends_again_and_again_is_answered_more_and_more_seldom() {
    let test = StoreTest::new(&cluster());
    let before = test.view();
    // Each time it begins, it ends.
    for _ in 0..600 {
        test.store.break_connections();
        test.pass(Duration::from_secs(1));
    }
    let view = test.view();
    let beats = view.beats - before.beats;
    assert!((5..=60).contains(&beats), "{beats} heartbeats in ten minutes");
    test.pass(2 * MINUTE);
    assert_eq!((test.view().error, test.operator.ended()), (None, None));
}

#[test]
fn nothing_goes_from_a_store_that_was_restored_from_a_backup() {
    let test = StoreTest::new(&cluster());
    test.define(70_000, SHOP);
    test.pass(16 * MINUTE);
    assert_eq!(test.view().unused, 1);
    // In the backup the labels are not used yet.
    test.store.back_up();
    test.use_it(SHOP, 70_000);
    test.pass(13 * MINUTE);
    test.store.restore();
    test.pass(3 * MINUTE);
    assert!(test.stands(70_000));
    let view = test.view();
    assert!(view.lost > 0 && view.removed == 0, "{view:?}");
    test.use_it(SHOP, 70_000);
    test.pass(60 * MINUTE);
    assert!(test.stands(70_000));
}
