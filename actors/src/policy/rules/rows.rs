//! From the words of clauses to the rows of a policy map, with no row that another makes needless.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ClauseOrigin, cookie::cookie, ports::PortPrefix};
use crate::{
    model::{Direction, IdentityId, PolicyEntry, PolicyKey, PolicyRows, precedence},
    mutants::{Mutant, mutated},
};

/// Place of a clause among those of a resolution; `None` is the agent's own word.
pub(super) type ClauseIndex = Option<u32>;

/// What one clause says of one cell of one peer. Sorts by table, then broad before narrow, then
/// allowances before denials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Word {
    pub(super) direction: Direction,
    /// The peer; [`IdentityId::UNKNOWN`] is any peer.
    pub(super) peer: IdentityId,
    pub(super) cell: PortPrefix,
    pub(super) deny: bool,
    pub(super) clause: ClauseIndex,
}

/// All words on one cell of one peer. Where one denies, only those that deny count.
struct PortVerdict<'a> {
    cell: PortPrefix,
    deny: bool,
    words: &'a [Word],
}

impl<'a> PortVerdict<'a> {
    fn new(words: &'a [Word]) -> Self {
        let (allow, deny) = words.split_at(words.partition_point(|word| !word.deny));
        let (denies, words) = if deny.is_empty() { (false, allow) } else { (true, deny) };
        Self { cell: words[0].cell, deny: denies, words }
    }

    /// Whether packets of a part of this cell need no row for what `narrower` says.
    fn outweighs(&self, narrower: &Self) -> bool {
        self.deny || !narrower.deny
    }
}

/// What is said of one peer, broad cells first.
struct PeerVerdicts<'a>(Vec<PortVerdict<'a>>);

impl<'a> PeerVerdicts<'a> {
    fn new(words: &'a [Word]) -> Self {
        Self(words.chunk_by(|a, b| a.cell == b.cell).map(PortVerdict::new).collect())
    }

    fn get(&self, cell: PortPrefix) -> Option<&PortVerdict<'a>> {
        self.0.binary_search_by_key(&cell, |said| said.cell).ok().map(|index| &self.0[index])
    }

    /// Whether a broader cell, or this one too if it is not the word's own table, makes a row for
    /// `said` needless or wrong.
    fn covers(&self, said: &PortVerdict<'_>, own: bool) -> bool {
        let broader = said.cell.ancestors().chain((!own).then_some(said.cell));
        !self.0.is_empty()
            && broader.filter_map(|cell| self.get(cell)).any(|other| other.outweighs(said))
    }
}

/// Makes the rows of a policy map of what clauses say.
///
/// The kernel takes the longest match for the peer and the longest match for any peer, and of
/// these two the denial. So within one table a denial must never lie above a longer allowance:
/// that one is left out, and with it every row that a broader one makes needless.
pub(super) fn build(mut words: Vec<Word>, cookies: &mut Cookies<'_>) -> PolicyRows {
    words.sort_unstable();
    words.dedup();
    let mut rows = Vec::with_capacity(words.len());
    for side in words.chunk_by(|a, b| a.direction == b.direction) {
        let wild = side.partition_point(|word| word.peer == IdentityId::UNKNOWN);
        let (wild, named) = side.split_at(wild);
        let (wild, nothing) = (PeerVerdicts::new(wild), PeerVerdicts(Vec::new()));
        rows.extend(table_rows(&wild, &nothing, cookies));
        for peer in named.chunk_by(|a, b| a.peer == b.peer) {
            rows.extend(table_rows(&PeerVerdicts::new(peer), &wild, cookies));
        }
    }
    rows.into_iter().collect()
}

fn table_rows(
    own: &PeerVerdicts<'_>,
    wild: &PeerVerdicts<'_>,
    cookies: &mut Cookies<'_>,
) -> Vec<(PolicyKey, PolicyEntry)> {
    let needed = own.0.iter().filter(|said| !own.covers(said, true) && !wild.covers(said, false));
    needed
        .map(|said| {
            let Word { direction, peer, .. } = said.words[0];
            let PortPrefix { bits, protocol, port } = said.cell;
            let first = said.deny && !mutated(Mutant::DenyLost);
            let precedence = if first { precedence::DENY } else { precedence::ALLOW };
            let clauses: Vec<ClauseIndex> = said.words.iter().map(|word| word.clause).collect();
            let cookie = cookies.cookie(&clauses);
            (
                PolicyKey { direction, identity: peer, protocol, port, bits },
                PolicyEntry { deny: said.deny, precedence, cookie },
            )
        })
        .collect()
}

