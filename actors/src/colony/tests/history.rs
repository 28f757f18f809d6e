use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    auditor::AuditorMsg,
    build_queue::BuildQueueMsg,
    endpoints::{EndpointsMsg, Target},
    host::{Answer, Waits},
    identity::IdentityMsg,
    invariants::{self, ALWAYS, AT_REST},
    ipam::IpamMsg,
    ipcache::IpcacheMsg,
    model::EndpointId,
    policy::PolicyMsg,
    restore::RestoreMsg,
    testing::{Created, Residue, Turn, World, allow_from, crash, spec, with_http},
};

const ACTIONS: u64 = 40;
const PODS: usize = 5;
const APPS: [&str; 3] = ["web", "db", "mail"];

/// Numbers that follow from a seed (splitmix64).
#[derive(Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())].clone()
    }
}

/// A node and what happens to it.
pub(super) struct History {
    pub(super) world: World,
    dice: Dice,
    apps: BTreeMap<u8, &'static str>,
    /// The port that a pod calls `http`.
    ports: BTreeMap<u8, u16>,
    creations: Vec<Answer<Created>>,
    empty: Residue,
    told: Vec<String>,
}

impl History {
    pub(super) fn new(seed: u64) -> Self {
        let world = World::new();
        world.advance(Duration::from_secs(1));
        let empty = Residue::of(&world);
        let (apps, ports) = Default::default();
        let (creations, told) = (Vec::new(), Vec::new());
        Self { world, dice: Dice(seed), apps, ports, creations, empty, told }
    }

    /// Runs it to its end.
    pub(super) fn run(&mut self) {
        for _ in 0..ACTIONS {
            self.act();
            if self.world.fate.is_dead() {
                self.say("died");
                self.world.restart();
            }
        }
        self.world.fate.is_kind();
        self.world.advance(Duration::from_secs(600));
        self.judge();
        self.clear();
    }

    fn say(&mut self, what: impl Into<String>) {
        self.told.push(what.into());
    }

    fn act(&mut self) {
        let number = u8::try_from(self.dice.roll(PODS) + 1).unwrap();
        match self.dice.roll(16) {
            0..4 => {
                self.say(format!("create {number}"));
                let created = self.world.begin_create(spec(number));
                self.creations.push(created);
                self.stumble();
            }
            4 | 5 => {
                self.say(format!("delete {number}"));
                let target = Target::Pod(format!("ns/pod-{number}"));
                let endpoints = self.world.colony().endpoints.clone();
                drop(self.world.pose(&endpoints, |reply| EndpointsMsg::Delete { target, reply }));
                self.stumble();
            }
            6 | 7 => {
                let app = self.dice.one_of(&APPS);
                let port = self.dice.one_of(&[80, 81]);
                self.say(format!("pod {number} is {app} at {port}"));
                self.apps.insert(number, app);
                self.ports.insert(number, port);
                let pods: Vec<Value> =
                    self.apps.iter().map(|(&n, app)| with_http(n, app, self.ports[&n])).collect();
                self.world.apply("pods", pods);
            }
            8 | 9 => {
                let policy = self.policy();
                self.say(format!("policy {policy:?}"));
                self.world.apply("policy", policy);
            }
            10 => {
                self.say("killed");
                self.world.restart();
            }
            11 => {
                let nth = self.dice.roll(40);
                self.say(format!("dies before step {nth}"));
                self.world.fate.at(nth, Turn::Die);
            }
            12 => {
                self.say("every fifth step fails");
                let mut dice = self.dice.clone();
                let turn = move |_| if dice.roll(5) == 0 { Turn::Fail } else { Turn::Work };
                self.world.fate.is(turn);
            }
            13 => {
                self.say("an actor crashes");
                self.crash_one();
            }
            _ => {
                let seconds = self.dice.one_of(&[1, 3, 40, 90]);
                self.say(format!("{seconds} s"));
                self.world.fate.is_kind();
                self.world.advance(Duration::from_secs(seconds));
            }
        }
    }

