//! How a life ends. What started is stopped in reverse order, each part by a hook with a name and a
//! time-out. All hooks together are bounded too, and a second signal ends the agent at once. What that
//! cuts off is as after a kill, for which the next start is made.

mod hooks;
mod signals;
#[cfg(test)]
mod tests;

use std::{rc::Rc, time::Duration};

use volvox_inspect::flight::FlightView;

use crate::{
    datapath::KernelPort,
    ports::{DiskPort, Embedded},
    servers::Servers,
};

pub use hooks::{Hooks, UnderWay, aside};
pub use signals::{Signals, SignalsError};

/// How long a stop may take in all; whoever ends processes (Kubernetes, systemd) has to wait longer.
pub const STOP_MAX: Duration = Duration::from_secs(13);

/// A part that is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// As the log calls it.
    pub name: &'static str,
    /// How long that may take.
    pub patience: Duration,
    /// What it means if it takes longer.
    pub otherwise: &'static str,
}

const fn part(name: &'static str, seconds: u64, otherwise: &'static str) -> Part {
    Part { name, patience: Duration::from_secs(seconds), otherwise }
}

/// The flight recorder: the end is marked.
pub const RECORDER: Part = part("flight recorder", 0, "this life looks like one that was killed");
/// The state directory: what is to be written is written.
pub const STATE: Part = part("state directory", 5, "the next start mends what is half written");
/// The datapath: jobs that were begun end, and none begins. It goes on serving.
pub const DATAPATH: Part =
    part("jobs of the datapath", 1, "the next start repeats what was not done");
/// The store in a file of this node: what is to be written is written.
pub const STORE: Part = part("store", 1, "the next start writes what is missing");
/// The API: who asked before is answered.
pub const API: Part = part("API", 3, "who asks yet has to ask again");
/// The dashboard: who looks on is not waited for.
pub const DASHBOARD: Part = part("dashboard", 0, "its pages connect again");
/// The records of packets, for those who listen.
pub const RECORDS: Part = part("records of packets", 1, "who listens has to connect again");

/// Hubble: who follows flows is not waited for.
pub const HUBBLE: Part = part("Hubble", 1, "who follows has to connect again");

/// All parts, in the order of the start.
pub const PARTS: [Part; 8] = [RECORDER, STATE, DATAPATH, STORE, API, DASHBOARD, RECORDS, HUBBLE];

/// What has started and needs to be stopped. The rest ends with the process.
pub struct Started {
    /// This life's record.
    pub recording: FlightView,
    /// The state directory.
    pub disk: Rc<DiskPort>,
    /// The datapath.
    pub kernel: Rc<KernelPort>,
    /// The store, if it is a file of this node.
    pub store: Option<Rc<Embedded>>,
    /// Who answers.
    pub servers: Servers,
}

impl Started {
    /// How each part stops, in the order of the start.
    pub fn hooks(self) -> Hooks {
        let Self { recording, disk, kernel, store, servers } = self;
        let Servers { api, dashboard, monitor, hubble } = servers;
        let mut hooks = Hooks::default();
        hooks.started(RECORDER, async move { recording.end() });
        hooks.started(STATE, async move { disk.finish().await });
        hooks.started(DATAPATH, async move { kernel.stop().await });
        if let Some(store) = store {
            hooks.started(STORE, async move { store.finish().await });
        }
        hooks.started(API, aside(|| drop(api)));
        if let Some(dashboard) = dashboard {
            hooks.started(DASHBOARD, async { dashboard.leave() });
        }
        if let Some(monitor) = monitor {
            hooks.started(RECORDS, aside(|| drop(monitor)));
        }
        if let Some(hubble) = hubble {
            hooks.started(HUBBLE, aside(|| drop(hubble)));
        }
        hooks
    }
}
