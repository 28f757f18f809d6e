//! A round: the containers of endpoints that are in doubt are looked up, pods that nobody named are named, and
//! who is gone is handed to the supervisor of endpoints, which asks the kernel.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    answers::{LookUp, RuntimeFollowerAnswer},
    state::{ContainerVerdict, RoundState, RuntimeFollower},
};
use crate::{
    endpoints::{
        endpoint::{EndpointState, EndpointView},
        supervisor::{Abandoned, EndpointsMsg},
    },
    host::{AskError, Cx, Time},
    model::Labels,
    ports::{RuntimeContainer, RuntimeContainers, RuntimePod, WhichContainers},
};

/// How soon what the runtime speaks of is looked up: a pod's news come together.
const SOON: Duration = Duration::from_secs(1);
/// Time between rounds while a container is gone and its endpoint is there.
const WHILE_GONE: Duration = Duration::from_secs(15);
/// For so long; from then on it is looked at as seldom as everything.
const GONE_MAX: Duration = Duration::from_secs(300);
/// Time between rounds otherwise: new endpoints are looked up then.
const EVERY: Duration = Duration::from_secs(60);
/// Time between two lists of all, in case an event was missed; the first comes again soon, as nobody says
/// when events begin to come.
const LIST_EVERY: Duration = Duration::from_secs(600);
/// How long the runtime may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the supervisor of endpoints may take.
const ENDPOINTS_PATIENCE: Duration = Duration::from_secs(60);
/// Of more containers all are listed, rather than each looked up.
const LOOKED_UP_MAX: usize = 64;
/// How long it is known that the runtime spoke of a container, and of how many.
const SPOKEN_OF: Duration = Duration::from_secs(600);
const SPOKEN_OF_MAX: usize = 1_024;

impl RuntimeFollower {
    /// A connection begins: nothing is known, all is listed.
    pub(super) fn begin_anew(&mut self, cx: &mut Cx<'_, Self>) {
        self.verdicts.clear();
        self.round.list_at = cx.now();
        self.round_at(cx, cx.now());
    }

    /// A connection is over: what was asked by it is not answered.
    pub(super) fn forget(&mut self, cx: &mut Cx<'_, Self>) {
        self.verdicts.clear();
        self.found = Abandoned::default();
        if let Some((_, timer)) = self.round.timer.take() {
            cx.cancel(timer);
        }
        self.round = RoundState::default();
    }

    /// The runtime speaks of a container.
    pub(super) fn changed(&mut self, cx: &mut Cx<'_, Self>, container: String) {
        let known = &mut *self.known;
        known.view.changes += 1;
        if known.spoken_of.len() < SPOKEN_OF_MAX {
            known.spoken_of.insert(container.clone(), cx.now());
        }
        // Of what is no endpoint's nothing is asked: an endpoint that comes later is looked up anyway.
        if self.round.homes.contains_key(&container) {
            self.round.doubted.insert(container);
        }
        self.round_at(cx, cx.now() + SOON);
    }

    /// The next round is then, or sooner.
    fn round_at(&mut self, cx: &mut Cx<'_, Self>, at: Time) {
        match self.round.timer {
            Some((before, _)) if before <= at => return,
            Some((_, timer)) => cx.cancel(timer),
            None => {}
        }
        let span = at.since(cx.now());
        self.round.timer = Some((at, cx.after(span, RuntimeFollowerAnswer::Round)));
    }

    pub(super) fn begin_round(&mut self, cx: &mut Cx<'_, Self>) {
        if self.followed.is_none() {
            return;
        }
        if self.round.under_way {
            return self.round_at(cx, cx.now() + SOON);
        }
        self.round.under_way = true;
        cx.ask(
            &self.peers.endpoints,
            ENDPOINTS_PATIENCE,
            "which containers have endpoints",
            |reply| EndpointsMsg::List { labels: Labels::default(), reply },
            RuntimeFollowerAnswer::Endpoints,
        );
    }

