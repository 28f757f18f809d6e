//! Failures that users of node agents reported, as histories: each by the name of its report. The
//! seed varies the order of steps and the moment of deaths. Those that can be told in files are below
//! `testbed/histories`.

mod one_that_cannot;
mod rows;
mod surroundings;

use super::{
    action::{Action, Fault, Version},
    draw::power_cut,
    events::{DeviceEvent, Victim},
};
use crate::{
    model::policies::{App, Policy, Way},
    random::Random,
};

/// A history by name.
pub struct Scenario {
    /// Repository and number of the report, then what must hold.
    pub name: &'static str,
    make: fn(&mut Random) -> Vec<Action>,
}

impl Scenario {
    /// Its history.
    pub fn actions(&self, seed: u64) -> Vec<Action> {
        let mut random = Random::new(seed);
        let mut actions = node();
        actions.extend((self.make)(&mut random));
        actions
    }
}

/// Three pods and rules about them.
pub fn three_pods() -> Vec<Action> {
    let web = Policy::about(App::Web, Way::In, false, App::Db, Some(80));
    let mail = Policy::about(App::Mail, Way::Out, true, App::Web, None);
    vec![
        rules(0, vec![web, mail]),
        rules(1, vec![Policy::from_net(App::Db, "192.0.2.0/24")]),
        label(1, App::Web),
        label(2, App::Db),
        label(3, App::Mail),
        Action::Add(1),
        Action::Add(2),
        Action::Add(3),
    ]
}

/// The same at rest, with connections.
fn node() -> Vec<Action> {
    let mut actions = three_pods();
    actions.extend([Action::Time { ms: 100, seed: 1 }, Action::Connect, Action::Rest]);
    actions
}

fn label(pod: u8, app: App) -> Action {
    Action::Label { pod, app, reported: true }
}

fn rules(source: u8, policies: Vec<Policy>) -> Action {
    Action::Policies { source, policies, reported: true }
}

fn remote(number: u8, app: App) -> Action {
    Action::RemotePod { number, app: Some(app) }
}

fn steps(random: &mut Random, most: usize) -> Action {
    Action::Steps { count: random.roll(most) as u16, seed: random.number() }
}

fn restart(random: &mut Random) -> Vec<Action> {
    vec![Action::Kill, Action::Boot { reported: random.roll(2) == 0 }, steps(random, 300)]
}

