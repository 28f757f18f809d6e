//! The kvstore of the simulated cluster, and nodes that use identities of it.
//!
//! Agents take numbers up and give them back, some of them as Cilium's do, with a lock. A node's lease runs
//! out, and the node says again what it uses. The store is restored from a backup, or an operator cannot
//! reach it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use volvox_actors_simulated::{
    cluster::kvstore::{HEARTBEAT, IDENTITIES, IDENTITY_LOCKS, IDENTITY_USERS},
    host::Time,
    testing::{KvLink, MemoryKvStore},
};

use super::process::STORED_EVERY;
use crate::random::Random;

const LABELS: [&str; 4] = ["k8s:app=a;", "k8s:app=a;k8s:b=c/d;", "k8s:app=b;", "k8s:app=c;"];
const NODES: usize = 3;
/// So old is a backup at least when it serves.
pub(super) const RESTORED_AFTER: Duration = Duration::from_secs(6);
/// The first number.
const FIRST: u64 = 70_000;

/// Which labels, and which node uses them.
type Use = (usize, usize);

/// The kvstore, and what agents know of it.
#[derive(Default)]
pub(super) struct StoredTruth {
    pub(super) store: MemoryKvStore,
    /// The store's own time.
    pub(super) now: Time,
    /// Since when.
    uses: BTreeMap<Use, Time>,
    /// Who holds a lock and is about to use these labels.
    choosing: Option<Use>,
    /// The number of each set of labels that somebody had.
    numbers: BTreeMap<usize, u64>,
    /// Numbers that stood when it was looked last.
    known: BTreeSet<String>,
    /// The first thing that was wrong.
    wrong: Option<String>,
    /// When nodes whose keys are gone say again what they use.
    again: Option<Time>,
    /// No lease runs out twice within two rounds: it lasts longer.
    calm_until: Time,
    made: u64,
    /// When it was backed up.
    backed_up: Option<Time>,
}

fn number_key(number: u64) -> String {
    format!("{IDENTITIES}{number}")
}

fn user_key((labels, node): Use) -> String {
    format!("{IDENTITY_USERS}{}/10.0.0.{node}", LABELS[labels])
}

fn lock_key((labels, node): Use) -> String {
    format!("{IDENTITY_LOCKS}{}/{node}", LABELS[labels])
}

