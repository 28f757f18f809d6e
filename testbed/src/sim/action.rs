//! What can happen to a node: one entry of a history.
//!
//! Each stands for itself and carries the seed of its own choices, so that a history from which
//! some are taken out still means something: that is how failing ones are shrunk.

use std::fmt;

use super::{
    around::{Server, Store},
    model::{App, Policy},
    served::{BACKENDS, Members, SERVICES},
};
use crate::random::Random;

/// Pods that a node has.
pub const PODS: u8 = 26;
/// Sources of policies.
pub const SOURCES: u8 = 2;
/// Pods that another node has.
pub const REMOTES: u8 = 4;
/// Pods of the other cluster; their numbers follow.
pub const FARS: u8 = 2;

/// Make other numbers of a seed, for what is drawn beside a history.
const FOLLOW: u64 = 0x6b75_6265;
const SHARE: u64 = 0x6574_6364;
const SERVE: u64 = 0x7365_7276;

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A pod is started, unless it runs.
    Add(u8),
    /// Whoever starts a pod gives up waiting and has it deleted.
    Cancel(u8),
    /// A pod is deleted.
    Remove(u8),
    /// The deletion of a pod of the same name that went long ago comes again.
    RemoveEarlier(u8),
    /// A pod's interface vanishes, and nobody says so.
    Unplug(u8),
    /// A pod's labels are changed; told to the agent now or with the next delivery.
    Label {
        /// The pod.
        pod: u8,
        /// Its label.
        app: App,
        /// Whether the agent hears of it now.
        told: bool,
    },
    /// A source of policies holds others.
    Policies {
        /// The source.
        source: u8,
        /// What it holds.
        policies: Vec<Policy>,
        /// Whether the agent hears of it now.
        told: bool,
    },
    /// From now on agents follow an API server in place of manifests.
    Follow,
    /// Something happens to that server.
    Server(Server),
    /// From now on agents share a key-value store with another node.
    Share,
    /// Something happens to that store.
    Store(Store),
    /// From now on agents read another cluster's store, too.
    Mesh,
    /// Something happens to that store.
    Far(Store),
    /// The other cluster is configured from now on, or not any more.
    Configure(bool),
    /// A pod of the other node, or of the other cluster, has that label from now on; without one it
    /// is gone.
    Remote {
        /// The pod.
        number: u8,
        /// Its label.
        app: Option<App>,
    },
    /// A service has other backends, comes, or goes.
    Service {
        /// The service.
        number: u8,
        /// Its backends.
        members: Members,
        /// Whether the agent hears of it now.
        told: bool,
    },
    /// The agent hears what it has not heard, and something that it has heard once more.
    Deliver,
    /// A manifest is missing for a moment, then listed again.
    Relist(u8),
    /// A manifest cannot be read for a moment.
    Unreadable(u8),
    /// An endpoint is to be regenerated with fresh programs.
    Rebuild(u8),
    /// Pods have connections.
    Connect,
    /// Actors, kernel and disk take steps, in an order that follows from the seed.
    Steps {
        /// How many.
        count: u16,
        /// The order.
        seed: u64,
    },
    /// Time passes; all that can be done is done.
    Time {
        /// Milliseconds.
        ms: u32,
        /// The order of what is done.
        seed: u64,
    },
    /// Time passes while the kernel does nothing.
    Stall {
        /// Milliseconds.
        ms: u32,
    },
    /// The monotonic clock jumps, as after a suspension, and the wall clock with it or backwards.
    Jump {
        /// Milliseconds.
        ms: u32,
        /// What the wall clock says then.
        wall: u64,
    },
    /// Steps of the kernel or of the disk are refused from now on.
    Faults {
        /// Which.
        kind: Fault,
        /// One step of so many.
        one_in: u8,
        /// Which steps.
        seed: u64,
    },
    /// Everything works again.
    FaultsOff,
    /// An actor panics behind its next message.
    Crash(u64),
    /// The agent is killed.
    Kill,
    /// The agent is killed before the nth step of kernel or disk from now, and started again.
    KillAt(u16),
    /// The machine loses power before the nth step of kernel or disk from now, at once if no agent
    /// runs: the kernel forgets all, pods are gone, and of the disk only what was synced is sure.
    PowerCut {
        /// Which step.
        nth: u16,
        /// The state directory was in memory, and is empty afterwards.
        tmpfs: bool,
        /// What is left of what was not synced.
        seed: u64,
    },
    /// The agent is started, if there is none; it hears of manifests now or with the next delivery.
    Boot {
        /// Whether it hears of them now.
        told: bool,
    },
    /// While no agent runs: the state directory is as another version leaves it.
    Rewrite(Version),
    /// While no agent runs: the record of a pod's endpoint is torn.
    Tear(u8),
    /// While no agent runs: another record claims the address of a pod's endpoint.
    Duplicate(u8, u16),
    /// While no agent runs: the kernel holds rows of nobody.
    Foreign,
    /// The agent is started anew while nothing changed: it has nothing to write.
    Unchanged,
    /// Faults end, everything is told, and the node must come to rest.
    Rest,
}

