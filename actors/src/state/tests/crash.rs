use super::{MemoryFs, sample};
use crate::{
    model::EndpointId,
    ports::FsOp,
    state::{EndpointRecord, commit_plan, remove_plan, scan},
};

/// The disk after each prefix of a plan, the empty one and the whole included.
fn prefixes(start: &MemoryFs, plan: &[FsOp]) -> Vec<MemoryFs> {
    let mut states = vec![start.clone()];
    for op in plan {
        let mut fs = states.last().unwrap().clone();
        fs.apply(op).unwrap();
        states.push(fs);
    }
    states
}

/// What the next life finds, which must be usable without any complaint.
fn restored(fs: &MemoryFs) -> Option<EndpointRecord> {
    let found = scan(fs).unwrap();
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
            let tidying = scan(&crashed).unwrap().tidying.concat();
            for fs in prefixes(&crashed, &tidying) {
                assert_eq!(restored(&fs), before);
            }
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
