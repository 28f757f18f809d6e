//! Walks through the moments of an operation, on a node of the lab.

use anyhow::{Context, Result};

use super::{
    calls::{self, Moment},
    state::{State, Violation},
    walks::Plan,
};
use crate::chaos::{history::Step, lab::World};

/// Deaths that are judged together.
const TOGETHER: usize = 20;
/// How often a moment is tried that an operation does not come to: threads share their work differently each
/// time.
const TRIES: u32 = 3;

/// A node, and the operation in which its agent dies.
pub(super) struct Walker<'a> {
    plan: &'a Plan,
    world: World<'a>,
    operation: &'a Step,
    /// What must be so behind it.
    looks: &'a [Step],
}

impl<'a> Walker<'a> {
    /// A node with its pods.
    pub(super) fn begin(plan: &'a Plan) -> Result<Self> {
        let (operation, looks) = plan.steps()?;
        Ok(Self { plan, world: World::launch(&plan.history)?, operation, looks })
    }

    /// The calls of the operation.
    pub(super) fn moments(&mut self) -> Result<Vec<Moment>> {
        let moments = if self.plan.walk.is_start() {
            let file = self.world.note_start(self.operation)?;
            calls::moments(&file)?
        } else {
            let file = self.world.path("calls");
            self.world.note_calls(self.operation, &file)?;
            calls::moments_of_the_living(&file)?
        };
        self.world.undo(self.operation)?;
        Ok(moments)
    }

    /// Dies at these moments, some together; tells after each group how many it were.
    pub(super) fn walk(
        &mut self,
        moments: &[Moment],
        state: &mut State,
        mut told: impl FnMut(&State, usize),
    ) -> Result<()> {
        for group in moments.chunks(TOGETHER) {
            self.group(group, state)?;
            told(state, group.len());
        }
        Ok(())
    }

    fn group(&mut self, group: &[Moment], state: &mut State) -> Result<()> {
        let Err(first) = self.judged(group, state) else { return state.save() };
        // A violation of the last one is one of that one alone.
        if let [moment] = group {
            self.broke(moment, format!("{first:#}"), state)?;
            self.world
                .recover(self.operation)
                .context("after a violation the node does not get ready again")?;
            return state.save();
        }
        self.world
            .recover(self.operation)
            .with_context(|| format!("after {first:#}, the node does not get ready again"))?;
        let before = state.violations().len();
        for moment in group {
            self.group(std::slice::from_ref(moment), state)?;
        }
        if state.violations().len() == before {
            // Together they broke something that none does alone.
            let what = format!("together with {} others: {first:#}", group.len() - 1);
            self.broke(&group[0], what, state)?;
        }
        state.save()
    }

    fn broke(&self, moment: &Moment, what: String, state: &mut State) -> Result<()> {
        let history = self.plan.death(moment)?.write();
        state.broke(Violation { moment: moment.clone(), what, history: Some(history) });
        Ok(())
    }

    /// Fails if somebody noticed.
    fn judged(&mut self, group: &[Moment], state: &mut State) -> Result<()> {
        self.world.begin_judging()?;
        for moment in group {
            let died = self.die(moment).with_context(|| moment.to_string())?;
            state.tried(moment, died);
        }
        self.world.end_judging()
    }

    /// One death, and a whole life after it; whether it died there.
    fn die(&mut self, moment: &Moment) -> Result<bool> {
        let Moment { call, nth } = moment;
        // A runtime removes what it got no answer for at once, or when an agent is back.
        self.world.retry_late(nth % 2 == 1);
        for _ in 0..TRIES {
            let died = if self.plan.walk.is_start() {
                self.world.dies_at_start(self.operation, call, *nth)?
            } else {
                self.world.dies_in(self.operation, call, *nth)?
            };
            self.looks.iter().try_for_each(|look| self.world.step(look))?;
            // An upgrade and a restart that nobody looks behind leave nothing to undo but the build.
            self.world.undo(self.operation)?;
            if died {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
