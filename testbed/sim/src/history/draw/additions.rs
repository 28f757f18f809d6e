//! What is drawn beside a history: surroundings with a life of their own, and others at the node.

use super::pod;
use crate::{
    history::{
        action::Action,
        events::{ApiServerEvent, DeviceEvent, Removal, RuntimeNews, StoreEvent},
    },
    model::{
        RANKED_SOURCES, REMOTE_CLUSTER_PODS, REMOTE_PODS,
        devices::{DEVICES, SETS},
        other_nodes::{NODES, PREFIXES},
        policies::{App, Policy},
        service_members::{BACKENDS, Members},
        services::SERVICES,
    },
    random::Random,
};

/// The same, with an API server to which something happens now and then.
pub(super) fn api_server(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = vec![Action::FollowApiServer];
    for action in actions {
        all.push(action);
        if random.roll(16) == 0 {
            use ApiServerEvent::{Compacted, Down, Hung, Repeats, Restored, Up};
            let what = random.one_of(&[Compacted, Down, Hung, Repeats, Restored, Up]);
            all.push(Action::ApiServer(what));
        }
    }
    all
}

/// The same, with policies in tiers that have an order, which change now and then.
pub(super) fn ranked_policies(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let change = |random: &mut Random, source| {
        let policies = (0..random.roll(4).min(1)).map(|_| Policy::draw_ranked(random)).collect();
        Action::Policies { source, policies, reported: random.roll(4) > 0 }
    };
    let mut all: Vec<_> = RANKED_SOURCES.map(|source| change(random, source)).collect();
    for action in actions {
        all.push(action);
        if random.roll(12) == 0 {
            let source = RANKED_SOURCES.start + random.roll(RANKED_SOURCES.len()) as u8;
            all.push(change(random, source));
        }
    }
    all
}

/// The same, with another node that has pods, and a store to which something happens now and then;
/// every other time with another cluster, too.
pub(super) fn store(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    use StoreEvent::{Compacted, Down, Expired, HungUp, Lost, Restored, Silent, Up};
    let meshed = random.roll(2) == 0;
    let pods = if meshed { REMOTE_PODS + REMOTE_CLUSTER_PODS } else { REMOTE_PODS };
    let mut all = if meshed { vec![Action::MeshClusters] } else { Vec::new() };
    all.push(Action::ShareStore);
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
            3 if meshed => all.push(Action::RemoteStore(what)),
            4 if meshed => all.push(Action::ConfigureRemoteCluster(random.roll(3) > 0)),
            _ => {}
        }
    }
    all
}

fn remote(random: &mut Random, number: u8) -> Action {
    let app = (random.roll(4) > 0).then(|| random.one_of(&App::NAMED));
    Action::RemotePod { number, app }
}

/// The same, with services, and Ingresses that lead to them, that come, change and go, and with
/// backends that are quarantined and released.
pub(super) fn services(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
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

fn ingress(random: &mut Random, number: u8) -> Action {
    Action::Ingress { number, there: random.roll(3) > 0, reported: random.roll(4) > 0 }
}

fn quarantine(random: &mut Random) -> Action {
    Action::Quarantine { backend: random.roll(BACKENDS.into()) as u8, expected: random.roll(3) > 0 }
}

/// The same, where the node itself has a policy, and now and then has none.
pub(super) fn host_firewall(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = vec![Action::HostFirewall(true)];
    for action in actions {
        if action == Action::Kill && random.roll(4) == 0 {
            all.push(Action::HostFirewall(random.roll(2) == 0));
        }
        all.push(action);
    }
    all
}

/// The same, with interfaces to other machines that come, change and go. Now and then the agent is
/// started anew at the end, when nothing changed.
pub(super) fn devices(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let come = |number| Action::Device { number, what: DeviceEvent::Comes(0), reported: true };
    let mut all: Vec<_> = (1..=DEVICES).map(come).collect();
    for action in actions {
        all.push(action);
        if random.roll(10) == 0 {
            all.push(device(random));
        }
    }
    if random.roll(4) == 0 {
        // Prefixes that no policy names any more go a while after it.
        all.extend([Action::Rest, Action::Time { ms: 700_000, seed: 1 }, Action::RestartUnchanged]);
    }
    all
}

fn device(random: &mut Random) -> Action {
    use DeviceEvent::{Comes, Down, Goes, Has, OverlayGoes, Up};
    let set = random.roll(SETS) as u8;
    let what = random.one_of(&[Comes(set), Comes(0), Goes, Down, Up, Up, Has(set), OverlayGoes]);
    let number = 1 + random.roll(DEVICES.into()) as u8;
    Action::Device { number, what, reported: random.roll(4) > 0 }
}

/// The same, with other nodes that have prefixes of pods, and are reached in tunnels or by routes.
pub(super) fn other_nodes(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = Vec::new();
    for action in actions {
        if action == Action::Kill && random.roll(8) == 0 {
            all.push(Action::NativeRouting(random.roll(2) == 0));
        }
        let begins = action == Action::ShareStore;
        all.push(action);
        if begins {
            all.extend((random.roll(3) == 0).then_some(Action::NativeRouting(true)));
            all.extend((1..=NODES).map(|number| node_prefix(random, number)));
        } else if random.roll(16) == 0 {
            let number = 1 + random.roll(NODES.into()) as u8;
            all.push(node_prefix(random, number));
        }
    }
    all
}

fn node_prefix(random: &mut Random, number: u8) -> Action {
    let prefix = (random.roll(4) > 0).then(|| random.roll(PREFIXES.into()) as u8);
    Action::NodePrefix { number, prefix }
}

/// The same, where somebody takes things away at pods' interfaces.
pub(super) fn foreign_removals(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    let mut all = Vec::new();
    for action in actions {
        all.push(action);
        if random.roll(8) == 0 {
            let what = random.one_of(&[Removal::Routes, Removal::FirstPlace, Removal::Interface]);
            all.push(Action::ForeignRemoval { pod: pod(random), what, seed: random.number() });
        }
    }
    all
}

/// The same, where agents follow the container runtime, which now and then says of pods what is not so, or
/// nothing. Its news take effect in a while, if at all.
pub(super) fn runtime(actions: Vec<Action>, random: &mut Random) -> Vec<Action> {
    use RuntimeNews::{Down, Exited, Followed, Forgets, Hung, Removed, Runs, Up};
    let mut all = vec![Action::Runtime(Followed)];
    for action in actions {
        all.push(action);
        if random.roll(10) > 0 {
            continue;
        }
        let number = pod(random);
        let of_pods = [Exited(number), Removed(number), Removed(number), Runs(number)];
        let of_itself = [Forgets, Down, Hung, Up];
        let kind = if random.roll(2) == 0 { &of_pods } else { &of_itself };
        let news = random.one_of(kind);
        all.push(Action::Runtime(news));
        if random.roll(3) == 0 {
            all.push(Action::Time { ms: 70_000, seed: random.number() });
        }
    }
    all
}
