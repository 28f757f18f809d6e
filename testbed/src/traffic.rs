//! Streams between two network namespaces, measured from inside them.
//!
//! A stream sends at a bounded rate until it is stopped, then waits for what is still on its way,
//! and says how much was sent, how much of it was lost, and how long the longest silence was.
//! Loss is counted per direction, by sequence numbers where the protocol has no retransmission and
//! by the kernel's counters of the two namespaces where it has.

mod bulk;
mod connect;
mod counters;
mod exchange;
mod gap;
mod pace;
mod ping;
mod report;
mod requests;
mod responder;
mod sockets;
mod stream;
mod sweep;
mod tally;
mod tcp;
mod udp;

pub use bulk::{bulk, ends_of_the_machine};
pub use counters::Resent;
pub use report::Report;
pub use requests::{Requests, Tally, request};
pub use responder::Responder;
pub use stream::{Kind, Plan, Stream, stop_all, stop_clean};
pub use sweep::{Answered, Sweep};