    pub(super) fn endpoints_are(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Vec<Arc<EndpointView>>, AskError>,
    ) {
        if !self.is_under_way() {
            return;
        }
        let Ok(views) = answer else { return self.end_round(cx) };
        self.round.homes.clear();
        for view in views.iter().filter(|view| has_container(view)) {
            let container = view.spec.container_id.clone();
            self.round.homes.entry(container).or_default().push(Arc::clone(&view.spec));
        }
        self.forget_others(cx.now());
        let now = cx.now();
        if now >= self.round.list_at {
            self.round.doubted.clear();
            return self.list(cx);
        }
        let doubted = std::mem::take(&mut self.round.doubted);
        let verdicts = &self.verdicts;
        let is_asked = |it: &&String| match verdicts.get(*it) {
            None | Some(ContainerVerdict::Gone(_)) => true,
            Some(ContainerVerdict::Runs | ContainerVerdict::Stranger) => doubted.contains(*it),
        };
        let asked: BTreeSet<_> = self.round.homes.keys().filter(is_asked).cloned().collect();
        match asked.len() > LOOKED_UP_MAX {
            true => self.list(cx),
            false => self.look_up(cx, asked),
        }
    }

    /// Lists all sandboxes.
    fn list(&mut self, cx: &mut Cx<'_, Self>) {
        let is_first = self.round.lists == 0;
        self.round.lists += 1;
        self.round.list_at = cx.now() + if is_first { WHILE_GONE } else { LIST_EVERY };
        if self.round.homes.is_empty() {
            return self.end_round(cx);
        }
        self.known.view.lists += 1;
        let number = self.known.number;
        let then = move |answer| RuntimeFollowerAnswer::Listed(number, answer);
        let reply = cx.expect("container-runtime", PATIENCE, "the sandboxes of all pods", then);
        self.peers.runtime.look_up(WhichContainers::Sandboxes, reply);
    }

    /// Looks each of these up.
    fn look_up(&mut self, cx: &mut Cx<'_, Self>, asked: BTreeSet<String>) {
        if asked.is_empty() {
            return self.judge(cx);
        }
        let (number, these) = (self.known.number, asked.clone());
        let why = format!("{} containers", asked.len());
        let then = move |answer| RuntimeFollowerAnswer::LookedUp(number, asked, answer);
        let reply = cx.expect("container-runtime", PATIENCE, why, then);
        self.peers.runtime.look_up(WhichContainers::These(these), reply);
    }

    /// A list says who runs. Who does not, as far as it says, is looked up: it may be no sandbox, have come since,
    /// or be one of whose task a list says nothing.
    pub(super) fn listed(&mut self, cx: &mut Cx<'_, Self>, number: u64, answer: LookUp) {
        let Some(listed) = self.said(cx, number, answer) else { return };
        let mut missing = BTreeSet::new();
        let homes: Vec<_> = self.round.homes.keys().cloned().collect();
        for container in homes {
            match listed.get(&container) {
                Some(found) if found.runs => self.note(cx, &container, found),
                Some(_) => {
                    self.known.own.insert(container.clone());
                    missing.insert(container);
                }
                None if self.had(&container) => drop(missing.insert(container)),
                None => drop(self.verdicts.insert(container, ContainerVerdict::Stranger)),
            }
        }
        self.look_up(cx, missing);
    }

    pub(super) fn looked_up(
        &mut self,
        cx: &mut Cx<'_, Self>,
        number: u64,
        asked: &BTreeSet<String>,
        answer: LookUp,
    ) {
        let Some(found) = self.said(cx, number, answer) else { return };
        for container in asked {
            match found.get(container) {
                Some(found) => self.note(cx, container, found),
                None if self.had(container) => self.is_gone(cx.now(), container),
                None => drop(self.verdicts.insert(container.clone(), ContainerVerdict::Stranger)),
            }
        }
        self.judge(cx);
    }

    /// What the runtime said, unless it was by a connection that is over. An error ends the connection.
    fn said(
        &mut self,
        cx: &mut Cx<'_, Self>,
        number: u64,
        answer: LookUp,
    ) -> Option<RuntimeContainers> {
        if number != self.known.number || !self.is_under_way() {
            return None;
        }
        let error = match answer {
            Ok(Ok(containers)) => return Some(containers),
            Ok(Err(error)) => error.to_string(),
            Err(error) => format!("look up containers: {error}"),
        };
        self.lose(cx, error);
        None
    }

