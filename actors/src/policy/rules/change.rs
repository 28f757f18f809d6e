//! A change of the rules, step by step, in the order that never denies what stays allowed:
//!
//! 1. prefixes that are new get their numbers;
//! 2. every endpoint knows them, still by the old rules; then the ipcache maps them: their packets
//!    meet the verdicts of before;
//! 3. every endpoint enforces the new rules, which name them;
//! 4. the ipcache forgets those that no rule names;
//! 5. policies forget those too, and their numbers are given back.
//!
//! The first rules of an agent's life have no old ones before them: what endpoints enforce then is
//! what an earlier run left in the kernel, and all that is known of that is its rows. A packet of
//! a new prefix comes, until that is mapped, under the identity of the longest prefix around it
//! that is mapped already, or as the world. So in step 2 the new prefix inherits: the rows of that
//! identity are written once more for its number, which no packet carries yet. When it is mapped,
//! its packets meet the verdicts of before, and the rest goes on as ever. Prefixes that are mapped
//! from the start count as named by old rules: the new rules know them until no endpoint has the
//! old ones, and the ipcache forgets them then.
//!
//! ```text
//!               some are new
//!   ┌─► Number ──────────────► Prepare ───► Premap ───► Enforce ───► Unmap ───► Return
//!   │     │  │                    │            │          ▲  │         │          │
//!   │     │  └─ none is new ──────┼────────────┼──────────┘  │ none    │ refused  │
//!   │     │ refused               │ refused    │ refused     │ leaves  │          │
//!   │     ▼                       ▼            ▼             ▼         ▼          ▼
//!   └── Pause ◄───────────────────┴────────────┘            the next change, if one waits
//! ```
//!
//! **What if somebody refuses?** Without its number no rule can name a prefix: the change waits and
//! begins again, however often. So does one whose new prefixes are not known or mapped, but not for
//! ever: rules that deny must not wait for somebody who never answers, and after [`REFUSALS_MAX`]
//! times the next round begins all the same. From [`ChangeRound::Enforce`] on nothing holds up the rules:
//! the ipcache goes on trying by itself, and a prefix that could not leave leaves with a later change.
//!
//! **And a crash?** The answer that a round waits for dies with it. What is to be changed, a
//! [`PrefixChange`], outlives that and begins again at its numbers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    time::Duration,
};

use ipnet::IpNet;

use super::{ApplyReport, Repository};
use crate::{
    host::{AskError, Reply},
    model::IdentityId,
};

/// After that long a change that could not be finished is taken up again.
pub(super) const RETRY: Duration = Duration::from_secs(2);
/// How often new prefixes may fail to be known or mapped before the rules are enforced all the
/// same.
pub(super) const REFUSALS_MAX: u8 = 8;

/// Where the change under way is: whom it asked last, with what it needs once that is answered.
#[derive(Default)]
pub(super) enum ChangeRound {
    /// None is under way.
    #[default]
    Idle,
    /// All prefixes with numbers keep theirs, and these, which rules name, get some.
    Number(BTreeSet<IpNet>),
    /// Every endpoint is to know the new ones.
    Prepare(Prefixes),
    /// The ipcache is to map them.
    Premap(Prefixes),
    /// The rules are in force, and the ipcache is to map all that they name.
    Enforce(Prefixes),
    /// The ipcache is to forget what no rule names.
    Unmap(Prefixes),
    /// Policies forgot that too; its numbers are to be given back.
    Return(Prefixes),
    /// Somebody refused, and the change begins again. Answered by nobody: its deadline is what is
    /// waited for.
    Pause(Reply<()>),
}

/// Prefixes with numbers, by what is to happen with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prefixes {
    /// Those that rules name.
    pub(super) desired: BTreeSet<IpNet>,
    /// Those that no rule names any more, with their identities.
    pub(super) stale: BTreeMap<IpNet, IdentityId>,
}

/// How a round ended.
pub(super) enum ChangeRoundOutcome {
    /// Prefixes have numbers, and no rule names these.
    Numbered(BTreeMap<IpNet, IdentityId>),
    /// It is done, or there was nothing to do.
    Done,
    /// It is not, for that reason.
    Refused(String),
}

