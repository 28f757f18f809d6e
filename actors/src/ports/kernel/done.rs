//! What came of a job, and how whoever asked takes it.

use super::{KernelError, KernelOutcome, RowPage};
use crate::host::AskError;

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelDone {
    /// Outcome of each step that succeeded, in order.
    pub outcomes: Vec<KernelOutcome>,
    /// The step that failed, by its place in the job, and why.
    pub failed: Option<(usize, KernelError)>,
}

impl KernelDone {
    /// What the one step of a job came to, as `desired` takes it out of the outcome; or why there is
    /// nothing, in words.
    pub(crate) fn of_one<T>(
        answer: Result<Self, AskError>,
        desired: impl FnOnce(KernelOutcome) -> Option<T>,
    ) -> Result<T, String> {
        let done = answer.map_err(|error| error.to_string())?;
        if let Some((_, error)) = done.failed {
            return Err(error.to_string());
        }
        let outcome = done.outcomes.into_iter().next().and_then(desired);
        outcome.ok_or_else(|| "the kernel port answered to something else".to_owned())
    }

    /// The rows that one was asked for.
    pub(crate) fn rows(answer: Result<Self, AskError>) -> Result<RowPage, String> {
        Self::of_one(answer, |outcome| match outcome {
            KernelOutcome::Rows(page) => Some(*page),
            _ => None,
        })
    }
}