    /// The runtime has a container.
    fn note(&mut self, cx: &Cx<'_, Self>, container: &str, found: &RuntimeContainer) {
        self.known.own.insert(container.to_owned());
        if !found.runs {
            return self.is_gone(cx.now(), container);
        }
        let homes = self.round.homes.get(container);
        let lacks = |pod: &RuntimePod| homes.into_iter().flatten().any(|spec| spec.lacks(pod));
        if let Some(pod) = found.pod.clone().filter(lacks) {
            let container = container.to_owned();
            // It is looked up again until it knows: what is not taken is said again.
            self.verdicts.remove(&container);
            let introduce = EndpointsMsg::Introduce { container, pod };
            if let Err(refused) = self.peers.endpoints.tell(introduce) {
                tracing::warn!(%refused, "an endpoint learns later which pod it is of");
            }
            return;
        }
        self.verdicts.insert(container.to_owned(), ContainerVerdict::Runs);
    }

    fn is_gone(&mut self, now: Time, container: &str) {
        let verdict =
            self.verdicts.entry(container.to_owned()).or_insert(ContainerVerdict::Gone(now));
        if !matches!(verdict, ContainerVerdict::Gone(_)) {
            *verdict = ContainerVerdict::Gone(now);
        }
    }

    /// Whether the runtime had a container, as far as was heard.
    fn had(&self, container: &str) -> bool {
        self.known.own.contains(container) || self.known.spoken_of.contains_key(container)
    }

    /// Has the interfaces of those looked at that are gone.
    fn judge(&mut self, cx: &mut Cx<'_, Self>) {
        let gone = self.verdicts.iter().filter(|(_, it)| matches!(it, ContainerVerdict::Gone(_)));
        let containers: BTreeSet<_> = gone.map(|(container, _)| container.clone()).collect();
        if containers.is_empty() {
            self.found = Abandoned::default();
            return self.end_round(cx);
        }
        let why = format!("the interfaces of {} containers that are gone", containers.len());
        let make = |reply| EndpointsMsg::Abandoned { containers, reply };
        let endpoints = &self.peers.endpoints;
        cx.ask(endpoints, ENDPOINTS_PATIENCE, why, make, RuntimeFollowerAnswer::Judged);
    }

    pub(super) fn judged(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Abandoned, AskError>) {
        if !self.is_under_way() {
            return;
        }
        if let Ok(found) = answer {
            self.found = found;
            self.known.view.removed += found.removed as u64;
        }
        self.end_round(cx);
    }

    fn end_round(&mut self, cx: &mut Cx<'_, Self>) {
        self.round.under_way = false;
        let now = cx.now();
        let is_young = |verdict: &ContainerVerdict| match verdict {
            ContainerVerdict::Gone(since) => now.since(*since) < GONE_MAX,
            ContainerVerdict::Runs | ContainerVerdict::Stranger => false,
        };
        let pause = if self.verdicts.values().any(is_young) { WHILE_GONE } else { EVERY };
        self.round_at(cx, (now + pause).min(self.round.list_at.max(now + SOON)));
    }

    fn is_under_way(&self) -> bool {
        self.followed.is_some() && self.round.under_way
    }

    /// Forgets containers that no endpoint has.
    fn forget_others(&mut self, now: Time) {
        let homes = &self.round.homes;
        self.verdicts.retain(|container, _| homes.contains_key(container));
        let known = &mut *self.known;
        known.own.retain(|container| homes.contains_key(container));
        known.spoken_of.retain(|_, at| now.since(*at) < SPOKEN_OF);
    }
}

/// Whether it has a container, and is not going.
fn has_container(view: &EndpointView) -> bool {
    use EndpointState::{Disconnected, Disconnecting, Invalid};
    let goes = matches!(view.state, Disconnecting | Disconnected | Invalid);
    !view.spec.is_host() && !view.spec.container_id.is_empty() && !goes
}
