//! The actor that resolves labels and prefixes to identities and counts who uses each of them.
//! A new number is stored before it is told. In a cluster with an allocator, that one chooses it.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    Identity, IdentityError, IdentityMsg,
    allocations::IdentityAllocations,
    answers::IdentityAnswer,
    round::{Question, Round},
};
use crate::{
    host::{AskError, Behaviour, Cx, Lent, Outlet, Reply, Survives},
    model::{ClusterId, Families, IdentityId, Labels},
    policy::identity::Numbering,
    ports::{Disk, DiskError},
    state_directory::IdentityTable,
};

/// How long the disk may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the cluster may take for a number, somewhat less than who asks for it waits.
const ALLOCATE_PATIENCE: Duration = Duration::from_secs(110);

/// The owner of identities.
pub struct Identities {
    disk: Rc<dyn Disk>,
    /// Outlives a crash: a number in use must never be handed out for something else.
    allocations: Lent<IdentityAllocations>,
    /// Who hears of identities that nobody uses any more.
    listener: Lent<Option<Outlet<IdentityId>>>,
    /// Who hands out numbers for the whole cluster, if it is not done here.
    allocator: Lent<Option<Outlet<Numbering>>>,
    waiting: Vec<Question>,
    under_way: Option<Round>,
    last_error: Option<String>,
}

/// What the owner of identities shows of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdentitiesView {
    /// Numbers that are remembered.
    pub known: usize,
    /// Those of them that nobody uses.
    pub unused: usize,
    /// Which writing of the table is on disk.
    pub generation: u32,
    /// Questions that wait for the next write.
    pub waiting: usize,
    /// Whether a write is under way.
    pub writing: bool,
    /// Numbers that endpoints are to leave for another one, which others of this node have yet.
    pub moving: BTreeMap<IdentityId, IdentityId>,
    /// Why the last write failed.
    pub last_error: Option<String>,
}

