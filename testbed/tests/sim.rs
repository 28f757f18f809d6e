//! The simulator: that nodes live through what it does to them, that it can fail, that it repeats.

use volvox_actors_simulated::mutants::Mutant;
use volvox_testbed::sim::{
    action::{Action, draw},
    model::{App, Policy, Way},
    node::Node,
    scenarios, seeds_until_caught,
    trace::Trace,
};

/// How many random histories are lived through here; `cargo testbed sim --seeds N` takes more.
const SEEDS: u64 = 60;
/// How many seeds a mutant may take here.
const MUTANT_SEEDS: u64 = 300;

fn hash(seed: u64) -> u64 {
    Node::new(Trace::default()).run(&draw(seed)).expect("it ends well").hash
}

#[test]
fn random_histories_end_well() {
    for seed in 1..=SEEDS {
        if let Err(failure) = Node::new(Trace::default()).run(&draw(seed)) {
            panic!("cargo testbed sim --seed {seed}: {failure:?}");
        }
    }
}

#[test]
fn a_history_follows_from_its_seed() {
    let first = hash(7);
    assert_eq!(first, hash(7));
    assert_ne!(first, hash(8));
    // Telling it changes nothing.
    let told = Node::new(Trace::in_words()).run(&draw(7)).expect("it ends well");
    assert_eq!(first, told.hash);
}

#[test]
fn every_scenario_ends_well() {
    for scenario in scenarios::ALL {
        for seed in 1..=5 {
            if let Err(failure) = Node::new(Trace::default()).run(&scenario.actions(seed)) {
                panic!("cargo testbed sim --scenario {} --seed {seed}: {failure:?}", scenario.name);
            }
        }
    }
}

#[test]
fn known_bugs_are_found() {
    let survives = |mutant: &&Mutant| seeds_until_caught(**mutant, MUTANT_SEEDS).is_none();
    let survivors: Vec<_> = Mutant::ALL.iter().filter(survives).map(|it| it.name()).collect();
    assert_eq!(survivors, [""; 0]);
}

/// What is set up, in whatever order, once or twice, with kills and pauses between, comes to the
/// same.
#[test]
fn order_repetition_and_restarts_make_no_difference() {
    let label = |pod, app| Action::Label { pod, app, told: true };
    let rules = |source, policies| Action::Policies { source, policies, told: true };
    let web = Policy::about(App::Web, Way::In, false, App::Db, Some(80));
    let mail = Policy::about(App::Mail, Way::Out, true, App::Web, None);
    let base = vec![
        rules(0, vec![web, mail]),
        rules(1, vec![Policy::from_net(App::Db, "192.0.2.0/24")]),
        label(1, App::Web),
        label(2, App::Db),
        label(3, App::Mail),
        Action::Add(1),
        Action::Add(2),
        Action::Add(3),
    ];
    let with = |between: &[Action]| -> Vec<Action> {
        let each = base.iter().flat_map(|action| [action].into_iter().chain(between));
        each.cloned().collect()
    };
    // Who is started while no agent lives is started again by its runtime.
    let started = [Action::Rest, Action::Add(1), Action::Add(2), Action::Add(3)];
    let twice: Vec<_> = base.iter().flat_map(|action| [action.clone(), action.clone()]).collect();
    let variants = [
        base.clone(),
        base.iter().rev().cloned().collect(),
        twice,
        with(&[Action::Time { ms: 2_000, seed: 3 }]),
        with(&[Action::Steps { count: 30, seed: 4 }]),
        with(&[Action::Kill, Action::Boot { told: true }]),
        with(&[Action::Kill, Action::Boot { told: false }, Action::Steps { count: 50, seed: 5 }]),
        with(&[Action::KillAt(9), Action::Time { ms: 100, seed: 6 }]),
    ];
    let realised = |actions: &Vec<Action>| {
        let actions: Vec<_> = actions.iter().chain(&started).cloned().collect();
        Node::new(Trace::default()).realise(&actions).expect("it comes to rest")
    };
    let expected = realised(&base);
    assert_eq!(expected.len(), 3);
    for variant in &variants {
        assert_eq!(realised(variant), expected, "{variant:#?}");
    }
}
