//! From the words of clauses to rows where some of the clauses stand in a tier that has an order.
//!
//! Who is asked, and what is decided:
//!
//! 1. the rules of tier Admin, by rank and then as they are written: the first that is about the packet
//!    accepts it, denies it, or passes it on;
//! 2. the other policies: a denial of them wins, then an allowance; if they enforce the direction, what
//!    neither is about is dropped;
//! 3. the rules of tier Baseline, as those of Admin;
//! 4. nobody: it passes.
//!
//! The kernel knows no tiers. So all this is worked out for each peer and each part of the ports before a
//! row is written; peers of whom the same is said share the work.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ClauseAction, PolicyTier,
    ports::PortPrefix,
    rows::{ClauseIndex, Cookies, Word},
    rule::Clause,
    table::{Ruling, Rulings, row},
};
use crate::{
    model::{Direction, IdentityId, PolicyEntry, PolicyKey},
    mutants::{Mutant, mutated},
};

/// What a clause says, and when it is asked: in a tier with an order by its place among the clauses, which
/// come sorted.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClauseTurn {
    tier: PolicyTier,
    action: ClauseAction,
}

impl ClauseTurn {
    /// Of a clause of that tier.
    pub(super) fn new(tier: PolicyTier, clause: &Clause) -> Self {
        Self { tier, action: clause.action }
    }
}

/// One direction of an endpoint's policy.
pub(super) struct TieredSide<'a> {
    /// The direction.
    pub(super) direction: Direction,
    /// Whether the policies without an order drop what they do not allow.
    pub(super) enforced: bool,
    /// Whether tiers with an order say nothing of what the node itself sends.
    pub(super) spares_host: bool,
    /// What clauses say.
    pub(super) words: Vec<Word>,
    /// By the number of a clause.
    pub(super) turns: &'a [ClauseTurn],
}

/// Clauses by the cells that they are about.
type Said = BTreeMap<PortPrefix, BTreeSet<ClauseIndex>>;

impl TieredSide<'_> {
    /// The rows of that direction.
    pub(super) fn rows(mut self, cookies: &mut Cookies<'_>) -> Vec<(PolicyKey, PolicyEntry)> {
        let mut words = std::mem::take(&mut self.words);
        words.sort_unstable();
        words.dedup();
        let mut of_peers: BTreeMap<IdentityId, Said> = BTreeMap::new();
        if self.spares_host {
            of_peers.entry(IdentityId::HOST).or_default();
        }
        for Word { peer, cell, clause, .. } in words {
            of_peers.entry(peer).or_default().entry(cell).or_default().insert(clause);
        }
        let anybody = of_peers.remove(&IdentityId::UNKNOWN).unwrap_or_default();
        let any = self.rulings(&anybody, false, cookies);
        let of_any = any.of_any_peer().into_iter();
        let mut rows: Vec<_> =
            of_any.map(|it| row(self.direction, IdentityId::UNKNOWN, it)).collect();
        let mut known: BTreeMap<(bool, Said), Vec<(PortPrefix, Ruling)>> = BTreeMap::new();
        for (peer, said) in of_peers {
            let spared = self.spares_host && peer == IdentityId::HOST;
            let table = known.entry((spared, said)).or_insert_with_key(|(spared, said)| {
                let mut said = said.clone();
                for (cell, clauses) in &anybody {
                    said.entry(*cell).or_default().extend(clauses);
                }
                self.rulings(&said, *spared, cookies).of_peer(&any)
            });
            rows.extend(table.iter().map(|it| row(self.direction, peer, *it)));
        }
        rows
    }

    fn rulings(&self, said: &Said, spared: bool, cookies: &mut Cookies<'_>) -> Rulings {
        Rulings::new(said.keys().copied(), |cell| {
            let chain = cell.ancestors().chain([cell]);
            let about = chain.filter_map(|it| said.get(&it)).flatten().copied().collect();
            self.decide(&about, spared, cookies)
        })
    }

    /// What becomes of packets that these clauses are about.
    fn decide(
        &self,
        about: &BTreeSet<ClauseIndex>,
        spared: bool,
        cookies: &mut Cookies<'_>,
    ) -> Ruling {
        let of = |tier| about.iter().copied().filter(move |it| self.turn(*it).tier == tier);
        let mut first = |tier| {
            let clause = of(tier).next().filter(|_| !spared)?;
            match self.turn(clause).action {
                ClauseAction::Allow => Some(Ruling::Passes(cookies.cookie(&[clause]))),
                ClauseAction::Deny => Some(Ruling::Dropped(cookies.cookie(&[clause]))),
                ClauseAction::Pass if mutated(Mutant::PassTakenForAccept) => {
                    Some(Ruling::Passes(cookies.cookie(&[clause])))
                }
                ClauseAction::Pass => None,
            }
        };
        if let Some(ruling) = first(PolicyTier::Admin) {
            return ruling;
        }
        let (denials, allowances): (Vec<_>, Vec<_>) = of(PolicyTier::Network)
            .partition(|clause| self.turn(*clause).action == ClauseAction::Deny);
        let baseline = match (denials.is_empty(), allowances.is_empty()) {
            (true, true) if !self.enforced => first(PolicyTier::Baseline),
            _ => None,
        };
        match (denials.as_slice(), allowances.as_slice()) {
            ([], []) if self.enforced => Ruling::Dropped(0),
            ([], []) => baseline.unwrap_or(Ruling::Passes(0)),
            ([], allowances) => Ruling::Passes(cookies.cookie(allowances)),
            (denials, _) => Ruling::Dropped(cookies.cookie(denials)),
        }
    }

    /// The agent's own word is one among those without an order.
    fn turn(&self, clause: ClauseIndex) -> ClauseTurn {
        let own = ClauseTurn { tier: PolicyTier::Network, action: ClauseAction::Allow };
        clause.map_or(own, |clause| self.turns[clause as usize])
    }
}
