//! The actor of one resource: list, watch, notice silence or another server, and list again. The
//! supervisor decides what is held back.

mod undefined;

use std::{rc::Rc, time::Duration};

use super::{
    ClusterMsg, Heard, SourceMsg, SourceState,
    answers::SourceAnswer,
    awaited_definition::AwaitedDefinition,
    listing::{ListReason, PartialList, Telling},
    reported_versions::{Delta, ReportedVersions, marks},
    source_view::SourceView,
    version::{number, went_back},
};
use crate::{
    cluster::backoff::Backoff,
    host::{AskError, Behaviour, Cx, Lent, Ref, Reply, Survives, Time, TimerId},
    mutants::{Mutant, mutated},
    ports::{Cluster, ClusterError, ObjectChange, ObjectWatch, Page, Resource},
};

/// How long a page of a list may take; the port notices itself when nothing comes any more.
const LIST_PATIENCE: Duration = Duration::from_secs(600);
/// A watch lasts that long, or a little longer: then its server ends it, and the next one begins.
/// Two seconds before a server of Kubernetes says in a bookmark how far it is.
const WATCH_LEAST: Duration = Duration::from_secs(20);
const WATCH_SPREAD: Duration = Duration::from_secs(5);
/// The first one may be that much shorter: bookmarks of all sources are spread then, and one of them says
/// soon that the server is there.
const WATCH_FIRST_SPREAD: Duration = Duration::from_secs(12);
/// Who has said nothing for that long, no bookmark either, does not serve the watch.
const SILENCE_MAX: Duration = Duration::from_millis(28_500);
/// Of more objects silence may last longer: a list after each costs at most a page in that time.
const LISTED_MAX: usize = 250;
/// A watch that ends sooner failed, whatever its end says.
const WATCH_SHORT: Duration = Duration::from_secs(5);

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
    memory: Lent<SourceHistory>,
    /// How long the server is left alone that failed.
    backoff: Backoff,
    /// Pages of a list that is not complete.
    pages: PartialList,
    /// Where a watch goes on from; none if all is to be listed.
    version: Option<String>,
    watch: Option<Box<dyn ObjectWatch>>,
    /// Watches for its definition, while there is none.
    definition: Option<AwaitedDefinition>,
    /// Counts watches: what an earlier one says counts no more.
    watches: u64,
    opened: Time,
    /// Counts what the server said.
    words: u64,
    silence: Option<TimerId>,
    listing: ListReason,
    stalled: bool,
    /// Who waits until all is told.
    waiting: Vec<Reply<()>>,
    began: Time,
}

#[derive(Default)]
struct SourceHistory {
    reported: ReportedVersions,
    synced: bool,
    /// The furthest version that the server said.
    reached: Option<u64>,
}

