//! The supervisor's actor: it owns the list of children and hands each message to who handles it.
//! Creation, restore, probes and policy changes have files of their own beside it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    DeleteError, EndpointReference, EndpointsMsg, NotFound,
    answers::EndpointsAnswer,
    child::SupervisedEndpoint,
    host::{unchangeable, undeletable},
    news::{endpoint_news, tell_build},
    state::{Endpoints, EndpointsState},
};
use crate::{
    endpoints::{
        endpoint::{
            CreateError, EndpointMsg, EndpointNews, EndpointSpec, EndpointView, Level, Patch,
            PatchError,
        },
        workloads::{PodFacts, WorkloadsNews},
    },
    host::{AskError, Behaviour, Cx, Full, Reply},
    model::{EndpointId, Labels},
    mutants::{Mutant, mutated},
    policy::rules::{PolicyMsg, PolicyNews},
};

/// Questions that are kept until restored endpoints are known.
const HELD_MAX: usize = 256;
/// How long an endpoint may take to go: what its build is at is waited for.
const DELETE_PATIENCE: Duration = Duration::from_secs(120);

/// What the supervisor shows of itself.
#[derive(Debug, Serialize)]
pub struct EndpointsStatus {
    endpoints: BTreeMap<&'static str, usize>,
    creating: usize,
    held: usize,
    restored: bool,
}

impl Endpoints {
    pub(super) fn find(&self, target: &EndpointReference) -> Option<&SupervisedEndpoint> {
        match target {
            EndpointReference::Id(id) => self.family.children.get(id),
            _ => {
                let means =
                    |child: &&SupervisedEndpoint| target.means(child.view.id, &child.view.spec);
                // What goes bears the name of what took its place until all of it is gone.
                let means = || self.family.children.values().filter(means);
                means().find(|child| !child.is_going()).or_else(|| means().next())
            }
        }
    }

    fn delete(
        &mut self,
        cx: &mut Cx<'_, Self>,
        target: &EndpointReference,
        reply: Reply<Result<u32, DeleteError>>,
    ) {
        let Some(child) = self.find(target) else {
            self.abandon_creations(target);
            return reply.send(Err(DeleteError::NotFound));
        };
        if let Some(error) = undeletable(child) {
            return reply.send(Err(error));
        }
        let (endpoint, id) = (child.address.clone(), child.view.id);
        cx.ask(
            &endpoint,
            DELETE_PATIENCE,
            format!("endpoint {id} to be deleted"),
            |reply| EndpointMsg::Delete { reply },
            move |answer| EndpointsAnswer::Deleted { reply, answer },
        );
    }

    fn patch(
        &mut self,
        target: &EndpointReference,
        patch: Box<Patch>,
        reply: Reply<Result<Arc<EndpointView>, PatchError>>,
    ) {
        let Some(child) = self.find(target) else { return reply.send(Err(PatchError::NotFound)) };
        if let Some(error) = unchangeable(child, &patch) {
            return reply.send(Err(error));
        }
        if moves(child, &patch) {
            return reply.send(Err(PatchError::Invalid(format!(
                "endpoint {} stays at its {}: delete it and make another",
                child.view.id,
                child.view.spec.interface()
            ))));
        }
        let refused = child.address.tell(EndpointMsg::Patch { patch, reply: Some(reply) });
        if let Err(Full { msg: EndpointMsg::Patch { reply: Some(reply), .. }, gone }) = refused {
            reply.send(Err(refusal(gone)));
        }
    }

    fn regenerate(
        &mut self,
        target: &EndpointReference,
        level: Level,
        reason: Arc<str>,
        reply: Reply<Result<Arc<EndpointView>, PatchError>>,
    ) {
        let Some(child) = self.find(target) else { return reply.send(Err(PatchError::NotFound)) };
        let waiting = vec![reply];
        // Who asks for it has seen something, or somebody else changed something.
        let (brought, looks) = (None, true);
        let msg = EndpointMsg::Regenerate { level, reason, brought, waiting, looks };
        if let Err(Full { msg: EndpointMsg::Regenerate { waiting, .. }, gone }) =
            child.address.tell(msg)
        {
            waiting.into_iter().for_each(|reply| reply.send(Err(refusal(gone))));
        }
    }

    fn get(&self, target: &EndpointReference, reply: Reply<Result<Arc<EndpointView>, NotFound>>) {
        reply
            .send(self.find(target).map(|child| child.shown(self.family.revision)).ok_or(NotFound));
    }

