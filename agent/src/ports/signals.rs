//! Tells when the datapath finds no room.

use std::{io, path::Path, time::Duration};

use tokio::sync::mpsc;
use volvox_actors::{model::Families, node::conntrack::FullTable};
use volvox_bpf_progs::layouts::SignalRecord;
use volvox_maps::{DatapathError, Event, Rings};

/// How often it is looked whether anybody listens yet.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Signals that wait for the actors; further ones wait in the rings.
const WAITING_MAX: usize = 16;

/// What has no room: which table, and of which family.
pub type Full = (FullTable, Families);

/// Wakes whoever is to make room.
pub struct SignalWatch(mpsc::Receiver<Full>);

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum SignalWatchError {
    /// The rings cannot be read.
    #[error(transparent)]
    Rings(#[from] DatapathError),
    /// There is no thread for it.
    #[error("start the thread that listens to signals: {0}; raise the limit of threads")]
    Thread(io::Error),
}

impl SignalWatch {
    /// Listens from now on, instead of whoever listened before.
    pub fn start(bpf_root: &Path) -> Result<Self, SignalWatchError> {
        let mut rings = Rings::signals(bpf_root)?;
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let work = move || {
            while !sender.is_closed() {
                if let Err(error) = rings.wait(LOOK_EVERY) {
                    tracing::error!(%error, "dead connections are collected by the clock only");
                    return;
                }
                rings.drain(|event| {
                    if let Some(full) = full(&event) {
                        let _ = sender.blocking_send(full);
                    }
                });
            }
        };
        volvox_system::threads::spawn("signals", work).map_err(SignalWatchError::Thread)?;
        Ok(Self(receiver))
    }

    /// Waits for a signal; `None` if nobody listens any more.
    pub async fn next(&mut self) -> Option<Full> {
        self.0.recv().await
    }
}

/// What a signal says. Of those that were lost nothing is known, but they come again within a second
/// where there still is no room.
fn full(event: &Event) -> Option<Full> {
    let Event::Sample { bytes, .. } = event else { return None };
    let SignalRecord { signal, data } = SignalRecord::parse(bytes)?;
    let table = match signal {
        SignalRecord::NAT_FULL => FullTable::Translations,
        SignalRecord::CT_FULL => FullTable::Connections,
        _ => return None,
    };
    let families = match data {
        SignalRecord::IPV4 => Families { ipv4: true, ipv6: false },
        SignalRecord::IPV6 => Families { ipv4: false, ipv6: true },
        _ => return None,
    };
    Some((table, families))
}
