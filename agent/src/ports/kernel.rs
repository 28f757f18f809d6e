//! The kernel port: BPF maps, programs and links, interfaces and routes.
//!
//! A job's steps go through lanes, each with threads of its own: the pool does most; putting
//! policy maps into slots costs one grace period of the kernel (8 to 16 ms) however many go
//! together, so what comes meanwhile is gathered; creating TCX links costs as much each, is
//! serialised by the kernel and nobody waits for it, so one thread does it beside all else; sweeps
//! through connection tracking are shared by all that asked meanwhile; loads too.

mod attr;
mod conntrack;
mod cpus;
mod crash;
mod datapath;
mod dump;
mod error;
mod events;
mod flipper;
mod generation;
mod hooks;
mod loader;
mod maps;
mod pace;
mod pins;
mod policies;
mod rows;
mod snapshot;
mod step;
mod switch;
mod sys;
mod table;
#[cfg(test)]
mod tests;
mod uninstall;
mod writes;

use std::{iter, rc::Rc, sync::Arc, thread, vec};

use volvox_actors::{
    host::{AskError, Reply},
    model::Addresses,
    ports::{Kernel, KernelDone, KernelError, KernelJob, KernelOp, KernelOutcome},
};

use super::{Workers, WorkersError};
pub use datapath::{Datapath, DatapathConfig};
pub use dump::{Connection, Dump, Peer};
pub use error::DatapathError;
pub use events::{Event, Events};
use flipper::Flipper;
use hooks::Place;
pub use maps::MapSizes;
use pace::Pace;
use step::Stepper;
pub use uninstall::uninstall;
pub use writes::Writes;

/// Jobs that are with a lane's threads at once.
const UNDER_WAY: usize = 1024;

/// [`Kernel`] done for real.
pub struct KernelPort {
    lanes: Rc<Lanes>,
}

struct Lanes {
    pool: Workers<Vec<KernelOp>, Stretch>,
    flip: Workers<u32, Result<(), KernelError>>,
    clear: Workers<Vec<u32>, Result<(), KernelError>>,
    settle: Workers<Place, Result<(), KernelError>>,
    scrub: Workers<Addresses, Result<(), KernelError>>,
    collect: Workers<(), Result<KernelOutcome, KernelError>>,
    load: Workers<(), Result<(), KernelError>>,
    pace: Arc<Pace>,
}

/// What came of a stretch of a job in the pool.
struct Stretch {
    outcomes: Vec<KernelOutcome>,
    failed: Option<KernelError>,
}

/// A job under way.
struct Run {
    left: vec::IntoIter<KernelOp>,
    outcomes: Vec<KernelOutcome>,
    reply: Reply<KernelDone>,
}

impl KernelPort {
    /// Starts the threads. To be called on the actors' thread, within its actix system.
    pub fn start(datapath: &Arc<Datapath>) -> Result<Self, WorkersError> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let shared = || Arc::clone(datapath);
        let (clear, scrub, collect, load) = (shared(), shared(), shared(), shared());
        let flipper = Flipper::start(datapath)?;
        let pace = Arc::new(Pace::new());
        let lanes = Lanes {
            pool: Workers::start("kernel", cpus.max(2), UNDER_WAY, |_| {
                let mut stepper = Stepper::new(datapath);
                move |ops| stretch(&mut stepper, ops)
            })?,
            flip: Workers::start_batching("kernel-flip", UNDER_WAY, move |slots: Vec<_>| {
                flipper.flip(&slots)
            })?,
            clear: Workers::start_batching(
                "kernel-clear",
                UNDER_WAY,
                move |slots: Vec<Vec<_>>| {
                    vec![clear.policies().clear(&slots.concat()); slots.len()]
                },
            )?,
            settle: Workers::start("kernel-settle", 1, UNDER_WAY, |_| {
                let mut stepper = Stepper::new(datapath);
                let pace = Arc::clone(&pace);
                move |place| stepper.settle(place, &pace)
            })?,
            scrub: Workers::start_batching("kernel-scrub", UNDER_WAY, move |wanted: Vec<_>| {
                let all: Vec<_> = wanted.iter().copied().flat_map(Addresses::iter).collect();
                vec![conntrack::scrub(&scrub.maps, &all).map(drop); wanted.len()]
            })?,
            collect: Workers::start_batching(
                "kernel-collect",
                UNDER_WAY,
                move |wanted: Vec<()>| {
                    let outcome = conntrack::collect(&collect.maps).map(|swept| {
                        KernelOutcome::Collected { seen: swept.seen, deleted: swept.deleted }
                    });
                    vec![outcome; wanted.len()]
                },
            )?,
            load: Workers::start_batching("kernel-load", UNDER_WAY, move |wanted: Vec<()>| {
                vec![load.load(); wanted.len()]
            })?,
            pace,
        };
        Ok(Self { lanes: Rc::new(lanes) })
    }
}

impl Kernel for KernelPort {
    fn submit(&self, job: KernelJob, reply: Reply<KernelDone>) {
        let left = job.ops.into_iter();
        Run { left, outcomes: Vec::new(), reply }.go_on(&self.lanes);
    }
}

