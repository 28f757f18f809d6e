//! Fault injection for the kernel and the disk in memory: which step fails, and where the agent
//! dies.

use std::{cell::RefCell, rc::Rc};

use crate::ports::Refusal;

/// What becomes of one step of the kernel or of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It works.
    Work,
    /// It is refused.
    Fail,
    /// The kernel refuses it for this reason.
    Refuse(Refusal),
    /// Of a batch the first half is done, then the kernel refuses the rest.
    Half,
    /// The agent dies before it; nothing is done any more.
    Die,
}

type Decide = Box<dyn FnMut(&'static str) -> Turn>;

/// Decides of each step, by its name, whether it works. Kernel and disk share one.
#[derive(Clone, Default)]
pub struct Fate(Rc<RefCell<FateState>>);

#[derive(Default)]
struct FateState {
    decide: Option<Decide>,
    steps: usize,
    dead: bool,
}

impl Fate {
    /// Everything works from now on.
    pub fn is_kind(&self) {
        *self.0.borrow_mut() = FateState { steps: self.steps(), ..FateState::default() };
    }

    /// Each step goes as that says.
    pub fn is(&self, decide: impl FnMut(&'static str) -> Turn + 'static) {
        self.is_kind();
        self.0.borrow_mut().decide = Some(Box::new(decide));
    }

    /// The `nth` step from now, counted from 0, has that turn; all others work.
    pub fn at(&self, nth: usize, turn: Turn) {
        let mut left = nth;
        let mut met = false;
        self.is(move |_| {
            let now = left == 0 && !met;
            left = left.saturating_sub(1);
            met |= now;
            if now { turn } else { Turn::Work }
        });
    }

    /// Every step of that name is refused.
    pub fn refuses(&self, name: &'static str) {
        self.is(move |step| if step == name { Turn::Fail } else { Turn::Work });
    }

    /// Steps that were tried so far.
    pub fn steps(&self) -> usize {
        self.0.borrow().steps
    }

    /// Whether the agent died.
    pub fn is_dead(&self) -> bool {
        self.0.borrow().dead
    }

    /// The turn of the next step.
    pub(super) fn turn(&self, name: &'static str) -> Turn {
        let mut inner = self.0.borrow_mut();
        if inner.dead {
            return Turn::Die;
        }
        inner.steps += 1;
        let turn = inner.decide.as_mut().map_or(Turn::Work, |decide| decide(name));
        inner.dead = turn == Turn::Die;
        turn
    }
}
