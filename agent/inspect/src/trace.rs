//! What a flight recorder tells: as lines for people, as causes and waits, and in the formats that
//! Perfetto and OpenTelemetry read. Works on what was read; knows no agent.

mod lines;
mod otlp;
mod perfetto;
mod select;
mod story;
#[cfg(test)]
mod tests;

pub use lines::{Line, lines};
pub use otlp::otlp;
pub use perfetto::perfetto;
pub use select::Selection;
pub use story::{Regenerated, Story};