/// Every scenario.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "c_15446_killed_amid_a_commit",
        make: |random| {
            vec![
                label(1, App::Mail),
                Action::KillAt(random.roll(40) as u16),
                Action::Time { ms: 100, seed: random.number() },
            ]
        },
    },
    Scenario {
        name: "c_12367_a_torn_record_costs_no_endpoint",
        make: |random| {
            let torn = 1 + random.roll(3) as u8;
            vec![
                Action::Kill,
                Action::TearRecord(torn),
                Action::Boot { reported: true },
                steps(random, 300),
            ]
        },
    },
    Scenario {
        name: "c_12367_a_power_cut_tears_no_record",
        make: |random| {
            vec![
                label(1, App::Mail),
                Action::Add(4),
                power_cut(random, 120),
                Action::Time { ms: 100, seed: random.number() },
                Action::Rest,
                Action::Add(1),
                Action::Add(2),
            ]
        },
    },
    Scenario {
        name: "c_15446_a_power_cut_after_a_kill",
        make: |random| {
            vec![
                Action::Remove(2),
                label(3, App::Web),
                steps(random, 60),
                Action::Kill,
                power_cut(random, 1),
                Action::Boot { reported: true },
                Action::Add(3),
            ]
        },
    },
    Scenario { name: "c_7120_the_order_of_restore_makes_no_third_verdict", make: restart },
    Scenario {
        name: "c_28645_what_was_allowed_is_never_denied",
        make: |random| {
            vec![
                Action::Kill,
                Action::Boot { reported: false },
                steps(random, 200),
                Action::Deliver,
                steps(random, 200),
            ]
        },
    },
    Scenario {
        name: "c_24191_programs_never_dip",
        make: |random| {
            let faults = Action::Faults { kind: Fault::Any, one_in: 3, seed: random.number() };
            vec![Action::Kill, Action::Boot { reported: true }, faults, steps(random, 300)]
        },
    },
    Scenario {
        name: "c_13015_fresh_programs_lose_nothing",
        make: |random| {
            let mut actions = vec![Action::Regenerate(1), Action::KillAt(random.roll(30) as u16)];
            actions.extend([steps(random, 200), Action::Regenerate(2), steps(random, 200)]);
            actions
        },
    },
    Scenario {
        name: "c_9599_an_interface_that_went_while_down",
        make: |random| {
            vec![
                Action::Kill,
                Action::Unplug(1 + random.roll(3) as u8),
                Action::Boot { reported: true },
                steps(random, 200),
            ]
        },
    },
    Scenario {
        name: "c_43635_a_pod_of_the_same_name_is_another_pod",
        make: |random| {
            vec![
                Action::Remove(1),
                Action::Time { ms: 50, seed: random.number() },
                Action::Add(1),
                steps(random, 100),
                Action::RemoveEarlier(1),
                steps(random, 100),
            ]
        },
    },
    Scenario {
        name: "c_9854_a_cancelled_add_leaks_nothing",
        make: |random| {
            vec![
                Action::Add(4),
                steps(random, 80),
                Action::Cancel(4),
                steps(random, 80),
                Action::Add(4),
            ]
        },
    },
    Scenario {
        name: "c_38998_a_change_that_fails_is_made_all_the_same",
        make: |random| {
            let kind = random.one_of(&[Fault::Any, Fault::MapFull, Fault::NoMemory, Fault::Half]);
            vec![
                Action::Faults { kind, one_in: 2, seed: random.number() },
                rules(0, vec![Policy::about(App::Web, Way::In, true, App::Db, None)]),
                Action::Time { ms: 3_000, seed: random.number() },
                Action::FaultsOff,
                steps(random, 50),
            ]
        },
    },
    Scenario {
        name: "c_30651_prefixes_keep_their_numbers",
        make: |random| {
            let mut actions = restart(random);
            actions.push(Action::Rest);
            actions.extend(restart(random));
            actions
        },
    },
    Scenario {
        name: "deckhouse_21647_one_that_never_answers_holds_nobody_up",
        make: |random| {
            vec![
                rules(0, vec![Policy::about(App::Mail, Way::Out, false, App::Db, Some(80))]),
                label(2, App::Web),
                steps(random, 40),
                Action::Stall { ms: 25_000 },
                Action::Add(5),
            ]
        },
    },
    Scenario {
        name: "npa_285_a_tier_is_passed_on_and_changes",
        make: |random| {
            let deny = Policy::about(App::Web, Way::In, true, App::Db, Some(80));
            let mut actions = vec![
                rules(100, vec![Policy::passes_on(App::Web, App::Db)]),
                steps(random, 200),
                rules(0, vec![deny]),
                steps(random, 200),
                rules(101, vec![Policy::draw_ranked(random)]),
            ];
            actions.extend(restart(random));
            actions.push(rules(100, Vec::new()));
            actions.push(steps(random, 200));
            actions
        },
    },
    one_that_cannot::HANGS,
    one_that_cannot::HAS_NO_ROOM,
    one_that_cannot::CRASHES,
    Scenario {
        name: "cal_13279_rows_of_nobody_and_of_two_owners",
        make: |random| {
            vec![
                Action::Kill,
                Action::ForeignRows,
                Action::DuplicateRecord(1 + random.roll(3) as u8, 2_000),
                Action::Boot { reported: true },
                steps(random, 300),
            ]
        },
    },
    rows::CHANGED,
    rows::UNPROVED,
    Scenario {
        name: "c_28645_labels_changed_when_the_agent_died",
        make: |random| {
            let label = |pod, app| Action::Label { pod, app, reported: true };
            let mut actions = vec![label(1, App::Mail), label(3, App::Web), steps(random, 120)];
            actions.extend(restart(random));
            actions
        },
    },
    Scenario {
        name: "c_30651_rules_for_prefixes_changed_while_down",
        make: |random| {
            let nets = ["192.0.2.0/25", "192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32"];
            let change = |random: &mut Random| {
                let subject = random.one_of(&[App::Web, App::Db]);
                let policies = vec![Policy::from_net(subject, random.one_of(&nets))];
                let mut actions = vec![Action::Kill, rules(1, policies)];
                actions.push(Action::Boot { reported: random.roll(2) == 0 });
                actions.extend([steps(random, 300), Action::Deliver, steps(random, 200)]);
                actions
            };
            let mut actions = change(random);
            actions.extend(change(random));
            actions
        },
    },
    Scenario {
        name: "c_9854_a_supervisor_crashes_over_a_cancelled_add",
        make: |random| {
            vec![
                Action::Add(4),
                steps(random, 20),
                Action::Cancel(4),
                steps(random, 20),
                Action::Crash(Victim::Named("endpoints")),
                steps(random, 80),
            ]
        },
    },
    Scenario {
        name: "c_24191_programs_stay_at_an_interface_that_cannot_be_taken_down",
        make: |random| {
            vec![
                Action::Faults { kind: Fault::Any, one_in: 2, seed: random.number() },
                Action::Remove(1 + random.roll(3) as u8),
                Action::Time { ms: 50, seed: random.number() },
            ]
        },
    },
    Scenario {
        name: "c_12367_a_record_that_is_another_s_costs_no_endpoint",
        make: |random| {
            vec![
                Action::Kill,
                Action::TearRecord(1),
                Action::Boot { reported: false },
                Action::Steps { count: 20, seed: random.number() },
                Action::Kill,
                Action::DuplicateRecord(3, 1),
                Action::Boot { reported: true },
                steps(random, 300),
            ]
        },
    },
    Scenario {
        name: "c_37077_everyone_of_before_is_there_or_explained",
        make: |random| {
            let mut actions = restart(random);
            actions.extend([Action::Crash(Victim::drawn(random)), steps(random, 200)]);
            actions
        },
    },
    Scenario {
        name: "c_29588_slow_is_not_dead",
        make: |random| {
            vec![
                Action::Kill,
                Action::Boot { reported: false },
                steps(random, 100),
                Action::Stall { ms: 25_000 },
                Action::Deliver,
                steps(random, 100),
            ]
        },
    },
    Scenario { name: "c_29667_connections_of_the_host_outlive_a_restart", make: restart },
    Scenario {
        name: "a_restart_without_changes_writes_nothing_of_devices_and_routes",
        make: |random| {
            let come =
                |number| Action::Device { number, what: DeviceEvent::Comes(0), reported: true };
            vec![
                Action::ShareStore,
                Action::NativeRouting(random.roll(2) == 0),
                come(1),
                come(2),
                Action::NodePrefix { number: 1, prefix: Some(0) },
                Action::NodePrefix { number: 2, prefix: Some(1) },
                // Both have it: it stays the first one's.
                Action::NodePrefix { number: 3, prefix: Some(1) },
                Action::RestartUnchanged,
                Action::NodePrefix { number: 1, prefix: None },
                Action::Device {
                    number: 2,
                    what: DeviceEvent::Goes,
                    reported: random.roll(2) == 0,
                },
                Action::RestartUnchanged,
            ]
        },
    },
    Scenario {
        name: "kube_router_873_a_new_pod_is_denied_until_it_is_programmed",
        make: |random| {
            vec![
                label(4, App::Web),
                Action::Add(4),
                Action::KillAt(random.roll(60) as u16),
                Action::Time { ms: 100, seed: random.number() },
                Action::Add(4),
                steps(random, 100),
            ]
        },
    },
    Scenario {
        name: "c_31497_a_churn_of_pods_leaves_nothing",
        make: |random| {
            let mut actions = Vec::new();
            for _ in 0..30 {
                let pod = 1 + random.roll(8) as u8;
                actions.push(random.one_of(&[Action::Add(pod), Action::Remove(pod)]));
                actions.push(steps(random, 40));
            }
            actions
        },
    },
    Scenario {
        name: "c_42482_the_state_of_another_version",
        make: |random| {
            let version = random.one_of(&[Version::V1_5, Version::V1_9, Version::V1_19]);
            vec![
                Action::Kill,
                Action::RewriteState(version),
                Action::Boot { reported: true },
                steps(random, 300),
            ]
        },
    },
    surroundings::LEASES_END,
    surroundings::STORE_RESTORED,
    surroundings::SERVER_RESTORED,
    surroundings::PEER_CHANGED,
    surroundings::REMOTE_CLUSTER_AWAY,
];

/// The scenario of that name, or of which the name begins so.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter()
        .find(|scenario| scenario.name == name)
        .or_else(|| ALL.iter().find(|scenario| scenario.name.starts_with(name)))
}
