//! Faults of a history, as the simulator knows them.

use volvox_sim::history::{
    action::{self, Action},
    events::{ApiServerEvent, Removal, RuntimeNews, StoreEvent},
};

use super::translate::Translator;
use crate::chaos::{
    explain,
    faults::{Disk, Fault, Server, Trouble},
    history::Step,
};

impl Translator {
    /// Has the fault happen, or refuses it.
    pub(super) fn fault(&mut self, fault: &Fault) {
        let known = match fault {
            Fault::Disk(disk) => self.disk(*disk),
            Fault::Server(server, trouble) => self.server(*server, *trouble),
            Fault::RouteRemoved(pod) => {
                self.take_from(pod, Removal::Routes);
                true
            }
            Fault::ProgramAdded(pod) => {
                self.take_from(pod, Removal::FirstPlace);
                true
            }
            Fault::RecordTorn(pod) => {
                let pod = self.number(pod);
                self.add(Action::TearRecord(pod));
                true
            }
            Fault::RowAdded => {
                self.add(Action::ForeignRows);
                true
            }
            Fault::InterfaceRemoved(pod) => {
                let pod = self.number(pod);
                self.add(Action::Unplug(pod));
                true
            }
            Fault::StateLost
            | Fault::LogFull
            | Fault::LogWell
            | Fault::Taken(_)
            | Fault::Back(_)
            | Fault::Memory(_)
            | Fault::Clock(_)
            | Fault::RulesRemoved
            | Fault::RecordingTruncated
            | Fault::LinksRemoved(_)
            | Fault::RowRemoved { .. } => false,
        };
        if !known {
            let what = explain::step(&Step::Fault(fault.clone()));
            self.refuse(format!("it has no way to do that {what}"));
        }
        self.fail();
    }

    fn take_from(&mut self, pod: &crate::chaos::history::Name, what: Removal) {
        let (pod, seed) = (self.number(pod), self.random.number());
        self.add(Action::ForeignRemoval { pod, what, seed });
    }

    fn disk(&mut self, disk: Disk) -> bool {
        match disk {
            Disk::Full => self.fault = Some(action::Fault::NoSpace),
            Disk::ReadOnly | Disk::Failing => self.fault = Some(action::Fault::Io),
            Disk::Well => {
                self.fault = None;
                self.add(Action::FaultsOff);
            }
            Disk::Slow | Disk::PowerCut => return false,
        }
        true
    }

    fn server(&mut self, server: Server, trouble: Trouble) -> bool {
        let actions = match server {
            Server::Etcd => store(trouble).into_iter().map(Action::Store).collect(),
            Server::Api => api_server(trouble).into_iter().map(Action::ApiServer).collect(),
            Server::Containerd => runtime(trouble).into_iter().map(Action::Runtime).collect(),
        };
        let actions: Vec<_> = actions;
        let is_known = !actions.is_empty();
        actions.into_iter().for_each(|action| self.add(action));
        is_known
    }
}

/// Nothing where the simulator does not know it.
fn store(trouble: Trouble) -> Vec<StoreEvent> {
    match trouble {
        Trouble::Killed => vec![StoreEvent::Down],
        Trouble::Stopped | Trouble::CutOff => vec![StoreEvent::Silent],
        Trouble::HalfOpen => vec![StoreEvent::HungUp],
        Trouble::LeasesEnd => vec![StoreEvent::Expired],
        Trouble::Well => vec![StoreEvent::Up],
        _ => Vec::new(),
    }
}

fn api_server(trouble: Trouble) -> Vec<ApiServerEvent> {
    match trouble {
        Trouble::Killed => vec![ApiServerEvent::Down],
        Trouble::Stopped | Trouble::CutOff => vec![ApiServerEvent::Hung],
        // Who watched while it hung never hears of it again.
        Trouble::HalfOpen => vec![ApiServerEvent::Hung, ApiServerEvent::Up],
        // It always is.
        Trouble::Slow | Trouble::Well => vec![ApiServerEvent::Up],
        _ => Vec::new(),
    }
}

fn runtime(trouble: Trouble) -> Vec<RuntimeNews> {
    match trouble {
        Trouble::Killed => vec![RuntimeNews::Down],
        Trouble::Stopped => vec![RuntimeNews::Hung],
        Trouble::Well => vec![RuntimeNews::Up],
        _ => Vec::new(),
    }
}
