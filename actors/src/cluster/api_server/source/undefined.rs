//! A resource that nobody has defined: there are no such objects. Whether somebody defines it is watched, so
//! that an unchanged cluster is asked nothing.

use std::time::Duration;

use super::{
    super::{SourceState, answers::SourceAnswer, awaited_definition::AwaitedDefinition},
    LIST_PATIENCE, Source, WATCH_LEAST, WATCH_SHORT, WATCH_SPREAD,
};
use crate::{
    cluster::resources::definitions,
    host::{AskError, Cx},
    ports::{ClusterError, Definition, ObjectChange, Page, Resource},
};

/// How often it is looked whether a missing definition is there, where somebody waits for it, or it cannot be
/// watched.
const UNDEFINED_PAUSE: Duration = Duration::from_secs(10);
/// How much longer than it was to last a watch may be silent.
const SILENCE_MORE: Duration = Duration::from_secs(10);

type SeenDefinition = Result<Result<Vec<ObjectChange>, ClusterError>, AskError>;

impl Source {
    /// The server has no such resource. Only if nobody defined it there are no such objects: one
    /// that has just been started does not serve all that is defined.
    pub(super) fn ask_definition(&mut self, cx: &mut Cx<'_, Self>, refusal: Option<ClusterError>) {
        let Some(definition) = self.resource().definition else { return };
        let why = format!("whether there is a CustomResourceDefinition {definition}");
        let then = move |answer| SourceAnswer::Defined { refusal, answer };
        let reply = cx.expect("cluster", LIST_PATIENCE, why, then);
        self.cluster.definition(definition, reply);
    }

    pub(super) fn defined(
        &mut self,
        cx: &mut Cx<'_, Self>,
        refusal: Option<ClusterError>,
        answer: Result<Result<Option<Definition>, ClusterError>, AskError>,
    ) {
        match (ClusterError::of(answer), refusal) {
            (Err(_), Some(refusal)) => self.rest(cx, refusal),
            (Ok(Some(definition)), Some(refusal)) if definition.established => {
                self.rest(cx, refusal);
            }
            (Ok(Some(definition)), None) if definition.established => {
                let Resource { name, api_version, .. } = self.resource();
                let error = format!("{name} are defined, but not served as {api_version}");
                // It may serve another version.
                self.form = (self.form + 1) % self.forms.len();
                self.rest(cx, ClusterError::NotFound(error));
            }
            // One that was never established never had objects.
            (Ok(definition), _) => {
                self.pages.clear();
                let deltas = self.memory.reported.list(Vec::new());
                if self.tell(deltas) {
                    self.say(SourceState::Undefined);
                    if !self.needed {
                        self.memory.synced = true;
                        self.answer();
                    }
                }
                match definition {
                    None if !self.needed => self.await_definition(cx),
                    _ => self.look_again(cx),
                }
            }
            (Err(error), None) => self.rest(cx, error),
        }
    }

    /// Looks again after a while, which everybody can see.
    fn look_again(&mut self, cx: &mut Cx<'_, Self>) {
        self.definition = None;
        let Resource { name, definition, .. } = self.resource();
        let definition = definition.unwrap_or_default();
        let why = format!(
            "CustomResourceDefinition {definition} to be registered, without which there are no {name}"
        );
        self.backoff.pause(cx, UNDEFINED_PAUSE, why, || SourceAnswer::Retry);
    }

    /// The one definition, as a resource.
    fn own_definition(&self) -> Resource {
        let name = self.resource().definition.unwrap_or_default();
        Resource { fields: Some(format!("metadata.name={name}")), ..definitions() }
    }

    /// From which version on it is to be watched, only a list says.
    fn await_definition(&mut self, cx: &mut Cx<'_, Self>) {
        let why = format!("a list of the definitions of {}", self.resource().name);
        let reply = cx.expect("cluster", LIST_PATIENCE, why, SourceAnswer::DefinitionListed);
        self.cluster.list(&self.own_definition(), None, reply);
    }

    pub(super) fn definition_listed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Page, ClusterError>, AskError>,
    ) {
        match ClusterError::of(answer) {
            Ok(Page { objects, version, .. }) if objects.is_empty() => {
                self.watch_definition(cx, version);
            }
            // It came meanwhile, or the agent may not list definitions.
            _ => self.look_again(cx),
        }
    }

    fn watch_definition(&mut self, cx: &mut Cx<'_, Self>, version: String) {
        self.watches += 1;
        let (number, opened) = (self.watches, cx.now());
        let lifetime = self.backoff.spread(WATCH_LEAST, WATCH_SPREAD);
        let watch = self.cluster.watch(&self.own_definition(), &version, lifetime);
        self.definition = Some(AwaitedDefinition { watch, number, version, opened });
        cx.after(lifetime + SILENCE_MORE, SourceAnswer::DefinitionSilent(number));
        self.heed_definition(cx);
    }

    fn heed_definition(&mut self, cx: &mut Cx<'_, Self>) {
        let what = format!("cluster: a definition of {}", self.resource().name);
        if let Some(AwaitedDefinition { watch, number, .. }) = &mut self.definition {
            let number = *number;
            watch.next(cx.heed(what, move |answer| SourceAnswer::DefinitionSeen(number, answer)));
        }
    }

    pub(super) fn definition_seen(
        &mut self,
        cx: &mut Cx<'_, Self>,
        number: u64,
        answer: SeenDefinition,
    ) {
        let Some(awaited) = self.definition.as_mut().filter(|it| it.number == number) else {
            return;
        };
        match ClusterError::of(answer) {
            Ok(changes) => {
                let mut is_there = false;
                for change in changes {
                    match change {
                        ObjectChange::Applied(_) => is_there = true,
                        ObjectChange::Deleted(_) => is_there = false,
                        ObjectChange::Reached(version) => awaited.version = version,
                    }
                }
                match is_there {
                    true => self.list(cx, None),
                    false => self.heed_definition(cx),
                }
            }
            Err(ClusterError::Ended) if cx.now().since(awaited.opened) >= WATCH_SHORT => {
                let version = awaited.version.clone();
                self.watch_definition(cx, version);
            }
            Err(_) => self.look_again(cx),
        }
    }

    /// The watch should have ended: nobody is at its other end any more.
    pub(super) fn definition_silent(&mut self, cx: &mut Cx<'_, Self>, number: u64) {
        if self.definition.as_ref().is_some_and(|it| it.number == number) {
            self.list(cx, None);
        }
    }
}
