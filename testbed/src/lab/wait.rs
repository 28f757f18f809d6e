//! Waiting for what must come.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

/// How long the lab waits for what must come before it says that it does not. On a busy machine all
/// comes late: no test is decided by this, unless it fails.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Looks until `done`.
pub fn wait_for(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !done()? {
        ensure!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {what}");
        thread::sleep(LOOK);
    }
    Ok(())
}