/// Which steps fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Any.
    Any,
    /// Maps are full.
    MapFull,
    /// There is no memory for policy maps.
    NoMemory,
    /// Of a batch half is done.
    Half,
    /// The disk is full.
    NoSpace,
    /// The disk fails.
    Io,
}

/// Whose state directory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `lxc_config.h` only.
    V1_5,
    /// `ep_config.h` only.
    V1_9,
    /// `ep_config.json` and `ep_config.h`, without our stamp.
    V1_19,
}

/// A whole history at random. One in three follows an API server, the others take manifests; one in
/// three shares a store with another node, and half of these are meshed with another cluster. Every
/// other one has services.
pub fn draw(seed: u64) -> Vec<Action> {
    let mut actions = live_and_die(seed);
    let mut random = Random::new(seed ^ FOLLOW);
    if random.roll(3) == 0 {
        actions = follow(actions, &mut random);
    }
    let mut random = Random::new(seed ^ SHARE);
    if random.roll(3) == 0 {
        actions = share(actions, &mut random);
    }
    let mut random = Random::new(seed ^ SERVE);
    if random.roll(2) == 0 {
        actions = serve(actions, &mut random);
    }
    actions
}

/// The same, with services that come, change and go.
fn serve(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all: Vec<_> = (1..=SERVICES).map(|number| service(random, number)).collect();
    for action in actions {
        all.push(action);
        if random.roll(12) == 0 {
            let number = 1 + random.roll(SERVICES.into()) as u8;
            all.push(service(random, number));
        }
    }
    all
}

fn service(random: &mut Random, number: u8) -> Action {
    let members = (random.roll(5) > 0).then(|| random.roll(1 << BACKENDS) as u8);
    Action::Service { number, members, told: random.roll(4) > 0 }
}

/// The same, with an API server to which something happens now and then.
fn follow(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = vec![Action::Follow];
    for action in actions {
        all.push(action);
        if random.roll(16) == 0 {
            use Server::{Compacted, Down, Hung, Repeats, Up};
            all.push(Action::Server(random.one_of(&[Compacted, Down, Hung, Repeats, Up])));
        }
    }
    all
}

/// The same, with another node that has pods, and a store to which something happens now and then;
/// every other time with another cluster, too.
fn share(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    use Store::{Compacted, Down, Expired, HungUp, Lost, Silent, Up};
    let meshed = random.roll(2) == 0;
    let pods = if meshed { REMOTES + FARS } else { REMOTES };
    let mut all = if meshed { vec![Action::Mesh] } else { Vec::new() };
    all.push(Action::Share);
    all.extend((1..=pods).map(|number| remote(random, number)));
    for action in actions {
        all.push(action);
        let what = random.one_of(&[Compacted, Down, Expired, HungUp, Lost, Silent, Up, Up]);
        match random.roll(24) {
            0 => all.push(Action::Store(what)),
            1 | 2 => {
                let number = 1 + random.roll(pods.into()) as u8;
                all.push(remote(random, number));
            }
            3 if meshed => all.push(Action::Far(what)),
            4 if meshed => all.push(Action::Configure(random.roll(3) > 0)),
            _ => {}
        }
    }
    all
}

fn remote(random: &mut Random, number: u8) -> Action {
    let app = (random.roll(4) > 0).then(|| random.one_of(&App::NAMED));
    Action::Remote { number, app }
}

