//! The owner of the Lease: takes it when it is free, renews it, and says when that failed.

use std::{rc::Rc, time::Duration};

use super::{
    LeadershipMsg, LeadershipView,
    answers::LeadershipAnswer,
    record::{DURATION, LeaseRecord, LeaseStep, document, step},
};
use crate::{
    cluster::backoff::Backoff,
    host::{Behaviour, Cx, Host, Reply, Time},
    model::ApiObject,
    mutants::{Mutant, mutated},
    operator::{
        ending::{OnlyLife, OperatorEnd},
        resources::leases,
    },
    ports::{Cluster, ClusterError, Object, ObjectKey, ObjectWrite, Verb},
};

/// How often who waits looks at the Lease, and a little more.
const LOOK: Duration = Duration::from_secs(2);
/// How often who leads renews it.
const RENEW: Duration = Duration::from_secs(5);
/// Who could not renew it for that long leads no more: sooner than it expires for others.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which Lease, and for whom.
#[derive(Clone, Debug)]
pub struct LeadershipSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who this operator is: no other one, and no earlier life of it, may be called so.
    pub identity: String,
    /// What pauses are drawn by.
    pub seed: u64,
}

/// Brings those to life who work for the leader; told once, with what the Lease says of prefixes.
pub(in crate::operator) type Begin = Rc<dyn Fn(&Host, Option<String>)>;

/// Whom the owner of the Lease talks to.
#[derive(Clone)]
pub(in crate::operator) struct LeadershipPeers {
    pub(in crate::operator) cluster: Rc<dyn Cluster>,
    pub(in crate::operator) begin: Begin,
    pub(in crate::operator) life: OnlyLife,
}

/// The owner of the Lease.
pub(in crate::operator) struct Leadership {
    peers: LeadershipPeers,
    settings: LeadershipSettings,
    /// The Lease as it was read last, and since when it is so.
    known: Option<(LeaseRecord, Time)>,
    /// When the write was sent that made this operator lead, or renewed that.
    renewed: Option<Time>,
    /// When the write that is under way was sent.
    sent: Time,
    renewals: u64,
    ended: bool,
    error: Option<String>,
    rounds: Backoff,
    waiting: Vec<Request>,
    /// Requests that the write under way fulfils.
    carried: Vec<Request>,
    releasing: Vec<Reply<()>>,
    /// The write under way gives the Lease back.
    gives_back: bool,
}

/// Somebody wants to know whether this operator leads.
struct Request {
    prefixes: Option<String>,
    reply: Reply<bool>,
}

impl Leadership {
    pub(in crate::operator) fn new(peers: LeadershipPeers, settings: LeadershipSettings) -> Self {
        let rounds = Backoff::new(settings.seed, "lease");
        Self {
            peers,
            settings,
            known: None,
            renewed: None,
            sent: Time::default(),
            renewals: 0,
            ended: false,
            error: None,
            rounds,
            waiting: Vec::new(),
            carried: Vec::new(),
            releasing: Vec::new(),
            gives_back: false,
        }
    }

    fn key(&self) -> ObjectKey {
        let LeadershipSettings { namespace, name, .. } = &self.settings;
        ObjectKey { namespace: namespace.clone(), name: name.clone() }
    }

    /// Looks at the Lease, unless that is under way.
    fn look(&mut self, cx: &mut Cx<'_, Self>) {
        if self.ended || !self.rounds.begin_now(cx) {
            return;
        }
        let why = format!("Lease {}", self.key());
        let reply = cx.expect("cluster", PATIENCE, why, LeadershipAnswer::Looked);
        self.peers.cluster.get(&leases(), &self.key(), reply);
    }

    fn looked(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Object, ClusterError>) {
        let found = match answer {
            Ok(Object { value: ApiObject::Lease(lease), .. }) => Some(LeaseRecord::read(&lease)),
            Ok(Object { value: ApiObject::Malformed(error), .. }) => {
                return self.failed(cx, &ClusterError::Failed(error.to_string()));
            }
            Ok(Object { key, .. }) => {
                return self.failed(cx, &ClusterError::Failed(format!("{key} is no Lease")));
            }
            Err(ClusterError::NotFound(_)) => None,
            Err(error) => return self.failed(cx, &error),
        };
        let since = match (&found, &self.known) {
            (Some(found), Some((known, since))) if known == found => *since,
            _ => cx.now(),
        };
        self.known = found.map(|found| (found, since));
        let lease = self.known.as_ref().map(|(lease, _)| lease);
        let unchanged = cx.now().since(since);
        match step(lease, &self.settings.identity, self.renewed.is_some(), unchanged) {
            LeaseStep::Wait => self.pause(cx, LOOK),
            LeaseStep::Lost => {
                let holder = lease.map(|lease| lease.holder.clone()).unwrap_or_default();
                self.lose(format!("the Lease is held by {holder:?}"));
            }
            // It was removed: whoever makes it anew does not know what it said.
            LeaseStep::Create if self.renewed.is_some() => {
                self.lose("the Lease was removed".to_owned());
            }
            LeaseStep::Create => {
                let LeadershipSettings { namespace, name, identity, .. } = &self.settings;
                let verb = Verb::Create(document(namespace, name, identity, cx.wall()));
                self.write(cx, verb);
            }
            LeaseStep::Take | LeaseStep::Renew => self.hold(cx),
        }
    }

