//! From rules to an endpoint's policy: each clause says a word on each peer and port. How words
//! become rows is in `rows`.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use super::{
    ClauseAction, ClauseOrigin, ClausePeers, ClausePorts, Enforcement, IdentityView, PolicyName,
    PolicyRank, PolicySettings, PolicyTier, Resolved, Subject,
    named::numbers,
    ports::{PortPrefix, PortRange},
    rows::{Cookies, Word, build},
    rule::{Clause, PortMatch, Rule},
    tiers::{ClauseTurn, TieredSide},
};
use crate::model::{Direction, Families, IdentityId, NamedPorts, PolicyRows};

/// Resolves the policy of an endpoint for which these rules are written.
pub(super) fn resolve<'a>(
    settings: &PolicySettings,
    rules: &[&'a Rule],
    subject: &Subject,
    selections: &mut Selections<'a>,
) -> Resolved {
    let rules = if settings.enforcement == Enforcement::Never { &[] } else { rules };
    let mut rules = rules.to_vec();
    // The first of a tier is asked first.
    rules.sort_by(|a, b| turn(a).cmp(&turn(b)));
    let mut resolution = Resolution {
        settings,
        subject,
        selections,
        words: Vec::new(),
        origins: Vec::new(),
        turns: Vec::new(),
    };
    let sides =
        [Direction::Ingress, Direction::Egress].map(|way| resolution.direction(way, &rules));
    let [ingress_enforced, egress_enforced] =
        [&sides[0], &sides[1]].map(|side| side.enforced || side.tiered);
    let mut cookies = Cookies::new(&resolution.origins);
    let mut plain = Vec::new();
    let mut rows = PolicyRows::new();
    for side in sides {
        let ResolvedSide { direction, enforced, tiered, words } = side;
        if !tiered {
            plain.extend(words);
            continue;
        }
        let spares_host = direction == Direction::Ingress && settings.allow_localhost;
        let turns = &resolution.turns;
        rows.extend(
            TieredSide { direction, enforced, spares_host, words, turns }.rows(&mut cookies),
        );
    }
    rows.extend(build(plain, &mut cookies));
    let (rows, origins) = (Arc::new(rows), cookies.names());
    Resolved { rows, ingress_enforced, egress_enforced, origins, revision: 0 }
}

/// When a rule is asked. Of equals, the policy whose name sorts first; rules without clauses never.
pub(super) fn turn(rule: &Rule) -> (PolicyRank, Option<(&PolicyName, &str)>) {
    // Where there is no order, that of before is kept.
    let ordered = rule.rank.tier != PolicyTier::Network;
    let origin = rule.clauses.first().map(|clause| &*clause.origin).filter(|_| ordered);
    (rule.rank, origin.map(|origin| (&origin.policy, origin.source.as_str())))
}

/// What is said of one direction.
struct ResolvedSide {
    direction: Direction,
    /// Whether what no rule allows is dropped.
    enforced: bool,
    /// Whether some of it is said in tiers that have an order.
    tiered: bool,
    words: Vec<Word>,
}

/// The identities that clauses select, each looked up once.
pub(super) struct Selections<'a> {
    view: &'a IdentityView,
    /// By a clause's address, which the borrow keeps in its place.
    known: BTreeMap<usize, Rc<[IdentityId]>>,
}

impl<'a> Selections<'a> {
    /// Nothing is looked up yet.
    pub(super) fn new(view: &'a IdentityView) -> Self {
        Self { view, known: BTreeMap::new() }
    }

    /// The peers of a clause, by number; [`IdentityId::UNKNOWN`] stands for every peer.
    fn peers(&mut self, clause: &'a Clause, families: Families) -> Rc<[IdentityId]> {
        let ClausePeers::Of(peers) = &clause.peers else { return Rc::new([IdentityId::UNKNOWN]) };
        let select = || {
            let ids = peers.iter().flat_map(|peer| self.view.select(peer, families));
            Rc::from_iter(ids.collect::<BTreeSet<_>>())
        };
        self.known.entry(std::ptr::from_ref(clause).addr()).or_insert_with(select).clone()
    }
}

