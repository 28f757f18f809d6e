//! The choice of the number that is tried next for a set of labels.

use std::sync::Arc;

use super::{
    AllocatorAnswer, Directory,
    claim::{Candidate, ClaimError, Disputed, Standing, Wish},
    state::AllocatorBackend,
};
use crate::{
    cluster::dice::Dice,
    model::{ClusterId, IdentityId, Labels},
};

/// Numbers that are drawn before the first free one is taken.
const DRAWS_MAX: usize = 64;

/// One of the cluster's numbers that is free.
fn draw(cluster: ClusterId, dice: &mut Dice, is_free: impl Fn(IdentityId) -> bool) -> IdentityId {
    let (first, last) = (cluster.first(), cluster.last());
    let count = last.0 - first.0 + 1;
    let drawn = (0..DRAWS_MAX).map(|_| (dice.number() % u64::from(count)) as u32);
    let mut all = drawn.chain(0..count).map(|nth| IdentityId(first.0 + nth));
    // With none left any will do: it is refused, and tried again when some are free.
    all.find(|id| is_free(*id)).unwrap_or(first)
}

impl Wish {
    /// Whether a number is in use only since before the cluster was asked, and the labels have
    /// another one there: if each node kept its own, there were as many of a set as nodes.
    fn is_of_before(
        &self,
        held: IdentityId,
        labels: &Labels,
        directory: &Directory,
        cluster: ClusterId,
    ) -> bool {
        !self.confirmed
            && !directory.stands(held, labels)
            && directory.of(labels, cluster).is_some()
    }
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
            && (!cluster.hands_out(held)
                || backend.is_disputed(held, labels, directory)
                || wish.is_of_before(held, labels, directory, cluster))
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
