//! Lives through the histories of operators that a seed has.

use super::{
    agents::AgentsTruth,
    outcome::{OperatorsFailure, OperatorsTally},
    pool_world::PoolWorld,
    pooled::PooledTruth,
    stored::StoredTruth,
    world::World,
};

/// What happens in a history, at most so often.
const ACTIONS: usize = 160;
/// Every so many-th seed has a second history, with agents on the nodes or with a kvstore.
const WITH_MORE: u64 = 2;

/// Lives through the history of a seed; `say` hears of each action.
pub fn live(seed: u64, mut say: impl FnMut(String)) -> Result<OperatorsTally, OperatorsFailure> {
    let first = live_one(World::new(seed), &mut say)?;
    let mut more = World::new(seed);
    if seed.is_multiple_of(WITH_MORE) {
        say("another history, with agents".to_owned());
        more.agents = Some(AgentsTruth::default());
    } else {
        say("another history, with a kvstore".to_owned());
        more.stored = Some(StoredTruth::default());
    }
    let second = live_one(more, &mut say)?;
    say("another history, with several pools".to_owned());
    let mut more = World::new(seed);
    more.truth.pooled = true;
    more.pooled = Some(PooledTruth::new(&more.cluster));
    let third = live_one(more, &mut say)?;
    say("another history, with agents that share pools".to_owned());
    let fourth = live_with_agents(PoolWorld::new(seed), &mut say)?;
    let all = [first, second, third, fourth];
    let started = all.iter().map(|it| it.started).sum();
    Ok(OperatorsTally { started, steps: all.iter().map(|it| it.steps).sum() })
}

/// The same with agents, in which a failure is most likely to be theirs.
fn live_with_agents(
    mut world: PoolWorld,
    say: &mut impl FnMut(String),
) -> Result<OperatorsTally, OperatorsFailure> {
    world.start_operator();
    for at in 0..ACTIONS {
        let what = world.act();
        say(what);
        world.complaint().map_or(Ok(()), |what| Err(OperatorsFailure { at, what }))?;
    }
    say("nothing goes wrong any more".to_owned());
    let end = world.end();
    end.map_err(|what| OperatorsFailure { at: ACTIONS, what })?;
    Ok(world.tally)
}

fn live_one(
    mut world: World,
    say: &mut impl FnMut(String),
) -> Result<OperatorsTally, OperatorsFailure> {
    world.start();
    for at in 0..ACTIONS {
        let what = world.act();
        say(what);
        world.complaint().map_or(Ok(()), |what| Err(OperatorsFailure { at, what }))?;
    }
    say("nothing goes wrong any more".to_owned());
    let end = world.end();
    end.map_err(|what| OperatorsFailure { at: ACTIONS, what })?;
    Ok(world.tally)
}
