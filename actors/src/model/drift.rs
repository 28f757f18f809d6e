//! Drift: rows of a map that are not as their owner wrote them, for somebody else changed them.
//!
//! Each owner compares the kernel's maps with what it wrote, a page at a time, so that nobody waits
//! for it and nothing is held twice. What differs it writes again by the steps of any other change,
//! and says it here.
//!
//! | map | who compares it, with what |
//! |---|---|
//! | `cilium_ipcache_v2` | its owner, with what it wrote |
//! | `cilium_lxc` | each endpoint its rows, the node's actor the host's, their supervisor nobody's |
//! | `volvox_config`, `volvox_endpoint` | each endpoint its rows, their supervisor nobody's |
//! | `volvox_policy`, `cilium_policy_v2` | the kernel port the map in the slot that is in use, and what its pin shows, with the endpoint's rows |
//! | `volvox_device`, `cilium_ipmasq_v4`, `…_v6` | the owner of devices |
//! | `volvox_node` | the kernel port, with what it was told last, for the node's actor |
//! | `cilium_lb4_…`, `cilium_lb6_…`, `cilium_lb_affinity_match`, `volvox_lb`, `volvox_lb4_members`, `…6_…` | the owner of services, with what it wrote; tables of Maglev by checksum |
//!
//! Not compared is what programs write, for nobody else knows what is right: connections,
//! translations, fragments, clients' affinity, what sockets asked for, counters; nor slots of policies
//! that no configuration names, which no packet meets; nor the places of readers of records, which
//! the kernel shows to nobody.

use std::{collections::BTreeMap, fmt, rc::Rc, time::Duration};

use serde::Serialize;

use crate::host::{Behaviour, Cx, Reply};

/// How long the kernel may take for a page of rows.
pub(crate) const PAGE_PATIENCE: Duration = Duration::from_secs(60);
/// Examples that are named of one map.
const EXAMPLES: usize = 3;

/// Maps whose rows are compared.
pub const MAPS: [&str; 24] = [
    "cilium_ipcache_v2",
    "cilium_ipmasq_v4",
    "cilium_ipmasq_v6",
    "cilium_lb4_backends_v3",
    "cilium_lb4_maglev",
    "cilium_lb4_reverse_nat",
    "cilium_lb4_services_v2",
    "cilium_lb4_source_range",
    "cilium_lb6_backends_v3",
    "cilium_lb6_maglev",
    "cilium_lb6_reverse_nat",
    "cilium_lb6_services_v2",
    "cilium_lb6_source_range",
    "cilium_lb_affinity_match",
    "cilium_lxc",
    "cilium_policy_v2",
    "volvox_config",
    "volvox_device",
    "volvox_endpoint",
    "volvox_lb",
    "volvox_lb4_members",
    "volvox_lb6_members",
    "volvox_node",
    "volvox_policy",
];

/// How a row drifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftKind {
    /// It is gone.
    Missing,
    /// It has another value.
    Changed,
    /// Nobody wrote it.
    Foreign,
}

impl DriftKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Missing, Self::Changed, Self::Foreign];

    /// Its name, in words and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Changed => "changed",
            Self::Foreign => "foreign",
        }
    }
}

/// Rows of one map that drifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The map.
    pub map: &'static str,
    /// How many were missing.
    pub missing: u64,
    /// How many had another value.
    pub changed: u64,
    /// How many nobody wrote.
    pub foreign: u64,
    /// What some of them are about.
    pub examples: Vec<String>,
}

impl Drift {
    fn of(map: &'static str) -> Self {
        Self { map, missing: 0, changed: 0, foreign: 0, examples: Vec::new() }
    }

    /// How many drifted in this way.
    pub fn count(&self, kind: DriftKind) -> u64 {
        match kind {
            DriftKind::Missing => self.missing,
            DriftKind::Changed => self.changed,
            DriftKind::Foreign => self.foreign,
        }
    }

    /// How many there are.
    pub fn rows(&self) -> u64 {
        self.missing + self.changed + self.foreign
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.map)?;
        let counts = DriftKind::ALL.into_iter().map(|kind| (kind, self.count(kind)));
        let counts = counts.filter(|(_, count)| *count > 0);
        let counts: Vec<_> =
            counts.map(|(kind, count)| format!("{count} {}", kind.name())).collect();
        f.write_str(&counts.join(", "))?;
        if !self.examples.is_empty() {
            let more = if self.rows() > self.examples.len() as u64 { ", …" } else { "" };
            write!(f, " ({}{more})", self.examples.join(", "))?;
        }
        Ok(())
    }
}

