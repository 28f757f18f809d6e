//! The simulator of operators: several of them, one cluster, and all that can happen between two steps of
//! any of them.
//!
//! Operators are those of production, the API server is in memory, and what it says arrives step by step.
//! In one history the agents' owners of addresses and prefixes are those of production as well.
//!
//! Operators start, die, stall and go on; nodes, pods and agents come, go and come back; agents take
//! identities up, of the API server or of a kvstore, which fails and is restored from backups. After every step the oracle asks whether something was given twice or removed while it lived. At the
//! end, when nothing goes wrong any more, all that was asked for has to be given, and all that is left over
//! has to be gone.

mod agents;
mod life;
mod oracle;
mod outcome;
mod pool_agent;
mod pool_world;
mod pooled;
mod process;
mod stored;
mod world;

pub use life::live;
pub use outcome::{OperatorsFailure, OperatorsTally};
