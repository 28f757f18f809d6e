//! A failing history made short: actions are taken out as long as it still fails.

use crate::{history::action::Action, record::trace::Trace, runner::Failure, world::node::Node};

/// How often a history is tried at most.
const TRIES_MAX: u32 = 600;

/// The places of the actions that are left, and how these fail.
pub(super) fn shrink(actions: &[Action], failure: Failure) -> (Vec<usize>, Failure) {
    let mut left: Vec<usize> = (0..actions.len().min(failure.at + 1)).collect();
    let mut failure = failure;
    let mut tries = 0;
    let mut size = left.len() / 2;
    while size > 0 && tries < TRIES_MAX {
        let mut start = 0;
        let mut shorter = false;
        while start < left.len() && tries < TRIES_MAX {
            let mut retained = left.clone();
            retained.drain(start..left.len().min(start + size));
            tries += 1;
            match Node::new(Trace::default()).run(&pick(actions, &retained)) {
                Err(other) => {
                    (left, failure, shorter) = (retained, other, true);
                }
                Ok(_) => start += size,
            }
        }
        if !shorter || size > left.len() / 2 {
            size /= 2;
        }
    }
    (left, failure)
}

/// The actions at those places.
pub(super) fn pick(actions: &[Action], places: &[usize]) -> Vec<Action> {
    places.iter().filter_map(|&place| actions.get(place).cloned()).collect()
}
