//! What happens to what is around the node.

use std::fmt;

/// What happens to an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// It is gone.
    Down,
    /// It takes what it is asked and says nothing; who watches now will never hear of it again.
    Hung,
    /// It is there, and answers.
    Up,
    /// It forgets what happened until now.
    Compacted,
    /// It says everything once more.
    Repeats,
    /// It is back from a backup, and begins to count its versions again.
    Restored,
}

/// What happens to a store, as this node finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// It refuses connections.
    Down,
    /// It takes what it is asked and says nothing, and does it once it is there again.
    Silent,
    /// It is there, and answers.
    Up,
    /// It forgets what happened until now.
    Compacted,
    /// Every lease ends.
    Expired,
    /// Connections are dead: what was asked is not done, and watches say nothing any more.
    HungUp,
    /// What was asked is done, and the answers are lost.
    Lost,
    /// It was restored from a snapshot, begins to count its revisions again and has no leases.
    Restored,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "goes",
            Self::Hung => "hangs",
            Self::Up => "answers",
            Self::Compacted => "forgets its history",
            Self::Repeats => "repeats itself",
            Self::Restored => "is back from a backup",
        })
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "goes",
            Self::Silent => "hangs",
            Self::Up => "answers",
            Self::Compacted => "forgets its history",
            Self::Expired => "ends every lease",
            Self::HungUp => "does not hear who is connected",
            Self::Lost => "does what it was asked, and the answers are lost",
            Self::Restored => "is restored from a snapshot",
        })
    }
}