    fn list(&self, labels: &Labels, reply: Reply<Vec<Arc<EndpointView>>>) {
        let desired = |view: &EndpointView| {
            labels.iter().all(|label| view.identity_labels.get(&label.key) == Some(label))
        };
        let children = self.family.children.values().filter(|child| desired(&child.view));
        reply.send(children.map(|child| child.shown(self.family.revision)).collect());
    }

    /// Whoever is that pod's endpoint, or is about to be, hears of it.
    fn pod(&mut self, name: &str, facts: &PodFacts) {
        let is_meant = |spec: &EndpointSpec| spec.is_pod(name);
        for child in self.family.children.values_mut().filter(|child| is_meant(&child.view.spec)) {
            child.describe(facts);
        }
        self.describe_creations(is_meant, facts);
    }

    fn changed(&mut self, cx: &mut Cx<'_, Self>, view: Arc<EndpointView>) {
        self.family.barriers.seen(&view);
        self.look_for_overdue(cx);
        self.family.restoring.seen(&view);
        let EndpointsState { children, regenerations, announcers, .. } = &mut *self.family;
        let Some(child) = children.get_mut(&view.id) else { return };
        regenerations.seen(&child.view, &view);
        tell_build(self.peers.notices.as_deref(), &child.view, &view);
        child.show(Arc::clone(&view));
        child.pay();
        // The cluster knows the node by other objects.
        if !view.spec.is_host() {
            let announced = &mut child.announced;
            announcers.iter().for_each(|it| it.changed(&view, announced));
        }
    }

    fn gone(&mut self, id: EndpointId) {
        let child = self.family.children.remove(&id);
        if let (Some(child), Some(notices)) = (child, &self.peers.notices) {
            notices.happened(endpoint_news(&child.view, true));
        }
        self.family.announcers.iter().for_each(|announcer| announcer.gone(id));
        self.family.numbers.free(id);
        self.vanished.remove(&id);
        self.unclaimed.remove(&id);
        self.family.barriers.gone(id);
        self.family.restoring.gone(id);
        let gone = PolicyMsg::BearsOnly { endpoint: id, identity: None };
        if let Err(refused) = self.peers.policy.tell(gone) {
            tracing::warn!(endpoint = %id, %refused, "names of its ports stay known");
        }
    }

    /// Keeps what must wait for restored endpoints.
    fn hold(&mut self, msg: EndpointsMsg) {
        if self.held.len() < HELD_MAX {
            return self.held.push(msg);
        }
        let text = "restored endpoints are not known yet; try again".to_owned();
        match msg {
            EndpointsMsg::Create { reply, .. } => {
                reply.send(Err(CreateError::NotReady(text)));
            }
            EndpointsMsg::Delete { reply, .. } => reply.send(Err(DeleteError::NotReady(text))),
            // No answer is better than a wrong one.
            _ => {}
        }
    }
}

/// Whether a change would lead an endpoint to another interface, which may be somebody else's.
fn moves(child: &SupervisedEndpoint, patch: &Patch) -> bool {
    let Some(desired) = &patch.interface else { return false };
    let own = &child.view.spec;
    (desired.ifindex != 0 && desired.ifindex != own.ifindex)
        || (!desired.ifname.is_empty() && !own.ifname.is_empty() && desired.ifname != own.ifname)
}

/// What to say of a deletion. One that met an end that was already under way has succeeded.
fn deleted(answer: Result<u32, AskError>) -> Result<u32, DeleteError> {
    match answer {
        Ok(errors) => Ok(errors),
        Err(AskError::Gone) => Ok(0),
        Err(error) => Err(DeleteError::NotReady(format!("endpoint: {error}; try again"))),
    }
}

/// Why an endpoint did not take a message.
fn refusal(gone: bool) -> PatchError {
    match gone {
        true => PatchError::NotFound,
        false => PatchError::Failed("too much is asked of this endpoint; try again".to_owned()),
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        if mutated(Mutant::FamilyForgotten) {
            *self.family = EndpointsState::default();
        }
    }
}

