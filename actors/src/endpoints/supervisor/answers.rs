//! Answers that concern the endpoints' supervisor: what comes of own questions, timers and ports.

use std::collections::BTreeSet;

use super::{Abandoned, messages::DeleteError};
use crate::{
    endpoints::{ipam::IpamError, workloads::PodFacts},
    host::{AskError, Message, Reply, Time},
    model::EndpointId,
    policy::rules::InheritResult,
    ports::KernelDone,
};

/// What the endpoints' supervisor hears of its own questions, timers and ports.
pub enum EndpointsAnswer {
    /// What is at interfaces that were looked at.
    Probed {
        /// When it was asked.
        asked: Time,
        /// Who wants to know.
        replies: Vec<Reply<bool>>,
        /// Whether all were looked at.
        all: bool,
        /// What the kernel says.
        answer: Result<KernelDone, AskError>,
    },
    /// Time to look who has not done for long what is waited for.
    Overdue,
    /// An endpoint's policy of an earlier run knows the identities that are about to be mapped.
    Inherited(EndpointId, Result<InheritResult, AskError>),
    /// From the kernel: the interface of a creation under way.
    Inspected(u64, Result<KernelDone, AskError>),
    /// From the workloads: what the cluster says of the pod of a creation under way.
    Described(u64, Result<PodFacts, AskError>),
    /// From IPAM: whether the addresses of a creation under way may be had.
    Claimed(u64, Result<Result<(), IpamError>, AskError>),
    /// Rows of these numbers, which nobody has, are gone.
    StrangersGone(Vec<EndpointId>),
    /// Time to compare the kernel with what was written, and to look for vanished interfaces.
    Sweep,
    /// How the deletion of an endpoint went, for who asked.
    Deleted {
        /// Who asked.
        reply: Reply<Result<u32, DeleteError>>,
        /// The endpoint's answer.
        answer: Result<u32, AskError>,
    },
    /// What is at the interfaces of endpoints whose containers are gone.
    Abandoned {
        /// The containers.
        containers: BTreeSet<String>,
        /// Who follows their runtime.
        reply: Reply<Abandoned>,
        /// What the kernel says.
        answer: Result<KernelDone, AskError>,
    },
    /// What the cluster says of the pod of an endpoint that learnt it of the container runtime.
    Introduced(EndpointId, Result<PodFacts, AskError>),
    /// What the sweep saw.
    Swept(Result<KernelDone, AskError>),
}

impl Message for EndpointsAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Probed { .. } => "Probed",
            Self::Overdue => "Overdue",
            Self::Inherited(..) => "Inherited",
            Self::Inspected(..) => "Inspected",
            Self::Described(..) => "Described",
            Self::Claimed(..) => "Claimed",
            Self::StrangersGone(_) => "StrangersGone",
            Self::Sweep => "Sweep",
            Self::Deleted { .. } => "Deleted",
            Self::Abandoned { .. } => "Abandoned",
            Self::Introduced(..) => "Introduced",
            Self::Swept(_) => "Swept",
        }
    }
}
