//! Tests: which round of a change comes next, and what comes of a refusal.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::{
    model::IdentityId,
    policy::rules::{
        ApplyReport, PolicySettings, Repository,
        change::{
            ChangeRound, ChangeRoundOutcome, NextChangeRound, PrefixChange, Prefixes, REFUSALS_MAX,
        },
    },
};

/// A change of the rules, whose prefixes are new or not.
fn change(is_new: bool) -> PrefixChange {
    PrefixChange {
        rules: Some((Repository::new(PolicySettings::default()), ApplyReport::default())),
        unmapped: if is_new { [IdentityId(1)].into() } else { BTreeSet::new() },
        ..PrefixChange::default()
    }
}

fn stale(some: bool) -> BTreeMap<IpNet, IdentityId> {
    let prefix: IpNet = "192.0.2.0/24".parse().unwrap();
    some.then_some((prefix, IdentityId(2))).into_iter().collect()
}

fn name(round: &ChangeRound) -> &'static str {
    match round {
        ChangeRound::Idle => "idle",
        ChangeRound::Number(_) => "number",
        ChangeRound::Prepare(_) => "prepare",
        ChangeRound::Premap(_) => "premap",
        ChangeRound::Enforce(_) => "enforce",
        ChangeRound::Unmap(_) => "unmap",
        ChangeRound::Return(_) => "return",
        ChangeRound::Pause(_) => "pause",
    }
}

/// All rounds of a change that nobody refuses.
fn rounds(is_new: bool, some_are_stale: bool, behind: bool) -> Vec<&'static str> {
    let mut change = change(is_new);
    let (mut round, mut end) =
        (ChangeRound::Number(BTreeSet::new()), ChangeRoundOutcome::Numbered(stale(some_are_stale)));
    let mut all = Vec::new();
    loop {
        all.push(name(&round));
        let NextChangeRound::Enter(next) = change.next(round, end, behind) else { return all };
        (round, end) = (next, ChangeRoundOutcome::Done);
    }
}

#[test]
fn prefixes_are_known_before_they_are_mapped_and_mapped_before_rules_name_them() {
    assert_eq!(
        rounds(true, true, false),
        ["number", "prepare", "premap", "enforce", "unmap", "return"]
    );
    assert_eq!(rounds(true, false, false), ["number", "prepare", "premap", "enforce"]);
    assert_eq!(rounds(false, true, false), ["number", "enforce", "unmap", "return"]);
    assert_eq!(rounds(false, false, false), ["number", "enforce"]);
}

#[test]
fn what_some_may_enforce_still_is_not_unmapped() {
    assert_eq!(rounds(false, true, true), ["number", "enforce"]);
}

/// What comes of one more refusal of that round.
fn refused(change: &mut PrefixChange, round: ChangeRound) -> &'static str {
    match change.next(round, ChangeRoundOutcome::Refused("no".to_owned()), false) {
        NextChangeRound::Enter(round) => name(&round),
        NextChangeRound::Pause(why) => {
            assert_eq!(why, "no");
            "pause"
        }
        NextChangeRound::Finish => "finish",
        NextChangeRound::Stay(_) => "stay",
    }
}

#[test]
fn a_change_waits_for_numbers_as_long_as_it_takes() {
    let mut change = change(true);
    for _ in 0..2 * REFUSALS_MAX {
        assert_eq!(refused(&mut change, ChangeRound::Number(BTreeSet::new())), "pause");
    }
}

#[test]
fn a_change_waits_for_new_prefixes_but_not_for_ever() {
    let prefixes = Prefixes { desired: BTreeSet::new(), stale: stale(true) };
    let mut change = change(true);
    for turn in 0..REFUSALS_MAX {
        let even = ChangeRound::Prepare(prefixes.clone());
        let odd = ChangeRound::Premap(prefixes.clone());
        let round = if turn % 2 == 0 { even } else { odd };
        assert_eq!(refused(&mut change, round), "pause");
    }
    assert_eq!(refused(&mut change, ChangeRound::Prepare(prefixes.clone())), "premap");
    assert_eq!(refused(&mut change, ChangeRound::Premap(prefixes)), "enforce");
}

#[test]
fn rules_in_force_wait_for_nobody() {
    let prefixes = Prefixes { desired: BTreeSet::new(), stale: stale(true) };
    let mut change = change(true);
    assert_eq!(refused(&mut change, ChangeRound::Enforce(prefixes.clone())), "unmap");
    assert_eq!(refused(&mut change, ChangeRound::Unmap(prefixes.clone())), "finish");
    assert_eq!(refused(&mut change, ChangeRound::Return(prefixes)), "finish");
}

#[test]
fn an_end_that_nobody_waits_for_changes_nothing() {
    let mut change = change(true);
    assert_eq!(refused(&mut change, ChangeRound::Idle), "stay");
    let next = change.next(ChangeRound::Number(BTreeSet::new()), ChangeRoundOutcome::Done, false);
    assert!(matches!(next, NextChangeRound::Stay(ChangeRound::Number(_))));
}
