use std::{cell::RefCell, rc::Rc, time::Duration};

use serde::Serialize;

use super::{
    ClusterMsg, SourceMsg, SourceState,
    backoff::Backoff,
    told::{Delta, Told, marks},
};
use crate::{
    host::{AskError, Behaviour, Cx, Ref, Reply, TimerId},
    mutants::{Mutant, mutated},
    ports::{Cluster, ClusterError, Object, ObjectChange, ObjectWatch, Page, Resource, Time},
};

/// How long a page of a list may take; the port notices itself when nothing comes any more.
const LIST_PATIENCE: Duration = Duration::from_secs(600);
/// A watch lasts that long to twice that: then its server ends it, and the next one begins.
const WATCH_LEAST: Duration = Duration::from_secs(120);
/// A watch that lasts that much longer is half open: nobody is at the other end.
const OVERDUE: Duration = Duration::from_secs(15);
/// A watch that ends sooner failed, whatever its end says.
const WATCH_SHORT: Duration = Duration::from_secs(5);
/// How often it is looked whether a missing definition is there.
const UNDEFINED_PAUSE: Duration = Duration::from_secs(10);

/// One kind of objects: lists it, watches it, tells what changed.
pub(super) struct Source {
    cluster: Rc<dyn Cluster>,
    supervisor: Ref<ClusterMsg>,
    number: usize,
    /// Its resource in the versions that are understood, newest first.
    forms: Rc<Vec<Resource>>,
    /// That of them which the server is asked for.
    form: usize,
    /// Somebody waits until there can be such objects.
    needed: bool,
    /// Outlives a crash: what was told need not be told again.
    kept: Rc<RefCell<Kept>>,
    backoff: Backoff,
    /// Pages of a list that is not complete.
    pages: Vec<Object>,
    /// Where a watch goes on from; none if all is to be listed.
    version: Option<String>,
    watch: Option<Box<dyn ObjectWatch>>,
    /// Counts watches: what an earlier one says counts no more.
    watches: u64,
    opened: Time,
    overdue: Option<TimerId>,
    /// Who waits until all is told.
    waiting: Vec<Reply<()>>,
    /// The server is left alone, as everyone who asks can see.
    resting: Option<Reply<()>>,
    began: Time,
}

#[derive(Default)]
struct Kept {
    told: Told,
    synced: bool,
}

/// What a source shows of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceView {
    /// What it lists and watches.
    pub resource: &'static str,
    /// Whether all its objects have been told once.
    pub synced: bool,
    /// How many there are.
    pub objects: usize,
    /// Everything up to this version was told.
    pub version: Option<String>,
    /// Whether it is being watched.
    pub watching: bool,
    /// How often the server failed, one after the other.
    pub failures: u32,
}