impl StoredTruth {
    /// Time passes for the store and for the nodes.
    pub(super) fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        if self.again.is_some_and(|at| at <= self.now) {
            self.look();
            self.again = None;
            // What nobody has any more went with its lease.
            self.delete_others(IDENTITY_USERS, self.uses.keys().map(|one| user_key(*one)));
            self.delete_others(IDENTITY_LOCKS, self.choosing.into_iter().map(lock_key));
            for one in self.uses.keys().copied().collect::<Vec<_>>() {
                self.write(one);
            }
        }
    }

    /// Deletes what stands there, but for these.
    fn delete_others(&self, below: &str, retained: impl Iterator<Item = String>) {
        let retained: BTreeSet<String> = retained.collect();
        let all = self.store.keys(below);
        all.iter().filter(|key| !retained.contains(*key)).for_each(|key| self.store.delete(key));
    }

    /// Nodes say again what they use, before the next round but one.
    fn say_again_soon(&mut self, random: &mut Random) {
        let soon = self.now + STORED_EVERY / 2 + random.below(STORED_EVERY / 4);
        self.again = Some(soon);
        self.calm_until = self.now + STORED_EVERY * 2;
    }

    /// A node writes that it uses labels; whoever is first makes their number.
    fn write(&mut self, (labels, node): Use) {
        let stands = |number: &&u64| self.store.get(&number_key(**number)).is_some();
        // Who has a number retains it. For labels that nobody has, there is a new one.
        let has = self.has(labels);
        let number = match self.numbers.get(&labels).filter(|number| has || stands(number)) {
            Some(number) => *number,
            None => {
                self.made += 1;
                FIRST + self.made
            }
        };
        self.numbers.insert(labels, number);
        self.store.put(&number_key(number), LABELS[labels]);
        self.store.put(&user_key((labels, node)), &number.to_string());
    }

    /// Whether somebody uses these labels or is about to.
    fn has(&self, labels: usize) -> bool {
        self.uses.keys().chain(&self.choosing).any(|(other, _)| *other == labels)
    }

    /// Something happens to the store, or to who uses it.
    pub(super) fn act(&mut self, random: &mut Random) -> String {
        let one = (random.roll(LABELS.len()), random.roll(NODES));
        self.look();
        match random.roll(15) {
            0..=2 => {
                self.write(one);
                self.uses.entry(one).or_insert(self.now);
                format!("node {} uses labels {}", one.1, one.0)
            }
            3..=5 => {
                let Some(one) = self.uses.keys().nth(random.roll(self.uses.len().max(1))).copied()
                else {
                    return "nobody uses labels".to_owned();
                };
                self.uses.remove(&one);
                self.store.delete(&user_key(one));
                format!("node {} does not use labels {} any more", one.1, one.0)
            }
            6 | 7 => self.lock(one),
            8..=10 if self.now < self.calm_until => "nothing happens to the store".to_owned(),
            8..=10 => {
                let node = one.1;
                // It lasts longer than a round.
                let is_lost = |(one, since): &(&Use, &Time)| {
                    one.1 == node && self.now.since(**since) > STORED_EVERY
                };
                for (gone, _) in self.uses.iter().filter(is_lost) {
                    self.store.delete(&user_key(*gone));
                }
                self.say_again_soon(random);
                format!("the lease of node {node} runs out")
            }
            11 => self.restore(random),
            12 | 13 => self.back_up(),
            _ => {
                let link = [KvLink::Up, KvLink::Down, KvLink::Silent][random.roll(3)];
                self.store.set_link(link);
                format!("the store is {link:?} for operators")
            }
        }
    }

    /// An agent of Cilium begins to choose a number under a lock, or is done.
    fn lock(&mut self, one: Use) -> String {
        match self.choosing {
            None => {
                self.store.put(&lock_key(one), "");
                self.choosing = Some(one);
                format!("node {} begins to choose a number for labels {}", one.1, one.0)
            }
            Some(one) => {
                self.write(one);
                self.choosing = None;
                self.uses.entry(one).or_insert(self.now);
                self.store.delete(&lock_key(one));
                format!("node {} has chosen a number for labels {}", one.1, one.0)
            }
        }
    }

    /// What there is now is what the store may go back to.
    pub(super) fn back_up(&mut self) -> String {
        self.store.back_up();
        self.backed_up = Some(self.now);
        "the store is backed up".to_owned()
    }

    /// The store goes back to its backup, which a node does not stand in that uses labels since.
    pub(super) fn restore(&mut self, random: &mut Random) -> String {
        let is_old = self.backed_up.is_some_and(|at| self.now.since(at) >= RESTORED_AFTER);
        if !is_old || self.now < self.calm_until {
            return "nothing happens to the store".to_owned();
        }
        // Labels that nobody used are of interest: they may be about to go.
        let stands = |labels: &usize| {
            let number = self.numbers.get(labels).map(|number| number_key(*number));
            number.is_some_and(|key| self.store.get(&key).is_some()) && !self.has(*labels)
        };
        let labels = (0..LABELS.len()).find(stands);
        let one = (labels.unwrap_or_else(|| random.roll(LABELS.len())), random.roll(NODES));
        self.look();
        self.write(one);
        self.uses.entry(one).or_insert(self.now);
        // Its servers end before they serve what was restored.
        self.store.break_connections();
        self.store.restore();
        self.known = self.store.keys(IDENTITIES).into_iter().collect();
        self.choosing = None;
        self.say_again_soon(random);
        format!("node {} uses labels {}, and the store goes back to its backup", one.1, one.0)
    }

    /// The first thing that was wrong.
    pub(super) fn complaint(&mut self) -> Option<String> {
        self.look();
        self.wrong.take()
    }

    /// Looks whether something is wrong, before somebody writes what may hide it.
    fn look(&mut self) {
        let lost = self.uses.keys().chain(&self.choosing).find_map(|(labels, node)| {
            let number = self.numbers.get(labels)?;
            let key = number_key(*number);
            let is_lost = self.known.contains(&key) && self.store.get(&key).is_none();
            is_lost.then(|| format!("number {number} was removed, and node {node} uses it"))
        });
        self.known = self.store.keys(IDENTITIES).into_iter().collect();
        if self.wrong.is_none() {
            self.wrong = lost;
        }
    }

    /// Nothing goes wrong any more.
    pub(super) fn calm(&mut self) {
        self.store.set_link(KvLink::Up);
        self.store.delete(HEARTBEAT);
        if let Some(one) = self.choosing {
            self.lock(one);
        }
    }

    /// What was not done although nothing stood in the way.
    pub(super) fn undone(&self) -> Option<String> {
        if self.store.get(HEARTBEAT).is_none() {
            return Some("there is no heartbeat in the store".to_owned());
        }
        let used = self.uses.keys().filter_map(|(labels, _)| self.numbers.get(labels));
        let used: BTreeSet<String> = used.map(|number| number_key(*number)).collect();
        let there: BTreeSet<String> = self.store.keys(IDENTITIES).into_iter().collect();
        if let Some(key) = used.difference(&there).next() {
            return Some(format!("{key} is missing"));
        }
        // Labels that are used may have another number of before a restore: that one stays with them.
        let are_used = |key: &&String| {
            let labels = self.store.get(key);
            self.uses.keys().any(|(it, _)| labels.as_deref() == Some(LABELS[*it]))
        };
        let left = there.iter().find(|key| !are_used(key));
        left.map(|key| format!("{key} is left over"))
    }
}
