//! The interface between a host and what schedules its cells.

use super::{CellId, Host};
use crate::host::Time;

/// Says when cells run and timers fire.
///
/// A host rings for a cell when its mailbox turns from empty to not empty; the driver then calls
/// [`Host::run`] soon, on the host's own thread and never from within `ring` itself.
pub trait Driver {
    /// A cell was spawned.
    fn spawned(&self, host: &Host, cell: CellId);

    /// That cell has something to do.
    fn ring(&self, cell: CellId);

    /// The next timer is due then; [`Host::fire_due`] is desired.
    fn wake_at(&self, at: Time);

    /// A cell is no more.
    fn stopped(&self, cell: CellId);
}
