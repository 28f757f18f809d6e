//! Tests: a node whose identities are numbered in another way from now on loses no packet.

use std::time::Duration;

use serde_json::json;

use super::objects::fixture::{
    cluster, endpoint, identity, labels, labels_of, mapped, node, waits,
};
use crate::{
    cluster::{allocator::Mode, kvstore::IDENTITIES},
    model::{Direction, IdentityId},
    testing::{KernelState, KvLink, MemoryCluster, MemoryKvStore, World, allow_from, pod, spec},
};

/// Who numbers identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbered {
    Own,
    Crd,
    Kvstore,
}
use Numbered::{Crd, Kvstore, Own};

const DIRECTIONS: [(Numbered, Numbered); 6] =
    [(Own, Crd), (Own, Kvstore), (Crd, Own), (Crd, Kvstore), (Kvstore, Own), (Kvstore, Crd)];

/// The pods of the node, by number.
const PODS: [(u8, &str); 5] =
    [(1, "web"), (2, "friend"), (3, "stranger"), (4, "friend"), (5, "other")];

/// A node with pods, in an API server and beside a store.
struct Renumbered {
    world: World,
    cluster: MemoryCluster,
    store: MemoryKvStore,
}

/// The labels of a pod as the store has them.
fn text(app: &str) -> String {
    let labels = labels(app);
    let all = labels.as_object().unwrap().iter();
    all.map(|(key, value)| format!("{key}={};", value.as_str().unwrap())).collect()
}

/// What every packet meets: whichever row says whose it is, of the interface, of the address or of
/// the ipcache, the map of web lets friends in and nobody else.
fn judge(state: &KernelState) {
    let rows = state.policy_of(spec(1).ifindex).expect("web has a policy");
    let allows = |id: IdentityId| {
        rows.keys().any(|key| key.direction == Direction::Ingress && key.identity == id)
    };
    for (number, app) in &PODS[1..] {
        let spec = spec(*number);
        let mut ids = vec![state.rows.config[&spec.ifindex].identity];
        for address in spec.addresses.iter() {
            ids.push(state.rows.lxc[&address].identity);
            ids.push(state.rows.ipcache[&address.into()].identity);
        }
        for id in ids {
            assert_eq!(allows(id), *app == "friend", "pod {number}, {app}, has identity {id}");
        }
    }
}

impl Renumbered {
    /// Its pods were made with the numbers of `first`. The friends reach web, the others do not.
    fn new(first: Numbered) -> Self {
        let cluster = cluster();
        cluster.apply(allow_from(
            "web",
            json!({ "fromEndpoints": [{ "matchLabels": { "app": "friend" } }] }),
        ));
        for (number, app) in PODS {
            cluster.apply(pod(number, app));
        }
        let world = node(&cluster, "node-1", "192.0.2.1");
        let mut it = Self { world, cluster, store: MemoryKvStore::default() };
        it.set(first);
        it.world.boot();
        for (number, _) in PODS {
            it.world.create(spec(number)).unwrap();
        }
        it.advance(10);
        it.world.audit();
        it.world.kernel.watch(|state, _| judge(state));
        it
    }

    /// The next agent is run with that.
    fn set(&mut self, numbered: Numbered) {
        let mode = if numbered == Crd { Mode::Crd } else { Mode::Kvstore };
        self.world.settings.identity_allocation = mode;
        self.world.kvstore = (numbered == Kvstore).then(|| self.store.clone());
    }

    /// The agent is killed and started with that.
    fn restart(&mut self, numbered: Numbered) {
        self.world.crash();
        self.set(numbered);
        self.world.start();
    }

    fn number_of(&self, app: &str) -> u32 {
        let (number, _) = PODS.into_iter().find(|(_, it)| *it == app).unwrap();
        self.number(number)
    }

    fn number(&self, pod: u8) -> u32 {
        self.world.kernel.state().rows.config[&spec(pod).ifindex].identity.0
    }

    /// Time passes, in which no endpoint fails.
    fn advance(&self, seconds: u64) {
        for _ in 0..seconds {
            self.world.advance(Duration::from_secs(1));
            let failing = self.world.list().into_iter().filter(|it| it.failing);
            let failing: Vec<_> = failing.map(|it| (it.id, it.last_error.clone())).collect();
            assert_eq!(failing, []);
        }
    }

