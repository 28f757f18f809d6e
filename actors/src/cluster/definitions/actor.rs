//! The actor that brings definitions: it says which one is looked at next, and when again.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use serde_json::Value;

use super::{
    DefinitionState, DefinitionStatus, DefinitionsMsg,
    answers::DefinitionsAnswer,
    decide::{BroughtDefinition, DefinitionStep},
};
use crate::{
    cluster::{backoff::Backoff, resources::definitions},
    host::{AskError, Behaviour, Cx, Lent, Outlet, Pauses, Reply, Survives},
    ports::{
        Cluster, ClusterError, Definition, ObjectKey, ObjectWrite, SCHEMA_VERSION_LABEL, Verb,
    },
};

/// How long an answer may take; the port notices itself when nothing comes any more.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one is left alone that the server refuses: somebody has to change a role.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// The same where the server does not take it: somebody has to change what is stored there.
const INVALID_PAUSE: Duration = Duration::from_secs(600);
/// How long it is left alone after somebody undid what was written, who may go on doing so for ever.
const UNDONE: Pauses =
    Pauses::Doubling { first: Duration::from_secs(10), most: Duration::from_secs(3600) };
/// So often it is nothing to speak of that one is not established yet, or that somebody else changed
/// it: half a minute.
const QUIET_TRIES: u32 = 7;

/// Whom this actor talks to.
#[derive(Clone)]
pub struct DefinitionsPeers {
    /// The API server.
    pub cluster: Rc<dyn Cluster>,
    /// Who hears the names of definitions whose objects are served now.
    pub established: Outlet<String>,
}

/// Brings definitions to the cluster.
pub struct Definitions {
    peers: DefinitionsPeers,
    brought: Rc<Vec<BroughtDefinition>>,
    /// How each stands, in their order. Outlives a crash.
    stands: Lent<Vec<DefinitionStatus>>,
    /// How long each is left alone.
    pauses: Vec<Backoff>,
    /// Which of them this life has written.
    written: BTreeSet<usize>,
    /// How often somebody undid that, and whether it may be written again.
    undone: BTreeMap<usize, (u32, bool)>,
    /// How long the server is left alone.
    server: Backoff,
    /// One is being looked at or written.
    is_asking: bool,
    waiting: Vec<Reply<()>>,
}

