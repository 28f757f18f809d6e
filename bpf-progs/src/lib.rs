//! The eBPF datapath: programs, and the layouts they share with the agent.
//!
//! Names, layouts and numbers of the maps called `cilium_*` and of the event records are Cilium
//! 1.19's, so that the tools people have can read them. Maps called `volvox_*` are ours. Integers
//! are in host order unless a type says otherwise; addresses and ports are in network order.

pub mod drop_reason;
pub mod features;
pub mod layouts;
pub mod maps;
pub mod measure;
pub mod object;
pub mod trace_point;

mod pod;

pub use drop_reason::DropReason;
pub use features::{Features, Parts};
pub use object::{DEVICE_OBJECT, OBJECT, OVERLAY_OBJECT, SOCKET_OBJECT, SocketHook, build_hash};
pub use trace_point::{TracePoint, TraceReason};
