use std::sync::Arc;

use rpds::ListSync;
use serde::Serialize;

use super::State;

/// Entries that an endpoint keeps, and how many more before the oldest go: they go together, as
/// that takes a new list.
const ENTRIES: usize = 64;
const SURPLUS: usize = 32;

/// One line of an endpoint's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogEntry {
    /// When, nanoseconds since 1970, UTC.
    pub wall: u64,
    /// Whether it went well: `OK`, `Warning` or `Failed`.
    pub code: &'static str,
    /// What happened.
    pub message: Arc<str>,
    /// The state it was in then.
    pub state: State,
}

/// An endpoint's last log entries. A copy shares them: each view of an endpoint has one.
#[derive(Clone, Debug, Default)]
pub struct Log(ListSync<LogEntry>);

impl Log {
    /// The entries, newest first.
    pub fn iter(&self) -> impl Iterator<Item = &LogEntry> {
        self.0.iter().take(ENTRIES)
    }

    /// Adds one.
    pub(super) fn note(&mut self, entry: LogEntry) {
        if self.0.len() == ENTRIES + SURPLUS {
            let kept: Vec<_> = self.iter().take(ENTRIES - 1).cloned().collect();
            self.0 = kept.into_iter().collect();
        }
        self.0.push_front_mut(entry);
    }
}

/// Entries in their order, newest last.
impl FromIterator<LogEntry> for Log {
    fn from_iter<I: IntoIterator<Item = LogEntry>>(entries: I) -> Self {
        let mut log = Self::default();
        entries.into_iter().for_each(|entry| log.note(entry));
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_are_kept_and_copies_stay_as_they_were() {
        let mut log = Log::default();
        let mut copies = Vec::new();
        let walls = |log: &Log| log.iter().map(|entry| entry.wall).collect::<Vec<_>>();
        for wall in 1..=300 {
            let (message, state) = (Arc::from("built"), State::Ready);
            log.note(LogEntry { wall, code: "OK", message, state });
            let first = wall.saturating_sub(63).max(1);
            let wanted: Vec<u64> = (first..=wall).rev().collect();
            assert_eq!(walls(&log), wanted);
            assert!(log.0.len() <= ENTRIES + SURPLUS);
            copies.push((log.clone(), wanted));
        }
        assert!(copies.iter().all(|(copy, wanted)| walls(copy) == *wanted));
    }
}
