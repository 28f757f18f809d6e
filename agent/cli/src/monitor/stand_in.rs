//! What a monitor does while no agent lives: it reads the records and hands them on.
//! A lock decides which monitor does so.

use std::{fs::File, path::Path};

use volvox_inspect::monitor::{Monitor, stand_in_beside};
use volvox_maps::Rings;

use crate::error::ClientError;

/// Reads the records while no agent does, for this monitor and for all others: the kernel has one
/// reader.
pub(super) struct StandIn {
    _hub: Monitor,
    /// Whoever holds it reads; the kernel lets go for a process that is killed.
    _hold: File,
}

impl StandIn {
    /// `None` if another monitor reads already.
    pub(super) fn start(api: &Path, bpf_root: &Path) -> Result<Option<Self>, ClientError> {
        let Some(hold) = Rings::hold(bpf_root)? else { return Ok(None) };
        // Those who listen learn only that there are no records; here is why.
        drop(Rings::events(bpf_root)?);
        let hub = Monitor::start(&stand_in_beside(api), bpf_root, None, None)
            .map_err(|error| ClientError::Failed(error.to_string()))?;
        Ok(Some(Self { _hub: hub, _hold: hold }))
    }
}
