//! What the allocator is: its backend, the claims that are desired, and what outlives a crash.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{AllocatorNews, Candidate, Claim, Directory, claim::Wish};
use crate::{
    cluster::dice::Dice,
    host::{Cx, Lent, Outlet, Ref, Reply, Retry, Survives},
    model::{ClusterId, IdentityId, Labels},
    policy::identity::IdentityMsg,
};

/// What is waited for until all identities were told.
pub(super) const LIST_WHY: &str = "the identities that the cluster has";

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

/// The owner of the cluster's identities on this node.
pub struct Allocator {
    pub(super) backend: Box<dyn AllocatorBackend>,
    pub(super) state: Lent<AllocatorState>,
    pub(super) attempts: BTreeMap<Arc<Labels>, Attempt>,
    pub(super) dice: Dice,
    pub(super) awaiting: bool,
}

/// What outlives a crash.
#[derive(Default)]
pub(super) struct AllocatorState {
    pub(super) directory: Directory,
    pub(super) listed: bool,
    /// Numbers that this node uses.
    pub(super) used: BTreeMap<IdentityId, Arc<Labels>>,
    /// Those of them that the cluster has for it.
    pub(super) claimed: BTreeSet<IdentityId>,
    /// Those that it ever had for it in this life.
    pub(super) confirmed: BTreeSet<IdentityId>,
    /// Those that stand for something else there.
    pub(super) disputed: BTreeSet<IdentityId>,
    /// Labels of which a claim is on its way.
    pub(super) claiming: BTreeSet<Arc<Labels>>,
    pub(super) listener: Option<Outlet<AllocatorNews>>,
    pub(super) identities: Option<Ref<IdentityMsg>>,
}

/// A claim that is desired, for one set of labels.
#[derive(Default)]
pub(super) struct Attempt {
    pub(super) wish: Wish,
    pub(super) replies: Vec<Reply<IdentityId>>,
    /// The step of it that is on its way, or a pause in which the cluster is left alone.
    pub(super) step: Retry,
    /// A crash ended it amid a claim: that may be done, and is claimed once more to be given back.
    pub(super) orphaned: bool,
}

impl Allocator {
    /// Makes each life of the allocator.
    pub(crate) fn factory(
        backend: impl Fn() -> Box<dyn AllocatorBackend> + 'static,
        seed: u64,
    ) -> impl FnMut() -> Self + 'static {
        let state = Survives::<AllocatorState>::default();
        move || Self {
            backend: backend(),
            state: state.lend(),
            attempts: BTreeMap::new(),
            dice: Dice::new(seed),
            awaiting: false,
        }
    }
}
