//! What a person sees while long work goes on. On stderr, and only at a terminal.

use std::borrow::Cow;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows progress, or nothing when programs read the results.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// Shown unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { shown: !quiet }
    }

    /// A bar that goes from 0 to `length`.
    pub fn bar(self, what: impl Into<Cow<'static, str>>, length: usize) -> ProgressBar {
        let target =
            if self.shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{msg:28} {wide_bar} {pos}/{len} {elapsed:>4}")
            .expect("the template is right");
        ProgressBar::with_draw_target(Some(length as u64), target)
            .with_style(style)
            .with_message(what)
    }

    /// Does something so many times, counted from 0, and shows how far it is.
    pub fn rounds(
        self,
        what: impl Into<Cow<'static, str>>,
        count: usize,
        mut round: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let bar = self.bar(what, count);
        for nth in 0..count {
            round(nth)?;
            bar.inc(1);
        }
        bar.finish();
        Ok(())
    }
}