impl Behaviour for Endpoints {
    type Msg = EndpointsMsg;
    type Answer = EndpointsAnswer;
    type Observed = EndpointsStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.look_for_overdue(cx);
        // The round of the run before ended with it, and what it was told last may be lost.
        if self.family.restoring.known {
            self.sweep_later(cx);
        }
        let dead = |(&id, child): (&EndpointId, &SupervisedEndpoint)| {
            (!child.address.is_alive()).then_some(id)
        };
        let dead: Vec<EndpointId> = self.family.children.iter().filter_map(dead).collect();
        dead.into_iter().for_each(|id| self.gone(id));
        self.resume_creations(cx);
        self.make_host(cx);
        self.label_host();
    }

    fn handle(&mut self, msg: EndpointsMsg, cx: &mut Cx<'_, Self>) {
        let early = |msg: &EndpointsMsg| match msg {
            EndpointsMsg::Create { .. }
            | EndpointsMsg::Delete { .. }
            | EndpointsMsg::Policy(PolicyNews::Inherit { .. }) => true,
            // Who is not known yet may still come back.
            EndpointsMsg::Get { target, .. }
            | EndpointsMsg::Patch { target, .. }
            | EndpointsMsg::Regenerate { target, .. } => self.find(target).is_none(),
            _ => false,
        };
        if !self.family.restoring.known && early(&msg) {
            return self.hold(msg);
        }
        match msg {
            EndpointsMsg::Create { spec, sync, reply } => self.create(cx, *spec, sync, reply),
            EndpointsMsg::Patch { target, patch, reply } => self.patch(&target, patch, reply),
            EndpointsMsg::Delete { target, reply } => self.delete(cx, &target, reply),
            EndpointsMsg::Get { target, reply } => self.get(&target, reply),
            EndpointsMsg::List { labels, reply } => self.list(&labels, reply),
            EndpointsMsg::Verify { target, reply } => self.verify(cx, target, reply),
            EndpointsMsg::Disturbed(notices) => self.disturbed(cx, &notices),
            EndpointsMsg::Regenerate { target, level, reason, reply } => {
                self.regenerate(&target, level, reason, reply);
            }
            EndpointsMsg::Policy(news) => self.policy_news(cx, news),
            EndpointsMsg::Restore { endpoints, withheld, host, reply } => {
                self.restore(cx, endpoints, &withheld, host, reply);
            }
            EndpointsMsg::RegenerateRestored { reply } => self.regenerate_restored(reply),
            EndpointsMsg::Regenerations(reply) => reply.send(self.family.regenerations.clone()),
            EndpointsMsg::AwaitBuilt { endpoints, reply } => self.await_built(endpoints, reply),
            EndpointsMsg::Workloads(WorkloadsNews::Pod { name, facts }) => self.pod(&name, &facts),
            EndpointsMsg::Workloads(WorkloadsNews::Node(labels)) => self.node(labels),
            EndpointsMsg::Endpoint(EndpointNews::Changed(view)) => self.changed(cx, view),
            EndpointsMsg::Endpoint(EndpointNews::Gone(id)) => self.gone(id),
            EndpointsMsg::Endpoint(EndpointNews::LookAgain(id)) => {
                self.verify(cx, Some(EndpointReference::Id(id)), Reply::to(|_| {}));
            }
            EndpointsMsg::AnnounceTo(announcer) => self.family.announcers.push(announcer),
            EndpointsMsg::Cleaned => self.family.cleaned = true,
            EndpointsMsg::Look => self.look(cx),
            EndpointsMsg::Abandoned { containers, reply } => self.abandoned(cx, containers, reply),
            EndpointsMsg::Introduce { container, pod } => self.introduce(cx, &container, &pod),
        }
    }

    fn answered(&mut self, answer: EndpointsAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            EndpointsAnswer::Inspected(creation, answer) => self.inspected(cx, creation, answer),
            EndpointsAnswer::Described(creation, answer) => self.described(cx, creation, answer),
            EndpointsAnswer::Claimed(creation, answer) => self.claimed(cx, creation, answer),
            EndpointsAnswer::Probed { asked, replies, all, answer } => {
                self.probed(cx, (asked, all), replies, answer);
            }
            EndpointsAnswer::Overdue => {
                self.overdue = None;
                self.strike_overdue(cx);
            }
            EndpointsAnswer::Inherited(id, answer) => self.inherited(id, answer),
            EndpointsAnswer::Deleted { reply, answer } => reply.send(deleted(answer)),
            EndpointsAnswer::StrangersGone(ids) => {
                ids.into_iter().for_each(|id| self.family.numbers.free(id));
            }
            EndpointsAnswer::Abandoned { containers, reply, answer } => {
                self.abandoned_seen(cx, &containers, reply, answer);
            }
            EndpointsAnswer::Introduced(id, answer) => self.introduced(id, answer),
            EndpointsAnswer::Sweep => self.sweep(cx),
            EndpointsAnswer::Swept(answer) => self.swept(cx, answer),
        }
    }

    fn observe(&self) -> EndpointsStatus {
        let mut endpoints = BTreeMap::new();
        for child in self.family.children.values() {
            *endpoints.entry(child.shown_state().name()).or_default() += 1;
        }
        EndpointsStatus {
            endpoints,
            creating: self.family.creating.len(),
            held: self.held.len(),
            restored: self.family.restoring.known,
        }
    }
}
