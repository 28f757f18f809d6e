//! Whole histories at random.

use super::{
    action::{Action, FARS, Fault, PODS, REMOTES, SOURCES, Version},
    around::{Server, Store},
    members::{BACKENDS, Members},
    model::{App, Policy},
    peers::{PEERS, PREFIXES},
    served::SERVICES,
    thief::Loot,
    uplink::{SETS, UPLINKS, Uplink},
};
use crate::random::Random;

/// Make other numbers of a seed, for what is drawn beside a history.
const FOLLOW: u64 = 0x6b75_6265;
const SHARE: u64 = 0x6574_6364;
const SERVE: u64 = 0x7365_7276;
const GUARD: u64 = 0x6775_6172;
const PLUG: u64 = 0x706c_7567;
const MEET: u64 = 0x6d65_6574;
const ROB: u64 = 0x726f_6273;
const DRIFT: u64 = 0x6472_6966;

/// A whole history at random. One in three follows an API server, the others take manifests; one in
/// three shares a store with another node, and half of these are meshed with another cluster. Every
/// other one has services; in one of three the node itself has a policy. In one of three interfaces to
/// other machines come and go, and in half of those with a store other nodes have prefixes of pods. At
/// the end of one in three somebody else changes the kernel's rows.
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
    let mut random = Random::new(seed ^ GUARD);
    if random.roll(3) == 0 {
        actions = guard(actions, &mut random);
    }
    let mut random = Random::new(seed ^ PLUG);
    if random.roll(3) == 0 {
        actions = plug(actions, &mut random);
    }
    let mut random = Random::new(seed ^ MEET);
    if actions.contains(&Action::Share) && random.roll(2) == 0 {
        actions = meet(actions, &mut random);
    }
    let mut random = Random::new(seed ^ ROB);
    if random.roll(3) == 0 {
        actions = rob(actions, &mut random);
    }
    let mut random = Random::new(seed ^ DRIFT);
    if random.roll(3) == 0 {
        let changes = 1 + random.roll(3);
        actions.extend((0..changes).map(|_| Action::Drift(random.number())));
    }
    actions
}

/// The same, where somebody takes things away at pods' interfaces.
fn rob(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = Vec::new();
    for action in actions {
        all.push(action);
        if random.roll(8) == 0 {
            let loot = random.one_of(&[Loot::Routes, Loot::FirstPlace, Loot::Interface]);
            all.push(Action::Rob { pod: pod(random), loot, seed: random.number() });
        }
    }
    all
}

/// The same, with interfaces to other machines that come, change and go. Now and then the agent is
/// started anew at the end, when nothing changed.
fn plug(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let come = |number| Action::Device { number, what: Uplink::Comes(0), reported: true };
    let mut all: Vec<_> = (1..=UPLINKS).map(come).collect();
    for action in actions {
        all.push(action);
        if random.roll(10) == 0 {
            all.push(device(random));
        }
    }
    if random.roll(4) == 0 {
        // Prefixes that no policy names any more go a while after it.
        all.extend([Action::Rest, Action::Time { ms: 700_000, seed: 1 }, Action::Unchanged]);
    }
    all
}

fn device(random: &mut Random) -> Action {
    use Uplink::{Comes, Down, Goes, Has, OverlayGoes, Up};
    let set = random.roll(SETS) as u8;
    let what = random.one_of(&[Comes(set), Comes(0), Goes, Down, Up, Up, Has(set), OverlayGoes]);
    let number = 1 + random.roll(UPLINKS.into()) as u8;
    Action::Device { number, what, reported: random.roll(4) > 0 }
}

/// The same, with other nodes that have prefixes of pods, and are reached in tunnels or by routes.
fn meet(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = Vec::new();
    for action in actions {
        if action == Action::Kill && random.roll(8) == 0 {
            all.push(Action::Native(random.roll(2) == 0));
        }
        let begins = action == Action::Share;
        all.push(action);
        if begins {
            all.extend((random.roll(3) == 0).then_some(Action::Native(true)));
            all.extend((1..=PEERS).map(|number| peer(random, number)));
        } else if random.roll(16) == 0 {
            let number = 1 + random.roll(PEERS.into()) as u8;
            all.push(peer(random, number));
        }
    }
    all
}

fn peer(random: &mut Random, number: u8) -> Action {
    let prefix = (random.roll(4) > 0).then(|| random.roll(PREFIXES.into()) as u8);
    Action::Peer { number, prefix }
}

/// The same, where the node itself has a policy, and now and then has none.
fn guard(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = vec![Action::Guard(true)];
    for action in actions {
        if action == Action::Kill && random.roll(4) == 0 {
            all.push(Action::Guard(random.roll(2) == 0));
        }
        all.push(action);
    }
    all
}

/// The same, with services, and Ingresses that lead to them, that come, change and go, and with
/// backends that are quarantined and released.
fn serve(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all: Vec<_> = (1..=SERVICES).map(|number| service(random, number)).collect();
    all.extend((1..=SERVICES / 2).map(|number| ingress(random, number)));
    for action in actions {
        all.push(action);
        let number = 1 + random.roll(SERVICES.into()) as u8;
        match random.roll(16) {
            0 => all.push(service(random, number)),
            1 => all.push(ingress(random, number)),
            2 => all.push(quarantine(random)),
            _ => {}
        }
    }
    all
}

fn service(random: &mut Random, number: u8) -> Action {
    let members = (random.roll(5) > 0).then(|| Members::draw(random));
    Action::Service { number, members, reported: random.roll(4) > 0 }
}

fn quarantine(random: &mut Random) -> Action {
    Action::Quarantine { backend: random.roll(BACKENDS.into()) as u8, expected: random.roll(3) > 0 }
}

fn ingress(random: &mut Random, number: u8) -> Action {
    Action::Ingress { number, there: random.roll(3) > 0, reported: random.roll(4) > 0 }
}

/// The same, with an API server to which something happens now and then.
fn follow(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = vec![Action::Follow];
    for action in actions {
        all.push(action);
        if random.roll(16) == 0 {
            use Server::{Compacted, Down, Hung, Repeats, Restored, Up};
            let what = random.one_of(&[Compacted, Down, Hung, Repeats, Restored, Up]);
            all.push(Action::Server(what));
        }
    }
    all
}

/// The same, with another node that has pods, and a store to which something happens now and then;
/// every other time with another cluster, too.
fn share(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    use Store::{Compacted, Down, Expired, HungUp, Lost, Restored, Silent, Up};
    let meshed = random.roll(2) == 0;
    let pods = if meshed { REMOTES + FARS } else { REMOTES };
    let mut all = if meshed { vec![Action::Mesh] } else { Vec::new() };
    all.push(Action::Share);
    all.extend((1..=pods).map(|number| remote(random, number)));
    for action in actions {
        all.push(action);
        let all_of_it = [Compacted, Down, Expired, HungUp, Lost, Restored, Silent, Up, Up];
        let what = random.one_of(&all_of_it);
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