    /// Somebody else has numbered the labels of these pods: each has the number that the next one has
    /// here. Answers these numbers.
    fn permute(&self, at: Numbered, apps: &[&str]) -> Vec<u32> {
        let next = |nth: usize| self.number_of(apps[(nth + 1) % apps.len()]);
        let numbers: Vec<u32> = (0..apps.len()).map(next).collect();
        apps.iter().zip(&numbers).for_each(|(app, &id)| self.give(at, app, id));
        numbers
    }

    /// Somebody else has given the labels of that pod a number there.
    fn give(&self, at: Numbered, app: &str, id: u32) {
        match at {
            Own => panic!("a node numbers for itself"),
            Crd => self.cluster.apply(identity(id, labels(app))),
            Kvstore => self.store.put(&format!("{IDENTITIES}{id}"), &text(app)),
        }
    }

    /// The numbers under which the next allocator has these labels.
    fn stands(&self, numbered: Numbered, id: u32, app: &str) -> bool {
        match numbered {
            Own => true,
            Crd => labels_of(&self.cluster, id) == Some(labels(app)),
            Kvstore => self.store.get(&format!("{IDENTITIES}{id}")) == Some(text(app)),
        }
    }

    /// How its allocations stand.
    fn shown(&self) -> String {
        let node = self.world.node_supervisor();
        let cells = node.host.cells();
        let shown = |name: &str| {
            let cell = cells.iter().find(|cell| cell.name == name).unwrap();
            node.host.observe(cell.id)
        };
        let allocator =
            if node.crd.is_some() { "cluster-identities" } else { "kvstore-identities" };
        let list = self.world.ask(&node.identities, crate::policy::identity::IdentityMsg::List);
        let list: Vec<_> = list
            .iter()
            .filter(|it| it.id.0 > 255)
            .map(|it| (it.id, it.references, it.labels.to_string()))
            .collect();
        format!("{list:?} {:?} {:?}", shown("identities"), shown(allocator))
    }

    /// Lets the agent do one thing; false if there is nothing to be done.
    fn step(&self) -> bool {
        let World { fate, kernel, disk, kvstore, .. } = &self.world;
        let universe = &self.world.life().universe;
        universe.settle();
        let now = universe.host.now();
        let store = || kvstore.as_ref().is_some_and(|store| store.step(now, 0));
        !fate.is_dead() && (kernel.step(0) || disk.step() || store())
    }

    fn is_settled(&self, numbered: Numbered) {
        assert!(self.world.all_ready(), "{:#?}", self.world.list());
        for (number, app) in PODS {
            let id = self.number(number);
            assert!(self.stands(numbered, id, app), "{app} has {id}, {}", self.shown());
        }
        self.world.audit();
    }
}

#[test]
fn numbers_that_are_free_there_are_kept_in_every_direction() {
    for (from, to) in DIRECTIONS {
        let mut it = Renumbered::new(from);
        let before = PODS.map(|(number, _)| it.number(number));
        it.restart(to);
        it.advance(60);
        it.is_settled(to);
        assert_eq!(PODS.map(|(number, _)| it.number(number)), before, "{from:?} to {to:?}");
    }
}

#[test]
fn numbers_that_are_others_there_are_left_in_every_direction() {
    for (from, to) in DIRECTIONS.into_iter().filter(|(_, to)| *to != Own) {
        for apps in [&["web", "friend", "stranger"][..], &["friend", "stranger"]] {
            let mut it = Renumbered::new(from);
            let desired = it.permute(to, apps);
            it.restart(to);
            it.advance(60);
            it.is_settled(to);
            let after: Vec<u32> = apps.iter().map(|app| it.number_of(app)).collect();
            assert_eq!(after, desired, "{from:?} to {to:?}");
        }
    }
}

/// The agent dies after each of its steps, and is started with the same numbering or that of before.
#[test]
fn a_change_that_is_killed_at_any_step_is_done_by_the_next_life_or_taken_back() {
    for (from, to) in [(Own, Crd), (Crd, Kvstore), (Kvstore, Crd)] {
        for after in (0..400).step_by(13) {
            let mut it = Renumbered::new(from);
            let desired = it.permute(to, &["web", "friend", "stranger"]);
            let before = PODS.map(|(number, _)| it.number(number));
            it.restart(to);
            let over = (0..after).any(|_| !it.step());
            // Every other time it is taken back first.
            if after % 2 == 1 {
                it.restart(from);
                it.advance(60);
                it.is_settled(from);
                if from != Own {
                    let taken_back = PODS.map(|(number, _)| it.number(number));
                    assert_eq!(taken_back, before, "{from:?} after {after}");
                }
            }
            it.restart(to);
            it.advance(60);
            it.is_settled(to);
            let now = ["web", "friend", "stranger"].map(|app| it.number_of(app));
            assert_eq!(now[..], desired, "{from:?} to {to:?} after {after}");
            if over {
                break;
            }
        }
    }
}