impl Identities {
    /// Makes each life of the actor that keeps this table, which was stored as that generation, for a
    /// node of the cluster of that name and number.
    pub fn factory(
        disk: Rc<dyn Disk>,
        cluster: (&str, ClusterId),
        families: Families,
        stored: &IdentityTable,
        generation: u32,
    ) -> impl FnMut() -> Self + 'static {
        let allocations = IdentityAllocations::new(cluster, stored, generation, families);
        let allocations = Survives::new(allocations);
        let (listener, allocator) = (Survives::default(), Survives::default());
        move || Self {
            disk: Rc::clone(&disk),
            allocations: allocations.lend(),
            listener: listener.lend(),
            allocator: allocator.lend(),
            waiting: Vec::new(),
            under_way: None,
            last_error: None,
        }
    }

    /// Answers at once what is settled; puts the rest to what waits for the disk.
    fn ask(&mut self, cx: &mut Cx<'_, Self>, question: Question) {
        let allocator = self.allocator.clone();
        let allocations = &mut *self.allocations;
        match question {
            Question::Labels { labels, before, reply } => {
                if let Some(identity) =
                    allocations.fixed.of(&labels).and_then(|id| allocations.get(id))
                {
                    return reply.send(Ok(identity));
                }
                let draft = self.under_way.as_ref().map(|round| &round.draft);
                let settled = match allocator {
                    Some(_) => allocations.settled_in_cluster(&labels, before, draft),
                    None => allocations.settled_here(&labels, before, draft),
                };
                match (settled, allocator) {
                    // Nobody would give back what nobody hears of.
                    (Some(_), _) if reply.is_closed() => {}
                    (Some(id), _) => {
                        let identity = allocations.take(id, &labels);
                        reply.send(Ok(identity));
                    }
                    (None, None) => self.waiting.push(Question::Labels { labels, before, reply }),
                    (None, Some(allocator)) => {
                        allocate(cx, &allocator, labels, before, reply);
                    }
                }
            }
            // One after the other: the last set of prefixes must be the last to be in force.
            other => self.waiting.push(other),
        }
    }

    /// Takes a reference back.
    fn release(&mut self, id: IdentityId) {
        let allocations = &mut *self.allocations;
        let last = allocations.uses.give_back(id) && allocations.uses.of(id) == 0;
        if last {
            self.forget(id);
        }
    }

    /// No address of another node has these any more.
    fn abandon(&mut self, ids: Vec<IdentityId>) {
        for id in ids {
            let last = self.allocations.uses.abandon(id);
            if last {
                self.forget(id);
            }
        }
    }

    /// With the last reference goes what endpoints enforce for the identity.
    fn forget(&mut self, id: IdentityId) {
        let allocations = &mut *self.allocations;
        let waiting = allocations.moves.freed(id);
        let known = allocations.disputed.remove(&id) || allocations.tables.labels(id).is_some();
        if let (true, Some(listener)) = (known, self.listener.as_ref())
            && let Err(refused) = listener.say(id)
        {
            tracing::warn!(identity = %id, %refused, "rows of an unused identity stay");
        }
        // After that: whoever gets the number finds nothing of it in force.
        waiting.into_iter().for_each(|from| self.tell_allocator(Numbering::Movable(from)));
    }

    /// The cluster gave a number, or did not.
    fn allocated(
        &mut self,
        (labels, before): (Arc<Labels>, Option<IdentityId>),
        reply: Reply<Result<Identity, IdentityError>>,
        answer: Result<IdentityId, AskError>,
    ) {
        let error = match answer {
            Ok(id) if reply.is_closed() => {
                return self.tell_allocator(Numbering::Declined(id, labels));
            }
            Ok(id) => return self.waiting.push(Question::Numbered { labels, id, before, reply }),
            Err(error) => error,
        };
        let allocations = &mut *self.allocations;
        match allocations.current(&labels, before).filter(|_| !reply.is_closed()) {
            // What it has serves on, and is left later.
            Some(current) => {
                let identity = allocations.take(current, &labels);
                reply.send(Ok(identity));
                self.tell_allocator(Numbering::Movable(current));
            }
            None => reply.send(Err(IdentityError::NotAllocated(error.to_string()))),
        }
    }

    /// Who hands out numbers hears which of them are in use here.
    fn tell_turned(&mut self) {
        let turned = self.allocations.uses.turned();
        if self.allocator.is_none() {
            return;
        }
        for id in turned {
            let labels = self.allocations.tables.cluster.labels(id);
            match (self.allocations.uses.local(id), labels) {
                (0, _) => self.tell_allocator(Numbering::Unused(id)),
                (_, Some(labels)) => {
                    self.tell_allocator(Numbering::Used(id, Arc::clone(labels)));
                }
                _ => {}
            }
        }
    }

    fn tell_allocator(&self, msg: Numbering) {
        if let Some(allocator) = self.allocator.as_ref()
            && let Err(refused) = allocator.say(msg)
        {
            tracing::error!(%refused, "the cluster does not hear which identities are in use");
        }
    }

    /// Begins the next write, unless one is under way.
    fn write(&mut self, cx: &mut Cx<'_, Self>) {
        if self.under_way.is_some() || self.waiting.is_empty() {
            return;
        }
        let round = Round::begin(&self.allocations, std::mem::take(&mut self.waiting));
        let writes = round.writes(&self.allocations);
        if writes.is_empty() {
            return self.finish(round);
        }
        let reply = cx.expect("disk", PATIENCE, round.why(), IdentityAnswer::Stored);
        self.under_way = Some(round);
        self.disk.submit(writes, reply);
    }

    fn finish(&mut self, mut round: Round) {
        let given = std::mem::take(&mut round.given);
        let answers = round.finish(&mut self.allocations);
        answers.into_iter().for_each(|answer| answer());
        self.return_unused(given);
        // What went while the round was written can be had at once.
        let allocations = &mut *self.allocations;
        let free = allocations.moves.over(|id| allocations.uses.of(id) > 0);
        free.into_iter().for_each(|from| self.tell_allocator(Numbering::Movable(from)));
    }

    /// Numbers that the cluster gave for labels and that nobody got.
    fn return_unused(&self, given: BTreeMap<IdentityId, Arc<Labels>>) {
        let allocations = &*self.allocations;
        for (id, labels) in given {
            if allocations.uses.local(id) == 0 || !allocations.tables.cluster.stands(id, &labels) {
                self.tell_allocator(Numbering::Declined(id, labels));
            }
        }
    }

    fn stored(&mut self, result: Result<Result<(), DiskError>, AskError>) {
        let Some(mut round) = self.under_way.take() else { return };
        match result.unwrap_or_else(|error| Err(unanswered(error))) {
            Ok(()) => {
                self.last_error = None;
                self.finish(round);
            }
            Err(error) => {
                tracing::error!(%error, "identities were not stored; none of them is handed out");
                self.last_error = Some(error.to_string());
                self.return_unused(std::mem::take(&mut round.given));
                round.fail(&IdentityError::NotStored(error));
            }
        }
    }
}