struct Resolution<'s, 'a> {
    settings: &'s PolicySettings,
    subject: &'s Subject,
    selections: &'s mut Selections<'a>,
    /// Of the direction that is being looked at.
    words: Vec<Word>,
    /// Each clause that says a word, by its number.
    origins: Vec<Arc<ClauseOrigin>>,
    /// When each of them is asked.
    turns: Vec<ClauseTurn>,
}

impl<'a> Resolution<'_, 'a> {
    /// What is said of one direction.
    fn direction(&mut self, direction: Direction, rules: &[&'a Rule]) -> ResolvedSide {
        let denies = || rules.iter().any(|rule| rule.default_deny(direction));
        let enforced = self.settings.enforcement.holds(&self.subject.labels, denies);
        let own = |peer| Word { direction, peer, cell: PortPrefix::ALL, deny: false, clause: None };
        let speaks = |rule: &Rule| rule.clauses.iter().any(|it| it.direction == direction);
        let tiered = rules.iter().any(|rule| rule.rank.tier != PolicyTier::Network && speaks(rule));
        if !enforced && !tiered {
            self.words.push(own(IdentityId::UNKNOWN));
        } else if enforced && direction == Direction::Ingress && self.settings.allow_localhost {
            self.words.push(own(IdentityId::HOST));
        }
        for rule in rules {
            for clause in rule.clauses.iter().filter(|clause| clause.direction == direction) {
                self.turns.push(ClauseTurn::new(rule.rank.tier, clause));
                self.clause(clause);
            }
        }
        let words = std::mem::take(&mut self.words);
        ResolvedSide { direction, enforced, tiered, words }
    }

    fn clause(&mut self, clause: &'a Clause) {
        self.origins.push(clause.origin.clone());
        let peers = self.selections.peers(clause, self.settings.families);
        let ClausePorts::Of(ports) = &clause.ports else {
            return self.add(clause, &peers, [PortPrefix::ALL]);
        };
        for port in ports {
            match port {
                PortMatch::Range(range) => self.add(clause, &peers, range.cells()),
                PortMatch::Named { name, protocol } => self.named(clause, &peers, name, *protocol),
            }
        }
    }

    /// Adds the word of the newest clause on these cells.
    fn add(
        &mut self,
        it: &Clause,
        peers: &[IdentityId],
        cells: impl IntoIterator<Item = PortPrefix>,
    ) {
        let (direction, deny) = (it.direction, it.action == ClauseAction::Deny);
        let clause = u32::try_from(self.origins.len() - 1).ok();
        for cell in cells {
            let word = |peer: &IdentityId| Word { direction, peer: *peer, cell, deny, clause };
            self.words.extend(peers.iter().map(word));
        }
    }

    /// A name is looked up at the side that receives; one that it does not have selects nothing.
    fn named(&mut self, clause: &Clause, peers: &[IdentityId], name: &str, protocol: u8) {
        let one = |port| PortRange::one(protocol, port).cells();
        match clause.direction {
            Direction::Ingress => {
                for port in numbers(&self.subject.named_ports, name, protocol) {
                    self.add(clause, peers, one(port));
                }
            }
            Direction::Egress => {
                let view = self.selections.view;
                let mut add = |id, ports: &NamedPorts| {
                    for port in numbers(ports, name, protocol) {
                        self.add(clause, &[id], one(port));
                    }
                };
                if peers.contains(&IdentityId::UNKNOWN) {
                    view.iter().for_each(|(id, facts)| add(id, &facts.named_ports));
                } else {
                    let known = peers.iter().filter_map(|&id| Some((id, view.get(id)?)));
                    known.for_each(|(id, facts)| add(id, &facts.named_ports));
                }
            }
        }
    }
}
