//! The datapath: BPF maps, programs and links, interfaces and routes. The actors reach it by
//! [`KernelPort`]. What the maps hold is read and written by `volvox-maps`.
//!
//! A job's steps go through lanes, each with threads of its own: the pool does most, and has more
//! threads while a device that hangs holds those that it has; putting
//! policy maps into slots costs one grace period of the kernel (8 to 16 ms) however many go
//! together, so what comes meanwhile is gathered; creating TCX links costs as much each, is
//! serialised by the kernel and nobody waits for it, so one thread does it beside all else; sweeps
//! through connection tracking are shared by all that asked meanwhile; loads too.

mod conntrack;
mod device_filters;
mod devices;
mod filter;
mod flipper;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod generation;
mod hand_back;
mod hooks;
mod link;
mod loader;
mod maglev;
mod maps;
mod mount;
mod nat;
mod off;
mod open;
mod pace;
mod pages;
mod policies;
mod probe;
mod routing;
mod run;
mod running;
mod services;
mod snapshot;
mod socket_notes;
mod sockets;
mod stale_sockets;
mod step;
mod survey;
mod switch;
mod takeover;
#[cfg(test)]
pub(crate) mod tests;
mod uninstall;
mod writes;

use std::{collections::BTreeSet, rc::Rc, sync::Arc, thread, time::Duration};

use volvox_actors::{
    host::{Host, Reply},
    model::{Addresses, BackendId, Families},
    ports::{Kernel, KernelDone, KernelJob, KernelOp, KernelOutcome},
};

use crate::ports::{Workers, WorkersError};
pub use filter::AttachMode;
use flipper::Flipper;
pub use hand_back::hand_back;
use hooks::Place;
pub use maps::MapSizes;
pub use open::{Datapath, DatapathConfig};
use pace::Pace;
use run::{Run, Stretch, Timed, stretch, timed};
use step::Stepper;
pub use survey::{KernelSurvey, survey};
pub use takeover::Inheritance;
pub use uninstall::uninstall;
pub use writes::Writes;

/// How long no job of a lane may end while others wait; then it has another thread.
const STUCK: Duration = Duration::from_secs(1);
/// Jobs that are with a lane's threads at once.
const UNDER_WAY: usize = 1024;

/// [`Kernel`] done for real.
pub struct KernelPort {
    lanes: Rc<Lanes>,
}

struct Lanes {
    host: Host,
    pool: Workers<Vec<KernelOp>, Stretch>,
    flip: Workers<u32, Timed<()>>,
    clear: Workers<Vec<u32>, Timed<()>>,
    settle: Workers<Place, Timed<()>>,
    scrub: Workers<Addresses, Timed<()>>,
    collect: Workers<(Families, BTreeSet<BackendId>), Timed<KernelOutcome>>,
    load: Workers<(), Timed<()>>,
    pace: Arc<Pace>,
}

impl KernelPort {
    /// Starts the threads. To be called on the actors' thread, within its actix system.
    pub fn start(datapath: &Arc<Datapath>, host: &Host) -> Result<Self, WorkersError> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let shared = || Arc::clone(datapath);
        let (clear, scrub, collect, load) = (shared(), shared(), shared(), shared());
        let (pooled, settled) = (shared(), shared());
        let flipper = Flipper::start(datapath)?;
        let pace = Arc::new(Pace::new());
        let settling = Arc::clone(&pace);
        let lanes = Lanes {
            host: host.clone(),
            pool: Workers::start_elastic("kernel", cpus.max(2), UNDER_WAY, STUCK, move |_| {
                let mut stepper = Stepper::new(&pooled);
                move |ops| stretch(&mut stepper, ops)
            })?,
            flip: Workers::start_batching("kernel-flip", UNDER_WAY, move |slots: Vec<_>| {
                timed(|| flipper.flip(&slots))
            })?,
            clear: Workers::start_batching(
                "kernel-clear",
                UNDER_WAY,
                move |slots: Vec<Vec<_>>| {
                    let work = || vec![clear.policies().clear(&slots.concat()); slots.len()];
                    timed(work)
                },
            )?,
            settle: Workers::start_elastic(
                "kernel-settle",
                1,
                UNDER_WAY,
                STUCK + pace::LONGEST,
                move |_| {
                    let mut stepper = Stepper::new(&settled);
                    let pace = Arc::clone(&settling);
                    move |place| Timed::of(|| stepper.settle(place, &pace))
                },
            )?,
            scrub: Workers::start_batching("kernel-scrub", UNDER_WAY, move |desired: Vec<_>| {
                let all: Vec<_> = desired.iter().copied().flat_map(Addresses::iter).collect();
                let work = || vec![conntrack::scrub(&scrub.maps, &all).map(drop); desired.len()];
                timed(work)
            })?,
            collect: Workers::start_batching(
                "kernel-collect",
                UNDER_WAY,
                move |desired: Vec<(Families, BTreeSet<BackendId>)>| {
                    let families = desired.iter().map(|(families, _)| *families);
                    let families = families.fold(Families::NONE, Families::union);
                    let backends = desired.iter().flat_map(|(_, all)| all).copied().collect();
                    let sweep = || {
                        let (connections, used) =
                            conntrack::collect(&collect.maps, families, &backends)?;
                        let translations = nat::collect(&collect.maps, families)?;
                        let fill = collect.writes().tallies.flows();
                        Ok(KernelOutcome::Collected { connections, translations, fill, used })
                    };
                    timed(|| vec![sweep(); desired.len()])
                },
            )?,
            load: Workers::start_batching("kernel-load", UNDER_WAY, move |desired: Vec<()>| {
                timed(|| vec![load.load(); desired.len()])
            })?,
            pace,
        };
        Ok(Self { lanes: Rc::new(lanes) })
    }

    /// Begins nothing more in the kernel, and waits for what was begun.
    pub async fn stop(&self) {
        let Lanes { host: _, pool, flip, clear, settle, scrub, collect, load, pace: _ } =
            &*self.lanes;
        tokio::join!(
            pool.stop(),
            flip.stop(),
            clear.stop(),
            settle.stop(),
            scrub.stop(),
            collect.stop(),
            load.stop()
        );
    }
}

impl Kernel for KernelPort {
    fn submit(&self, job: KernelJob, reply: Reply<KernelDone>) {
        Run::new(job, reply).go_on(&self.lanes);
    }
}