/// The node fills up, then lives through some deaths.
fn live_and_die(seed: u64) -> Vec<Action> {
    let mut random = Random::new(seed);
    let random = &mut random;
    let mut actions = Vec::new();
    for source in 0..SOURCES {
        actions.push(policies(random, source));
    }
    for pod in 1..=PODS {
        actions.push(label(random, pod));
    }
    fill(random, &mut actions);
    for _ in 0..10 {
        for _ in 0..random.roll(8) {
            lively(random, &mut actions);
        }
        if random.roll(2) == 0 {
            actions.push(Action::KillAt(random.roll(160) as u16));
            actions.push(Action::Time { ms: 100, seed: random.number() });
        }
        if random.roll(10) == 0 {
            actions.push(power_cut(random, 400));
            actions.push(Action::Time { ms: 100, seed: random.number() });
            actions.push(Action::Rest);
            fill(random, &mut actions);
        }
        actions.push(Action::Kill);
        for _ in 0..random.roll(4) {
            actions.push(while_down(random));
        }
        let eager = (random.roll(2) == 0).then(|| pod(random));
        actions.extend(eager.map(Action::Remove));
        actions.push(Action::Boot { told: random.roll(4) > 0 });
        // Whoever comes while the agent still restores.
        actions.extend(eager.map(Action::Add));
        let count = random.roll(300) as u16;
        actions.push(Action::Steps { count, seed: random.number() });
        if random.roll(3) == 0 {
            actions.push(Action::Rest);
        }
    }
    for _ in 0..random.roll(8) {
        lively(random, &mut actions);
    }
    actions
}

/// Whichever pod does not run is started.
fn fill(random: &mut Random, actions: &mut Vec<Action>) {
    actions.extend((1..=PODS).map(Action::Add));
    actions.push(Action::Time { ms: 200, seed: random.number() });
    actions.push(Action::Connect);
}

/// The power goes before one of so many steps.
pub(super) fn power_cut(random: &mut Random, steps: usize) -> Action {
    let nth = random.roll(steps) as u16;
    Action::PowerCut { nth, tmpfs: random.roll(3) == 0, seed: random.number() }
}

fn pod(random: &mut Random) -> u8 {
    1 + random.roll(PODS.into()) as u8
}

fn label(random: &mut Random, pod: u8) -> Action {
    Action::Label { pod, app: random.one_of(&App::NAMED), told: random.roll(4) > 0 }
}

fn policies(random: &mut Random, source: u8) -> Action {
    let policies = (0..random.roll(3)).map(|_| Policy::draw(random)).collect();
    Action::Policies { source, policies, told: random.roll(4) > 0 }
}

/// Something that happens to a node with an agent, and some steps of what follows.
fn lively(random: &mut Random, actions: &mut Vec<Action>) {
    let number = pod(random);
    let action = match random.roll(26) {
        0..=3 => Action::Add(number),
        4 => {
            actions.push(Action::Add(number));
            let count = random.roll(40) as u16;
            actions.push(Action::Steps { count, seed: random.number() });
            Action::Cancel(number)
        }
        5..=7 => {
            actions.push(Action::Remove(number));
            actions.push(Action::Time { ms: random.roll(100) as u32, seed: random.number() });
            Action::Add(number)
        }
        8 => Action::RemoveEarlier(number),
        9..=11 => label(random, number),
        12..=15 => {
            let source = random.roll(SOURCES.into()) as u8;
            policies(random, source)
        }
        16 => Action::Deliver,
        17 => Action::Relist(random.roll(usize::from(PODS + SOURCES)) as u8),
        18 => Action::Rebuild(number),
        19 => Action::Connect,
        20 => Action::Stall { ms: random.one_of(&[20, 1_500, 9_000, 25_000, 40_000, 70_000]) },
        21 => Action::Jump { ms: random.one_of(&[10, 40_000]), wall: random.number() },
        22 | 23 => {
            use Fault::{Any, Half, Io, MapFull, NoMemory, NoSpace};
            let kind = random.one_of(&[Any, MapFull, NoMemory, Half, NoSpace, Io]);
            let one_in = random.one_of(&[1, 2, 5, 20]);
            Action::Faults { kind, one_in, seed: random.number() }
        }
        24 => Action::Crash(random.number()),
        _ => Action::Unreadable(random.roll(usize::from(PODS + SOURCES)) as u8),
    };
    actions.push(action);
    if random.roll(3) == 0 {
        return;
    }
    let count = random.roll(120) as u16;
    actions.push(Action::Steps { count, seed: random.number() });
    match random.roll(8) {
        0 => actions.push(Action::FaultsOff),
        1 => {
            let ms = random.one_of(&[5, 3_000, 33_000]);
            actions.push(Action::Time { ms, seed: random.number() });
        }
        2 => actions.push(Action::Crash(random.number())),
        _ => {}
    }
}

