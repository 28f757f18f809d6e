//! The rows of one table of a policy map, that of one peer or of any peer, where rows are not simply
//! denials above allowances: each packet is decided by the longest row that is about it.
//!
//! A row of one peer then counts more than any row of any peer, whatever both say: it has the higher
//! precedence. So the table of a peer says all that is otherwise for it.

use std::collections::BTreeMap;

use super::ports::PortPrefix;
use crate::model::{Direction, IdentityId, PolicyEntry, PolicyKey, precedence};

/// What becomes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ruling {
    /// They pass, by the clauses of this cookie.
    Passes(u32),
    /// They are dropped, by the clauses of this cookie; 0 if no clause lets them pass.
    Dropped(u32),
}

impl Ruling {
    /// Whether a row that says the one says the other as well. Why a packet passes is not worth a row.
    fn stands_for(self, other: Self) -> bool {
        match (self, other) {
            (Self::Passes(_), Self::Passes(_)) => true,
            (Self::Dropped(cookie), Self::Dropped(wanted)) => wanted == 0 || cookie == wanted,
            _ => false,
        }
    }
}

/// What is decided of cells; each ruling is for the packets of a cell that are in no narrower one. The
/// cell of all packets is always there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rulings(BTreeMap<PortPrefix, Ruling>);

impl Rulings {
    /// Asks for each cell, and for that of all packets.
    pub(super) fn new(
        cells: impl IntoIterator<Item = PortPrefix>,
        mut decide: impl FnMut(PortPrefix) -> Ruling,
    ) -> Self {
        let mut all: BTreeMap<PortPrefix, Ruling> = BTreeMap::new();
        for cell in cells.into_iter().chain([PortPrefix::ALL]) {
            all.entry(cell).or_insert_with(|| decide(cell));
        }
        Self(all)
    }

    /// What becomes of the packets of a cell, if none of them is in a narrower cell of these.
    fn of(&self, cell: PortPrefix) -> Ruling {
        let chain = cell.ancestors().chain([cell]);
        let found = chain.filter_map(|it| self.0.get(&it)).last();
        found.copied().unwrap_or(Ruling::Dropped(0))
    }

    /// The rows for any peer: a packet that none is about is dropped.
    pub(super) fn of_any_peer(&self) -> Vec<(PortPrefix, Ruling)> {
        self.rows(|_| Ruling::Dropped(0))
    }

    /// The rows for one peer, as far as it is otherwise than for any. All cells of those are among its own.
    pub(super) fn of_peer(&self, any: &Self) -> Vec<(PortPrefix, Ruling)> {
        self.rows(|cell| any.of(cell))
    }

    fn rows(&self, beneath: impl Fn(PortPrefix) -> Ruling) -> Vec<(PortPrefix, Ruling)> {
        let mut kept: BTreeMap<PortPrefix, Ruling> = BTreeMap::new();
        // Broader cells sort first.
        for (&cell, &ruling) in &self.0 {
            let above = cell.ancestors().filter_map(|it| kept.get(&it)).last().copied();
            if !above.unwrap_or_else(|| beneath(cell)).stands_for(ruling) {
                kept.insert(cell, ruling);
            }
        }
        kept.into_iter().collect()
    }
}

/// A row as the kernel has it.
pub(super) fn row(
    direction: Direction,
    identity: IdentityId,
    (cell, ruling): (PortPrefix, Ruling),
) -> (PolicyKey, PolicyEntry) {
    let any = identity == IdentityId::UNKNOWN;
    let (deny, cookie) = match ruling {
        Ruling::Passes(cookie) => (false, cookie),
        Ruling::Dropped(cookie) => (true, cookie),
    };
    let precedence = match (deny, any) {
        (false, false) => precedence::ALLOW,
        (true, false) => precedence::DENY,
        (false, true) => precedence::ALLOW_ANY,
        (true, true) => precedence::DENY_ANY,
    };
    let PortPrefix { bits, protocol, port } = cell;
    (
        PolicyKey { direction, identity, protocol, port, bits },
        PolicyEntry { deny, precedence, cookie },
    )
}