impl Source {
    /// Makes each life of a source.
    pub(super) fn factory(
        cluster: Rc<dyn Cluster>,
        supervisor: Ref<ClusterMsg>,
        number: usize,
        forms: Vec<Resource>,
        needed: bool,
        seed: u64,
    ) -> impl FnMut() -> Self + 'static {
        let forms = Rc::new(forms);
        let kept = Rc::<RefCell<Kept>>::default();
        move || Self {
            cluster: Rc::clone(&cluster),
            supervisor: supervisor.clone(),
            number,
            backoff: Backoff::new(seed, forms[0].name),
            forms: Rc::clone(&forms),
            form: 0,
            needed,
            kept: Rc::clone(&kept),
            pages: Vec::new(),
            version: None,
            watch: None,
            watches: 0,
            opened: Time::default(),
            overdue: None,
            waiting: Vec::new(),
            resting: None,
            began: Time::default(),
        }
    }

    fn resource(&self) -> &Resource {
        &self.forms[self.form]
    }

    fn list(&mut self, cx: &mut Cx<'_, Self>, next: Option<String>) {
        let why = format!("a list of {}", self.resource().name);
        let reply = cx.expect("cluster", LIST_PATIENCE, why, SourceMsg::Listed);
        self.cluster.list(self.resource(), next, reply);
    }

    fn listed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Page, ClusterError>, AskError>,
    ) {
        match answered(answer) {
            Ok(Page { objects, version, next }) => {
                self.pages.extend(objects);
                match next {
                    Some(next) => self.list(cx, Some(next)),
                    None => self.complete(cx, version),
                }
            }
            Err(ClusterError::NotFound(_)) if self.resource().definition.is_some() => {
                self.ask_definition(cx);
            }
            Err(ClusterError::NotFound(_)) if self.form + 1 < self.forms.len() => {
                // What is no custom resource needs no definition: it has an older version.
                self.form += 1;
                self.pages.clear();
                self.list(cx, None);
            }
            Err(error) => self.rest(cx, error),
        }
    }

    /// The whole list is there.
    fn complete(&mut self, cx: &mut Cx<'_, Self>, version: String) {
        let objects = std::mem::take(&mut self.pages);
        let deltas = self.kept.borrow().told.list(objects);
        if self.tell(deltas) {
            self.version = Some(version);
            self.open(cx);
            self.synced();
        } else {
            self.rest(cx, ClusterError::Failed("the agent has too much to do".to_owned()));
        }
    }

    /// The server has no such resource. Only if nobody defined it there are no such objects: one
    /// that has just been started does not serve all that is defined.
    fn ask_definition(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(definition) = self.resource().definition else { return };
        let why = format!("whether there is a CustomResourceDefinition {definition}");
        let reply = cx.expect("cluster", LIST_PATIENCE, why, SourceMsg::Defined);
        self.cluster.is_defined(definition, reply);
    }

    fn defined(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<bool, ClusterError>, AskError>,
    ) {
        match answered(answer) {
            Ok(true) => {
                let Resource { name, api_version, .. } = self.resource();
                let error = format!("{name} are defined, but not served as {api_version}");
                // It may serve another version.
                self.form = (self.form + 1) % self.forms.len();
                self.rest(cx, ClusterError::NotFound(error));
            }
            Ok(false) => {
                self.pages.clear();
                let deltas = self.kept.borrow().told.list(Vec::new());
                if self.tell(deltas) {
                    self.say(SourceState::Undefined);
                    if !self.needed {
                        self.kept.borrow_mut().synced = true;
                        self.answer();
                    }
                }
                let definition = self.resource().definition.unwrap_or_default();
                let why = format!(
                    "CustomResourceDefinition {definition} to be registered, without which there \
                     are no {}",
                    self.resource().name
                );
                self.pause(cx, UNDEFINED_PAUSE, why);
            }
            Err(error) => self.rest(cx, error),
        }
    }

    fn open(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(version) = self.version.clone() else { return self.list(cx, None) };
        self.watches += 1;
        self.opened = cx.now();
        let lifetime = self.backoff.spread(WATCH_LEAST);
        self.watch = Some(self.cluster.watch(self.resource(), &version, lifetime));
        self.heed(cx);
        let overdue = cx.after(lifetime + OVERDUE, SourceMsg::Overdue(self.watches));
        if let Some(earlier) = self.overdue.replace(overdue) {
            cx.cancel(earlier);
        }
    }

    fn heed(&mut self, cx: &mut Cx<'_, Self>) {
        let number = self.watches;
        let what = format!("cluster: {}", self.resource().name);
        if let Some(watch) = &mut self.watch {
            watch.next(cx.heed(what, move |answer| SourceMsg::Seen(number, answer)));
        }
    }

    fn seen(
        &mut self,
        cx: &mut Cx<'_, Self>,
        number: u64,
        answer: Result<Result<Vec<ObjectChange>, ClusterError>, AskError>,
    ) {
        if number != self.watches || self.watch.is_none() {
            return;
        }
        let lasted = cx.now().since(self.opened) >= WATCH_SHORT;
        match answered(answer) {
            Ok(changes) => {
                if lasted || !changes.is_empty() {
                    self.backoff.succeeded();
                }
                let (deltas, version) = self.kept.borrow().told.changes(changes);
                if !self.tell(deltas) {
                    self.version = None;
                    let error = ClusterError::Failed("the agent has too much to do".to_owned());
                    return self.rest(cx, error);
                }
                self.version = version.or(self.version.take());
                self.synced();
                self.heed(cx);
            }
            Err(ClusterError::Ended) if lasted => {
                self.backoff.succeeded();
                self.open(cx);
            }
            Err(error) => self.rest(cx, error),
        }
    }

    /// A watch that should have ended: whatever happened may have been lost on the way.
    fn overdue(&mut self, cx: &mut Cx<'_, Self>, number: u64) {
        let is_over = number != self.watches || self.watch.is_none();
        if is_over || mutated(Mutant::HalfOpenTrusted) {
            return;
        }
        let resource = self.resource().name;
        tracing::warn!(resource, "watch did not end when it should: nobody is at its other end");
        self.watch = None;
        self.open(cx);
    }

    /// Everything is told, and watched from now on.
    fn synced(&mut self) {
        self.kept.borrow_mut().synced = true;
        if let Some(version) = self.version.clone() {
            self.say(SourceState::Synced(version));
        }
        self.answer();
    }

    fn answer(&mut self) {
        self.waiting.drain(..).for_each(|reply| reply.send(()));
    }

    fn say(&self, state: SourceState) {
        let state = ClusterMsg::State { source: self.number, state };
        if let Err(refused) = self.supervisor.tell(state) {
            tracing::warn!(resource = self.resource().name, %refused, "its state is not shown");
        }
    }

    /// Whether the supervisor took it.
    fn tell(&self, objects: Vec<Delta>) -> bool {
        if objects.is_empty() {
            return true;
        }
        let marks = marks(&objects);
        let told = self.supervisor.tell(ClusterMsg::Changed { source: self.number, objects });
        if told.is_ok() {
            self.kept.borrow_mut().told.note(marks);
        }
        told.is_ok()
    }

    /// The server failed; what it said before stays. It is left alone for a while.
    fn rest(&mut self, cx: &mut Cx<'_, Self>, error: ClusterError) {
        self.pages.clear();
        self.watch = None;
        if self.form > 0 && self.resource().definition.is_none() {
            // The server may be another one by now: the newest version is tried first again.
            (self.form, self.version) = (0, None);
        }
        let at_least = match &error {
            ClusterError::Busy { after, .. } => *after,
            ClusterError::Expired(_) | ClusterError::NotFound(_) | ClusterError::Failed(_) => {
                self.version = None;
                Duration::ZERO
            }
            _ => Duration::ZERO,
        };
        let pause = self.backoff.failed(at_least);
        let (name, tries) = (self.resource().name, self.backoff.failures());
        let known = match self.kept.borrow().synced {
            true => "which stay as they were".to_owned(),
            false => format!("which are not synced for {} s", cx.now().since(self.began).as_secs()),
        };
        let why = format!("{name}, {known}: {error}; tried {tries} times, and again after this");
        if tries == 1 || tries.is_power_of_two() {
            tracing::warn!(resource = name, %error, tries, "source does not follow the cluster");
        }
        self.say(SourceState::Broken { error, tries });
        self.pause(cx, pause, why);
    }

    /// A pause that everyone can see. The reply is never answered: its deadline ends the pause.
    fn pause(&mut self, cx: &mut Cx<'_, Self>, span: Duration, why: String) {
        self.resting = Some(cx.expect("cluster", span, why, |_| SourceMsg::Retry));
    }
}

