//! What must be true of a node, as one list: assertions in production, oracle of the simulator and
//! of tests.
//!
//! Each is a pure function over plain [data](Snapshot). A broken one is reported, never a panic:
//! an agent that stops because something is wrong helps nobody.

mod datapath;
mod invariant;
mod numbers;
mod snapshot;
#[cfg(test)]
mod tests;

pub use invariant::{Invariant, Violation};
pub use snapshot::{EndpointFacts, Snapshot};

/// What holds at every moment.
pub const ALWAYS: &[Invariant] = &[
    numbers::ENDPOINT_IDS,
    numbers::ENDPOINT_ADDRESSES,
    numbers::ENDPOINT_INTERFACES,
    numbers::LEASES,
    numbers::ADDRESSES_ARE_LEASED,
    numbers::IDENTITIES,
    datapath::PROGRAMS,
    datapath::READY_IS_PROGRAMMED,
    datapath::READY_IS_ENFORCED,
    datapath::READY_IS_MAPPED,
];

/// What holds besides once nothing is under way: every restored endpoint settled, every change
/// made.
pub const AT_REST: &[Invariant] = &[datapath::NOTHING_LEFT_BEHIND];

/// What does not hold at this moment.
pub fn check<'a>(
    invariants: impl IntoIterator<Item = &'a Invariant>,
    snapshot: &Snapshot,
) -> Vec<Violation> {
    invariants.into_iter().filter_map(|invariant| (invariant.check)(snapshot).err()).collect()
}

/// Writes what does not hold to the log.
pub fn report(violations: &[Violation]) {
    for Violation { invariant, found } in violations {
        let what = found.join("; ");
        tracing::error!(invariant, what, "an invariant does not hold; please report it");
    }
}
