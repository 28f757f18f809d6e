use std::sync::Arc;

use ipnet::IpNet;

use super::{Brought, EndpointView, Heirs, Inherited, reference::Held};
use crate::{
    build_queue::Permit,
    endpoints::{CreateError, Level, Patch, PatchError},
    host::{Absorbed, AskError, Lane, Message, Reply},
    ipcache::IpcacheEntry,
    mutants::{Mutant, mutated},
    policy::EndpointPolicy,
    ports::{DiskError, KernelDone, KernelError, KernelOp, KernelSnapshot, OwnedRows, Probe, Time},
    workloads::PodFacts,
};

/// Who is told when an endpoint is built, or why it is not.
pub type Waiting = Reply<Result<Arc<EndpointView>, PatchError>>;

/// What an endpoint can be told.
pub enum EndpointMsg {
    /// From its supervisor, first of all to a new one.
    Begin {
        /// Told when the datapath does what is wanted; `None` if nobody waits for that.
        reply: Option<Reply<Result<Arc<EndpointView>, CreateError>>>,
    },
    /// From its supervisor, first of all to a restored one.
    RegenerateAfterRestore,
    /// Build again.
    Regenerate {
        /// How much.
        level: Level,
        /// Why.
        reason: Arc<str>,
        /// What it is told besides, if the policy changed.
        brought: Option<Brought>,
        /// Who is told.
        waiting: Vec<Waiting>,
        /// Whether the kernel is looked at first, and what drifted put right.
        looks: bool,
    },
    /// Change.
    Patch {
        /// The change.
        patch: Box<Patch>,
        /// Told once the change is in force.
        reply: Option<Waiting>,
    },
    /// What its orchestrator says of its pod changed.
    Pod(PodFacts),
    /// Go; told how many things could not be cleaned up.
    Delete {
        /// Where the answer goes.
        reply: Reply<u32>,
    },
    /// What the kernel shows, to be compared with what is known.
    Audit {
        /// What it shows.
        snapshot: Arc<KernelSnapshot>,
        /// The same, by whose it is.
        rows: Arc<OwnedRows>,
        /// When it was asked: what was done since then may not show.
        asked: Time,
        /// Whether its policy map, or the map's pin, is not what was written.
        policy_differs: bool,
    },

    /// From its supervisor: what was seen at its interface. Answered once that is taken in.
    Probed {
        /// What it was.
        probe: Box<Probe>,
        /// When it was asked: what was done since then may not show.
        asked: Time,
        /// Where the answer goes.
        reply: Reply<()>,
    },

    /// Have the policy of an earlier life know identities that are about to be mapped.
    Inherit {
        /// The slot that holds that policy.
        slot: u32,
        /// The identities.
        heirs: Arc<Heirs>,
        /// Where the answer goes.
        reply: Reply<Inherited>,
    },
    /// That policy was read.
    Bequest {
        /// Its slot.
        slot: u32,
        /// Who is to be known.
        heirs: Arc<Heirs>,
        /// Where the answer goes.
        reply: Reply<Inherited>,
        /// What the kernel has.
        answer: Result<KernelDone, AskError>,
    },
    /// That policy was written.
    Inherited {
        /// The steps that were asked for.
        submitted: Vec<KernelOp>,
        /// Where the answer goes.
        reply: Reply<Inherited>,
        /// Whether it is in force.
        answer: Result<KernelDone, AskError>,
    },
    /// The identity of its labels, or why there is none.
    Identified(Result<Held, String>),
    /// Everyone's policy knows that identity.
    Learned(Result<u64, AskError>),
    /// The state file is written.
    Saved(Result<Result<(), DiskError>, AskError>),
    /// The policy it is to have.
    Resolved(Result<Arc<EndpointPolicy>, AskError>),
    /// The same for one whose policy the kernel holds: none while nobody knows another.
    ResolvedOrKept(Result<Option<Arc<EndpointPolicy>>, AskError>),
    /// Policies are known, or nobody answers any more.
    PoliciesKnown(Result<(), AskError>),
    /// It may build.
    Permitted(Result<Permit, AskError>),
    /// What the kernel has for it.
    Read(Result<KernelDone, AskError>),
    /// The new generation is built aside.
    Built(Result<KernelDone, AskError>),
    /// The new generation serves.
    Flipped(Result<KernelDone, AskError>),
    /// Its addresses have its identity.
    Mapped(Vec<(IpNet, IpcacheEntry)>, Result<Result<(), KernelError>, AskError>),
    /// Its filters are links now.
    Settled(Result<KernelDone, AskError>),
    /// Try a failed build again.
    Retry,
    /// Have its interface looked at again.
    LookAgain,
    /// Something of it is gone from the kernel.
    TornDown(Result<KernelDone, AskError>),
    /// Its addresses are out of the ipcache.
    Unmapped(Result<Result<(), KernelError>, AskError>),
    /// Its state directory is gone.
    Forgotten(Result<Result<(), DiskError>, AskError>),
}

impl Message for EndpointMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "Begin",
            Self::RegenerateAfterRestore => "RegenerateAfterRestore",
            Self::Regenerate { .. } => "Regenerate",
            Self::Patch { .. } => "Patch",
            Self::Pod(_) => "Pod",
            Self::Delete { .. } => "Delete",
            Self::Audit { .. } => "Audit",
            Self::Probed { .. } => "Probed",
            Self::Inherit { .. } => "Inherit",
            Self::Bequest { .. } => "Bequest",
            Self::Inherited { .. } => "Inherited",
            Self::Identified(_) => "Identified",
            Self::Learned(_) => "Learned",
            Self::Saved(_) => "Saved",
            Self::Resolved(_) => "Resolved",
            Self::ResolvedOrKept(_) => "ResolvedOrKept",
            Self::PoliciesKnown(_) => "PoliciesKnown",
            Self::Permitted(_) => "Permitted",
            Self::Read(_) => "Read",
            Self::Built(_) => "Built",
            Self::Flipped(_) => "Flipped",
            Self::Mapped(..) => "Mapped",
            Self::Settled(_) => "Settled",
            Self::Retry => "Retry",
            Self::LookAgain => "LookAgain",
            Self::TornDown(_) => "TornDown",
            Self::Unmapped(_) => "Unmapped",
            Self::Forgotten(_) => "Forgotten",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::Begin { .. } | Self::Patch { .. } | Self::Pod(_) => Lane::Request,
            Self::Regenerate { .. } | Self::RegenerateAfterRestore | Self::Audit { .. } => {
                Lane::Regeneration
            }
            _ => Lane::Control,
        }
    }

    /// A trigger that finds one waiting raises its level instead of queueing again; of looks at the
    /// kernel and of its pod the latest counts.
    fn absorb(&mut self, incoming: Self) -> Absorbed<Self> {
        match (self, incoming) {
            (
                Self::Regenerate { level, brought, waiting, looks, .. },
                Self::Regenerate {
                    level: more, brought: newer, waiting: others, looks: newly, ..
                },
            ) => {
                *looks |= newly;
                if !mutated(Mutant::LevelNotRaised) {
                    *level = (*level).max(more);
                }
                if newer.is_some() {
                    *brought = newer;
                }
                waiting.extend(others);
                Absorbed::Yes
            }
            (waiting @ Self::Audit { .. }, incoming @ Self::Audit { .. })
            | (waiting @ Self::Pod(_), incoming @ Self::Pod(_)) => {
                *waiting = incoming;
                Absorbed::Yes
            }
            (_, incoming) => Absorbed::No(incoming),
        }
    }
}
