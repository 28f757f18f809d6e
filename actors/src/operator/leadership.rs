//! Who leads: the owner of the Lease.
//!
//! ```text
//!            free or expired                 renewed
//!  Waiting ───────────────────▶ Leading ───────────────▶ Leading
//!     ▲ somebody has it            │ another one has it, or not renewed for 10 s
//!     └──── look every 2 s         ▼
//!                                ended
//! ```
//!
//! Whether a Lease expired is told by own time since it changed last, never by the clocks of others.

mod actor;
mod answers;
mod messages;
mod record;

pub use actor::LeadershipSettings;
pub(super) use actor::{Leadership, LeadershipPeers};
pub(super) use messages::LeadershipMsg;
pub use messages::LeadershipView;
