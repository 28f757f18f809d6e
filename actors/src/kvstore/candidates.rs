use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use super::{IDENTITIES, IDENTITY_LOCKS, IDENTITY_USERS, directory::Directory, outage::Dice};
use crate::{
    model::{IdentityId, Labels},
    ports::{Condition, Listing, Pair, Put, Transaction},
};

/// A number for a set of labels, and what must hold for this node to have it.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) id: IdentityId,
    pub(super) transaction: Transaction,
    pub(super) leased: Pair,
}

/// What is known of a set of labels that wants a number.
#[derive(Debug, Default)]
pub(super) struct Wish {
    /// The number that it has on this node, in use: no other will do.
    pub(super) held: Option<IdentityId>,
    /// The number that it had before.
    pub(super) before: Option<IdentityId>,
    /// The number under which other nodes use it.
    pub(super) peers: Option<IdentityId>,
    /// Numbers that turned out to be taken.
    pub(super) taken: BTreeSet<IdentityId>,
}

/// A number that is in use here stands for something else in the cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disputed(pub(super) IdentityId);

impl Candidate {
    /// The number to try next. One transaction decides: it finds the number as it was, or, for one
    /// that is new, nobody who uses these labels or is about to.
    pub(super) fn choose(
        labels: &Arc<Labels>,
        wish: &Wish,
        directory: &Directory,
        node: IpAddr,
        dice: &mut Dice,
    ) -> Result<Self, Disputed> {
        let text = labels.sorted_text();
        // Nodes that did not see each other may have given these labels a number each. Both stand
        // for them then, and none needs to move.
        let stands = |id: &IdentityId| directory.labels(*id) == Some(labels);
        let own = wish.held.filter(stands).or(wish.before.filter(stands));
        let known = own.or(directory.of(labels));
        if let Some(held) = wish.held
            && known != Some(held)
            && (known.is_some() || directory.labels(held).is_some())
        {
            return Err(Disputed(held));
        }
        let free = |id: &IdentityId| {
            directory.labels(*id).is_none() && is_cluster(*id) && !wish.taken.contains(id)
        };
        let wanted = wish.held.or(wish.peers).or(wish.before.filter(free));
        let id = known.or(wanted).unwrap_or_else(|| random(&free, dice));
        let (number, user) = (format!("{IDENTITIES}{id}"), user_key(&text, node));
        let when = if known == Some(id) {
            vec![Condition::ValueIs(number.clone(), text.clone().into_bytes())]
        } else if wish.peers == Some(id) || wish.held == Some(id) {
            vec![Condition::Absent(number.clone())]
        } else {
            vec![
                Condition::Absent(number.clone()),
                Condition::NoneBelow(format!("{IDENTITY_USERS}{text}/")),
                Condition::NoneBelow(format!("{IDENTITY_LOCKS}{text}")),
            ]
        };
        let main = Put { key: number, value: text.into_bytes(), lease: None };
        let puts = if known == Some(id) { Vec::new() } else { vec![main] };
        let transaction = Transaction { when, puts, deletes: Vec::new() };
        let leased = Pair { key: user, value: id.to_string().into_bytes() };
        Ok(Self { id, transaction, leased })
    }
}

/// The key that says that a node uses these labels.
pub(super) fn user_key(text: &str, node: IpAddr) -> String {
    format!("{IDENTITY_USERS}{text}/{node}")
}

/// The number under which other nodes use these labels. Longer label sets begin with the same
/// text: only what has no further part is meant.
pub(super) fn number_of_users(labels: &Labels, listing: &Listing) -> Option<IdentityId> {
    let prefix = format!("{IDENTITY_USERS}{}/", labels.sorted_text());
    listing.pairs.iter().find_map(|pair| {
        let node = pair.key.strip_prefix(&prefix).filter(|node| !node.contains('/'))?;
        node.parse::<IpAddr>().ok()?;
        let id = std::str::from_utf8(&pair.value).ok()?.parse().ok().map(IdentityId)?;
        is_cluster(id).then_some(id)
    })
}

/// Whether nodes of the cluster hand the number out.
pub(super) fn is_cluster(id: IdentityId) -> bool {
    (IdentityId::MIN_CLUSTER..=IdentityId::MAX_CLUSTER).contains(&id)
}

/// A free number, somewhere: nodes that allocate at the same time hardly meet.
fn random(free: &impl Fn(&IdentityId) -> bool, dice: &mut Dice) -> IdentityId {
    let (first, last) = (IdentityId::MIN_CLUSTER.0, IdentityId::MAX_CLUSTER.0);
    let count = u64::from(last - first) + 1;
    let start = dice.number() % count;
    let all = (0..count).map(|step| first + u32::try_from((start + step) % count).unwrap_or(0));
    // With none left any will do: it is refused, and tried again when some are free.
    all.map(IdentityId).find(|id| free(id)).unwrap_or(IdentityId(first))
}