/// Cookies that were made, so that each set of clauses is hashed once.
pub(super) struct Cookies<'a> {
    origins: &'a [Arc<ClauseOrigin>],
    known: BTreeMap<Vec<ClauseIndex>, u32>,
    names: BTreeMap<u32, BTreeSet<&'a ClauseOrigin>>,
}

impl<'a> Cookies<'a> {
    /// For these clauses, by number.
    pub(super) fn new(origins: &'a [Arc<ClauseOrigin>]) -> Self {
        Self { origins, known: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// The clauses behind each cookie that was made.
    pub(super) fn names(self) -> BTreeMap<u32, Vec<ClauseOrigin>> {
        let names = self.names.into_iter();
        names.map(|(cookie, origins)| (cookie, origins.into_iter().cloned().collect())).collect()
    }

    /// The cookie of these clauses.
    pub(super) fn cookie(&mut self, clauses: &[ClauseIndex]) -> u32 {
        if let Some(cookie) = self.known.get(clauses) {
            return *cookie;
        }
        let origins: BTreeSet<&ClauseOrigin> =
            clauses.iter().flatten().map(|clause| &*self.origins[*clause as usize]).collect();
        let cookie = cookie(&origins);
        if cookie != 0 {
            self.names.entry(cookie).or_default().extend(&origins);
        }
        self.known.insert(clauses.to_vec(), cookie);
        cookie
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::rules::ports::PortRange;

    const WEB: IdentityId = IdentityId(1000);
    const ANY: IdentityId = IdentityId::UNKNOWN;

    /// Rows as identity, bits, port, denial.
    fn rows(said: &[(IdentityId, PortPrefix, bool)]) -> Vec<(u32, u8, u16, bool)> {
        let word = |&(peer, cell, deny): &(IdentityId, PortPrefix, bool)| Word {
            direction: Direction::Ingress,
            peer,
            cell,
            deny,
            clause: None,
        };
        let rows = build(said.iter().map(word).collect(), &mut Cookies::new(&[]));
        rows.iter().map(|(key, row)| (key.identity.0, key.bits, key.port, row.deny)).collect()
    }

    fn port(port: u16) -> PortPrefix {
        PortRange::one(6, port).cells().next().unwrap()
    }

    #[test]
    fn a_narrower_allowance_does_not_hide_a_denial() {
        assert_eq!(
            rows(&[(WEB, port(80), false), (WEB, PortPrefix::ALL, true)]),
            [(1000, 0, 0, true)]
        );
        assert_eq!(rows(&[(WEB, port(80), false), (WEB, port(80), true)]), [(1000, 24, 80, true)]);
        assert_eq!(
            rows(&[(WEB, port(80), false), (ANY, PortPrefix::ALL, true)]),
            [(0, 0, 0, true)]
        );
    }

    #[test]
    fn a_narrower_denial_stays_beside_the_allowance() {
        assert_eq!(
            rows(&[(ANY, PortPrefix::ALL, false), (WEB, port(80), true)]),
            [(0, 0, 0, false), (1000, 24, 80, true)]
        );
        assert_eq!(
            rows(&[(WEB, PortPrefix::ALL, false), (ANY, port(80), true)]),
            [(0, 24, 80, true), (1000, 0, 0, false)]
        );
    }

    #[test]
    fn a_row_that_a_broader_one_makes_needless_is_left_out() {
        assert_eq!(
            rows(&[(WEB, port(80), false), (WEB, PortPrefix::ALL, false)]),
            [(1000, 0, 0, false)]
        );
        assert_eq!(rows(&[(WEB, port(80), false), (ANY, port(80), false)]), [(0, 24, 80, false)]);
        assert_eq!(rows(&[(WEB, port(80), true), (ANY, port(80), true)]), [(0, 24, 80, true)]);
    }
}
