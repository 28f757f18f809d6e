use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    IdentityError, IdentityMsg,
    ledger::Ledger,
    round::{Question, Round},
};
use crate::{
    host::{AskError, Behaviour, Cx, Ref},
    model::{Families, IdentityId},
    policy::PolicyMsg,
    ports::{Disk, DiskError},
    state::IdentityTable,
};

/// How long the disk may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The owner of identities.
pub struct Identities {
    disk: Rc<dyn Disk>,
    /// Outlives a crash: a number in use must never be handed out for something else.
    ledger: Rc<RefCell<Ledger>>,
    /// Who hears of identities that nobody uses any more.
    listener: Rc<RefCell<Option<Ref<PolicyMsg>>>>,
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
    /// Why the last write failed.
    pub last_error: Option<String>,
}

impl Identities {
    /// Makes each life of the actor that keeps this table, which was stored as that generation.
    pub fn factory(
        disk: Rc<dyn Disk>,
        cluster: &str,
        families: Families,
        stored: &IdentityTable,
        generation: u32,
    ) -> impl FnMut() -> Self + 'static {
        let ledger = Ledger::new(cluster, stored, generation, families);
        let ledger = Rc::new(RefCell::new(ledger));
        let listener = Rc::default();
        move || Self {
            disk: Rc::clone(&disk),
            ledger: Rc::clone(&ledger),
            listener: Rc::clone(&listener),
            waiting: Vec::new(),
            under_way: None,
            last_error: None,
        }
    }

    /// Answers at once what is settled; puts the rest to what waits for the disk.
    fn ask(&mut self, question: Question) {
        let mut ledger = self.ledger.borrow_mut();
        match question {
            Question::Labels { labels, before, reply } => {
                if let Some(identity) = ledger.fixed.of(&labels).and_then(|id| ledger.get(id)) {
                    return reply.send(Ok(identity));
                }
                let draft = self.under_way.as_ref().map(|round| &round.draft);
                match ledger.settled(&labels, before, draft) {
                    // Nobody would give back what nobody hears of.
                    Some(_) if reply.is_closed() => {}
                    Some(id) => {
                        let identity = ledger.take(id, &labels);
                        reply.send(Ok(identity));
                    }
                    None => self.waiting.push(Question::Labels { labels, before, reply }),
                }
            }
            // One after the other: the last set of prefixes must be the last to be in force.
            prefixes @ Question::Prefixes { .. } => self.waiting.push(prefixes),
        }
    }

    /// Takes a reference back. With the last one goes what endpoints enforce for the identity.
    fn release(&self, id: IdentityId) {
        let mut ledger = self.ledger.borrow_mut();
        let last = ledger.uses.give_back(id) && ledger.uses.of(id) == 0;
        let labels = last && ledger.tables.labels(id).is_some();
        drop(ledger);
        if let (true, Some(listener)) = (labels, self.listener.borrow().as_ref())
            && let Err(refused) = listener.tell(PolicyMsg::Forget(id))
        {
            tracing::warn!(identity = %id, %refused, "rows of an unused identity stay");
        }
    }

    /// Begins the next write, unless one is under way.
    fn write(&mut self, cx: &mut Cx<'_, Self>) {
        if self.under_way.is_some() || self.waiting.is_empty() {
            return;
        }
        let round = Round::begin(&self.ledger.borrow(), std::mem::take(&mut self.waiting));
        let writes = round.writes(&self.ledger.borrow());
        if writes.is_empty() {
            return self.finish(round);
        }
        let reply = cx.expect("disk", PATIENCE, round.why(), IdentityMsg::Stored);
        self.under_way = Some(round);
        self.disk.submit(writes, reply);
    }

    fn finish(&self, round: Round) {
        let answers = round.finish(&mut self.ledger.borrow_mut());
        answers.into_iter().for_each(|answer| answer());
    }

    fn stored(&mut self, result: Result<Result<(), DiskError>, AskError>) {
        let Some(round) = self.under_way.take() else { return };
        match result.unwrap_or_else(|error| Err(unanswered(error))) {
            Ok(()) => {
                self.last_error = None;
                self.finish(round);
            }
            Err(error) => {
                tracing::error!(%error, "identities were not stored; none of them is handed out");
                self.last_error = Some(error.to_string());
                round.fail(&IdentityError::NotStored(error));
            }
        }
    }
}

impl Behaviour for Identities {
    type Msg = IdentityMsg;
    type Observed = IdentitiesView;

    fn handle(&mut self, msg: IdentityMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            IdentityMsg::Resolve { labels, before, reply } => {
                self.ask(Question::Labels { labels: Arc::new(labels), before, reply });
            }
            IdentityMsg::Prefixes { wanted, reply } => {
                self.ask(Question::Prefixes { wanted, reply });
            }
            IdentityMsg::Release(id) => self.release(id),
            IdentityMsg::Subscribe(listener) => {
                self.listener.replace(Some(listener));
            }
            IdentityMsg::Get { id, reply } => {
                let identity = self.ledger.borrow().get(id);
                reply.send(identity);
            }
            IdentityMsg::List(reply) => {
                let all = self.ledger.borrow().list();
                reply.send(all);
            }
            IdentityMsg::Stored(result) => self.stored(result),
        }
        self.write(cx);
    }

    fn observe(&self) -> IdentitiesView {
        let ledger = self.ledger.borrow();
        IdentitiesView {
            known: ledger.tables.iter().count(),
            unused: ledger.uses.unused().count(),
            generation: ledger.generation,
            waiting: self.waiting.len(),
            writing: self.under_way.is_some(),
            last_error: self.last_error.clone(),
        }
    }
}

fn unanswered(error: AskError) -> DiskError {
    DiskError {
        op: "write",
        path: IdentityTable::SLOTS.paths()[0].clone().into(),
        cause: error.to_string(),
        remedy: "look whether the disk of the library directory still answers",
    }
}
