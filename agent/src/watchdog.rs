//! Names a handler that does not return: the actors' thread serves nobody meanwhile, and only
//! another thread can say so.

use std::{
    io,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use volvox_actors::host::{Beat, Clock, Handling};
use volvox_system::SystemClock;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A handler that runs longer is named; the slowest known takes milliseconds.
const HANDLER_MAX: Duration = Duration::from_secs(2);

/// Watches until the host is gone.
pub fn watch(beat: &Arc<Beat>) -> io::Result<()> {
    let beat = Arc::downgrade(beat);
    volvox_system::threads::spawn("watchdog", move || look_on(&beat)).map(drop)
}

/// The handler that has not returned for too long, and for how long.
pub fn stuck(beat: &Beat) -> Option<(Handling, Duration)> {
    let handling = beat.handling()?;
    let since = SystemClock.now().since(handling.since);
    (since > HANDLER_MAX).then_some((handling, since))
}

fn look_on(beat: &Weak<Beat>) {
    let mut named: Option<Handling> = None;
    while let Some(beat) = beat.upgrade() {
        let stuck = stuck(&beat).map(|(handling, _)| handling);
        drop(beat);
        if let Some(handling) = stuck.as_ref().filter(|stuck| Some(*stuck) != named.as_ref()) {
            tracing::error!(
                actor = handling.actor,
                message = handling.message,
                "handler does not return; every actor waits for it"
            );
        }
        if named.is_some() && stuck.is_none() {
            tracing::info!("actors go on");
        }
        named = stuck;
        thread::sleep(LOOK_EVERY);
    }
}
