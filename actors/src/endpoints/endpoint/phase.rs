//! What an endpoint is at: at most one thing at a time.
//!
//! ```text
//! Idle ──► Building ──► Idle          build/advance.rs
//!   │          │
//!   └──────────┴──► TearingDown ──► Gone      teardown.rs
//! ```
//!
//! A build and a teardown are held here only while one answer to them is out. Whoever takes them up
//! with that answer has them by value until it waits for the next. An identity may be on its way
//! beside a build: it is not a phase.

use std::mem;

use super::{
    build::{self, Build},
    teardown::{self, Teardown},
};

/// What an endpoint is at.
#[derive(Default)]
pub(super) enum EndpointPhase {
    /// Nothing, as far as it itself goes.
    #[default]
    Idle,
    /// A build waits for an answer.
    Building(Build, build::BuildWait),
    /// Its teardown waits for an answer. In a crash whoever waits for the build of which that is
    /// hears of it first.
    TearingDown(teardown::TeardownWait, Teardown),
    /// Nothing is left of it.
    Gone,
}

impl EndpointPhase {
    /// Whether it is on its way out, or gone.
    pub(super) fn is_going(&self) -> bool {
        matches!(self, Self::TearingDown(..) | Self::Gone)
    }

    /// Whether a build is under way.
    pub(super) fn is_building(&self) -> bool {
        matches!(self, Self::Building(..))
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// What it waits for, for people.
    pub(super) fn step(&self) -> Option<&'static str> {
        match self {
            Self::Building(build, _)
            | Self::TearingDown(teardown::TeardownWait::StateFile { build, .. }, _) => {
                Some(build.step)
            }
            _ => None,
        }
    }

    /// Takes the build that waits for such an answer, with what `pick` takes of what it waits for.
    /// None if no build does: the answer is late.
    pub(super) fn take_build<T>(
        &mut self,
        pick: impl FnOnce(build::BuildWait) -> Result<T, build::BuildWait>,
    ) -> Option<(Build, T)> {
        match mem::take(self) {
            Self::Building(build, awaited) => match pick(awaited) {
                Ok(picked) => Some((build, picked)),
                Err(awaited) => {
                    *self = Self::Building(build, awaited);
                    None
                }
            },
            other => {
                *self = other;
                None
            }
        }
    }

    /// The same for a teardown.
    pub(super) fn take_teardown<T>(
        &mut self,
        pick: impl FnOnce(teardown::TeardownWait) -> Result<T, teardown::TeardownWait>,
    ) -> Option<(Teardown, T)> {
        match mem::take(self) {
            Self::TearingDown(awaited, down) => match pick(awaited) {
                Ok(picked) => Some((down, picked)),
                Err(awaited) => {
                    *self = Self::TearingDown(awaited, down);
                    None
                }
            },
            other => {
                *self = other;
                None
            }
        }
    }
}
