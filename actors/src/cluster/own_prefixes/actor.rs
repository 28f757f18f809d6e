//! The actor that owns the node's prefixes. It does one thing at a time; `advance` says what comes next.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use ipnet::IpNet;
use serde_json::Value;

use super::{
    OwnPrefix, OwnPrefixesMsg, OwnPrefixesSettings, OwnPrefixesView,
    answers::OwnPrefixesAnswer,
    phase::PrefixPhase,
    plan::{is_lacking, new_prefixes, requests, surplus},
    seen::{SeenOwnNode, pools_of},
};
use crate::{
    cluster::resources::further,
    endpoints::ipam::{IpamMsg, PoolsDemand},
    host::{Behaviour, Cx, Lent, Outlet, Pauses, Ref, Retry, Survives, Time},
    model::{ApiObject, Feed},
    ports::{Cluster, ClusterError, Disk, ObjectKey, ObjectWrite, Reader, Resource, Verb},
    state_directory::{PoolPrefix, PoolPrefixes, PoolRecord},
};

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the disk and IPAM may take.
const OWN_PATIENCE: Duration = Duration::from_secs(60);
/// After a failure, and while there are fewer addresses than are needed: the operator may say why.
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_millis(500), most: Duration::from_secs(30) };
/// So long something is more than is needed before it is given back: pods that come and go together do not
/// make prefixes go round.
const QUIET: Duration = Duration::from_secs(15);

/// Whom it talks to.
#[derive(Clone)]
pub struct OwnPrefixesPeers {
    /// The API server.
    pub cluster: Rc<dyn Cluster>,
    /// The library directory.
    pub disk: Rc<dyn Disk>,
    /// The owner of addresses.
    pub ipam: Ref<IpamMsg>,
    /// Who hears which prefixes this node's pods have.
    pub heard_by: Vec<Outlet<BTreeSet<IpNet>>>,
}

/// What outlives a crash.
struct OwnPrefixesState {
    prefixes: PoolPrefixes,
    /// What the disk says.
    saved: PoolPrefixes,
    generation: u32,
    /// Nothing that an earlier life wrote can arrive unseen.
    fenced: bool,
    /// Closed in IPAM, and nobody has an address of them: that stays so.
    released: BTreeSet<IpNet>,
    demand: Option<PoolsDemand>,
    given_back: u64,
}

/// The owner of the node's prefixes.
pub struct OwnPrefixes {
    peers: OwnPrefixesPeers,
    settings: OwnPrefixesSettings,
    state: Lent<OwnPrefixesState>,
    phase: PrefixPhase,
    retry: Retry,
    /// The CiliumNode as it was seen in this life.
    seen: Option<SeenOwnNode>,
    /// It is to be looked at once more.
    is_stale: bool,
    /// Nothing failed: it waits for the operator, or for news.
    is_resting: bool,
    /// Since when something is more than is needed.
    surplus_since: Option<Time>,
    /// What others were told last.
    told: Option<BTreeSet<IpNet>>,
    /// What is wrong.
    trouble: String,
}

