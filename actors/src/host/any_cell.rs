//! A cell as its host sees it, whatever its behaviour.

use std::time::Duration;

use serde::Serialize;

use super::{Time, numbers::CellId};

/// What a cell shows of itself, whatever its behaviour.
#[derive(Clone, Debug, Serialize)]
pub struct CellInfo {
    /// Its number.
    pub id: CellId,
    /// Its name.
    pub name: String,
    /// Who spawned it.
    pub parent: Option<CellId>,
    /// Messages that wait in its mailbox.
    pub waiting: usize,
    /// Messages it handled.
    pub handled: u64,
    /// Messages its mailbox refused.
    pub refused: u64,
    /// When it last refused one.
    pub last_refused: Option<Time>,
    /// Time that messages spent in its mailbox, all together.
    pub waited: Duration,
    /// Time it spent in handlers, all together.
    pub busy: Duration,
    /// How often it crashed.
    pub crashes: u32,
    /// What the last crash said.
    pub last_crash: Option<String>,
    /// Whether it crashes again and again, and rests in between.
    pub crash_looping: bool,
}

/// A cell without its type.
pub(super) trait AnyCell {
    /// Handles one message; whether there may be more.
    fn run_one(&self) -> bool;
    fn info(&self) -> CellInfo;
    fn observe(&self) -> Option<serde_json::Value>;
    /// Has it panic behind the next message that it handles.
    #[cfg(any(test, feature = "simulation"))]
    fn poison(&self);
}