#[test]
fn an_allocator_that_cannot_be_reached_leaves_everything_as_it_was() {
    let mut it = Renumbered::new(Own);
    let desired = it.permute(Kvstore, &["web", "friend", "stranger"]);
    let before = PODS.map(|(number, _)| it.number(number));
    it.store.set_link(KvLink::Down);
    it.restart(Kvstore);
    it.advance(300);
    assert!(it.world.all_ready());
    assert_eq!(PODS.map(|(number, _)| it.number(number)), before);
    assert!(waits(&it.world).contains("it is unreachable since"), "{}", waits(&it.world));
    it.store.set_link(KvLink::Up);
    it.advance(90);
    it.is_settled(Kvstore);
    assert_eq!(["web", "friend", "stranger"].map(|app| it.number_of(app))[..], desired);
}

/// It goes while numbers are changed: what is on its way is given up without a pod that fails.
#[test]
fn an_allocator_that_goes_amid_a_change_leaves_endpoints_with_what_they_have() {
    for after in (0..120).step_by(9) {
        let mut it = Renumbered::new(Own);
        let desired = it.permute(Kvstore, &["web", "friend", "stranger"]);
        it.restart(Kvstore);
        for _ in 0..after {
            it.step();
        }
        it.store.set_link(KvLink::Down);
        it.advance(300);
        assert!(it.world.all_ready(), "after {after}");
        it.store.set_link(KvLink::Up);
        it.advance(300);
        it.is_settled(Kvstore);
        assert_eq!(["web", "friend", "stranger"].map(|app| it.number_of(app))[..], desired);
    }
}

/// Its labels have a number that endpoints of other labels have yet.
#[test]
fn a_pod_that_is_made_amid_a_change_is_ready_at_once() {
    let mut it = Renumbered::new(Own);
    let late = it.number_of("web");
    it.permute(Crd, &["web", "friend", "stranger"]);
    it.cluster.delete(&identity(late, labels("stranger")));
    it.give(Crd, "late", late);
    it.cluster.apply(pod(6, "late"));
    // The number of web stays in use: its address on another node is told under it.
    it.restart(Crd);
    it.world.settle();
    assert!(it.world.create(spec(6)).is_ok());
    it.advance(60);
    assert!(it.world.all_ready());
    assert_eq!(it.number(6), late);
}

/// Nodes are restarted one after the other: those that were not yet say numbers of before.
#[test]
fn numbers_of_a_node_that_still_numbers_by_itself_are_read_by_their_labels() {
    let mut it = Renumbered::new(Own);
    it.permute(Crd, &["web", "friend", "stranger"]);
    let said = |name: &str, ip: &str, app: &str, id: u32| {
        let mut object = endpoint(name, ip, id);
        let texts = labels(app);
        let texts = texts.as_object().unwrap().iter();
        let texts: Vec<_> =
            texts.map(|(key, value)| format!("{key}={}", value.as_str().unwrap())).collect();
        object["status"]["identity"]["labels"] = json!(texts);
        object
    };
    let [friend, stranger] = ["friend", "stranger"].map(|app| it.number_of(app));
    // In the cluster 258 is a friend, and 256 a stranger; the other node has it the other way.
    it.cluster.apply(said("far-friend", "10.0.9.1", "friend", friend));
    it.cluster.apply(said("far-stranger", "10.0.9.2", "stranger", stranger));
    it.cluster.apply(said("far-late", "10.0.9.3", "late", friend));
    it.restart(Crd);
    it.advance(60);
    it.is_settled(Crd);
    let [friend, stranger] = ["friend", "stranger"].map(|app| it.number_of(app));
    let rows = |prefixes: [&str; 3]| prefixes.map(|prefix| mapped(&it.world, prefix));
    let prefixes = ["10.0.9.1/32", "10.0.9.2/32", "10.0.9.3/32"];
    assert_eq!(rows(prefixes), [Some(friend), Some(stranger), None]);
    // Somebody gives the labels of the last one a number.
    it.give(Crd, "late", 777);
    it.advance(10);
    assert_eq!(rows(prefixes), [Some(friend), Some(stranger), Some(777)]);
    // The other node has come over.
    it.cluster.apply(said("far-friend", "10.0.9.1", "friend", friend));
    it.advance(10);
    assert_eq!(rows(prefixes), [Some(friend), Some(stranger), Some(777)]);
}
