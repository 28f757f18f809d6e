//! What a name meant, and from when until when.

use std::{collections::BTreeMap, ops::Range};

/// How long before it was known here a name may have meant something: names are looked up each second.
const EARLIER: u64 = 10_000_000_000;
/// How long a name means it after it is gone: the last packets are read later.
const LATER: u64 = 10_000_000_000;
/// Until when something lasts that has not ended.
const OPEN: u64 = u64::MAX;
/// How many are kept of each name, and how many names that are gone.
const EACH_MAX: usize = 16;
const GONE_MAX: usize = 65_536;

/// Values by name, with those of before.
#[derive(Debug)]
pub(crate) struct Versions<K, V>(BTreeMap<K, Vec<Version<V>>>);

/// What a name meant for some time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version<V> {
    pub(crate) span: Range<u64>,
    pub(crate) value: V,
}

impl<K, V> Default for Versions<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone, V: PartialEq> Versions<K, V> {
    /// Takes in what is so now; whether anything is new.
    pub(crate) fn update(&mut self, now: u64, current: BTreeMap<K, V>) -> bool {
        let mut changed = false;
        for (key, all) in &mut self.0 {
            let Some(last) = all.last_mut().filter(|last| last.span.end == OPEN) else { continue };
            if current.get(key) != Some(&last.value) {
                last.span.end = now;
                changed = true;
            }
        }
        for (key, value) in current {
            let all = self.0.entry(key).or_default();
            if all.last().is_some_and(|last| last.span.end == OPEN) {
                continue;
            }
            changed = true;
            // The same again, as after a restart.
            if let Some(last) = all.last_mut().filter(|last| last.value == value) {
                last.span.end = OPEN;
                continue;
            }
            all.push(Version { span: now..OPEN, value });
            if all.len() > EACH_MAX {
                all.remove(0);
            }
        }
        changed
    }

    /// What it meant then: what it came to mean soon after, or meant until shortly before, will do.
    pub(crate) fn at(&self, key: &K, time: u64) -> Option<&V> {
        let all = self.0.get(key)?;
        if let Some(version) = all.iter().rev().find(|it| it.span.contains(&time)) {
            return Some(&version.value);
        }
        let next = all.iter().find(|it| it.span.start > time);
        let before = all.iter().rev().find(|it| it.span.end <= time);
        let next = next.filter(|it| it.span.start - time <= EARLIER);
        let before = before.filter(|it| time - it.span.end <= LATER);
        Some(&next.or(before)?.value)
    }

    /// What it means now.
    pub(crate) fn now(&self, key: &K) -> Option<&V> {
        self.0.get(key)?.last().filter(|it| it.span.end == OPEN).map(|it| &it.value)
    }

    /// All that is so now.
    pub(crate) fn all_now(&self) -> impl Iterator<Item = &V> {
        let last = self.0.values().filter_map(|all| all.last());
        last.filter(|it| it.span.end == OPEN).map(|it| &it.value)
    }

    /// Forgets what ended before that, and the oldest of too many.
    pub(crate) fn forget_before(&mut self, oldest: u64) {
        let is_old = |it: &Version<V>, oldest: u64| it.span.end.saturating_add(LATER) < oldest;
        self.0.retain(|_, all| {
            all.retain(|it| !is_old(it, oldest));
            !all.is_empty()
        });
        let gone = self.0.values().flatten().filter(|it| it.span.end != OPEN);
        let mut ends: Vec<u64> = gone.map(|it| it.span.end).collect();
        if ends.len() > GONE_MAX {
            ends.sort_unstable();
            let limit = ends[ends.len() - GONE_MAX];
            self.0.retain(|_, all| {
                all.retain(|it| it.span.end >= limit);
                !all.is_empty()
            });
        }
    }

    /// Each version of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &Version<V>)> {
        self.0.iter().flat_map(|(key, all)| all.iter().map(move |version| (key, version)))
    }

    /// Adds what was kept; `until` is when that was known last.
    pub(crate) fn restore(&mut self, key: K, version: Version<V>, until: u64) {
        let end = if version.span.end == OPEN { until } else { version.span.end };
        let all = self.0.entry(key).or_default();
        if all.len() < EACH_MAX {
            all.push(Version { span: version.span.start..end, value: version.value });
        }
    }
}