/// Something that happens to a node whose agent is dead.
fn while_down(random: &mut Random) -> Action {
    let number = pod(random);
    match random.roll(12) {
        0..=2 => Action::Remove(number),
        3 => label(random, number),
        4 => {
            let source = random.roll(SOURCES.into()) as u8;
            policies(random, source)
        }
        5 => Action::Unplug(number),
        6 | 7 => Action::Rewrite(random.one_of(&[Version::V1_5, Version::V1_9, Version::V1_19])),
        8 => Action::Tear(number),
        9 => Action::Duplicate(number, random.one_of(&[1, 2, 3, 5, 8, 2_000])),
        10 => Action::Foreign,
        _ => Action::RemoveEarlier(number),
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heard = |told: &bool| if *told { "" } else { ", not told yet" };
        match self {
            Self::Add(pod) => write!(f, "pod {pod} is started"),
            Self::Cancel(pod) => write!(f, "who starts pod {pod} gives up"),
            Self::Remove(pod) => write!(f, "pod {pod} is deleted"),
            Self::RemoveEarlier(pod) => write!(f, "an earlier pod {pod} is deleted once more"),
            Self::Unplug(pod) => write!(f, "the interface of pod {pod} vanishes"),
            Self::Label { pod, app, told } => {
                write!(f, "pod {pod} is {}{}", app.name(), heard(told))
            }
            Self::Policies { source, policies, told } => {
                write!(f, "policies {source} are [")?;
                policies.iter().try_for_each(|policy| write!(f, " {policy}"))?;
                write!(f, " ]{}", heard(told))
            }
            Self::Follow => f.write_str("agents follow an API server"),
            Self::Server(what) => write!(f, "the API server {what}"),
            Self::Share => f.write_str("agents share a store with another node"),
            Self::Store(what) => write!(f, "the store {what}"),
            Self::Mesh => f.write_str("the cluster is meshed with another one"),
            Self::Far(what) => write!(f, "the other cluster's store {what}"),
            Self::Configure(true) => f.write_str("the other cluster is configured"),
            Self::Configure(false) => f.write_str("the other cluster is not configured any more"),
            Self::Remote { number, app: None } => write!(f, "remote pod {number} is gone"),
            Self::Remote { number, app: Some(app) } => {
                write!(f, "remote pod {number} is {}", app.name())
            }
            Self::Service { number, members: None, told } => {
                write!(f, "service {number} is gone{}", heard(told))
            }
            Self::Service { number, members: Some(members), told } => {
                write!(f, "service {number} has the backends {members:06b}{}", heard(told))
            }
            Self::Deliver => f.write_str("what was not told is told"),
            Self::Relist(which) => write!(f, "manifest {which} is missing, then listed again"),
            Self::Unreadable(which) => write!(f, "manifest {which} cannot be read"),
            Self::Rebuild(pod) => write!(f, "pod {pod} is to have fresh programs"),
            Self::Connect => f.write_str("pods have connections"),
            Self::Steps { count, .. } => write!(f, "{count} steps"),
            Self::Time { ms, .. } => write!(f, "{ms} ms pass"),
            Self::Stall { ms } => write!(f, "{ms} ms pass, the kernel stands still"),
            Self::Jump { ms, .. } => write!(f, "clocks jump {ms} ms"),
            Self::Faults { kind, one_in, .. } => write!(f, "one step in {one_in} fails: {kind:?}"),
            Self::FaultsOff => f.write_str("everything works"),
            Self::Crash(_) => f.write_str("an actor crashes"),
            Self::Kill => f.write_str("the agent is killed"),
            Self::KillAt(nth) => write!(f, "the agent dies before step {nth}"),
            Self::PowerCut { nth, tmpfs, .. } => {
                let state = if *tmpfs { ", with the state directory" } else { "" };
                write!(f, "the power goes before step {nth}{state}")
            }
            Self::Boot { told } => write!(f, "an agent is started{}", heard(told)),
            Self::Rewrite(version) => write!(f, "the state directory is as {version:?} writes it"),
            Self::Tear(pod) => write!(f, "the record of pod {pod} is torn"),
            Self::Duplicate(pod, id) => {
                write!(f, "a record of endpoint {id} claims the address of pod {pod}")
            }
            Self::Foreign => f.write_str("the kernel holds rows of nobody"),
            Self::Unchanged => f.write_str("the agent is started anew, nothing changed"),
            Self::Rest => f.write_str("faults end, the node comes to rest"),
        }
    }
}
