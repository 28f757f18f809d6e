//! Records of lives that the production actors lived in memory, in virtual time.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use serde_json::json;
use volvox_actors_simulated::{
    endpoints::ipam::IpamMsg,
    host::{
        Behaviour, Cx, Message, Recorder, Ref, Reply, Time,
        flight::{Birth, Writer, to_bytes},
    },
    testing::{World, allow_from, crash, pod, spec},
};

/// Pods of the node; one for each interface that it has.
pub(crate) const PODS: u8 = 9;

/// Words of a ring: more than any of these lives fills.
const RING_WORDS: usize = 1 << 17;
/// What handling a message takes.
const HANDLING: Duration = Duration::from_micros(40);
/// What a job of the kernel takes.
const KERNEL: Duration = Duration::from_micros(700);

type Ring = Arc<[std::sync::atomic::AtomicU64]>;

/// Two lives of one node: its pods are made, then the agent is killed and restores them. In the
/// second life an actor crashes, and two at last wait for each other.
pub(crate) fn two_lives() -> Result<[PathBuf; 2]> {
    // The lab's own file system.
    let [first, second] = ["first.ring", "second.ring"].map(|name| Path::new("/run").join(name));
    let mut world = World::off();
    let ring = record(&mut world, 1);
    world.apply("policies", [allow_from("web", json!({ "fromEndpoints": [{}] }))]);
    world.apply("pods", (1..=PODS).map(|number| pod(number, "web")));
    world.start();
    run(&world);
    for number in 1..=PODS {
        drop(world.begin_create(spec(number)));
        run(&world);
    }
    fs::write(&first, to_bytes(&ring))?;

    world.crash();
    let ring = record(&mut world, 2);
    world.start();
    run(&world);
    // The handler panics when it answers.
    world.life().universe.host.outside("a question that crashes", || {
        let _ = world.node_supervisor().ipam.tell(IpamMsg::Dump(crash()));
    });
    run(&world);
    wait_for_each_other(&world);
    run(&world);
    fs::write(&second, to_bytes(&ring))?;
    Ok([first, second])
}

/// Has the next run of the world recorded.
fn record(world: &mut World, life: u64) -> Ring {
    let ring: Ring = (0..RING_WORDS).map(|_| Default::default()).collect();
    let memory = Arc::clone(&ring);
    world.recorder = Some(Box::new(move || {
        let birth = Birth {
            life,
            pid: 1,
            version: "0.1.0".to_owned(),
            boot_id: "simulated".to_owned(),
            started: Time::default(),
            started_wall: 1_700_000_000_000_000_000,
        };
        let writer = Writer::new(Arc::clone(&memory), &birth).expect("the ring is large enough");
        Box::new(writer) as Box<dyn Recorder>
    }));
    ring
}

/// Runs until nothing can go on; time passes with every step, as it does in production.
fn run(world: &World) {
    let universe = &world.life().universe;
    loop {
        if universe.step(0) {
            universe.clock().advance(HANDLING);
        } else if world.kernel.step(0) || world.disk.step() {
            universe.clock().advance(KERNEL);
        } else {
            return;
        }
    }
}

/// An actor that asks another one whatever it is asked, and never answers.
struct Stubborn {
    other: Option<Ref<Question>>,
    held: Vec<Reply<()>>,
}

enum Question {
    Know(Ref<Question>),
    Ask(Reply<()>),
}

impl Message for Question {
    fn kind(&self) -> &'static str {
        match self {
            Self::Know(_) => "Know",
            Self::Ask(_) => "Ask",
        }
    }
}

/// Its question was answered, or will not be.
struct Answered;

impl Message for Answered {
    fn kind(&self) -> &'static str {
        "Answered"
    }
}

impl Behaviour for Stubborn {
    type Msg = Question;
    type Answer = Answered;
    type Observed = usize;

    fn handle(&mut self, msg: Question, cx: &mut Cx<'_, Self>) {
        match msg {
            Question::Know(other) => self.other = Some(other),
            Question::Ask(reply) => {
                self.held.push(reply);
                if let (1, Some(other)) = (self.held.len(), self.other.clone()) {
                    let (patience, why) = (Duration::from_secs(60), "an answer that needs its own");
                    cx.ask(&other, patience, why, Question::Ask, |_| Answered);
                }
            }
        }
    }

    fn answered(&mut self, _: Answered, _: &mut Cx<'_, Self>) {}

    fn observe(&self) -> usize {
        self.held.len()
    }
}

fn wait_for_each_other(world: &World) {
    let host = &world.life().universe.host;
    let make = || Stubborn { other: None, held: Vec::new() };
    let [left, right] = ["left", "right"].map(|name| host.spawn(name, 8, make));
    host.outside("a question without end", || {
        let _ = left.tell(Question::Know(right.clone()));
        let _ = right.tell(Question::Know(left.clone()));
        drop(host.ask(&left, Duration::from_secs(60), "an answer", Question::Ask));
    });
}

/// An exported record of a life that restored so many endpoints of pods `shop/web-N`: the first is born after
/// 31 ms, each is ready within 60 ms.
pub(crate) fn restored(endpoints: u64) -> Result<PathBuf> {
    const BEGUN: u64 = 5_000_000_000;
    let mut events = Vec::new();
    let mut add = |mut event: serde_json::Value| {
        event["seq"] = json!(events.len() + 1);
        events.push(event);
    };
    let boot = ("the state directory is read", BEGUN + 1_000_000, BEGUN + 30_000_000);
    add(json!({ "record": "phase", "name": boot.0, "started": boot.1, "ended": boot.2 }));
    let born = |number: u64| BEGUN + 31_000_000 + number * 1_000;
    for number in 1..=endpoints {
        let name = format!("endpoint {number} (shop/web-{number})");
        let cell = 100 + number;
        add(
            json!({ "record": "spawned", "cell": cell, "name": name, "parent": null, "at": born(number) }),
        );
    }
    for number in 1..=endpoints {
        let (cell, at) = (100 + number, born(endpoints) + number * 50_000_000 / endpoints);
        let (from, to, why) = ("restoring", "ready", "all is as it was");
        add(
            json!({ "record": "state", "cell": cell, "from": from, "to": to, "why": why, "at": at }),
        );
    }
    let life = json!({
        "number": 4, "version": "0.1.0", "boot_id": "made", "started_ns": BEGUN,
        "started_unix_ns": 1_700_000_000_000_000_000_u64,
    });
    let file = Path::new("/run").join(format!("{endpoints}.json"));
    fs::write(&file, json!({ "life": life, "events": events }).to_string())?;
    Ok(file)
}
