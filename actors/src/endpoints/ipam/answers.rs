//! Answers that concern addresses of pods: what comes of own questions, timers and ports.

use std::net::IpAddr;

use crate::host::Message;

/// What IPAM hears of its own questions, timers and ports.
pub enum IpamAnswer {
    /// A lease may have run out.
    Expire(IpAddr),
}

impl Message for IpamAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Expire(_) => "Expire",
        }
    }
}
