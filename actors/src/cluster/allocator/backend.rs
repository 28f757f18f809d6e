//! What a backend must be able to do, and the choice of the number that is tried next.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Allocator, AllocatorAnswer, Directory, Entry};
use crate::{
    cluster::dice::Dice,
    host::Cx,
    model::{ClusterId, IdentityId, Labels},
};

/// What is waited for until all identities were told.
pub(super) const LIST_WHY: &str = "the identities that the cluster has";

/// Numbers that are drawn before the first free one is taken.
const DRAWS_MAX: usize = 64;

/// What is known of a set of labels that wants a number.
#[derive(Debug, Default)]
pub(super) struct Wish {
    /// The number that it has on this node, in use: no other will do.
    pub(super) held: Option<IdentityId>,
    /// The number that it had before.
    pub(super) before: Option<IdentityId>,
    /// The number under which other nodes use it.
    pub(super) peers: Option<IdentityId>,
    /// Nodes use it under a number that is none of the cluster's.
    pub(super) strays: bool,
    /// Numbers that turned out to be taken.
    pub(super) taken: BTreeSet<IdentityId>,
}

/// A number that is in use here stands for something else in the cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disputed(pub(super) IdentityId);

/// A number for a set of labels, to be tried next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) labels: Arc<Labels>,
    pub(crate) id: IdentityId,
    pub(crate) standing: Standing,
}

/// How the cluster stands to a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has these labels there.
    Known,
    /// The same, but it goes soon if nobody says that it uses it.
    Marked,
    /// It does not, and some node uses it for these labels all the same.
    Used,
    /// Nobody has it, and nodes use the labels under a number that the cluster had when its own was
    /// another one.
    Renumbered,
    /// Nobody has it, as far as is known.
    New,
}

/// How a claim stands once it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// There is nothing to do.
    Had,
    /// `AllocatorAnswer::Claimed` says how it went.
    UnderWay,
}

/// Who was there first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nodes use the labels. More may be on its way.
    Users {
        /// Under that number.
        number: Option<IdentityId>,
        /// Under one that is none of the cluster's.
        strays: bool,
    },
    /// What the number stands for.
    Entry(IdentityId, Entry),
}

/// Why a claim went neither way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct ClaimError {
    /// The words of who refused, with a remedy.
    pub cause: String,
    /// How long to leave it alone.
    pub pause: Duration,
}

impl ClaimError {
    /// The pause where nothing speaks for another one.
    pub(super) const PAUSE: Duration = Duration::from_secs(2);
}

/// Where the cluster keeps its identities.
pub(crate) trait AllocatorBackend {
    /// Its name, for who waits for it.
    fn name(&self) -> &'static str;

    /// Whose numbers are handed out.
    fn cluster(&self) -> ClusterId;

    /// Has `AllocatorAnswer::Listed` come once all identities were told.
    fn await_list(&self, cx: &mut Cx<'_, Allocator>);

    /// Whether a number that is in use for these labels cannot stay so.
    fn is_disputed(&self, held: IdentityId, labels: &Labels, directory: &Directory) -> bool;

    /// What decides which number labels get that have none.
    fn dice(&mut self, labels: &Labels) -> Dice;

    /// Begins to claim a number for this node.
    fn claim(&mut self, cx: &mut Cx<'_, Allocator>, candidate: Candidate) -> Claim;

    /// Looks who was there first; `AllocatorAnswer::Looked` tells.
    fn look(&mut self, cx: &mut Cx<'_, Allocator>, labels: &Arc<Labels>, id: IdentityId);

    /// This node does not use the number any more.
    fn give_up(&mut self, labels: &Labels, id: IdentityId);
}

/// One of the cluster's numbers that is free.
fn draw(cluster: ClusterId, dice: &mut Dice, is_free: impl Fn(IdentityId) -> bool) -> IdentityId {
    let (first, last) = (cluster.first(), cluster.last());
    let count = last.0 - first.0 + 1;
    let drawn = (0..DRAWS_MAX).map(|_| (dice.number() % u64::from(count)) as u32);
    let mut all = drawn.chain(0..count).map(|nth| IdentityId(first.0 + nth));
    // With none left any will do: it is refused, and tried again when some are free.
    all.find(|id| is_free(*id)).unwrap_or(first)
}

impl Candidate {
    /// The number to try next.
    pub(super) fn choose(
        labels: &Arc<Labels>,
        wish: &Wish,
        directory: &Directory,
        backend: &mut dyn AllocatorBackend,
    ) -> Result<Self, Disputed> {
        let cluster = backend.cluster();
        // One of an earlier run, whose cluster had another number, is nobody's.
        if let Some(held) = wish.held
            && (!cluster.hands_out(held) || backend.is_disputed(held, labels, directory))
        {
            return Err(Disputed(held));
        }
        let is_free =
            |id| cluster.hands_out(id) && directory.is_free(id) && !wish.taken.contains(&id);
        // Nodes that did not see each other may have given these labels a number each. Both stand
        // for them then, and none needs to move.
        let before = wish.before.filter(|&id| cluster.hands_out(id));
        let had = before.filter(|&id| directory.stands(id, labels));
        let desired = wish.held.or(had).or_else(|| directory.of(labels, cluster)).or(wish.peers);
        let desired = desired.or(wish.before.filter(|&id| is_free(id)));
        let id = desired.unwrap_or_else(|| draw(cluster, &mut backend.dice(labels), is_free));
        let standing = if directory.stands(id, labels) {
            if directory.is_marked(id) { Standing::Marked } else { Standing::Known }
        } else if wish.held == Some(id) || wish.peers == Some(id) {
            Standing::Used
        } else if wish.strays {
            Standing::Renumbered
        } else {
            Standing::New
        };
        Ok(Self { labels: Arc::clone(labels), id, standing })
    }

    /// What is waited for while it is claimed.
    pub(super) fn why(&self) -> String {
        format!("number {} for {}", self.id, self.labels)
    }

    /// How the claim went.
    pub(super) fn claimed(self, answer: Result<bool, ClaimError>) -> AllocatorAnswer {
        AllocatorAnswer::Claimed(self.labels, self.id, answer)
    }
}
