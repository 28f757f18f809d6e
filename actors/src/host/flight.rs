//! The flight recorder: what a host did, in a ring that outlives the process.
//!
//! Objective: the last moments before a `kill -9` can be read by the next run, and the running
//! ones by anybody, at a cost of well under 150 ns a record. Non-objective: a log for ever; the ring
//! is bounded and the oldest goes.
//!
//! The ring is plain memory, which production maps from a file. It begins with a front (who wrote
//! it, and the names that are known at compile time, written once), followed by places for waits
//! that have just begun; then come equal segments, used in turn. A segment's head says which turn it
//! is; every record in it ends with its commit word: a check over turn, place and content, written
//! last and in one store together with the length. So a record that was not finished, is being
//! overwritten, or is left from an earlier turn does not pass for one. What is still needed of the
//! segment that goes next (living actors, their state, waits that last, roots still in use) is
//! carried over first.

mod decode;
mod encode;
mod event;
mod fields;
mod front;
mod layout;
mod live;
mod message;
mod names;
mod pending;
mod reader;
mod segment;
#[cfg(test)]
mod tests;
mod unfinished;
mod wait;
mod words;
mod writer;

pub use event::{Event, Flight, Life, RecordedWait, What};
pub use front::{Birth, FlightError, end};
pub use reader::{birth, is_unwritten, older, read, read_part, records};
pub use unfinished::Unfinished;
pub use words::{Memory, Words, to_bytes};
pub use writer::Writer;