/// Drift that was found, by map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriftByMap(BTreeMap<&'static str, Drift>);

impl DriftByMap {
    /// Notes a row.
    pub fn note(&mut self, map: &'static str, kind: DriftKind, what: impl fmt::Display) {
        let drift = self.0.entry(map).or_insert_with(|| Drift::of(map));
        match kind {
            DriftKind::Missing => drift.missing += 1,
            DriftKind::Changed => drift.changed += 1,
            DriftKind::Foreign => drift.foreign += 1,
        }
        if drift.examples.len() < EXAMPLES {
            drift.examples.push(what.to_string());
        }
    }

    /// Notes how a row differs from what was written; nothing if it does not.
    pub fn compare<T: PartialEq>(
        &mut self,
        map: &'static str,
        written: Option<&T>,
        found: Option<&T>,
        what: impl fmt::Display,
    ) {
        match (written, found) {
            (Some(_), None) => self.note(map, DriftKind::Missing, what),
            (None, Some(_)) => self.note(map, DriftKind::Foreign, what),
            (Some(written), Some(found)) if written != found => {
                self.note(map, DriftKind::Changed, what);
            }
            _ => {}
        }
    }

    /// Notes how rows differ from what was written.
    pub fn compare_all<K: Ord, V: PartialEq>(
        &mut self,
        map: &'static str,
        written: &BTreeMap<K, V>,
        found: &BTreeMap<K, V>,
        what: impl Fn(&K) -> String,
    ) {
        for (key, row) in written {
            self.compare(map, Some(row), found.get(key), Lazy(|| what(key)));
        }
        for (key, row) in found.iter().filter(|(key, _)| !written.contains_key(key)) {
            self.compare(map, None, Some(row), Lazy(|| what(key)));
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of it.
    pub fn into_all(self) -> Vec<Drift> {
        self.0.into_values().collect()
    }
}

/// Words that are made only if somebody wants them.
struct Lazy<F>(F);

impl<F: Fn() -> String> fmt::Display for Lazy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.0)())
    }
}

/// Who wants to hear what a sweep found.
pub type DriftReply = Reply<Vec<Drift>>;

/// How an owner looks for drift, and whom it tells.
#[derive(Clone)]
pub struct DriftWatch {
    /// Time between two sweeps; none if that is switched off.
    pub every: Duration,
    tell: Rc<dyn Fn(Vec<Drift>)>,
}

impl DriftWatch {
    /// Every so often, told like that.
    pub fn new(every: Duration, tell: impl Fn(Vec<Drift>) + 'static) -> Self {
        Self { every, tell: Rc::new(tell) }
    }

    /// Sets the time of the next sweep.
    pub fn sweep_later<B: Behaviour>(&self, cx: &mut Cx<'_, B>, sweep: B::Answer) {
        if !self.every.is_zero() {
            cx.after(self.every, sweep);
        }
    }

    /// Tells what was found, if anything was.
    pub fn tell(&self, found: Vec<Drift>) {
        if !found.is_empty() {
            (self.tell)(found);
        }
    }
}

impl Default for DriftWatch {
    /// Never, and told to nobody.
    fn default() -> Self {
        Self::new(Duration::ZERO, |_| {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drifted_is_counted_by_map_and_told_in_words() {
        let mut found = DriftByMap::default();
        let (written, there) =
            ([(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')], [(1, 'a'), (2, 'x'), (9, 'e')]);
        found.compare_all("cilium_lxc", &written.into(), &there.into(), |key| format!("row {key}"));
        let all = found.into_all();
        assert_eq!(all.len(), 1);
        let text = "cilium_lxc: 2 missing, 1 changed, 1 foreign (row 2, row 3, row 4, …)";
        assert_eq!((all[0].rows(), all[0].to_string().as_str()), (4, text));
        let mut none = DriftByMap::default();
        none.compare("cilium_lxc", Some(&1), Some(&1), "row");
        assert!(none.is_empty());
    }
}
