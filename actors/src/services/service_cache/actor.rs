//! The actor that owns services: it takes in news, and has it written. Reading news and pruning are
//! in its submodules, the life of a batch in [`writing`](super::writing).

mod proceed;
mod prune;
mod quarantine;

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::{
    ServiceSource, ServicesMsg, ServicesStatus,
    answers::ServicesAnswer,
    health::HealthCheckNews,
    pressure, shown,
    state::{ServiceCacheState, ServiceNews, Services},
    writing::WritingEvent,
};
use crate::{
    host::{AskError, Behaviour, Cx},
    model::Feed,
    ports::KernelDone,
    services::{health_checks::HealthChecksMsg, sockets::SocketsMsg},
};

/// How long who answers load balancers may take to hear what is new.
const PATIENCE: Duration = Duration::from_secs(60);

impl Services {
    /// Looks at more of what is new, then writes what differs.
    fn go_on(&mut self, cx: &mut Cx<'_, Self>) {
        let more = self.state.proceed(&self.settings.node);
        self.state.tell_pressure();
        if more && !self.going {
            // A full mailbox has something else in it that goes on.
            self.going = cx.home().tell(ServicesAnswer::Continue);
        }
        self.advance(WritingEvent::Look, cx);
        self.tell_sockets();
        self.tell_health(cx);
    }

    /// Tells what is new to who answers load balancers; if that one crashes over it, all of it.
    fn tell_health(&mut self, cx: &mut Cx<'_, Self>) {
        let state = &mut *self.state;
        let Some(health) = state.health.as_mut().filter(|_| !self.telling) else { return };
        let Some((all, changes)) = health.take_news() else { return };
        let make = |reply| HealthChecksMsg::Set { all, changes, reply };
        cx.ask(health.subscriber(), PATIENCE, "health checks", make, ServicesAnswer::HealthTold);
        self.telling = true;
    }

    fn health_told(&mut self, reported: Result<(), AskError>) {
        self.telling = false;
        let is_lost = reported.is_err_and(|error| error != AskError::Gone);
        if let Some(health) = self.state.health.as_mut().filter(|_| is_lost) {
            health.begin_anew();
        }
    }

    /// Before all are known whom anybody names, nobody is gone; a full mailbox has the same in it.
    fn tell_sockets(&mut self) {
        let is_writing = self.is_writing();
        let state = &mut *self.state;
        let is_due = state.backends_gone && state.pruned.backends.is_some() && !is_writing;
        if let Some(sockets) = self.sockets.as_ref().filter(|_| is_due) {
            state.backends_gone = sockets.tell(SocketsMsg::BackendsGone).is_err_and(|it| it.gone);
        }
    }

    fn status(&self) -> ServicesStatus {
        let state = &*self.state;
        let ((frontends, open), (backends, more)) = (state.table.counts(), state.backends.counts());
        let [six, four] = state.table.weight().slots;
        let wildcards = |is_ipv4| state.table.wildcards.rows(is_ipv4);
        let refused = state.reported.refusals().all();
        let refused = refused.map(|(source, it)| (source.to_string(), it.clone()));
        let problems = state.claims.problems();
        let problems = problems.map(|(name, it)| (name.to_string(), it.clone()));
        ServicesStatus {
            frontends,
            backends,
            quarantined: state.backends.quarantined().len(),
            leaving: state.backends.only_leaving(),
            room: state.room,
            rows: (six + wildcards(false))
                .max(four + wildcards(true))
                .max(state.backends.rows(true))
                .max(state.backends.rows(false)),
            unread: state.news.len() + state.changed.len() + state.doubtful.len(),
            maps: pressure::all_rows(&state.table, &state.backends),
            open: open + more,
            awaited: state.awaited.clone(),
            found: state.findings.problems.clone(),
            foreign: state.findings.foreign.clone(),
            refused: refused.chain(state.remote.refused()).collect(),
            problems: problems.chain(state.problems()).collect(),
            failures: self.failures.as_ref().map_or(0, |failures| failures.count),
            last_error: self.failures.as_ref().map(|failures| failures.error.clone()),
        }
    }
}

impl ServiceCacheState {
    /// Tells of maps that are nearly full.
    fn tell_pressure(&mut self) {
        let (rows, room) = (pressure::rows(&self.table, &self.backends), self.room);
        for (map, rows) in self.pressure.look(&rows, room) {
            tracing::warn!(map, rows, room, "nearly full: raise --bpf-lb-map-max");
        }
    }