    /// A few steps of whoever comes first.
    fn stumble(&mut self) {
        for _ in 0..self.dice.roll(60) {
            if self.world.fate.is_dead() {
                return;
            }
            let runnable = self.world.life().universe.runnable().len();
            let jobs = self.world.kernel.jobs();
            let chosen = self.dice.roll(runnable + jobs + 1);
            if chosen < runnable {
                self.world.life().universe.step(chosen);
            } else if chosen < runnable + jobs {
                self.world.kernel.step(chosen - runnable);
            } else {
                self.world.disk.step();
            }
        }
    }

    fn policy(&mut self) -> Vec<Value> {
        let from = json!([{ "matchLabels": { "app": self.dice.one_of(&APPS) } }]);
        let ports = json!([{ "ports": [{ "port": "80", "protocol": "TCP" }] }]);
        let http = json!([{ "ports": [{ "port": "http", "protocol": "TCP" }] }]);
        let net = self.dice.one_of(&["192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32"]);
        let rule = self.dice.one_of(&[
            json!({ "fromEndpoints": from }),
            json!({ "fromEndpoints": from, "toPorts": ports }),
            json!({ "fromEndpoints": from, "toPorts": http }),
            json!({ "fromCIDR": [net] }),
            json!({ "fromEntities": ["world"], "toPorts": ports }),
        ]);
        let app = self.dice.one_of(&APPS);
        self.dice.one_of(&[vec![], vec![allow_from(app, rule)]])
    }

    fn crash_one(&mut self) {
        let colony = self.world.colony().clone();
        let labels = Default::default();
        let told = match self.dice.roll(8) {
            0 => colony.endpoints.tell(EndpointsMsg::List { labels, reply: crash() }).is_ok(),
            1 => colony.ipam.tell(IpamMsg::Dump(crash())).is_ok(),
            2 => colony.identities.tell(IdentityMsg::List(crash())).is_ok(),
            3 => colony.ipcache.tell(IpcacheMsg::List(crash())).is_ok(),
            4 => colony.policy.tell(PolicyMsg::Written(crash())).is_ok(),
            5 => colony.auditor.tell(AuditorMsg::Show(crash())).is_ok(),
            6 => colony.build_queue.tell(BuildQueueMsg::Show(crash())).is_ok(),
            _ => colony.restore.tell(RestoreMsg::Report(crash())).is_ok(),
        };
        assert!(told);
        self.stumble();
    }

    /// Faults have stopped long ago.
    fn judge(&self) {
        let (world, told) = (&self.world, &self.told);
        let states: Vec<_> =
            world.list().iter().map(|it| (it.id, it.state, it.last_error.clone())).collect();
        assert!(world.all_ready(), "{states:?} after {told:#?}");
        assert!(world.report().finished, "{:?} after {told:#?}", world.report());
        let broken = invariants::check(ALWAYS.iter().chain(AT_REST), &world.facts());
        assert!(broken.is_empty(), "{broken:#?} after {told:#?}");
        // The node's own auditor agrees, and never cried wolf.
        let audit = world.ask(&world.colony().auditor, AuditorMsg::Show);
        assert!(audit.looks > 0 && audit.found.is_empty(), "{audit:#?} after {told:#?}");
        let waits = |waits: &Waits| waits.iter().cloned().collect::<Vec<_>>();
        let waits = world.colony().host.with_waits(waits);
        assert!(waits.is_empty(), "{waits:#?} after {told:#?}");
        // Pods have the labels that their manifests give them.
        for view in world.list() {
            let number: u8 = view.spec.pod_name.trim_start_matches("pod-").parse().unwrap();
            let app = view.identity_labels.get("app").map(|label| label.value.as_str());
            assert_eq!(app, self.apps.get(&number).copied(), "after {told:#?}");
        }
    }

    /// All go; nothing stays.
    fn clear(&mut self) {
        self.creations.clear();
        let ids: Vec<EndpointId> = self.world.list().iter().map(|view| view.id).collect();
        for id in ids {
            assert_eq!(self.world.delete(Target::Id(id)), Some(0));
        }
        self.world.apply("policy", []);
        self.world.advance(Duration::from_secs(700));
        Residue::assert_same(&self.world, &self.empty, format_args!("after {:#?}", self.told));
    }
}
