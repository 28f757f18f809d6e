//! Services: what is balanced to which backends, in the kernel's maps and for sockets.

pub mod health_checks;
pub mod service_cache;
pub mod sockets;