    /// Takes the Lease, or renews it, or gives it back.
    fn hold(&mut self, cx: &mut Cx<'_, Self>) {
        let Some((lease, _)) = &self.known else { return };
        self.gives_back = !self.releasing.is_empty();
        let patch = match self.gives_back {
            true => lease.released(),
            false => {
                self.carried = std::mem::take(&mut self.waiting);
                // What nobody waits for any more may be older than what the Lease says.
                self.carried.retain(|request| !request.reply.is_closed());
                let prefixes = self.carried.iter().rev().find_map(|it| it.prefixes.as_deref());
                lease.held_by(&self.settings.identity, cx.wall(), prefixes)
            }
        };
        self.write(cx, Verb::Merge(patch));
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>, verb: Verb) {
        self.sent = cx.now();
        let reply = cx.expect("cluster", PATIENCE, "the Lease", LeadershipAnswer::Written);
        let write = ObjectWrite { resource: leases(), key: self.key(), verb };
        self.peers.cluster.write(write, reply);
    }

    fn written(&mut self, cx: &mut Cx<'_, Self>, answer: Result<(), ClusterError>) {
        match answer {
            Ok(()) if self.gives_back => self.lose("it gave the Lease back".to_owned()),
            Ok(()) => self.held(cx),
            Err(ClusterError::Conflict(_)) => {
                // Somebody was faster, or renewed it: it is looked at again.
                self.waiting.splice(0..0, self.carried.drain(..));
                self.rounds.answered();
                self.look(cx);
            }
            Err(error) => {
                self.waiting.splice(0..0, self.carried.drain(..));
                self.failed(cx, &error);
            }
        }
    }

    /// The Lease is this operator's, from when it was asked for.
    fn held(&mut self, cx: &mut Cx<'_, Self>) {
        self.error = None;
        self.renewals += 1;
        let began = self.renewed.replace(self.sent).is_none();
        let left = (self.sent + DEADLINE).since(cx.now());
        cx.after(left, LeadershipAnswer::Deadline(self.renewals));
        if began {
            let lease = self.known.as_ref().map(|(lease, _)| lease);
            let prefixes = lease.and_then(|lease| lease.prefixes.clone());
            tracing::info!(identity = self.settings.identity, "operator leads");
            (self.peers.begin)(cx.host(), prefixes);
        }
        self.carried.drain(..).for_each(|request| request.reply.send(true));
        self.rounds.succeeded();
        match self.waiting.is_empty() && self.releasing.is_empty() {
            true => self.pause(cx, RENEW),
            false => self.look(cx),
        }
    }

    fn failed(&mut self, cx: &mut Cx<'_, Self>, error: &ClusterError) {
        let at_least = match error {
            ClusterError::Busy { after, .. } => *after,
            _ => Duration::ZERO,
        };
        let pause = self.rounds.failed(at_least).min(LOOK);
        let why = format!("Lease {} was neither read nor renewed: {error}", self.key());
        if self.rounds.failures().is_power_of_two() {
            tracing::warn!(why, "operator looks again");
        }
        self.error = Some(error.to_string());
        self.rounds.pause(cx, pause, why, || LeadershipAnswer::Due);
    }

    fn pause(&mut self, cx: &mut Cx<'_, Self>, span: Duration) {
        self.rounds.succeeded();
        let span = self.rounds.spread(span, span / 10);
        let why = format!("Lease {} to be looked at again", self.key());
        self.rounds.pause(cx, span, why, || LeadershipAnswer::Due);
    }

    fn lose(&mut self, why: String) {
        self.ended = true;
        self.renewed = None;
        let all = self.waiting.drain(..).chain(self.carried.drain(..));
        all.for_each(|request| request.reply.send(false));
        self.releasing.drain(..).for_each(|reply| reply.send(()));
        self.peers.life.ending.end(OperatorEnd::LeadershipLost(why));
    }

    fn release(&mut self, cx: &mut Cx<'_, Self>, reply: Reply<()>) {
        if self.ended || self.renewed.is_none() {
            self.ended = true;
            return reply.send(());
        }
        self.releasing.push(reply);
        self.look(cx);
    }
}

impl Behaviour for Leadership {
    type Msg = LeadershipMsg;
    type Answer = LeadershipAnswer;
    type Observed = LeadershipView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        match self.peers.life.begin() {
            true => self.look(cx),
            false => self.ended = true,
        }
    }

    fn handle(&mut self, msg: LeadershipMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            LeadershipMsg::Confirm { reply, .. } if self.ended || self.renewed.is_none() => {
                reply.send(false);
            }
            LeadershipMsg::Confirm { prefixes, reply } => {
                self.waiting.push(Request { prefixes, reply });
                self.look(cx);
            }
            LeadershipMsg::Release(reply) => self.release(cx, reply),
            LeadershipMsg::Show(reply) => reply.send(self.observe()),
        }
    }

    fn answered(&mut self, answer: LeadershipAnswer, cx: &mut Cx<'_, Self>) {
        let cluster = Rc::clone(&self.peers.cluster);
        match answer {
            _ if self.ended => {}
            LeadershipAnswer::Due => self.look(cx),
            LeadershipAnswer::Looked(answer) => {
                self.looked(cx, ClusterError::of_asked(answer, &*cluster));
            }
            LeadershipAnswer::Written(answer) => {
                self.written(cx, ClusterError::of_asked(answer, &*cluster));
            }
            LeadershipAnswer::Deadline(number)
                if number == self.renewals && !mutated(Mutant::ExpiredLeads) =>
            {
                self.lose(format!("the Lease was not renewed for {} s", DEADLINE.as_secs()));
            }
            LeadershipAnswer::Deadline(_) => {}
        }
    }

    fn observe(&self) -> LeadershipView {
        LeadershipView {
            leads: self.renewed.is_some() && !self.ended,
            holder: self.known.as_ref().map(|(lease, _)| lease.holder.clone()).unwrap_or_default(),
            error: self.error.clone(),
        }
    }
}

const _: () = assert!(DEADLINE.as_secs() < DURATION.as_secs());
