//! Moments at which a test can have the agent die: before each step that leaves a trace outside
//! the process. Whoever runs no test pays the look at one word of the thread.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

thread_local! {
    /// Steps that this thread may still do.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Dies if this is the step before which it was to.
pub fn step() {
    match LEFT.get() {
        None => {}
        // As with a kill, what was open is closed and nothing else is done.
        Some(0) => resume_unwind(Box::new("killed")),
        Some(left) => LEFT.set(Some(left - 1)),
    }
}

/// Does work that is killed before its step of that number, from 0. False if it ended before.
pub fn killed_before(number: usize, work: impl FnOnce()) -> bool {
    LEFT.set(Some(number));
    let end = catch_unwind(AssertUnwindSafe(work));
    LEFT.set(None);
    match end {
        Ok(()) => false,
        Err(panic) if panic.downcast_ref() == Some(&"killed") => true,
        Err(panic) => resume_unwind(panic),
    }
}