/// Whether a step is the pool's.
fn is_pooled(op: &KernelOp) -> bool {
    !matches!(
        op,
        KernelOp::FlipPolicy { .. }
            | KernelOp::ClearSlot { .. }
            | KernelOp::Settle { .. }
            | KernelOp::ScrubConntrack { .. }
            | KernelOp::CollectConntrack
            | KernelOp::LoadPrograms
    )
}

/// Whether a step works at an interface or a route.
fn is_at_interface(op: &KernelOp) -> bool {
    matches!(
        op,
        KernelOp::Attach { .. }
            | KernelOp::Detach { .. }
            | KernelOp::LinkUp { .. }
            | KernelOp::LinkDown { .. }
            | KernelOp::PutRoute { .. }
            | KernelOp::DeleteRoute { .. }
    )
}

/// Does steps in order, up to one that fails.
fn stretch(stepper: &mut Stepper, ops: Vec<KernelOp>) -> Stretch {
    let mut outcomes = Vec::with_capacity(ops.len());
    for op in ops {
        match stepper.step(op) {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => return Stretch { outcomes, failed: Some(error) },
        }
    }
    Stretch { outcomes, failed: None }
}

impl Run {
    /// Hands the next stretch to its lane, or answers.
    fn go_on(mut self, lanes: &Rc<Lanes>) {
        let stretch = self.left.as_slice().iter().take_while(|op| is_pooled(op)).count();
        let pooled: Vec<_> = self.left.by_ref().take(stretch).collect();
        if !pooled.is_empty() {
            let next = Rc::clone(lanes);
            let at_interfaces = pooled.iter().any(is_at_interface);
            if at_interfaces {
                lanes.pace.begin();
            }
            let reply = Reply::to(move |stretch| {
                if at_interfaces {
                    next.pace.end();
                }
                self.stretched(stretch, &next);
            });
            return lanes.pool.submit(pooled, reply);
        }
        match self.left.next() {
            None => self.end(None),
            Some(KernelOp::FlipPolicy { slot }) => {
                lanes.flip.submit(slot, self.after_write(lanes));
            }
            Some(KernelOp::ClearSlot { slot }) => {
                let slots: Vec<_> = iter::once(slot).chain(self.clears()).collect();
                let steps = slots.len();
                lanes.clear.submit(slots, self.after_writes(steps, lanes));
            }
            Some(KernelOp::Settle { endpoint, ifindex }) => {
                lanes.settle.submit(Place { endpoint, ifindex }, self.after_write(lanes));
            }
            Some(KernelOp::ScrubConntrack { addresses }) => {
                lanes.scrub.submit(addresses, self.after_write(lanes));
            }
            Some(KernelOp::CollectConntrack) => lanes.collect.submit((), self.after(lanes)),
            Some(_) => lanes.load.submit((), self.after_write(lanes)),
        }
    }
}

impl Run {
    fn stretched(mut self, stretch: Result<Stretch, AskError>, lanes: &Rc<Lanes>) {
        // Where the worker panicked there is no answer, and dropping the reply says so.
        let Ok(Stretch { outcomes, failed }) = stretch else { return };
        self.outcomes.extend(outcomes);
        match failed {
            None => self.go_on(lanes),
            Some(error) => self.end(Some(error)),
        }
    }

    /// Goes on when a step is done.
    fn after(self, lanes: &Rc<Lanes>) -> Reply<Result<KernelOutcome, KernelError>> {
        let next = Rc::clone(lanes);
        Reply::to(move |done| self.stepped(done, &next))
    }

    /// Goes on when a step is done that reads nothing.
    fn after_write(self, lanes: &Rc<Lanes>) -> Reply<Result<(), KernelError>> {
        self.after_writes(1, lanes)
    }

    /// Goes on when this many steps are done, of which none reads anything.
    fn after_writes(mut self, steps: usize, lanes: &Rc<Lanes>) -> Reply<Result<(), KernelError>> {
        let next = Rc::clone(lanes);
        Reply::to(move |done: Result<Result<(), _>, _>| {
            if let Ok(Ok(())) = done {
                self.outcomes.extend(iter::repeat_n(KernelOutcome::Done, steps - 1));
            }
            self.stepped(done.map(|done| done.map(|()| KernelOutcome::Done)), &next);
        })
    }

    /// Takes the slots of further steps that empty one: together they cost no more than one.
    fn clears(&mut self) -> impl Iterator<Item = u32> {
        iter::from_fn(|| match self.left.as_slice().first() {
            Some(KernelOp::ClearSlot { slot }) => {
                let slot = *slot;
                self.left.next();
                Some(slot)
            }
            _ => None,
        })
    }

    fn stepped(
        mut self,
        done: Result<Result<KernelOutcome, KernelError>, AskError>,
        lanes: &Rc<Lanes>,
    ) {
        match done {
            Ok(Ok(outcome)) => {
                self.outcomes.push(outcome);
                self.go_on(lanes);
            }
            Ok(Err(error)) => self.end(Some(error)),
            Err(_) => {}
        }
    }

    fn end(self, failed: Option<KernelError>) {
        let at = self.outcomes.len();
        let failed = failed.map(|error| (at, error));
        self.reply.send(KernelDone { outcomes: self.outcomes, failed });
    }
}
