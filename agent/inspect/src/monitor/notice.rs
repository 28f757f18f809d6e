//! What the agent itself has to say, among the datapath's records: Cilium's `AgentNotify`.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use serde_json::json;
use volvox_actors::{model::drift::Drift, ports::AgentNotices};
use volvox_maps::Event;

use super::gob::{agent_notify, read_agent_notify};

/// Notices that may wait to be handed on.
const WAITING: usize = 256;
/// First byte of a notice, as a record begins with its kind: `MessageTypeAgent`.
const AGENT: u8 = 130;
/// Kind of a notice that is of none of Cilium's: `AgentNotifyGeneric`.
const GENERIC: u64 = 1;

/// Takes notices; never waits.
#[derive(Debug)]
pub struct Notifier {
    queue: SyncSender<Event>,
    bell: UnixStream,
}

/// The other end: who hands them on.
#[derive(Debug)]
pub struct Notified {
    queue: Receiver<Event>,
    pub(super) bell: UnixStream,
}

/// Both ends.
pub fn notices() -> io::Result<(Notifier, Notified)> {
    let (bell, heard) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    heard.set_nonblocking(true)?;
    let (queue, waiting) = sync_channel(WAITING);
    Ok((Notifier { queue, bell }, Notified { queue: waiting, bell: heard }))
}

impl AgentNotices for Notifier {
    fn drifted(&self, drift: &Drift) {
        let message = format!("rows that somebody else changed are put right: {drift}");
        let text = json!({ "message": message, "drift": drift }).to_string();
        let mut bytes = vec![AGENT];
        bytes.extend(agent_notify(GENERIC, &text));
        // Without anybody who hands them on, and with too many, it is in the log.
        if self.queue.try_send(Event::Sample { cpu: 0, bytes }).is_ok() {
            let _ = (&self.bell).write(&[0]);
        }
    }
}

impl Notified {
    /// Those that came since.
    pub(super) fn take(&self) -> Vec<Event> {
        let mut rung = [0; 64];
        while (&self.bell).read(&mut rung).is_ok_and(|read| read == rung.len()) {}
        self.queue.try_iter().collect()
    }
}

/// The message of a notice, if a record is one.
pub fn notice(record: &[u8]) -> Option<String> {
    let (&AGENT, notify) = record.split_first()? else { return None };
    let text = read_agent_notify(notify)?;
    let message = serde_json::from_str::<serde_json::Value>(&text).ok();
    let message = message.and_then(|it| Some(it.get("message")?.as_str()?.to_owned()));
    Some(message.unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use volvox_actors::model::drift::{DriftByMap, DriftKind};

    use super::*;

    #[test]
    fn a_notice_is_read_as_it_was_told() {
        let (notifier, notified) = notices().unwrap();
        let mut found = DriftByMap::default();
        found.note("cilium_lxc", DriftKind::Missing, "10.0.0.1");
        for _ in 0..2 * WAITING {
            notifier.drifted(&found.clone().into_all()[0]);
        }
        let events = notified.take();
        assert_eq!((events.len(), notified.take().len()), (WAITING, 0));
        let Event::Sample { bytes, .. } = &events[0] else { panic!("{events:?}") };
        let text =
            "rows that somebody else changed are put right: cilium_lxc: 1 missing (10.0.0.1)";
        assert_eq!(notice(bytes).as_deref(), Some(text));
        assert_eq!(notice(&[1, 2, 3]), None);
        assert_eq!(notice(&[AGENT, 200]), None);
        drop(notified);
        notifier.drifted(&found.into_all()[0]);
    }
}
