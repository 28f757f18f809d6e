//! What differs, and which guarantee that breaks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Guarantees of which a look at a node can say whether they hold. They are ranked: the first that is broken is
/// the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Programs run at every hook.
    Attached = 1,
    /// What is enforced is what the policy says.
    Enforced = 2,
    /// Numbers are the same for the kernel, the disk and the agent.
    Numbers = 3,
    /// State can be read back.
    Recorded = 5,
    /// Whoever is there is served.
    Ready = 7,
    /// What happens is recorded.
    Explained = 8,
    /// Nothing is left behind, and nobody else is in the way.
    Clean = 10,
}

impl Guarantee {
    /// All of them, the first first.
    pub const ALL: [Self; 7] = [
        Self::Attached,
        Self::Enforced,
        Self::Numbers,
        Self::Recorded,
        Self::Ready,
        Self::Explained,
        Self::Clean,
    ];

    /// Its number in the list of guarantees.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// What it says.
    pub fn about(self) -> &'static str {
        match self {
            Self::Attached => "programs run at every hook",
            Self::Enforced => "policy and services in the kernel are those wanted",
            Self::Numbers => "numbers are one in kernel, disk and agent",
            Self::Recorded => "state can be read back",
            Self::Ready => "every endpoint is served",
            Self::Explained => "what happens is recorded",
            Self::Clean => "nothing is left behind",
        }
    }
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeDifference {
    /// The guarantee that it breaks.
    pub guarantee: Guarantee,
    /// What it is about: an endpoint, an address, a service.
    pub about: String,
    /// What was found.
    pub found: String,
    /// What an operator can do.
    pub remedy: String,
}

impl fmt::Display for NodeDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.about, self.found, self.remedy)
    }
}