impl Definitions {
    /// Makes each life of the actor. `seed` is another number on every node.
    pub fn factory(
        peers: DefinitionsPeers,
        objects: Vec<Value>,
        seed: u64,
    ) -> impl FnMut() -> Self + 'static {
        let brought: Vec<_> = objects.into_iter().map(BroughtDefinition::new).collect();
        let stands = brought.iter().map(|it| {
            let (name, state) = (it.name.clone(), DefinitionState::default());
            DefinitionStatus { name, state }
        });
        let stands = Survives::new(stands.collect::<Vec<_>>());
        let brought = Rc::new(brought);
        move || Self {
            peers: peers.clone(),
            stands: stands.lend(),
            pauses: brought.iter().map(|it| Backoff::new(seed, &it.name)).collect(),
            brought: Rc::clone(&brought),
            written: BTreeSet::new(),
            undone: BTreeMap::new(),
            server: Backoff::new(seed, "definitions"),
            is_asking: false,
            waiting: Vec::new(),
        }
    }

    /// Looks at the next one that is not done, unless one is being looked at.
    fn proceed(&mut self, cx: &mut Cx<'_, Self>) {
        if self.is_asking || self.server.is_pausing() {
            return;
        }
        let mut open = self.stands.iter().zip(&self.pauses);
        let next = open.position(|(status, pause)| !status.is_done() && !pause.is_pausing());
        if let Some(number) = next {
            self.look(cx, number);
        }
    }

    fn look(&mut self, cx: &mut Cx<'_, Self>, number: usize) {
        self.is_asking = true;
        let name = &self.brought[number].name;
        let why = format!("whether CustomResourceDefinition {name} is as it should be");
        let then = move |answer| DefinitionsAnswer::Looked(number, answer);
        let reply = cx.expect("cluster", PATIENCE, why, then);
        self.peers.cluster.definition(name, reply);
    }

    fn looked(
        &mut self,
        cx: &mut Cx<'_, Self>,
        number: usize,
        answer: Result<Option<Definition>, ClusterError>,
    ) {
        let managers = match &answer {
            Ok(Some(there)) => there.managers.clone(),
            _ => Vec::new(),
        };
        match answer.map(|there| self.brought[number].decide(there.as_ref())) {
            Ok(DefinitionStep::Write(verb)) => match self.may_write(number) {
                true => self.write(cx, number, verb),
                false => self.undone(cx, number, &managers),
            },
            Ok(DefinitionStep::Await) => {
                let why = "it is there and not established; its conditions say why";
                self.look_again(cx, number, why.to_owned());
            }
            Ok(DefinitionStep::Done(newer)) => self.done(number, newer),
            Err(error) => self.failed(cx, number, error),
        }
    }

    /// Whether it was not written in this life, or was left alone since somebody undid that.
    fn may_write(&self, number: usize) -> bool {
        let undone = self.undone.get(&number).map(|(_, may_write)| *may_write);
        undone.unwrap_or_else(|| !self.written.contains(&number))
    }

    /// It was written, and is as it was before: somebody else wants it so. It is left alone for long.
    fn undone(&mut self, cx: &mut Cx<'_, Self>, number: usize, managers: &[String]) {
        let (times, may_write) = self.undone.entry(number).or_default();
        *times += 1;
        *may_write = true;
        let (times, pause) = (*times, UNDONE.after(*times));
        let who = match managers {
            [] => "the server does not say who; look into its audit log".to_owned(),
            names => format!("its managedFields name {}", names.join(", ")),
        };
        let why = format!(
            "somebody undoes what is written to it ({who}): have that one keep the label \
             {SCHEMA_VERSION_LABEL}, or bring no definitions here"
        );
        self.note(number, why.clone(), times);
        self.pause(cx, number, pause, why);
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>, number: usize, verb: Verb) {
        self.is_asking = true;
        let name = self.brought[number].name.clone();
        let what = if matches!(verb, Verb::Create(_)) { "created" } else { "replaced" };
        tracing::info!(definition = name, "is to be {what}");
        let why = format!("CustomResourceDefinition {name} to be {what}");
        let then = move |answer| DefinitionsAnswer::Written(number, answer);
        let reply = cx.expect("cluster", PATIENCE, why, then);
        let key = ObjectKey { namespace: String::new(), name };
        self.peers.cluster.write(ObjectWrite { resource: definitions(), key, verb }, reply);
    }

    /// However a write ended, what the server has is looked at before anything else is done.
    fn written(&mut self, cx: &mut Cx<'_, Self>, number: usize, answer: Result<(), ClusterError>) {
        match answer {
            Ok(()) => {
                self.written.insert(number);
                if let Some((_, may_write)) = self.undone.get_mut(&number) {
                    *may_write = false;
                }
                self.pauses[number].succeeded();
                self.look_again(cx, number, "it was written, and is to be established".to_owned());
            }
            // Somebody else was ahead.
            Err(error @ (ClusterError::Conflict(_) | ClusterError::NotFound(_))) => {
                self.look_again(cx, number, error.to_string());
            }
            Err(error) => self.failed(cx, number, error),
        }
    }

    /// It is as it should be, or newer.
    fn done(&mut self, number: usize, newer: Option<String>) {
        let status = &mut self.stands[number];
        let name = status.name.clone();
        if let Err(refused) = self.peers.established.say(name.clone()) {
            tracing::warn!(definition = name, %refused, "its objects are listed later");
        }
        match &newer {
            Some(version) => tracing::info!(definition = name, version, "newer definition stays"),
            None => tracing::info!(definition = name, "is established"),
        }
        status.state = newer.map_or(DefinitionState::Established, DefinitionState::Newer);
        self.pauses[number].succeeded();
        self.answer();
    }

    fn answer(&mut self) {
        if self.stands.iter().all(DefinitionStatus::is_done) {
            self.waiting.drain(..).for_each(|reply| reply.send(()));
        }
    }

    /// It is looked at again after a while. At first that is how things go, after more tries a
    /// failure.
    fn look_again(&mut self, cx: &mut Cx<'_, Self>, number: usize, why: String) {
        let pause = self.pauses[number].failed(Duration::ZERO);
        let tries = self.pauses[number].failures();
        if tries > QUIET_TRIES {
            self.note(number, why.clone(), tries);
        }
        self.pause(cx, number, pause, why);
    }

    /// The server failed. One that is down, busy or does not know who asks is left alone; anything else
    /// is about that one definition.
    fn failed(&mut self, cx: &mut Cx<'_, Self>, number: usize, error: ClusterError) {
        let at_least = match &error {
            ClusterError::Unreachable(_) | ClusterError::Unknown(_) => {
                return self.rest(cx, number, Duration::ZERO, error);
            }
            ClusterError::Busy { after, .. } => return self.rest(cx, number, *after, error),
            ClusterError::Refused(_) => REFUSED_PAUSE,
            ClusterError::Invalid(_) => INVALID_PAUSE,
            _ => Duration::ZERO,
        };
        self.server.succeeded();
        let (pause, why) = (self.pauses[number].failed(at_least), error.to_string());
        self.note(number, why.clone(), self.pauses[number].failures());
        self.pause(cx, number, pause, why);
    }

    fn pause(&mut self, cx: &mut Cx<'_, Self>, number: usize, span: Duration, why: String) {
        let name = &self.brought[number].name;
        let why = format!("CustomResourceDefinition {name}, which is looked at again: {why}");
        self.pauses[number].pause(cx, span, why, move || DefinitionsAnswer::Again(number));
    }

    /// Leaves the server alone.
    fn rest(
        &mut self,
        cx: &mut Cx<'_, Self>,
        number: usize,
        at_least: Duration,
        error: ClusterError,
    ) {
        let pause = self.server.failed(at_least);
        let why = format!("CustomResourceDefinitions, which are not all registered: {error}");
        self.note(number, error.to_string(), self.server.failures());
        self.server.pause(cx, pause, why, || DefinitionsAnswer::Rested);
    }

    fn note(&mut self, number: usize, why: String, tries: u32) {
        let status = &mut self.stands[number];
        if tries.is_power_of_two() {
            let definition = &status.name;
            tracing::warn!(definition, why, tries, "is not registered; trying again");
        }
        status.state = DefinitionState::Failing { why, tries };
    }

    /// What came of a question. Who answers is not down.
    fn taken<T>(
        &mut self,
        answer: Result<Result<T, ClusterError>, AskError>,
    ) -> Result<T, ClusterError> {
        self.is_asking = false;
        let answer = ClusterError::of(answer);
        if answer.is_ok() {
            self.server.succeeded();
        }
        answer
    }
}

impl Behaviour for Definitions {
    type Msg = DefinitionsMsg;
    type Answer = DefinitionsAnswer;
    type Observed = Vec<DefinitionStatus>;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.proceed(cx);
    }

    fn handle(&mut self, msg: DefinitionsMsg, _: &mut Cx<'_, Self>) {
        match msg {
            DefinitionsMsg::Show(reply) => reply.send(self.stands.clone()),
            DefinitionsMsg::AwaitEstablished(reply) => {
                self.waiting.push(reply);
                self.answer();
            }
        }
    }

    fn answered(&mut self, answer: DefinitionsAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            DefinitionsAnswer::Looked(number, answer) => {
                let answer = self.taken(answer);
                self.looked(cx, number, answer);
            }
            DefinitionsAnswer::Written(number, answer) => {
                let answer = self.taken(answer);
                self.written(cx, number, answer);
            }
            // The pause of a life before may end in this one, which has looked already.
            DefinitionsAnswer::Again(number) => self.pauses[number].over(),
            DefinitionsAnswer::Rested => self.server.over(),
        }
        self.proceed(cx);
    }

    fn observe(&self) -> Vec<DefinitionStatus> {
        self.stands.clone()
    }
}