impl ChangeRoundOutcome {
    /// How a round ended by the answer to what it asked.
    pub(super) fn of<E: Display>(answer: Result<Result<(), E>, AskError>) -> Self {
        match answer {
            Ok(Ok(())) => Self::Done,
            Ok(Err(error)) => Self::Refused(error.to_string()),
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}

/// What comes next.
pub(super) enum NextChangeRound {
    /// That round.
    Enter(ChangeRound),
    /// The change waits for a while, for that reason.
    Pause(String),
    /// The next change.
    Finish,
    /// Nobody waits for that end.
    Stay(ChangeRound),
}

/// What is to be changed: what outlives a crash of a change under way.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixChange {
    /// The rules that are to be in force once all prefixes that they name have numbers; none if
    /// they already are. With them what is different from the rules before.
    pub(super) rules: Option<(Repository, ApplyReport)>,
    /// Whether a prefix has a number that policies did not know.
    pub(super) renumbered: bool,
    /// Identities of its prefixes that may not be in the ipcache.
    pub(super) unmapped: BTreeSet<IdentityId>,
    /// How often its new prefixes could not be made known or mapped.
    pub(super) refusals: u8,
}

impl PrefixChange {
    /// Says what comes behind a round that ended so: nobody else does. Some endpoints may be
    /// `behind`, and enforce rules of before.
    pub(super) fn next(
        &mut self,
        round: ChangeRound,
        end: ChangeRoundOutcome,
        behind: bool,
    ) -> NextChangeRound {
        NextChangeRound::Enter(match (round, end) {
            (ChangeRound::Number(desired), ChangeRoundOutcome::Numbered(stale)) => {
                let prefixes = Prefixes { desired, stale };
                let are_new = self.rules.is_some() && !self.unmapped.is_empty();
                if are_new {
                    ChangeRound::Prepare(prefixes)
                } else {
                    ChangeRound::Enforce(prefixes)
                }
            }
            (ChangeRound::Prepare(prefixes), ChangeRoundOutcome::Done) => {
                ChangeRound::Premap(prefixes)
            }
            (ChangeRound::Premap(prefixes), ChangeRoundOutcome::Done) => {
                ChangeRound::Enforce(prefixes)
            }
            // The ipcache goes on trying behind its answer. What is stale the rules of before may
            // name still, and what these deny must not become the world's: it goes once everyone
            // enforces others.
            (
                ChangeRound::Enforce(prefixes),
                ChangeRoundOutcome::Done | ChangeRoundOutcome::Refused(_),
            ) => match behind || prefixes.stale.is_empty() {
                true => return NextChangeRound::Finish,
                false => ChangeRound::Unmap(prefixes),
            },
            (ChangeRound::Unmap(prefixes), ChangeRoundOutcome::Done) => {
                ChangeRound::Return(prefixes)
            }
            // Packets may still come with these identities, so rows for them stay: both are tried
            // again with a later change.
            (ChangeRound::Unmap(_), ChangeRoundOutcome::Refused(_)) => {
                return NextChangeRound::Finish;
            }
            (ChangeRound::Return(_), ChangeRoundOutcome::Done | ChangeRoundOutcome::Refused(_)) => {
                return NextChangeRound::Finish;
            }
            (round, ChangeRoundOutcome::Refused(why)) => return self.refused(round, why),
            (round, ChangeRoundOutcome::Numbered(_) | ChangeRoundOutcome::Done) => {
                return NextChangeRound::Stay(round);
            }
        })
    }

    /// What comes behind a round that has to be done before the rules are enforced, and was refused.
    fn refused(&mut self, round: ChangeRound, why: String) -> NextChangeRound {
        let again = self.refusals < REFUSALS_MAX;
        match round {
            ChangeRound::Number(_) => NextChangeRound::Pause(why),
            ChangeRound::Prepare(_) | ChangeRound::Premap(_) if again => {
                self.refusals += 1;
                NextChangeRound::Pause(why)
            }
            // What some endpoints deny by a wider prefix passes there from now on.
            ChangeRound::Prepare(prefixes) => {
                tracing::warn!(
                    error = why,
                    "not every endpoint knows the new prefixes yet; going on"
                );
                NextChangeRound::Enter(ChangeRound::Premap(prefixes))
            }
            ChangeRound::Premap(prefixes) => NextChangeRound::Enter(ChangeRound::Enforce(prefixes)),
            round => NextChangeRound::Stay(round),
        }
    }
}
