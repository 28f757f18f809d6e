//! Answers that concern addresses of pods: what comes of own questions, timers and ports.

use std::net::IpAddr;

use super::AddressFamily;
use crate::{
    endpoints::workloads::PodPoolNames,
    host::{AskError, Message},
};

/// What IPAM hears of its own questions, timers and ports.
pub enum IpamAnswer {
    /// A lease may have run out.
    Expire(IpAddr),
    /// Of which pools a pod's addresses are, whose request has that number.
    Chosen(u64, Result<Result<PodPoolNames, String>, AskError>),
    /// Who waits for an address of a pool has waited long enough.
    GiveUp(u64),
    /// Who waited for one does not come back.
    Forget(PendingPod, u64),
}

/// Who waits for an address: of which pool and family, and for whom.
pub(super) type PendingPod = (String, AddressFamily, String);

impl Message for IpamAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Expire(_) => "Expire",
            Self::Chosen(..) => "Chosen",
            Self::GiveUp(_) => "GiveUp",
            Self::Forget(..) => "Forget",
        }
    }
}
