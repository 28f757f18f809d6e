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
    /// Whether the disk is one that fails whole, if anything happens to it.
    fails_whole: Option<bool>,
    /// Whatever is asked of the disk is an error.
    disk_fails: bool,
    /// The agent that runs gets no processor.
    pub(super) stands_still: bool,
    /// Agents that begin may die for want of memory.
    pub(super) starves: bool,
    /// Somebody holds the agent that runs by its calls.
    pub(super) is_held: bool,
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
            Fault::Taken(Resource::Processor) => self.known.stands_still = true,
            Fault::Back(Resource::Processor) => self.known.stands_still = false,
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
        if self.known.away.contains(&Server::ApiServer) {
            self.wrong("the API server is away: write fault: {api-server: well} before this");
        }
    }

    fn disk(&mut self, disk: Disk) {
        let fails_whole = match disk {
            Disk::Full | Disk::ReadOnly => Some(false),
            Disk::Failing | Disk::PowerCut => Some(true),
            Disk::Slow | Disk::Well => None,
        };
        let before = self.known.fails_whole;
        if before.zip(fails_whole).is_some_and(|(before, now)| before != now) {
            return self.wrong(
                "a disk that fails whole is another one than one that fills: take another history",
            );
        }
        self.known.fails_whole = fails_whole.or(before);
        match disk {
            Disk::ReadOnly if self.agent != Agent::Dead => {
                self.wrong("an agent that runs has files open for writing: kill it first");
            }
            Disk::PowerCut => {
                self.wants_agent();
                self.agent = Agent::Dead;
                self.known.disk_fails = false;
            }
            Disk::Failing => self.known.disk_fails = true,
            Disk::Well if self.known.disk_fails => {
                if self.agent != Agent::Dead {
                    self.wrong(
                        "an agent that runs has files of the disk that failed: kill it first",
                    );
                }
                self.known.disk_fails = false;
            }
            Disk::Slow => {
                self.wants_agent();
                self.known.is_held = true;
            }
            Disk::Well => self.known.is_held = false,
            _ => {}
        }
    }

    /// Only one can hold an agent by its calls.
    pub(super) fn wants_free_agent(&mut self) {
        if self.known.is_held {
            self.wrong(
                "the calls of the agent that runs are slowed down: write fault: {disk: well} before this",
            );
        }
    }
}
