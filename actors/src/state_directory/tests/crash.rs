//! Tests: a crash or power cut amid a commit, a removal or tidying leaves a usable directory.

use super::{MemoryFs, sample};
use crate::{
    model::EndpointId,
    ports::{FsOp, disk::steps},
    state_directory::{EndpointRecord, StateFiles, commit_plan, remove_plan, scan},
};

/// The disk after each prefix of a plan's steps, the empty one and the whole included.
fn prefixes(start: &MemoryFs, plan: &[FsOp]) -> Vec<MemoryFs> {
    let mut states = vec![start.clone()];
    for step in steps(plan) {
        let mut fs = states.last().unwrap().clone();
        fs.step(&step).unwrap();
        states.push(fs);
    }
    states
}

/// What the next run finds, which must be usable without any complaint.
fn restored(fs: &MemoryFs) -> Option<EndpointRecord> {
    let found = scan(fs);
    assert_eq!(found.quarantined, []);
    assert!(found.records.len() <= 1);
    let found = found.records.into_iter().next()?;
    assert!(found.passed_over.is_empty());
    Some(found.record)
}

fn committed(record: &EndpointRecord) -> MemoryFs {
    let mut fs = MemoryFs::default();
    for op in commit_plan(record) {
        fs.apply(&op).unwrap();
    }
    fs
}

#[test]
fn c_15446_a_crash_amid_a_commit_leaves_the_old_or_the_new_record() {
    let (old, new) = (sample(7, 1), sample(7, 2));
    let start = committed(&old);
    let plan = commit_plan(&new);
    let mut switched = false;
    for fs in prefixes(&start, &plan) {
        let record = restored(&fs).expect("one of the two");
        assert!(record == old || record == new);
        assert!(!switched || record == new, "it must not go back");
        switched = record == new;
    }
    assert!(switched);
}

/// Everything that may be left if the power goes now, as far as tries show it.
fn after_power_cuts(fs: &MemoryFs) -> impl Iterator<Item = MemoryFs> {
    (1..=200_u64).map(|seed| {
        let (mut fs, mut dice) = (fs.clone(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        fs.cut_power(&mut |sides| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            (dice >> 16) as usize % sides
        });
        fs
    })
}

#[test]
fn c_12367_a_power_cut_amid_a_commit_leaves_the_old_or_the_new_record() {
    let (old, new) = (sample(7, 1), sample(7, 2));
    let states = prefixes(&committed(&old), &commit_plan(&new));
    for fs in &states {
        for cut in after_power_cuts(fs) {
            let record = restored(&cut).expect("one of the two");
            assert!(record == old || record == new);
        }
    }
    for cut in after_power_cuts(states.last().unwrap()) {
        assert_eq!(restored(&cut).as_ref(), Some(&new), "it was answered to be done");
    }
}

#[test]
fn a_power_cut_amid_the_first_commit_or_a_removal_leaves_the_record_or_nothing() {
    let record = sample(7, 1);
    let states = prefixes(&MemoryFs::default(), &commit_plan(&record));
    let removal = prefixes(states.last().unwrap(), &remove_plan(EndpointId(7)));
    for fs in states.iter().chain(&removal) {
        for cut in after_power_cuts(fs) {
            assert!(restored(&cut).is_none_or(|found| found == record));
        }
    }
    for cut in after_power_cuts(removal.last().unwrap()) {
        assert_eq!(restored(&cut), None, "it was answered to be done");
    }
}

#[test]
fn a_crash_amid_the_first_commit_leaves_nothing_or_the_record() {
    let record = sample(7, 1);
    let states = prefixes(&MemoryFs::default(), &commit_plan(&record));
    let found: Vec<_> = states.iter().map(restored).collect();
    let first = found.iter().position(Option::is_some).expect("it is found in the end");
    assert!(found[first..].iter().all(|found| found.as_ref() == Some(&record)));
}

#[test]
fn a_second_crash_amid_tidying_finds_the_same() {
    for existed in [true, false] {
        let (old, new) = (sample(7, 1), sample(7, 2));
        let start = if existed { committed(&old) } else { MemoryFs::default() };
        for crashed in prefixes(&start, &commit_plan(&new)) {
            let before = restored(&crashed);
            let tidying: Vec<FsOp> = scan(&crashed).tidying.into_values().flatten().collect();
            for fs in prefixes(&crashed, &tidying) {
                assert_eq!(restored(&fs), before);
            }
        }
    }
}

#[test]
fn tidying_that_failed_at_any_step_is_done_again_with_the_same_end() {
    let mut torn = committed(&sample(7, 1));
    torn.write("7/ep_config.json", b"torn");
    torn.write("7/ep_config.h", b"torn");
    let mut replaced = torn.clone();
    replaced.write("7_next/ep_config.json", &sample(7, 2).to_json());
    for start in [torn, replaced] {
        let tidying: Vec<FsOp> = scan(&start).tidying.into_values().flatten().collect();
        let record = sample(7, 3);
        let whole: Vec<FsOp> = tidying.iter().cloned().chain(commit_plan(&record)).collect();
        for failed in prefixes(&start, &whole) {
            let again = prefixes(&failed, &whole).pop().unwrap();
            assert_eq!(restored(&again).as_ref(), Some(&record));
            assert_eq!(again.read("quarantine/7.1/ep_config.json"), Ok(Some(b"torn".to_vec())));
            assert_eq!(again.directories("quarantine").unwrap(), ["7.1"]);
        }
    }
}

#[test]
fn a_commit_after_any_crash_succeeds() {
    let (old, new) = (sample(7, 1), sample(7, 2));
    for mut crashed in prefixes(&committed(&old), &commit_plan(&new)) {
        let last = sample(7, 3);
        for op in commit_plan(&last) {
            crashed.apply(&op).unwrap();
        }
        assert_eq!(restored(&crashed), Some(last));
        assert!(!crashed.has("7_next"));
    }
}

#[test]
fn files_of_others_move_along() {
    let mut fs = committed(&sample(7, 1));
    fs.write("7/template.txt", b"abc");
    for op in commit_plan(&sample(7, 2)) {
        fs.apply(&op).unwrap();
    }
    assert!(fs.has("7/template.txt"));
    assert_eq!(restored(&fs).unwrap().generation, 2);
}

#[test]
fn what_is_being_removed_never_comes_back_from_an_older_try() {
    let record = sample(7, 2);
    let mut start = committed(&record);
    for dir in ["7_next", "7_next_fail"] {
        start.write(&format!("{dir}/ep_config.json"), &sample(7, 1).to_json());
    }
    for fs in prefixes(&start, &remove_plan(EndpointId(7))) {
        assert!(restored(&fs).is_none_or(|found| found == record));
    }
    let states = prefixes(&start, &remove_plan(EndpointId(7)));
    assert_eq!(states.last(), Some(&MemoryFs::default()));
}
