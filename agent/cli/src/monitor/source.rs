//! From where a monitor has its records: from the agent, or without one from a monitor that stands
//! in. It changes over when the agent goes or comes back.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use volvox_inspect::monitor::{socket_beside, stand_in_beside};
use volvox_maps::Event;

use super::{connection::Connection, stand_in::StandIn};
use crate::error::ClientError;

/// How long whoever can be reached may take until it hands on records.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts to reach somebody.
const RETRY: Duration = Duration::from_millis(20);

/// Where records come from: the agent, which hands them to everybody, or without it one of the
/// monitors, which does the same.
pub(crate) struct Source {
    api: PathBuf,
    bpf_root: PathBuf,
    connection: Connection,
    reader: Reader,
}

/// Who reads the records from the kernel.
enum Reader {
    Agent,
    Monitor {
        /// This monitor's own part in it, if it is the one.
        _own: Option<StandIn>,
        /// An agent that can be reached, but has not said yet that it hands on records.
        next: Option<Connection>,
    },
}

impl Source {
    /// Asks the agent for records, given its API's socket; without it sees to it that a monitor
    /// reads them.
    pub(crate) fn open(api: &Path, bpf_root: &Path) -> Result<Self, ClientError> {
        let (api, bpf_root) = (api.to_owned(), bpf_root.to_owned());
        if let Some(mut agent) = Connection::open(&socket_beside(&api)) {
            if agent.greets(PATIENCE) {
                return Ok(Self { api, bpf_root, connection: agent, reader: Reader::Agent });
            }
            volvox_system::complain!(
                "volvox: the agent hands on no records: they are read without it"
            );
        }
        let (connection, reader) = without_agent(&api, &bpf_root)?;
        Ok(Self { api, bpf_root, connection, reader })
    }

    /// What has come, after waiting for it at most so long. Says on stderr when the source changes.
    pub(super) fn next(&mut self, longest: Duration) -> Result<Vec<Event>, ClientError> {
        let goes_on = self.connection.receive(longest);
        let came = self.connection.take();
        match &mut self.reader {
            Reader::Agent if goes_on => {}
            Reader::Agent => {
                volvox_system::complain!("volvox: the agent has gone: records are read without it");
                (self.connection, self.reader) = without_agent(&self.api, &self.bpf_root)?;
            }
            Reader::Monitor { next, .. } => {
                let agent = next.take().or_else(|| Connection::open(&socket_beside(&self.api)));
                *next = agent.and_then(|mut agent| agent.receive(Duration::ZERO).then_some(agent));
                // Since it greets, records go to it.
                if let Some(agent) = next.take_if(|agent| agent.is_greeted()) {
                    (self.connection, self.reader) = (agent, Reader::Agent);
                } else if !goes_on {
                    *self = Self::open(&self.api, &self.bpf_root)?;
                }
                if matches!(self.reader, Reader::Agent) {
                    volvox_system::complain!("volvox: the agent is back and hands on records");
                }
            }
        }
        Ok(came)
    }
}

/// Listens to the monitor that reads the records, or becomes it.
fn without_agent(api: &Path, bpf_root: &Path) -> Result<(Connection, Reader), ClientError> {
    let deadline = Instant::now() + PATIENCE;
    let mut own = None;
    loop {
        if let Some(mut connection) = Connection::open(&stand_in_beside(api))
            && connection.greets(PATIENCE)
        {
            return Ok((connection, Reader::Monitor { _own: own, next: None }));
        }
        if own.is_none() {
            own = StandIn::start(api, bpf_root)?;
        }
        if Instant::now() > deadline {
            return Err(ClientError::Failed(format!(
                "another monitor reads the records of {} and does not hand them on at {}: end it, \
                 or name its --socket-path",
                bpf_root.display(),
                stand_in_beside(api).display()
            )));
        }
        thread::sleep(RETRY);
    }
}
