//! What the pods of the test run: servers that say who they are, and probes that say how it went.
//!
//! `volvox probe serve` runs in each pod. `volvox probe ask` and `volvox probe watch` are started there
//! through the API server, and print a line of JSON for each probe, or for each second.

mod answer;
mod ask;
mod ping;
mod serve;
mod target;
#[cfg(test)]
mod tests;
mod watch;

pub use self::{
    answer::{Answer, Fault},
    ask::ask,
    serve::{Ports, serve},
    target::{Protocol, Size, Target, TargetError},
    watch::{Tally, Watched, input_ended, watch},
};
pub(crate) use self::{
    ask::ENOUGH,
    watch::{PATIENCE, SLOW},
};
