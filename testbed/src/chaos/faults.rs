//! What goes wrong around an agent: which faults there are, how they are read, and their words.

use std::{fmt, time::Duration};

use super::{history::Name, shape, tree::Tree};
use crate::judge::significant_time;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    Disk(Disk),
    StateLost,
    LogFull,
    LogWell,
    Server(Server, Trouble),
    /// Of the agent that runs: taken, or back.
    Taken(Resource),
    Back(Resource),
    /// Bytes that agents may have from their next start on; as many as they like if there is no number.
    Memory(Option<u64>),
    /// What the clock on the wall says to agents, from their next start on.
    Clock(Clock),
    RouteRemoved(Name),
    RulesRemoved,
    InterfaceRemoved(Name),
    LinksRemoved(Name),
    RowRemoved {
        map: Map,
        pod: Name,
    },
    /// A program of somebody else runs in front of ours.
    ProgramAdded(Name),
    RecordTorn(Name),
    /// Of nobody, in `cilium_lxc`.
    RowAdded,
    RecordingTruncated,
}

/// What becomes of the disk of the state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Full,
    ReadOnly,
    /// Whatever is asked of it is an error.
    Failing,
    /// Of the agent that runs: what is written is waited for.
    Slow,
    PowerCut,
    Well,
}

/// A server that the agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    Etcd,
    Api,
    Containerd,
}

/// What becomes of a server, or of the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Killed,
    Stopped,
    Slow,
    CutOff,
    HalfOpen,
    Busy,
    Failing,
    Rubbish,
    LeasesEnd,
    Saved,
    Restored,
    Well,
}

/// What an agent needs of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Resource {
    Processor,
    Descriptors,
    Threads,
}

/// What a clock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    Ahead(Duration),
    Back(Duration),
    Well,
}

/// A map of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Map {
    Lxc,
    Ipcache,
}

impl Server {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Etcd, Self::Api, Self::Containerd];

    /// As files write it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Api => "api-server",
            Self::Containerd => "containerd",
        }
    }

    /// The one of that word.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|server| server.word() == word)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Etcd => "etcd",
            Self::Api => "the API server",
            Self::Containerd => "containerd",
        })
    }
}

impl Trouble {
    fn of(word: &str) -> Self {
        match word {
            "killed" => Self::Killed,
            "stopped" => Self::Stopped,
            "slow" => Self::Slow,
            "cut-off" => Self::CutOff,
            "half-open" => Self::HalfOpen,
            "busy" => Self::Busy,
            "failing" => Self::Failing,
            "rubbish" => Self::Rubbish,
            "leases-end" => Self::LeasesEnd,
            "saved" => Self::Saved,
            "restored" => Self::Restored,
            _ => Self::Well,
        }
    }

    /// Whether it is over at once.
    pub(super) fn is_moment(self) -> bool {
        matches!(self, Self::HalfOpen | Self::LeasesEnd | Self::Saved | Self::Restored)
    }

    fn words(self, server: Server) -> String {
        match self {
            Self::Killed => format!("{server} is killed"),
            Self::Stopped => format!("{server} hangs"),
            Self::Slow => format!("{server} is slow: each part of a connection takes 250 ms"),
            Self::CutOff => format!("the agent is cut off from {server}: nothing gets through"),
            Self::HalfOpen => {
                format!("who is connected to {server} never hears from it again, and is not told")
            }
            Self::Busy => format!("{server} answers everything with status 429"),
            Self::Failing => format!("{server} answers everything with status 503"),
            Self::Rubbish => format!("{server} answers everything with rubbish"),
            Self::LeasesEnd => format!("every lease of {server} ends"),
            Self::Saved => format!("a snapshot of {server} is saved"),
            Self::Restored => format!("{server} is killed, and restored from its snapshot"),
            Self::Well => format!("{server} works again"),
        }
    }
}

impl Resource {
    /// Whose lack an agent that begins does not know.
    pub(super) const ALL: [Self; 3] = [Self::Processor, Self::Descriptors, Self::Threads];

    /// As files write it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Processor => "cpu",
            Self::Descriptors => "descriptors",
            Self::Threads => "threads",
        }
    }
}

fn name(tree: &Tree, word: &str) -> Name {
    Name::parse(&tree.get(word).and_then(Tree::text).unwrap_or_default())
}

