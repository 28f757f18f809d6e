//! What happens to what surrounds the node, and what others take away from it.

use std::fmt;

use crate::random::Random;

/// What happens to an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiServerEvent {
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
pub enum StoreEvent {
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

/// What the container runtime says of pods. What it says of pods that went is true, and comes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeNews {
    /// Agents follow it from now on.
    Followed,
    /// The container of a pod that lives has ended.
    Exited(u8),
    /// The container of a pod that lives does not exist.
    Removed(u8),
    /// A pod's container runs, if the pod lives.
    Runs(u8),
    /// It has no containers any more, and does not say so.
    Forgets,
    /// It is gone.
    Down,
    /// It takes what it is asked and says nothing.
    Hung,
    /// It is there, and answers.
    Up,
}

/// What happens to an interface to other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// It comes, with that set of addresses; one that is there vanishes first.
    Comes(u8),
    /// It vanishes.
    Goes,
    /// It comes up.
    Up,
    /// It goes down.
    Down,
    /// It has that set of addresses.
    Has(u8),
    /// Somebody removes the device of tunnels.
    OverlayGoes,
}

/// What somebody else takes away at a pod's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The routes to the pod.
    Routes,
    /// The first place at a hook, by a program of somebody else.
    FirstPlace,
    /// The interface, and with it the pod.
    Interface,
}

impl fmt::Display for ApiServerEvent {
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

impl fmt::Display for StoreEvent {
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

impl fmt::Display for RuntimeNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Followed => f.write_str("is followed"),
            Self::Exited(pod) => write!(f, "says that the container of pod {pod} ended"),
            Self::Removed(pod) => write!(f, "says that the container of pod {pod} is no more"),
            Self::Runs(pod) => write!(f, "says that the container of pod {pod} runs"),
            Self::Forgets => f.write_str("has forgotten all"),
            Self::Down => f.write_str("goes"),
            Self::Hung => f.write_str("hangs"),
            Self::Up => f.write_str("answers"),
        }
    }
}

impl fmt::Display for DeviceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comes(set) => write!(f, "comes with the addresses {set}"),
            Self::Goes => f.write_str("vanishes"),
            Self::Up => f.write_str("comes up"),
            Self::Down => f.write_str("goes down"),
            Self::Has(set) => write!(f, "has the addresses {set}"),
            Self::OverlayGoes => f.write_str("is left alone, but that of tunnels vanishes"),
        }
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Routes => "its routes",
            Self::FirstPlace => "the first place at a hook",
            Self::Interface => "its interface",
        })
    }
}

/// Which actor crashes. Who alone is meant is named: more actors come, and their order changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The one of that name, if it lives.
    Named(&'static str),
    /// One of all, as the number has it.
    Any(u64),
    /// One that is no endpoint's, as the number has it.
    Supervisor(u64),
}

impl Victim {
    /// A supervisor as often as anybody.
    pub fn drawn(random: &mut Random) -> Self {
        let number = random.number();
        if random.roll(2) == 0 { Self::Any(number) } else { Self::Supervisor(number) }
    }
}
