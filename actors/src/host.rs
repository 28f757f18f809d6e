//! The actor runtime.
//!
//! Objective: one owner for each piece of state, every message traced, every wait registered, a
//! crash that costs one handler call, and the same code run by production and by a simulator.
//! Non-objective: parallelism. All cells live on one thread, which is faster than two and
//! deterministic; what blocks or computes for long lives behind a [port](crate::ports).
//!
//! A [`Behaviour`] is state, `handle` for what others tell it and `answered` for what comes of its own
//! questions. A cell gives it a bounded [mailbox](Lane), a crash
//! policy and a trace; a [`Ref`] is its address. A [`Driver`] says when a cell runs: actix in
//! production ([`ActixDriver`]), step by step in a [`Universe`]. What may fail is asked again by a
//! [`Retry`].

mod about;
mod actix_driver;
mod any_cell;
mod beat;
mod behaviour;
mod cell;
mod context;
mod envelope;
pub mod flight;
mod home;
mod late;
mod mailbox;
mod message;
mod numbers;
mod outlet;
mod recorder;
mod reference;
mod reply;
mod retry;
mod survives;
mod system;
#[cfg(test)]
mod tests;
mod time;
mod timers;
mod universe;
mod waits;

pub use about::About;
pub use actix_driver::ActixDriver;
pub use any_cell::CellInfo;
pub use beat::{Beat, Handling};
pub use behaviour::{Behaviour, Cx};
pub use envelope::{Header, Outcome};
pub use home::Home;
pub(crate) use late::Late;
pub use message::{Absorbed, Lane, Message, NoAnswer};
pub use numbers::{CellId, EnvelopeId, RootId};
pub use outlet::{Hears, Outlet, Undelivered};
pub use recorder::{KernelStep, NoRecorder, Record, Recorder};
pub use reference::{Full, Ref};
pub(crate) use reply::is_crash;
pub use reply::{Answer, AskError, Reply, gather};
pub use retry::{Pauses, Retry};
pub use survives::{Lent, Survives};
pub use system::{Current, Driver, Host};
pub use time::{Clock, Time};
pub use timers::TimerId;
pub use universe::{Universe, VirtualClock};
pub use waits::{Wait, WaitCycle, WaitId, Waits, Whom};
