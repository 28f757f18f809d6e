//! Whole histories at random.

mod additions;

use super::{
    action::{Action, Fault, Version},
    events::Victim,
};
use crate::{
    model::{
        PODS, SOURCES,
        policies::{App, Policy},
    },
    random::Random,
};

/// Make other numbers of a seed, for what is drawn beside a history.
const API_SERVER: u64 = 0x6b75_6265;
const STORE: u64 = 0x6574_6364;
const SERVICES: u64 = 0x7365_7276;
const HOST_FIREWALL: u64 = 0x6775_6172;
const DEVICES: u64 = 0x706c_7567;
const OTHER_NODES: u64 = 0x6d65_6574;
const REMOVALS: u64 = 0x726f_6273;
const RUNTIME: u64 = 0x7275_6e63;
const CHANGES: u64 = 0x6472_6966;
const RANKED: u64 = 0x7469_6572;

/// A whole history at random. One in three follows an API server, the others take manifests; one in
/// three shares a store with another node, and half of these are meshed with another cluster. Every
/// other one has services; in one of three the node itself has a policy. In one of three interfaces to
/// other machines come and go, and in half of those with a store other nodes have prefixes of pods. One in
/// three follows the container runtime, which says what is true and what is not. One in three has policies
/// in tiers that have an order. At the end of one in three somebody else changes the kernel's rows.
pub fn draw(seed: u64) -> Vec<Action> {
    let mut actions = live_and_die(seed);
    let mut random = Random::new(seed ^ API_SERVER);
    if random.roll(3) == 0 {
        actions = additions::api_server(actions, &mut random);
    }
    let mut random = Random::new(seed ^ STORE);
    if random.roll(3) == 0 {
        actions = additions::store(actions, &mut random);
    }
    let mut random = Random::new(seed ^ SERVICES);
    if random.roll(2) == 0 {
        actions = additions::services(actions, &mut random);
    }
    let mut random = Random::new(seed ^ HOST_FIREWALL);
    if random.roll(3) == 0 {
        actions = additions::host_firewall(actions, &mut random);
    }
    let mut random = Random::new(seed ^ DEVICES);
    if random.roll(3) == 0 {
        actions = additions::devices(actions, &mut random);
    }
    let mut random = Random::new(seed ^ OTHER_NODES);
    if actions.contains(&Action::ShareStore) && random.roll(2) == 0 {
        actions = additions::other_nodes(actions, &mut random);
    }
    let mut random = Random::new(seed ^ RANKED);
    if random.roll(3) == 0 {
        actions = additions::ranked_policies(actions, &mut random);
    }
    let mut random = Random::new(seed ^ REMOVALS);
    if random.roll(3) == 0 {
        actions = additions::foreign_removals(actions, &mut random);
    }
    let mut random = Random::new(seed ^ RUNTIME);
    if random.roll(3) == 0 {
        actions = additions::runtime(actions, &mut random);
    }
    let mut random = Random::new(seed ^ CHANGES);
    if random.roll(3) == 0 {
        let changes = 1 + random.roll(3);
        actions.extend((0..changes).map(|_| Action::ForeignChange(random.number())));
    }
    actions
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
        actions.push(Action::Boot { reported: random.roll(4) > 0 });
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
    Action::Label { pod, app: random.one_of(&App::NAMED), reported: random.roll(4) > 0 }
}

fn policies(random: &mut Random, source: u8) -> Action {
    let policies = (0..random.roll(3)).map(|_| Policy::draw(random)).collect();
    Action::Policies { source, policies, reported: random.roll(4) > 0 }
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
        18 => Action::Regenerate(number),
        19 => Action::Connect,
        20 => Action::Stall { ms: random.one_of(&[20, 1_500, 9_000, 25_000, 40_000, 70_000]) },
        21 => Action::ClockJump { ms: random.one_of(&[10, 40_000]), wall: random.number() },
        22 | 23 => {
            use Fault::{Any, Half, Io, MapFull, NoMemory, NoSpace};
            let kind = random.one_of(&[Any, MapFull, NoMemory, Half, NoSpace, Io]);
            let one_in = random.one_of(&[1, 2, 5, 20]);
            Action::Faults { kind, one_in, seed: random.number() }
        }
        24 => Action::Crash(Victim::drawn(random)),
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
        2 => actions.push(Action::Crash(Victim::drawn(random))),
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
        6 | 7 => {
            Action::RewriteState(random.one_of(&[Version::V1_5, Version::V1_9, Version::V1_19]))
        }
        8 => Action::TearRecord(number),
        9 => Action::DuplicateRecord(number, random.one_of(&[1, 2, 3, 5, 8, 2_000])),
        10 => Action::ForeignRows,
        _ => Action::RemoveEarlier(number),
    }
}
