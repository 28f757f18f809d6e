//! The register of waits: who waits for whom, which waits last long, and where there is a deadlock.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::CellId;
use crate::host::Time;

/// A wait that is open for so long lasts: the trace tells of it before it ends.
const LASTS_FROM: Duration = Duration::from_millis(200);

/// Number of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitId(pub u64);

/// Whom somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whom {
    /// Another actor.
    Cell(CellId),
    /// A port: the kernel, the disk, the cluster.
    Port(&'static str),
}

/// One registered wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// Its number.
    pub id: WaitId,
    /// Who waits; `None` is somebody outside.
    pub who: Option<CellId>,
    /// For whom.
    pub whom: Whom,
    /// What it is about, in words.
    pub why: Cow<'static, str>,
    /// Since when.
    pub since: Time,
    /// Until when at most.
    pub until: Time,
}

impl Wait {
    /// When it begins to count among those that last.
    pub(super) fn lasts_from(&self) -> Time {
        self.since + LASTS_FROM
    }
}

/// Actors that wait for each other in a ring: none of them will go on before a deadline passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitCycle(pub Vec<Wait>);

/// Every wait there is.
#[derive(Debug, Default)]
pub struct Waits {
    open: BTreeMap<WaitId, Wait>,
    next: u64,
    /// Those up to here have ended, or were told of when they lasted.
    reported: WaitId,
}

impl Waits {
    pub(super) fn begin(
        &mut self,
        who: Option<CellId>,
        whom: Whom,
        why: Cow<'static, str>,
        since: Time,
        until: Time,
    ) -> &Wait {
        self.next += 1;
        let id = WaitId(self.next);
        self.open.entry(id).or_insert(Wait { id, who, whom, why, since, until })
    }

    pub(super) fn end(&mut self, id: WaitId) -> Option<Wait> {
        self.open.remove(&id)
    }

    /// Calls `tell` for each wait that lasts, once. When the next one will, if it is still open.
    pub(super) fn tell_lasting(&mut self, now: Time, mut tell: impl FnMut(&Wait)) -> Option<Time> {
        let Self { open, reported, .. } = self;
        for (id, wait) in open.range(WaitId(reported.0 + 1)..) {
            if wait.lasts_from() > now {
                return Some(wait.lasts_from());
            }
            tell(wait);
            *reported = *id;
        }
        None
    }

    /// All open waits, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Wait> {
        self.open.values()
    }

    /// What that actor waits for.
    pub fn of(&self, who: CellId) -> impl Iterator<Item = &Wait> {
        self.iter().filter(move |wait| wait.who == Some(who))
    }

    /// The chain of waits that begins at that actor, nearest first.
    pub fn chain(&self, from: CellId) -> Vec<Wait> {
        let mut chain = Vec::new();
        let mut seen = BTreeSet::from([from]);
        let mut frontier = vec![from];
        while let Some(cell) = frontier.pop() {
            for wait in self.of(cell) {
                if let Whom::Cell(next) = wait.whom
                    && seen.insert(next)
                {
                    frontier.push(next);
                }
                chain.push(wait.clone());
            }
        }
        chain
    }

    /// A ring of actors that wait for each other, if there is one.
    pub fn cycle(&self) -> Option<WaitCycle> {
        let mut next: BTreeMap<CellId, Vec<&Wait>> = BTreeMap::new();
        for wait in self.iter() {
            if let (Some(who), Whom::Cell(_)) = (wait.who, &wait.whom) {
                next.entry(who).or_default().push(wait);
            }
        }
        let mut done = BTreeSet::new();
        next.keys().find_map(|&start| walk(start, &next, &mut done, &mut Vec::new()))
    }
}

fn walk<'a>(
    cell: CellId,
    next: &BTreeMap<CellId, Vec<&'a Wait>>,
    done: &mut BTreeSet<CellId>,
    path: &mut Vec<&'a Wait>,
) -> Option<WaitCycle> {
    if let Some(begin) = path.iter().position(|wait| wait.who == Some(cell)) {
        return Some(WaitCycle(path[begin..].iter().map(|&wait| wait.clone()).collect()));
    }
    if done.contains(&cell) {
        return None;
    }
    for &wait in next.get(&cell).into_iter().flatten() {
        if let Whom::Cell(to) = wait.whom {
            path.push(wait);
            if let Some(cycle) = walk(to, next, done, path) {
                return Some(cycle);
            }
            path.pop();
        }
    }
    done.insert(cell);
    None
}