impl OwnPrefixes {
    /// Makes each life of it.
    pub fn factory(
        peers: impl Fn() -> OwnPrefixesPeers + 'static,
        settings: OwnPrefixesSettings,
    ) -> impl FnMut() -> Self + 'static {
        let record = settings.record.clone();
        let state = Survives::new(OwnPrefixesState {
            prefixes: settings.prefixes(),
            fenced: record.is_some(),
            saved: record.map(|record| record.prefixes).unwrap_or_default(),
            generation: settings.generation,
            released: BTreeSet::new(),
            demand: None,
            given_back: 0,
        });
        move || Self {
            peers: peers(),
            settings: settings.clone(),
            state: state.lend(),
            phase: PrefixPhase::Idle,
            retry: Retry::default(),
            seen: None,
            is_stale: true,
            is_resting: false,
            surplus_since: None,
            told: None,
            trouble: String::new(),
        }
    }

    /// Does what comes next.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        if self.phase != PrefixPhase::Idle || self.retry.is_pausing() {
            return;
        }
        if self.state.prefixes != self.state.saved {
            return self.save(cx);
        }
        self.tell();
        let Some(seen) = self.seen.clone().filter(|_| !self.is_stale) else {
            return self.read(cx);
        };
        if !self.state.fenced {
            return self.write(cx, seen.marked(&self.settings.mark));
        }
        let candidates = self.candidates(cx, &seen);
        if !candidates.is_empty() {
            return self.close(cx, candidates);
        }
        match self.patch(&seen) {
            Some(patch) => self.write(cx, patch),
            None => self.rest(cx),
        }
    }

    /// Nothing is to be done. As long as addresses are lacking it is looked what the operator says.
    fn rest(&mut self, cx: &mut Cx<'_, Self>) {
        match self.state.demand.as_ref().is_some_and(is_lacking) {
            false => self.retry.succeeded(),
            true => {
                self.is_resting = true;
                let _ = self.retry.failed(PAUSES, cx, OwnPrefixesAnswer::Again);
            }
        }
    }

    fn place(&self) -> (Resource, ObjectKey) {
        let all = further(&self.settings.node).into_iter();
        let mut forms = all.filter(|(feed, _)| *feed == Feed::CiliumNode).flat_map(|(_, it)| it);
        let resource = forms.next().expect("each feed has its resource");
        let key = ObjectKey { namespace: String::new(), name: self.settings.node.clone() };
        // The version is of interest, which agents do not read otherwise.
        (Resource { reader: Reader::Operator, fields: None, ..resource }, key)
    }

    fn read(&mut self, cx: &mut Cx<'_, Self>) {
        self.phase = PrefixPhase::Reading;
        self.is_stale = false;
        let (resource, key) = self.place();
        let why = "this node's CiliumNode, for its prefixes";
        let reply = cx.expect("cluster", PATIENCE, why, OwnPrefixesAnswer::Read);
        self.peers.cluster.get(&resource, &key, reply);
    }

    fn taken_in(&mut self, cx: &mut Cx<'_, Self>, node: &Value) {
        let seen = SeenOwnNode::read(node);
        self.trouble.clone_from(&seen.error);
        let state = &mut *self.state;
        state.fenced |= seen.mark.as_ref() == Some(&self.settings.mark);
        if state.fenced {
            self.compare(&seen);
        }
        self.seen = Some(seen);
        self.tell_ipam();
        self.advance(cx);
    }

    /// What is new is this node's, what was given back is gone, and what somebody took is closed.
    fn compare(&mut self, seen: &SeenOwnNode) {
        let home: BTreeSet<IpNet> = self.settings.home().collect();
        let state = &mut *self.state;
        let OwnPrefixesState { prefixes, released, given_back, .. } = state;
        let gone = |prefix: &IpNet, it: &PoolPrefix| {
            it.closed && released.contains(prefix) && !seen.has(prefix)
        };
        let all: Vec<IpNet> =
            prefixes.iter().filter(|(prefix, it)| gone(prefix, it)).map(|(it, _)| *it).collect();
        for prefix in all {
            tracing::info!(%prefix, "the prefix was given back");
            prefixes.remove(&prefix);
            released.remove(&prefix);
            *given_back += 1;
        }
        for (prefix, it) in prefixes.iter_mut().filter(|(it, _)| !seen.has(it)) {
            if !it.closed {
                let (pool, is_home) = (it.pool.as_str(), home.contains(prefix));
                tracing::warn!(%prefix, pool, is_home, "the prefix is not this node's any more");
                it.closed = true;
            }
            if home.contains(prefix) {
                self.trouble = format!(
                    "{prefix}, of which this node has its own address, is not in its CiliumNode any more: \
                     drain the node and remove its state directory, or add it there again"
                );
            }
        }
        let (new, trouble) = new_prefixes(prefixes, seen);
        for (prefix, it) in &new {
            tracing::info!(%prefix, pool = it.pool, "the node has a new prefix");
        }
        prefixes.extend(new);
        if let Some(trouble) = trouble {
            self.trouble = trouble;
        }
    }

    /// What IPAM is to close: what is closed on disk, or what has been too much for a while.
    fn candidates(&mut self, cx: &mut Cx<'_, Self>, seen: &SeenOwnNode) -> Vec<IpNet> {
        let home: BTreeSet<IpNet> = self.settings.home().collect();
        let OwnPrefixesState { prefixes, released, demand, .. } = &*self.state;
        let Some(demand) = demand else { return Vec::new() };
        let unused = |prefix: &IpNet| demand.used.get(prefix).is_none_or(|used| *used == 0);
        let closed = prefixes.iter().filter(|(prefix, it)| {
            it.closed && unused(prefix) && !released.contains(prefix) && !home.contains(prefix)
        });
        let mut all: Vec<IpNet> = closed.map(|(prefix, _)| *prefix).collect();
        let surplus = surplus(demand, prefixes, seen, &home);
        let now = cx.now();
        match (surplus.is_empty(), self.surplus_since) {
            (true, _) => self.surplus_since = None,
            (false, None) => {
                self.surplus_since = Some(now);
                cx.after(QUIET, OwnPrefixesAnswer::Quiet);
            }
            (false, Some(since)) if now.since(since) >= QUIET => {
                self.surplus_since = None;
                all.extend(surplus);
            }
            (false, Some(_)) => {}
        }
        all
    }

    fn close(&mut self, cx: &mut Cx<'_, Self>, prefixes: Vec<IpNet>) {
        self.phase = PrefixPhase::Closing;
        let why = format!("{} prefixes to be closed that nobody needs", prefixes.len());
        let ipam = self.peers.ipam.clone();
        let message = |reply| IpamMsg::Close { prefixes, reply };
        cx.ask(&ipam, OWN_PATIENCE, why, message, OwnPrefixesAnswer::Closed);
    }

    fn closed(&mut self, cx: &mut Cx<'_, Self>, prefixes: Vec<IpNet>) {
        let state = &mut *self.state;
        for prefix in prefixes {
            if let Some(it) = state.prefixes.get_mut(&prefix) {
                it.closed = true;
                state.released.insert(prefix);
            }
        }
        // What somebody took out before is not to be given back.
        if let Some(seen) = self.seen.clone() {
            self.compare(&seen);
        }
        self.advance(cx);
    }

    fn save(&mut self, cx: &mut Cx<'_, Self>) {
        let state = &mut *self.state;
        let prefixes = state.prefixes.clone();
        self.phase = PrefixPhase::Saving;
        state.generation = state.generation.wrapping_add(1);
        let record = PoolRecord { node: self.settings.node.clone(), prefixes: prefixes.clone() };
        let writes = vec![PoolRecord::SLOTS.save(&record, state.generation)];
        let then = move |answer| OwnPrefixesAnswer::Saved(prefixes, answer);
        let reply = cx.expect("disk", OWN_PATIENCE, "the record of this node's prefixes", then);
        self.peers.disk.submit(writes, reply);
    }

    /// What is to be changed in the CiliumNode.
    fn patch(&self, seen: &SeenOwnNode) -> Option<Value> {
        let OwnPrefixesState { prefixes, saved, released, demand, .. } = &*self.state;
        let demand = demand.as_ref()?;
        let is_recorded = |prefix: &&IpNet| saved.get(*prefix).is_some_and(|it| it.closed);
        let without: BTreeSet<IpNet> = released.iter().filter(is_recorded).copied().collect();
        // As long as pods have addresses of it, nobody else is to get it.
        let is_used = |prefix: &IpNet| demand.used.get(prefix).is_some_and(|used| *used > 0);
        let lost = prefixes.iter().filter(|(prefix, it)| {
            it.closed && is_used(prefix) && !released.contains(*prefix) && !seen.has(prefix)
        });
        let lost: BTreeMap<IpNet, String> =
            lost.map(|(prefix, it)| (*prefix, it.pool.clone())).collect();
        seen.patch(&requests(demand, prefixes, seen), &without, &lost)
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>, patch: Value) {
        self.phase = PrefixPhase::Writing;
        let (resource, key) = self.place();
        let why = "this node's CiliumNode to say which prefixes it has and needs";
        let reply = cx.expect("cluster", PATIENCE, why, OwnPrefixesAnswer::Written);
        self.peers.cluster.write(ObjectWrite { resource, key, verb: Verb::Merge(patch) }, reply);
    }

    /// Whatever came of it, it is looked at again: an answer that is lost says nothing.
    fn written(&mut self, cx: &mut Cx<'_, Self>, result: Result<(), ClusterError>) {
        self.is_stale = true;
        match result {
            Ok(()) => self.retry.succeeded(),
            Err(ClusterError::Conflict(_)) => {}
            Err(error) => return self.failed(cx, "is not written", &error.to_string()),
        }
        self.advance(cx);
    }

    fn failed(&mut self, cx: &mut Cx<'_, Self>, what: &str, error: &str) {
        self.is_stale = true;
        self.trouble = format!("this node's CiliumNode {what}: {error}");
        let pause = self.retry.failed(PAUSES, cx, OwnPrefixesAnswer::Again);
        tracing::warn!(what, error, ?pause, "prefixes of pools: CiliumNode");
        self.tell_ipam();
    }

    /// Says which prefixes hand out addresses: those that the disk knows, unless they are closed.
    fn tell_ipam(&self) {
        let OwnPrefixesState { prefixes, saved, .. } = &*self.state;
        let home = self.settings.home().filter_map(|prefix| Some((prefix, prefixes.get(&prefix)?)));
        let known = saved.iter().map(|(prefix, it)| (*prefix, it)).chain(home);
        let trusted = |prefix: &IpNet| prefixes.contains_key(prefix);
        let all = known.filter(|(prefix, it)| trusted(prefix) || it.closed).map(|(prefix, it)| {
            let closed = it.closed || prefixes.get(&prefix).is_none_or(|it| it.closed);
            (prefix, PoolPrefix { closed, pool: it.pool.clone() })
        });
        let told = IpamMsg::Prefixes { all: all.collect(), said: self.trouble.clone() };
        if let Err(refused) = self.peers.ipam.tell(told) {
            tracing::warn!(%refused, "IPAM hears of prefixes later");
        }
    }

    /// Says to others which prefixes this node's pods have.
    fn tell(&mut self) {
        let all: BTreeSet<IpNet> = self.state.prefixes.keys().copied().collect();
        if self.told.as_ref() == Some(&all) {
            return;
        }
        let refused = self.peers.heard_by.iter().filter(|it| it.say(all.clone()).is_err()).count();
        if refused == 0 {
            self.told = Some(all);
        }
    }

    fn view(&self) -> OwnPrefixesView {
        let OwnPrefixesState { prefixes, saved, released, demand, given_back, .. } = &*self.state;
        let home: BTreeSet<IpNet> = self.settings.home().collect();
        let state = |prefix: &IpNet, it: &PoolPrefix| match it.closed {
            true if released.contains(prefix) => "leaving",
            true => "lost",
            false if home.contains(prefix) => "home",
            false if saved.contains_key(prefix) => "open",
            false => "new",
        };
        let used = |prefix: &IpNet| demand.as_ref().and_then(|it| it.used.get(prefix).copied());
        let one = |(prefix, it): (&IpNet, &PoolPrefix)| {
            let used = used(prefix).unwrap_or_default();
            (*prefix, OwnPrefix { pool: it.pool.clone(), used, state: state(prefix, it) })
        };
        OwnPrefixesView {
            prefixes: prefixes.iter().map(one).collect(),
            seen: self.seen.is_some(),
            given_back: *given_back,
            doing: self.phase.name(),
            trouble: self.trouble.clone(),
        }
    }
}

