//! The node's own devices: which of its interfaces lead to the world, that programs run there, and
//! in whose name pods go out.
//!
//! ```text
//!   node ─(interfaces)─► devices ─► kernel: row of the device, then its programs
//! ```

mod actor;
mod answers;
mod choice;
mod messages;
mod steps;
#[cfg(test)]
mod tests;

pub use actor::Devices;
pub use choice::{DevicePattern, DevicePatternError, DevicesSettings};
pub use messages::{DeviceStatus, DevicesMsg, DevicesStatus};
