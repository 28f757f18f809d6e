//! The simulator: that nodes live through what it does to them, that it can fail, that it repeats.

use std::{
    collections::BTreeSet,
    env, fs, iter,
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use volvox_actors_simulated::mutants::Mutant;
use volvox_inspect::dashboard::Opened;
use volvox_sim::{
    history::{action::Action, draw::draw, scenarios},
    operators,
    record::trace::Trace,
    seeds_until_caught,
    world::node::Node,
};
use volvox_testbed::lab::Binaries;

/// How many random histories are lived through here; `cargo testbed sim --seeds N` takes more.
const SEEDS: u64 = 40;
/// How many seeds a mutant may take here.
const MUTANT_SEEDS: u64 = 1_000;

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
fn random_histories_of_operators_end_well() {
    for seed in 1..=2 * SEEDS {
        if let Err(failure) = operators::live(seed, |_| ()) {
            panic!("cargo testbed sim --operators --seed {seed}: {failure:?}");
        }
    }
}

#[test]
fn a_history_follows_from_its_seed() {
    let first = hash(7);
    assert_eq!(first, hash(7));
    assert_ne!(first, hash(8));
    // Telling it changes nothing.
    let reported = Node::new(Trace::in_words()).run(&draw(7)).expect("it ends well");
    assert_eq!(first, reported.hash);
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

/// Each processor takes the next one: some are found at once, some after long.
#[test]
fn known_bugs_are_found() {
    let next = AtomicUsize::new(0);
    let look = || -> Vec<&'static str> {
        let taken = iter::from_fn(|| Mutant::ALL.get(next.fetch_add(1, Ordering::Relaxed)));
        let survives = |mutant: &&Mutant| seeds_until_caught(**mutant, MUTANT_SEEDS).is_none();
        taken.filter(survives).map(|mutant| mutant.name()).collect()
    };
    let processors = thread::available_parallelism().expect("their number is known").get();
    let survivors: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(look)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it looks to its end")).collect()
    });
    assert_eq!(survivors, [""; 0]);
}

/// What is set up, in whatever order, once or twice, with kills and pauses between, comes to the
/// same.
#[test]
fn order_repetition_and_restarts_make_no_difference() {
    let base = scenarios::three_pods();
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
        with(&[Action::Kill, Action::Boot { reported: true }]),
        with(&[
            Action::Kill,
            Action::Boot { reported: false },
            Action::Steps { count: 50, seed: 5 },
        ]),
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

/// What `--write` keeps is what the agent's flight recorder would, and the agent's own programs
/// read it.
#[test]
fn a_history_can_be_looked_at_with_the_agent_s_tools() {
    let dir = env::temp_dir().join(format!("volvox-sim-{}", std::process::id()));
    fs::create_dir(&dir).expect("a directory of its own");
    let trace = Trace::default();
    trace.keep_flights();
    let actions = scenarios::find("c_15446_killed").expect("it is there").actions(1);
    let reported = Node::new(trace.clone()).run(&actions).expect("it ends well");
    let hash = Node::new(Trace::default()).run(&actions).expect("it ends well").hash;
    assert_eq!(reported.hash, hash, "keeping it changes nothing");

    let files = trace.write_flights(&dir.join("seed.ring")).expect("there is room");
    assert_eq!(files.len() as u64, reported.lives, "one file for each life");
    let client = Binaries::find().expect("it is built").client;
    for file in &files {
        Opened::read(file).expect("the dashboard opens it");
        let mut command = Command::new(&client);
        command.args(["trace", "--last=0", "--life"]).arg(file);
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        assert!(text.contains("is over"), "{text}");
        assert!(text.contains("endpoint"), "{text}");
    }
    fs::remove_dir_all(&dir).expect("it is still there");
}

/// A release holds nothing of the mutants: the place that decides it is compiled as a release compiles
/// it, and as the testbed does, which holds them all.
#[test]
fn no_known_bug_is_built_into_a_release() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it lies in the workspace");
    let dir = tempfile::tempdir().expect("a directory of its own");
    fs::write(dir.path().join("lib.rs"), "pub mod mutants;").expect("there is room");
    fs::create_dir(dir.path().join("mutants")).expect("there is room");
    for file in ["mutants.rs", "mutants/switch.rs"] {
        let source = root.join("actors/src").join(file);
        fs::copy(source, dir.path().join(file)).expect("it is there");
    }
    let compiled = |name: &str, profile: &[&str]| {
        let library = dir.path().join(name);
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition=2024", "--crate-type=rlib", "--crate-name=mutants"]).args(profile);
        rustc.arg("-o").arg(&library).arg(dir.path().join("lib.rs"));
        let output = rustc.output().expect("rustc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        names_in(&library)
    };
    let all = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
    assert_eq!(compiled("testbed.rlib", &["-Cdebug-assertions=on"]), all, "this is how it is seen");
    assert_eq!(compiled("release.rlib", &["-Copt-level=3"]), BTreeSet::new());

    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("it can be read");
    let (_, release) = manifest.split_once("[profile.release]").expect("a release is described");
    assert!(!release.contains("debug-assertions"), "a release has no debug assertions");
}

/// The names of mutants that a program holds.
fn names_in(program: &Path) -> BTreeSet<&'static str> {
    const PIECE: usize = 1 << 20;
    const LONGEST: usize = 64;
    let bytes = fs::read(program).expect("it can be read");
    let mut found = BTreeSet::new();
    for start in (0..bytes.len()).step_by(PIECE) {
        let end = bytes.len().min(start + PIECE + LONGEST);
        let text = String::from_utf8_lossy(&bytes[start..end]);
        let names = Mutant::ALL.iter().map(|mutant| mutant.name());
        found.extend(names.filter(|name| text.contains(name)));
    }
    found
}
