//! An actor panics. Endpoints may be many, so supervisors are chosen among themselves as well.

use volvox_actors_simulated::host::CellInfo;

use crate::{history::events::Victim, world::node::Node};

/// How the names of endpoints' actors begin.
const ENDPOINT: &str = "endpoint ";

impl Node {
    /// An actor panics behind its next message.
    pub(crate) fn crash_actor(&mut self, which: Victim) {
        if self.world.is_alive() {
            let host = &self.world.node_supervisor().host;
            let Some(cell) = chosen(which, host.cells()) else { return };
            self.trace.say(|| format!("it is {}", cell.name));
            host.poison(cell.id);
        }
    }
}

/// Who is meant among those that live.
fn chosen(which: Victim, cells: Vec<CellInfo>) -> Option<CellInfo> {
    let is_meant = |cell: &CellInfo| match which {
        Victim::Named(name) => cell.name == name,
        Victim::Any(_) => true,
        Victim::Supervisor(_) => !cell.name.starts_with(ENDPOINT),
    };
    let mut cells: Vec<_> = cells.into_iter().filter(is_meant).collect();
    let number = match which {
        Victim::Named(_) => 0,
        Victim::Any(number) | Victim::Supervisor(number) => number,
    };
    let nth = number as usize % cells.len().max(1);
    (nth < cells.len()).then(|| cells.swap_remove(nth))
}
