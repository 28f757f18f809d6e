//! What contradicts itself in the faults of a history.

use std::collections::BTreeSet;

use super::{Agent, Walk};
use crate::chaos::{
    faults::{Disk, Fault, Resource, Server, Trouble},
    history::Name,
};

/// What is known of faults at a step.
#[derive(Default)]
pub(super) struct Known {
    pub(super) servers: BTreeSet<Server>,
    /// Those to which nobody can say anything.
    away: BTreeSet<Server>,
    /// Pods whose interface somebody took away.
    pub(super) unplugged: BTreeSet<Name>,
    /// A snapshot of etcd is there.
    is_saved: bool,
    disk: Option<Kind>,
    /// What holds the agent that runs.
    pub(super) held: BTreeSet<Hold>,
    /// Agents that begin may die for want of memory.
    pub(super) starves: bool,
}

/// Which disk it is to which something happens.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// It fills, and may be read-only.
    Fills,
    /// It fails whole: it does so now, or not.
    Fails(bool),
}

/// What holds an agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hold {
    /// It gets no processor.
    Still,
    /// Its calls are slowed down.
    Slow,
}

impl Known {
    /// The beginning of a history with these servers.
    pub(super) fn of(servers: &BTreeSet<Server>) -> Self {
        Self { servers: servers.clone(), ..Self::default() }
    }
}

impl Walk {
    pub(super) fn fault(&mut self, fault: &Fault) {
        match fault {
            Fault::Server(server, trouble) => self.server(*server, *trouble),
            Fault::Disk(disk) => self.disk(*disk),
            Fault::Taken(_) if self.agent == Agent::Dead => self.wants_agent(),
            Fault::Taken(Resource::Processor) => drop(self.known.held.insert(Hold::Still)),
            Fault::Back(Resource::Processor) => drop(self.known.held.remove(&Hold::Still)),
            Fault::Memory(Some(_)) if self.agent != Agent::Dead => {
                self.wrong("an agent that runs has its memory already: kill it first");
            }
            Fault::Memory(limit) => self.known.starves = limit.is_some(),
            Fault::RulesRemoved => self.wants_agent(),
            Fault::InterfaceRemoved(pod) => {
                self.pod(pod);
                self.known.unplugged.insert(pod.clone());
            }
            Fault::RouteRemoved(pod)
            | Fault::LinksRemoved(pod)
            | Fault::ProgramAdded(pod)
            | Fault::RowRemoved { pod, .. } => self.pod(pod),
            Fault::RecordTorn(_) | Fault::RowAdded if self.agent != Agent::Dead => {
                self.wrong(
                    "an agent that runs puts it right at once, or never looks: kill it first",
                );
            }
            Fault::RecordTorn(pod) => self.pod(pod),
            Fault::RecordingTruncated => self.wants_agent(),
            _ => {}
        }
    }

    fn server(&mut self, server: Server, trouble: Trouble) {
        let known = &mut self.known;
        if !known.servers.contains(&server) {
            let word = server.word();
            return self.wrong(format!("there is no {word}: write servers: [{word}]"));
        }
        match trouble {
            Trouble::Saved => known.is_saved = true,
            Trouble::Restored if !known.is_saved => {
                return self.wrong("nothing was saved: write etcd: saved before this");
            }
            _ => {}
        }
        if matches!(trouble, Trouble::Killed | Trouble::Stopped) {
            self.known.away.insert(server);
        } else if !trouble.is_moment() {
            self.known.away.remove(&server);
        }
    }

    /// Objects of an API server change only while it can be told.
    pub(super) fn wants_server(&mut self) {
        if self.known.away.contains(&Server::Api) {
            self.wrong("the API server is away: write fault: {api-server: well} before this");
        }
    }

    fn disk(&mut self, disk: Disk) {
        let before = self.known.disk;
        let kind = match disk {
            Disk::Full | Disk::ReadOnly => Some(Kind::Fills),
            Disk::Failing => Some(Kind::Fails(true)),
            Disk::PowerCut => Some(Kind::Fails(false)),
            Disk::Slow | Disk::Well => None,
        };
        let fills = |kind| kind == Kind::Fills;
        if before.zip(kind).is_some_and(|(before, now)| fills(before) != fills(now)) {
            return self.wrong(
                "a disk that fails whole is another one than one that fills: take another history",
            );
        }
        self.known.disk = kind.or(before);
        match disk {
            Disk::ReadOnly if self.agent != Agent::Dead => {
                self.wrong("an agent that runs has files open for writing: kill it first");
            }
            Disk::PowerCut => {
                self.wants_agent();
                self.agent = Agent::Dead;
            }
            Disk::Well => {
                self.known.held.remove(&Hold::Slow);
                if before == Some(Kind::Fails(true)) {
                    if self.agent != Agent::Dead {
                        self.wrong(
                            "an agent that runs has files of the disk that failed: kill it first",
                        );
                    }
                    self.known.disk = Some(Kind::Fails(false));
                }
            }
            Disk::Slow => {
                self.wants_agent();
                self.known.held.insert(Hold::Slow);
            }
            _ => {}
        }
    }

    /// Only one can hold an agent by its calls.
    pub(super) fn wants_free_agent(&mut self) {
        if self.known.held.contains(&Hold::Slow) {
            self.wrong(
                "the calls of the agent that runs are slowed down: write fault: {disk: well} before this",
            );
        }
    }
}