impl Behaviour for OwnPrefixes {
    type Msg = OwnPrefixesMsg;
    type Answer = OwnPrefixesAnswer;
    type Observed = OwnPrefixesView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.tell_ipam();
        self.advance(cx);
    }

    fn handle(&mut self, msg: OwnPrefixesMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            OwnPrefixesMsg::Objects { objects, .. } => {
                let own = objects.into_iter().filter(|(key, _)| key.name == self.settings.node);
                for node in own.map(|(_, node)| node.map(ApiObject::into_json)) {
                    let seen = self.seen.as_ref().map(|seen| &seen.pools);
                    let is_known = node.is_some_and(|node| seen == Some(&pools_of(&node)));
                    self.is_stale |= !is_known;
                }
            }
            OwnPrefixesMsg::Demand(demand) => self.state.demand = Some(demand),
            OwnPrefixesMsg::Show(reply) => return reply.send(self.view()),
        }
        // What is news is not waited with, unless the server is left alone.
        if self.is_resting && self.retry.begin_now(cx) {
            self.retry.answered();
            self.is_resting = false;
        }
        self.advance(cx);
    }

    fn answered(&mut self, answer: OwnPrefixesAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            OwnPrefixesAnswer::Again => {
                self.retry.over();
                (self.is_resting, self.is_stale) = (false, true);
            }
            OwnPrefixesAnswer::Quiet => {}
            _ => self.phase = PrefixPhase::Idle,
        }
        match answer {
            OwnPrefixesAnswer::Read(answer) => match ClusterError::of(answer) {
                Ok(object) => self.taken_in(cx, &object.value.into_json()),
                Err(error) => self.failed(cx, "cannot be read", &error.to_string()),
            },
            OwnPrefixesAnswer::Closed(Ok(prefixes)) => self.closed(cx, prefixes),
            OwnPrefixesAnswer::Closed(Err(_)) => {
                let _ = self.retry.failed(PAUSES, cx, OwnPrefixesAnswer::Again);
            }
            OwnPrefixesAnswer::Saved(prefixes, Ok(Ok(()))) => {
                self.state.saved = prefixes;
                self.tell_ipam();
                self.advance(cx);
            }
            OwnPrefixesAnswer::Saved(_, answer) => {
                let pause = self.retry.failed(PAUSES, cx, OwnPrefixesAnswer::Again);
                let error = answer.map(|answer| answer.map_err(|error| error.to_string()));
                tracing::error!(
                    ?error,
                    ?pause,
                    "the record of this node's prefixes is not written"
                );
            }
            OwnPrefixesAnswer::Written(answer) => self.written(cx, ClusterError::of(answer)),
            OwnPrefixesAnswer::Again | OwnPrefixesAnswer::Quiet => self.advance(cx),
        }
    }

    fn observe(&self) -> OwnPrefixesView {
        self.view()
    }
}
