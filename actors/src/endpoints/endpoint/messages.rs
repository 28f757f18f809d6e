//! Messages to an endpoint: their lanes, and which of them merge while they wait.

use std::{collections::BTreeMap, sync::Arc};

use super::EndpointView;
use crate::{
    endpoints::{
        endpoint::{CreateError, Level, Patch, PatchError},
        workloads::PodFacts,
    },
    host::{Absorbed, Lane, Message, Reply, Time},
    mutants::{Mutant, mutated},
    policy::rules::{Changed, InheritResult, Subject, Successors},
    ports::{KernelSnapshot, OwnedRows, Probe},
};

/// Who is told when an endpoint is built, or why it is not.
pub type BuiltReply = Reply<Result<Arc<EndpointView>, PatchError>>;

/// Who is told when an endpoint is made, or why it is not.
pub(super) type Creator = Reply<Result<Arc<EndpointView>, CreateError>>;

/// What an endpoint can be told.
pub enum EndpointMsg {
    /// From its supervisor, first of all to a new one.
    Begin {
        /// Told when the datapath does what is desired; `None` if nobody waits for that.
        reply: Option<Creator>,
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
        waiting: Vec<BuiltReply>,
        /// Whether the kernel is looked at first, and what drifted put right.
        looks: bool,
    },
    /// Change.
    Patch {
        /// The change.
        patch: Box<Patch>,
        /// Told once the change is in force.
        reply: Option<BuiltReply>,
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

    /// Have the policy of an earlier run know identities that are about to be mapped.
    Inherit {
        /// The slot that holds that policy.
        slot: u32,
        /// The identities.
        successors: Arc<Successors>,
        /// Where the answer goes.
        reply: Reply<InheritResult>,
    },
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

/// What a supervisor says to an endpoint whose policy changed.
#[derive(Clone, Debug)]
pub struct Brought {
    /// Policies that are other ones now. One that finds none of its own asks.
    pub policies: Arc<BTreeMap<Subject, Changed>>,
    /// How the endpoint looked then. From then on it is shown as waiting to be built.
    pub seen: Arc<EndpointView>,
}
