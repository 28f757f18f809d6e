//! Where the rule stands that looks up the node's own addresses.

use std::{collections::BTreeMap, time::Duration};

use super::fixture::{DIRECT, TUNNEL, announce, fixture, routing, said, steps};
use crate::{
    node::routes::RoutingMode,
    ports::{LOCAL_RULE_PRIORITY, LocalRule, LocalRules, RoutingOp},
    testing::{MemoryKvStore, World},
};

const MINUTE: Duration = Duration::from_secs(60);

fn rules(priorities: &[u32], others: bool) -> BTreeMap<bool, LocalRules> {
    let rules = LocalRules { priorities: priorities.iter().copied().collect(), others };
    [(false, rules.clone()), (true, rules)].into()
}

fn moved() -> BTreeMap<bool, LocalRules> {
    rules(&[LOCAL_RULE_PRIORITY], false)
}

/// A node with those rules and another one beside it.
fn with(mode: RoutingMode, rules: BTreeMap<bool, LocalRules>) -> (World, MemoryKvStore) {
    let (world, store) = fixture(mode);
    announce(&store, 2, &said(2));
    world.kernel.tamper(|state| state.routing.rules = rules);
    (world, store)
}

#[test]
fn it_is_moved_to_where_others_fit_in_before_it() {
    for mode in [DIRECT, TUNNEL] {
        let (mut world, _store) = with(mode, rules(&[0], false));
        world.boot();
        world.advance(MINUTE);
        assert_eq!(routing(&world).rules, moved());
        for ipv6 in [false, true] {
            let steps = steps(&world);
            let at = |op| steps.iter().position(|step| *step == op).expect("it was done");
            let made = LocalRule { ipv6, priority: LOCAL_RULE_PRIORITY };
            let gone = LocalRule { ipv6, priority: 0 };
            let [made, gone] =
                [at(RoutingOp::PutLocalRule(made)), at(RoutingOp::DeleteLocalRule(gone))];
            assert!(made < gone);
        }
        world.kernel.tamper(|state| {
            state.routing.rules = rules(&[0, LOCAL_RULE_PRIORITY], false);
        });
        world.advance(MINUTE * 2);
        assert_eq!(routing(&world).rules, moved(), "it stays moved");
    }
}

#[test]
fn it_is_there_again_after_somebody_removed_it() {
    let (mut world, _store) = with(DIRECT, rules(&[0], false));
    world.boot();
    for is_alive in [true, false] {
        world.advance(MINUTE);
        world.kernel.tamper(|state| state.routing.rules = rules(&[], false));
        if !is_alive {
            world.restart();
        }
        world.advance(MINUTE * 2);
        assert_eq!(routing(&world).rules, moved());
    }
}

#[test]
fn one_that_stands_elsewhere_and_a_family_that_is_off_or_has_none_are_left_alone() {
    for left in [rules(&[200], false), rules(&[], true), BTreeMap::new()] {
        let (mut world, _store) = with(DIRECT, left.clone());
        world.boot();
        world.advance(MINUTE * 2);
        assert_eq!(routing(&world).rules, left);
    }
    let (mut world, _store) = with(DIRECT, rules(&[0], false));
    world.settings.policy.families.ipv6 = false;
    world.boot();
    world.advance(MINUTE * 2);
    let rules = routing(&world).rules;
    let at = |ipv6: bool| rules[&ipv6].priorities.iter().copied().collect::<Vec<_>>();
    assert_eq!((at(false), at(true)), (vec![LOCAL_RULE_PRIORITY], vec![0]));
}