    /// What services cannot have beyond what they were not given.
    fn problems(&self) -> impl Iterator<Item = (String, String)> {
        let waits = "it is for some nodes only, and nobody says how this one is labelled: see that the \
                     agent may read its Node";
        let undecided = self.undecided.iter().map(|it| (it.to_string(), waits.to_owned()));
        let without = Some(self.table.wildcards.without()).filter(|count| *count > 0);
        let without = without.map(|count| {
            let problem = format!(
                "ports that they do not serve are not refused at {count} addresses, for which there \
                 is no room: raise --bpf-lb-map-max"
            );
            ("services".to_owned(), problem)
        });
        undecided.chain(without)
    }

    fn host_addresses(&mut self, addresses: BTreeSet<IpAddr>) {
        self.table.wildcards.set_own(&addresses);
        if self.surroundings.addresses != addresses {
            self.surroundings.addresses = addresses;
            self.all_changed();
        }
        self.news.push_back(ServiceNews::Synced(ServiceSource::Node));
    }

    fn mesh_synced(&mut self) {
        if self.remote.is_listed() {
            self.news.push_back(ServiceNews::Synced(ServiceSource::Mesh));
        }
    }
}

impl Behaviour for Services {
    type Msg = ServicesMsg;
    type Answer = ServicesAnswer;
    type Observed = ServicesStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.end_unheard();
        self.state.health.iter_mut().for_each(HealthCheckNews::begin_anew);
        self.sweep_later(cx);
        self.go_on(cx);
    }

    fn handle(&mut self, msg: ServicesMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            ServicesMsg::Objects { feed, objects } => {
                let news = &mut self.state.news;
                news.extend(objects.into_iter().map(ServiceNews::Object));
                match feed {
                    Feed::Services => news.push_back(ServiceNews::Synced(ServiceSource::Cluster)),
                    Feed::Ingresses => {
                        news.push_back(ServiceNews::Synced(ServiceSource::Ingresses))
                    }
                    Feed::Workloads => news.push_back(ServiceNews::Synced(ServiceSource::Pods)),
                    _ => {}
                }
            }
            ServicesMsg::Manifests(manifests) => {
                let news = &mut self.state.news;
                news.extend(manifests.into_iter().map(ServiceNews::Manifest));
                news.push_back(ServiceNews::Synced(ServiceSource::Manifests));
            }
            ServicesMsg::HostAddresses(addresses) => {
                self.state.host_addresses(addresses);
            }
            ServicesMsg::Remote { cluster, changes, listed } => {
                let state = &mut *self.state;
                state.changed.append(&mut state.remote.apply(&cluster, changes, listed));
                state.mesh_synced();
            }
            ServicesMsg::Clusters(clusters) => {
                let state = &mut *self.state;
                state.changed.append(&mut state.remote.configured(clusters));
                state.mesh_synced();
            }
            ServicesMsg::Quarantine { backend, desired, reply } => {
                self.quarantine(backend, desired, reply);
            }
            ServicesMsg::Endpoint(news) => self.state.hear(news),
            ServicesMsg::Leaving(reply) => return reply.send(self.state.leaving()),
            ServicesMsg::Unused(all) => self.state.unused(&all),
            ServicesMsg::List(reply) => {
                let state = &*self.state;
                return reply.send(shown::services(&state.table, &state.backends));
            }
            ServicesMsg::ListBackends(reply) => {
                return reply.send(shown::backends(&self.state.table, &self.state.backends));
            }
            ServicesMsg::Show(reply) => return reply.send(self.status()),
            ServicesMsg::Compare(subscriber) => self.compare(Some(subscriber), cx),
        }
        self.go_on(cx);
    }

    fn answered(&mut self, answer: ServicesAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            ServicesAnswer::Retry => self.advance(WritingEvent::Retry, cx),
            ServicesAnswer::Sweep => self.compare(None, cx),
            ServicesAnswer::Written(done) => self.advance(WritingEvent::Written(done), cx),
            ServicesAnswer::HealthTold(reported) => self.health_told(reported),
            ServicesAnswer::Page(done) => self.page(done, cx),
            ServicesAnswer::Tables(last, done) => self.tables(last, done, cx),
            ServicesAnswer::Cleaned(done) => {
                if let Ok(KernelDone { failed: Some((_, error)), .. }) = done {
                    tracing::warn!(%error, "strange rows of services stay until the next sweep");
                }
            }
            ServicesAnswer::Continue => self.going = false,
        }
        self.go_on(cx);
    }

    fn observe(&self) -> ServicesStatus {
        self.status()
    }
}