impl Fault {
    /// Reads it from its word and the value behind that, whose shape is right.
    pub(super) fn read(word: &str, value: &Tree) -> Self {
        let how = value.text().unwrap_or_default();
        let pod = || Name::parse(&how);
        if let Some(server) = Server::of(word) {
            return Self::Server(server, Trouble::of(&how));
        }
        if let Some(resource) = Resource::ALL.into_iter().find(|it| it.word() == word) {
            return if how == "taken" { Self::Taken(resource) } else { Self::Back(resource) };
        }
        match (word, how.as_str()) {
            ("disk", "full") => Self::Disk(Disk::Full),
            ("disk", "read-only") => Self::Disk(Disk::ReadOnly),
            ("disk", "failing") => Self::Disk(Disk::Failing),
            ("disk", "slow") => Self::Disk(Disk::Slow),
            ("disk", "power-cut") => Self::Disk(Disk::PowerCut),
            ("disk", _) => Self::Disk(Disk::Well),
            ("state-directory", _) => Self::StateLost,
            ("log", "full") => Self::LogFull,
            ("log", _) => Self::LogWell,
            ("memory", _) => Self::Memory(shape::memory(value).unwrap_or_default()),
            ("clock", _) => Self::Clock(clock(value)),
            ("route-removed", _) => Self::RouteRemoved(pod()),
            ("rules", _) => Self::RulesRemoved,
            ("interface-removed", _) => Self::InterfaceRemoved(pod()),
            ("links-removed", _) => Self::LinksRemoved(pod()),
            ("program-added", _) => Self::ProgramAdded(pod()),
            ("record-torn", _) => Self::RecordTorn(pod()),
            ("row-added", _) => Self::RowAdded,
            ("recording", _) => Self::RecordingTruncated,
            _ => {
                let is_lxc = value.get("map").and_then(Tree::text).as_deref() == Some("lxc");
                let map = if is_lxc { Map::Lxc } else { Map::Ipcache };
                Self::RowRemoved { map, pod: name(value, "pod") }
            }
        }
    }

    /// In plain words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Disk(disk) => disk.words().to_owned(),
            Self::StateLost => "the state directory is lost".into(),
            Self::LogFull => "agents cannot write their log, from the next start on".into(),
            Self::LogWell => "agents can write their log again, from the next start on".into(),
            Self::Server(server, trouble) => trouble.words(*server),
            Self::Taken(Resource::Processor) => "the agent gets no processor".into(),
            Self::Back(Resource::Processor) => "the agent gets a processor again".into(),
            Self::Taken(Resource::Descriptors) => "the agent can open no further file".into(),
            Self::Back(Resource::Descriptors) => "the agent can open files again".into(),
            Self::Taken(Resource::Threads) => "the agent can start no further thread".into(),
            Self::Back(Resource::Threads) => "the agent can start threads again".into(),
            Self::Memory(Some(bytes)) => format!(
                "agents have {} kB of memory from the next start on: who takes more is killed by the kernel",
                bytes >> 10
            ),
            Self::Memory(None) => "agents have memory again, from the next start on".into(),
            Self::Clock(clock) => clock.words(),
            Self::RouteRemoved(pod) => format!("somebody removes the routes to pod {pod}"),
            Self::RulesRemoved => "somebody removes the agent's routing rules".into(),
            Self::InterfaceRemoved(pod) => format!("somebody removes the interface of pod {pod}"),
            Self::LinksRemoved(pod) => {
                format!("somebody removes the pinned links of the programs of pod {pod}")
            }
            Self::RowRemoved { map, pod } => {
                let map = if *map == Map::Lxc { "cilium_lxc" } else { "cilium_ipcache_v2" };
                format!("somebody removes the rows of pod {pod} from the map {map}")
            }
            Self::RecordTorn(pod) => format!("what the disk has of pod {pod} is torn"),
            Self::RowAdded => "somebody adds a row of nobody to the map cilium_lxc".into(),
            Self::RecordingTruncated => {
                "somebody cuts the flight recorder's file to nothing".into()
            }
            Self::ProgramAdded(pod) => {
                format!("somebody's program runs in front of ours at the interface of pod {pod}")
            }
        }
    }
}

impl Disk {
    fn words(self) -> &'static str {
        match self {
            Self::Full => "the disk of the state directory is full",
            Self::ReadOnly => "the disk of the state directory becomes read-only",
            Self::Failing => {
                "the disk of the state directory fails: whatever is asked of it is an error"
            }
            Self::Slow => {
                "the disk of the state directory is slow: what the agent writes takes 200 ms to be safe"
            }
            Self::PowerCut => {
                "the power of the state directory's disk fails: the agent dies, and what was not synced is lost"
            }
            Self::Well => "the disk of the state directory works again",
        }
    }
}

fn clock(value: &Tree) -> Clock {
    let time = |word| value.get(word).and_then(|it| shape::time(it).ok());
    match (time("ahead"), time("back")) {
        (Some(time), _) => Clock::Ahead(time),
        (None, Some(time)) => Clock::Back(time),
        (None, None) => Clock::Well,
    }
}

impl Clock {
    fn words(self) -> String {
        let from = "agents' clock on the wall is";
        match self {
            Self::Ahead(time) => format!("{from} {} ahead, at once", significant_time(time)),
            Self::Back(time) => format!("{from} {} back, at once", significant_time(time)),
            Self::Well => format!("{from} right again"),
        }
    }
}