fn answered<T>(answer: Result<Result<T, ClusterError>, AskError>) -> Result<T, ClusterError> {
    answer.unwrap_or_else(|error| Err(ClusterError::Unreachable(error.to_string())))
}

impl Behaviour for Source {
    type Msg = SourceMsg;
    type Observed = SourceView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.began = cx.now();
        self.list(cx, None);
    }

    fn handle(&mut self, msg: SourceMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            SourceMsg::AwaitSync(reply) => {
                let synced = self.kept.borrow().synced;
                if synced { reply.send(()) } else { self.waiting.push(reply) }
            }
            SourceMsg::Listed(answer) => self.listed(cx, answer),
            SourceMsg::Defined(answer) => self.defined(cx, answer),
            SourceMsg::Seen(number, answer) => self.seen(cx, number, answer),
            SourceMsg::Overdue(number) => self.overdue(cx, number),
            // The pause of a life before may end in this one, which lists already.
            SourceMsg::Retry => {
                let rested = self.resting.take().is_some();
                if rested || mutated(Mutant::PauseEndedTwice) {
                    self.open(cx);
                }
            }
        }
    }

    fn observe(&self) -> SourceView {
        let kept = self.kept.borrow();
        SourceView {
            resource: self.resource().name,
            synced: kept.synced,
            objects: kept.told.len(),
            version: self.version.clone(),
            watching: self.watch.is_some(),
            failures: self.backoff.failures(),
        }
    }
}