impl Behaviour for Identities {
    type Msg = IdentityMsg;
    type Answer = IdentityAnswer;
    type Observed = IdentitiesView;

    fn started(&mut self, _: &mut Cx<'_, Self>) {
        // A number that came for the run before, and met nobody, is not used.
        if self.allocator.is_some() {
            let used = self.allocations.uses.all_local();
            self.tell_allocator(Numbering::OnlyUsed(used));
        }
    }

    fn handle(&mut self, msg: IdentityMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            IdentityMsg::Resolve { labels, before, reply } => {
                self.ask(cx, Question::Labels { labels: Arc::new(labels), before, reply });
            }
            IdentityMsg::Prefixes { desired, reply } => {
                self.ask(cx, Question::Prefixes { desired, reply });
            }
            IdentityMsg::Adopt { desired, reply } => {
                self.ask(cx, Question::Adopt { desired, reply });
            }
            IdentityMsg::AllocateBy(allocator) => {
                *self.allocator = Some(allocator);
            }
            IdentityMsg::Inherit(ids) => {
                let allocations = &mut *self.allocations;
                ids.into_iter().for_each(|id| allocations.adopt_known(id));
            }
            IdentityMsg::Abandon(ids) => self.abandon(ids),
            IdentityMsg::Withhold(ids) => {
                let allocations = &mut *self.allocations;
                ids.into_iter().for_each(|id| allocations.withhold(id));
            }
            IdentityMsg::ReleaseWithheld => {
                let unused = self.allocations.uses.release_withheld();
                unused.into_iter().for_each(|id| self.forget(id));
            }
            IdentityMsg::Disputed(id) => {
                self.allocations.disputed.insert(id);
            }
            IdentityMsg::Release(id) => self.release(id),
            IdentityMsg::Subscribe(listener) => {
                *self.listener = Some(listener);
            }
            IdentityMsg::Get { id, reply } => {
                let identity = self.allocations.get(id);
                reply.send(identity);
            }
            IdentityMsg::List(reply) => {
                let all = self.allocations.list();
                reply.send(all);
            }
        }
        self.write(cx);
        self.tell_turned();
    }

    fn answered(&mut self, answer: IdentityAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            IdentityAnswer::Allocated { labels, before, reply, answer } => {
                self.allocated((labels, before), reply, answer);
            }
            IdentityAnswer::Stored(result) => self.stored(result),
        }
        self.write(cx);
        self.tell_turned();
    }

    fn observe(&self) -> IdentitiesView {
        let allocations = &*self.allocations;
        IdentitiesView {
            known: allocations.tables.iter().count(),
            unused: allocations.uses.unused().count(),
            generation: allocations.generation,
            waiting: self.waiting.len(),
            writing: self.under_way.is_some(),
            moving: allocations.moves.all().clone(),
            last_error: self.last_error.clone(),
        }
    }
}

fn allocate(
    cx: &mut Cx<'_, Identities>,
    allocator: &Outlet<Numbering>,
    labels: Arc<Labels>,
    before: Option<IdentityId>,
    reply: Reply<Result<Identity, IdentityError>>,
) {
    let desired = Arc::clone(&labels);
    cx.ask(
        allocator,
        ALLOCATE_PATIENCE,
        format!("the number of {labels} in the cluster"),
        |reply| Numbering::Allocate { labels: desired, before, reply },
        move |answer| IdentityAnswer::Allocated { labels, before, reply, answer },
    );
}

fn unanswered(error: AskError) -> DiskError {
    DiskError {
        op: "write",
        path: IdentityTable::SLOTS.paths()[0].clone().into(),
        cause: error.to_string(),
        remedy: "look whether the disk of the library directory still answers",
    }
}
