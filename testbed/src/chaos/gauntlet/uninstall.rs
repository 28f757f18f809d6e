//! The gauntlet of an uninstall: nothing flows behind it, so what is judged is what is left.

use anyhow::{Context, Result};

use super::{
    Meter, Options, calls, chosen,
    state::{State, Violation},
    walks::Plan,
};
use crate::chaos::lab::World;

/// Walks through the moments that are left.
pub(super) fn walk(plan: &Plan, state: &mut State, options: &Options) -> Result<()> {
    let mut world = World::launch(&plan.history)?;
    if state.is_new() {
        let file = world.path("calls");
        world.note_uninstall(&file)?;
        state.begin(calls::moments_of_the_living(&file)?)?;
        world.begin_anew()?;
    }
    let left = chosen(state, options);
    let mut meter = Meter::new(left.len());
    for moment in left {
        match world.uninstall_dies(&moment.call, moment.nth) {
            Ok(died) => state.tried(&moment, died),
            Err(error) => {
                let what = format!("{error:#}");
                state.broke(Violation { moment: moment.clone(), what, history: None });
            }
        }
        world.begin_anew().with_context(|| format!("{moment} of an uninstall"))?;
        state.save()?;
        meter.tell(state, 1);
    }
    Ok(())
}
