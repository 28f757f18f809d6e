//! The status log of an endpoint: its latest events, cheap to copy.

use std::{collections::VecDeque, sync::Arc};

use serde::Serialize;

use super::EndpointState;

/// Entries of a page, and full pages that are kept.
const PAGE: usize = 8;
const PAGES: usize = 8;

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
    pub state: EndpointState,
}

/// An endpoint's last log entries, 64 of them. Each view of an endpoint has a copy: copies share all
/// but the newest, and the oldest go a few at a time.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The newest entries, in their order: less than a page.
    newest: Vec<LogEntry>,
    /// The entries before, newest page first.
    pages: VecDeque<Arc<[LogEntry]>>,
}

impl Log {
    /// The entries, newest first.
    pub fn iter(&self) -> impl Iterator<Item = &LogEntry> {
        let before = self.pages.iter().flat_map(|page| page.iter().rev());
        self.newest.iter().rev().chain(before).take(PAGE * PAGES)
    }

    /// Adds one.
    pub(super) fn note(&mut self, entry: LogEntry) {
        self.newest.push(entry);
        if self.newest.len() == PAGE {
            self.pages.truncate(PAGES - 1);
            self.pages.push_front(std::mem::take(&mut self.newest).into());
        }
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
            let (message, state) = (Arc::from("built"), EndpointState::Ready);
            log.note(LogEntry { wall, code: "OK", message, state });
            let first = wall.saturating_sub(63).max(1);
            let expected: Vec<u64> = (first..=wall).rev().collect();
            assert_eq!(walls(&log), expected);
            assert!(log.newest.len() < PAGE && log.pages.len() <= PAGES);
            copies.push((log.clone(), expected));
        }
        assert!(copies.iter().all(|(copy, expected)| walls(copy) == *expected));
    }
}