impl Source {
    /// Makes each life of a source.
    pub(super) fn factory(
        cluster: Rc<dyn Cluster>,
        supervisor: Ref<ClusterMsg>,
        number: usize,
        forms: Vec<Resource>,
        (needed, telling): (bool, Telling),
        seed: u64,
    ) -> impl FnMut() -> Self + 'static {
        let forms = Rc::new(forms);
        let memory = Survives::<SourceHistory>::default();
        move || Self {
            cluster: Rc::clone(&cluster),
            supervisor: supervisor.clone(),
            number,
            backoff: Backoff::new(seed, forms[0].name),
            forms: Rc::clone(&forms),
            form: 0,
            needed,
            memory: memory.lend(),
            pages: PartialList::new(telling),
            version: None,
            watch: None,
            definition: None,
            watches: 0,
            opened: Time::default(),
            words: 0,
            silence: None,
            listing: ListReason::default(),
            stalled: false,
            waiting: Vec::new(),
            began: Time::default(),
        }
    }

    fn resource(&self) -> &Resource {
        &self.forms[self.form]
    }

    fn list(&mut self, cx: &mut Cx<'_, Self>, next: Option<String>) {
        (self.watch, self.definition) = (None, None);
        let why = format!("a list of {}", self.resource().name);
        let reply = cx.expect("cluster", LIST_PATIENCE, why, SourceAnswer::Listed);
        self.cluster.list(self.resource(), next, reply);
    }

    fn listed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Page, ClusterError>, AskError>,
    ) {
        match ClusterError::of(answer) {
            Ok(Page { objects, version, next }) => {
                let is_other = self.is_other(&version);
                if self.listing.end_check() && next.is_some() && !is_other {
                    // It goes on where it was.
                    return self.open(cx);
                }
                let deltas = self.pages.add(objects, &self.memory.reported);
                match next {
                    _ if !self.tell(deltas) => self.overrun(cx),
                    Some(next) => self.list(cx, Some(next)),
                    None => self.complete(cx, version),
                }
            }
            Err(ClusterError::NotFound(_)) if self.resource().definition.is_some() => {
                self.ask_definition(cx, None);
            }
            // Who gave no right to it may have no such objects at all.
            Err(error @ ClusterError::Refused(_)) if self.resource().definition.is_some() => {
                self.ask_definition(cx, Some(error));
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
        let deltas = self.pages.end(&self.memory.reported);
        let missed = !deltas.is_empty();
        if self.tell(deltas) {
            self.stalled = self.listing.end() && missed;
            if self.stalled {
                let resource = self.resource().name;
                tracing::warn!(
                    resource,
                    "watch said nothing while objects changed; they are listed"
                );
            }
            self.reach(version);
            self.spoken(cx);
            self.open(cx);
            self.synced(true);
        } else {
            self.overrun(cx);
        }
    }

    /// The supervisor takes no more: all is listed again after a pause.
    fn overrun(&mut self, cx: &mut Cx<'_, Self>) {
        self.version = None;
        self.rest(cx, ClusterError::Failed("the agent has too much to do".to_owned()));
    }

    fn open(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(version) = self.version.clone() else { return self.list(cx, None) };
        self.watches += 1;
        self.opened = cx.now();
        let lifetime = match self.watches {
            1 => self.backoff.spread(WATCH_LEAST - WATCH_FIRST_SPREAD, WATCH_FIRST_SPREAD),
            _ => self.backoff.spread(WATCH_LEAST, WATCH_SPREAD),
        };
        self.watch = Some(self.cluster.watch(self.resource(), &version, lifetime));
        self.heed(cx);
    }

    /// After a failure: who answers now may be another server, from whose watch nothing would come
    /// before it is where the other one was.
    fn resume(&mut self, cx: &mut Cx<'_, Self>) {
        self.listing.end_check();
        if self.version.is_some() && !mutated(Mutant::OtherSideTrusted) {
            self.listing = ListReason::Checking;
            self.list(cx, None);
        } else {
            self.open(cx);
        }
    }

    /// A pause is over. That of a life before may end in this one, which lists already.
    fn end_pause(&mut self, cx: &mut Cx<'_, Self>) {
        let rested = self.backoff.is_pausing();
        self.backoff.over();
        if rested || mutated(Mutant::PauseEndedTwice) {
            self.resume(cx);
        }
    }

    /// The server said something: from now on its silence counts.
    fn spoken(&mut self, cx: &mut Cx<'_, Self>) {
        self.words += 1;
        let pages = self.memory.reported.len().div_ceil(LISTED_MAX).max(1);
        let span = SILENCE_MAX.saturating_mul(u32::try_from(pages).unwrap_or(u32::MAX));
        let silence = cx.after(span, SourceAnswer::Silent(self.words));
        if let Some(earlier) = self.silence.replace(silence) {
            cx.cancel(earlier);
        }
    }

    /// Everything up to this version was told.
    fn reach(&mut self, version: String) {
        let reached = number(&version);
        let memory = &mut *self.memory;
        memory.reached = memory.reached.max(reached);
        self.version = Some(version);
    }

    /// Whether a server that says this version is another one than before. It is named then.
    fn is_other(&mut self, version: &str) -> bool {
        let memory = &mut *self.memory;
        let Some(why) = went_back(memory.reached, version) else { return false };
        memory.reached = number(version);
        let resource = self.resource().name;
        tracing::warn!(resource, why, "API server is another one than before");
        let replaced = ClusterMsg::Replaced { source: self.number, why };
        if let Err(refused) = self.supervisor.tell(replaced) {
            tracing::warn!(resource, %refused, "others notice it themselves");
        }
        true
    }

    fn heed(&mut self, cx: &mut Cx<'_, Self>) {
        let number = self.watches;
        let what = format!("cluster: {}", self.resource().name);
        if let Some(watch) = &mut self.watch {
            watch.next(cx.heed(what, move |answer| SourceAnswer::Seen(number, answer)));
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
        match ClusterError::of(answer) {
            Ok(changes) => {
                if lasted || !changes.is_empty() {
                    self.backoff.succeeded();
                }
                let spoke = !changes.is_empty();
                let (deltas, version) = self.memory.reported.changes(changes);
                if version.as_deref().is_some_and(|version| self.is_other(version)) {
                    self.version = None;
                    return self.list(cx, None);
                }
                if !self.tell(deltas) {
                    return self.overrun(cx);
                }
                if let Some(version) = version {
                    self.reach(version);
                }
                if spoke {
                    self.stalled = false;
                    self.spoken(cx);
                }
                self.synced(spoke);
                self.heed(cx);
            }
            Err(ClusterError::Ended) if lasted => {
                self.backoff.succeeded();
                self.open(cx);
            }
            Err(error) => self.rest(cx, error),
        }
    }

    /// Nothing was said for too long: whatever happened may have been lost on the way.
    fn silent(&mut self, cx: &mut Cx<'_, Self>, word: u64) {
        if word != self.words || mutated(Mutant::HalfOpenTrusted) {
            return;
        }
        self.version = None;
        // Who lists or rests does so anyway.
        if self.watch.is_some() {
            self.listing = ListReason::AfterSilence;
            self.list(cx, None);
        }
    }

    /// The server is another one than before.
    fn relist(&mut self, cx: &mut Cx<'_, Self>) {
        self.version = None;
        self.memory.reached = None;
        if self.watch.is_some() || self.definition.is_some() {
            self.list(cx, None);
        }
    }

    /// Everything is told, and watched from now on.
    fn synced(&mut self, spoke: bool) {
        self.memory.synced = true;
        if let Some(version) = self.version.clone() {
            self.say_heard(SourceState::Synced(version), spoke);
        }
        self.answer();
    }

    fn answer(&mut self) {
        self.waiting.drain(..).for_each(|reply| reply.send(()));
    }

    fn say(&self, state: SourceState) {
        self.say_heard(state, false);
    }

    fn say_heard(&self, state: SourceState, spoke: bool) {
        let objects = self.memory.reported.len();
        let heard = Heard { objects, spoke, stalled: self.stalled };
        let state = ClusterMsg::State { source: self.number, state, heard };
        if let Err(refused) = self.supervisor.tell(state) {
            tracing::warn!(resource = self.resource().name, %refused, "its state is not shown");
        }
    }

    /// Whether the supervisor took it.
    fn tell(&mut self, objects: Vec<Delta>) -> bool {
        if objects.is_empty() {
            return true;
        }
        let marks = marks(&objects);
        let reported = self.supervisor.tell(ClusterMsg::Changed { source: self.number, objects });
        if reported.is_ok() {
            self.memory.reported.note(marks);
        }
        reported.is_ok()
    }

    /// The server failed; what it said before stays. It is left alone for a while.
    fn rest(&mut self, cx: &mut Cx<'_, Self>, error: ClusterError) {
        self.pages.clear();
        self.watch = None;
        self.listing.end_check();
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
        let known = match self.memory.synced {
            true => "which stay as they were".to_owned(),
            false => format!("which are not synced for {} s", cx.now().since(self.began).as_secs()),
        };
        let why = format!("{name}, {known}: {error}; tried {tries} times, and again after this");
        if tries == 1 || tries.is_power_of_two() {
            tracing::warn!(resource = name, %error, tries, "source does not follow the cluster");
        }
        self.say(SourceState::Broken { error, tries });
        self.backoff.pause(cx, pause, why, || SourceAnswer::Retry);
    }
}

impl Behaviour for Source {
    type Msg = SourceMsg;
    type Answer = SourceAnswer;
    type Observed = SourceView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.began = cx.now();
        self.list(cx, None);
    }

    fn handle(&mut self, msg: SourceMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            SourceMsg::AwaitSync(reply) => {
                let synced = self.memory.synced;
                if synced { reply.send(()) } else { self.waiting.push(reply) }
            }
            SourceMsg::Relist => self.relist(cx),
            SourceMsg::Defined if self.definition.is_some() => self.list(cx, None),
            SourceMsg::Defined => self.end_pause(cx),
        }
    }

    fn answered(&mut self, answer: SourceAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            SourceAnswer::Listed(answer) => self.listed(cx, answer),
            SourceAnswer::Defined { refusal, answer } => self.defined(cx, refusal, answer),
            SourceAnswer::DefinitionListed(answer) => self.definition_listed(cx, answer),
            SourceAnswer::DefinitionSeen(number, answer) => {
                self.definition_seen(cx, number, answer);
            }
            SourceAnswer::DefinitionSilent(number) => self.definition_silent(cx, number),
            SourceAnswer::Seen(number, answer) => self.seen(cx, number, answer),
            SourceAnswer::Silent(word) => self.silent(cx, word),
            SourceAnswer::Retry => self.end_pause(cx),
        }
    }

    fn observe(&self) -> SourceView {
        let memory = &*self.memory;
        SourceView {
            resource: self.resource().name,
            synced: memory.synced,
            objects: memory.reported.len(),
            version: self.version.clone(),
            watching: self.watch.is_some(),
            failures: self.backoff.failures(),
        }
    }
}
