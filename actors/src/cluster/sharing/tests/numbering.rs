//! Tests: a node whose identities are numbered in another way from now on loses no packet.

use std::time::Duration;

use serde_json::json;

use super::objects::fixture::{cluster, identity, labels, labels_of, node};
use crate::{
    cluster::{allocator::Mode, kvstore::IDENTITIES},
    model::{Direction, IdentityId},
    testing::{KernelState, MemoryCluster, MemoryKvStore, World, allow_from, pod, spec},
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
