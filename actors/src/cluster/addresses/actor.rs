//! The actor that has other nodes' addresses mapped and this node's announced.
//! It takes one step at a time and tries again what failed. What there is to do, `remote` knows.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;

use super::{
    AddressesMsg, AddressesView, InheritedAddresses, answers::AddressesAnswer,
    messages::AddressMapping, remote::Work, state::AddressesState,
};
use crate::{
    cluster::{
        allocator::{AllocatorNews, Renewed},
        kvstore::{ADDRESSES, AddressPair, KvSettings, SessionMsg, Update, Whose, prefix_of},
        origins::ClusterOrigin,
    },
    endpoints::{
        endpoint::{Announcement, EndpointState},
        supervisor::{EndpointChange, EndpointReference, EndpointsMsg},
    },
    host::{AskError, Behaviour, Cx, Lent, Ref, Reply, Retry, Survives},
    model::{ApiObject, EndpointId, IdentityId},
    policy::{
        identity::IdentityMsg,
        ipcache::{IpcacheEntry, IpcacheMsg, IpcacheSource},
        rules::PolicyMsg,
    },
    ports::{Change, KernelError, ObjectKey, Pair},
};

/// How long another supervisor may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How long the first policies may take before they are asked for again.
const POLICIES_PATIENCE: Duration = Duration::from_secs(600);
/// After that long, what could not go on is looked at again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Whom this actor talks to.
#[derive(Clone)]
pub struct AddressesPeers {
    /// The owner of the lease; where there is no store, others see objects of this node's pods.
    pub session: Option<Ref<SessionMsg>>,
    /// The owner of identities.
    pub identities: Ref<IdentityMsg>,
    /// The owner of the policy.
    pub policy: Ref<PolicyMsg>,
    /// The owner of the ipcache.
    pub ipcache: Ref<IpcacheMsg>,
    /// The supervisor of endpoints.
    pub endpoints: Ref<EndpointsMsg>,
}

/// The owner of the cluster's addresses on this node.
pub struct ClusterAddresses {
    pub(super) peers: AddressesPeers,
    /// Outlive a crash: they change.
    settings: Lent<KvSettings>,
    pub(super) state: Lent<AddressesState>,
    /// A step is under way.
    pub(super) busy: bool,
    /// Something failed, and is tried again later.
    resting: bool,
    /// The time of another look.
    looks: Retry,
}

impl ClusterAddresses {
    /// Makes each life of the owner, given what an earlier run of the agent mapped.
    pub fn factory(
        peers: AddressesPeers,
        settings: KvSettings,
        inherited: InheritedAddresses,
    ) -> impl FnMut() -> Self + 'static {
        let state = Survives::new(AddressesState::inherited(inherited, settings.meshed));
        let settings = Survives::new(settings);
        move || Self {
            peers: peers.clone(),
            settings: settings.lend(),
            state: state.lend(),
            busy: false,
            resting: false,
            looks: Retry::default(),
        }
    }

    fn update(&mut self, update: Update) {
        for change in update.changes {
            match change {
                Change::Put(pair) => self.named(&pair),
                Change::Delete(key) => self.unnamed(key),
            }
        }
        if update.listed {
            self.listed();
        }
    }

    fn listed(&mut self) {
        let state = &mut *self.state;
        state.remote.listed();
        state.settle(self.settings.cluster_id);
    }

    fn objects(&mut self, objects: Vec<(ObjectKey, Option<ApiObject>)>, defined: bool) {
        let state = &mut *self.state;
        let KvSettings { address, cluster_id, .. } = *self.settings;
        for (key, value) in objects {
            for (prefix, owner) in state.take_object(key, value, address, cluster_id) {
                state.want(prefix, owner);
            }
        }
        if defined {
            self.listed();
        }
    }

    fn named(&mut self, pair: &Pair) {
        let read = Whose::read(pair, ADDRESSES);
        let mut own = false;
        let state = &mut *self.state;
        match read {
            // What an earlier run of this node said is taken from what it has now.
            Ok((prefix, value)) if value.host_ip == Some(self.settings.address) => {
                state.want(prefix, None);
                own = true;
            }
            Ok((prefix, value)) => {
                let owner = value.owner(&pair.key, &mut state.ports);
                state.want(prefix, Some(owner));
            }
            Err(error) => {
                tracing::warn!(%error, "an address of the cluster is not known");
                if let Ok(prefix) = prefix_of(&pair.key, ADDRESSES) {
                    state.want(prefix, None);
                }
            }
        }
        // A write that was given up may come behind a later one.
        let stale = own && state.announced_as(&pair.key).is_some_and(|value| *value != pair.value);
        if stale {
            self.tell_session(SessionMsg::Removed(pair.key.clone()));
        }
    }

    fn unnamed(&mut self, key: String) {
        let state = &mut *self.state;
        if let Ok(prefix) = prefix_of(&key, ADDRESSES) {
            state.want(prefix, None);
        }
        let ours = state.announced_as(&key).is_some();
        if ours {
            self.tell_session(SessionMsg::Removed(key));
        }
    }

    /// What other clusters say; which there are is told before.
    fn clusters(&mut self, names: BTreeSet<Arc<str>>) {
        let state = &mut *self.state;
        let (prefixes, identities) = state.others.configure(names);
        state.heed_others(prefixes);
        state.settle(self.settings.cluster_id);
        self.renew(identities);
    }

    fn cluster_addresses(&mut self, origin: &ClusterOrigin, update: Update) {
        let (state, listed) = (&mut *self.state, update.listed);
        let AddressesState { others, ports, .. } = state;
        let prefixes = others.addresses(origin, update, ports);
        state.heed_others(prefixes);
        if listed {
            state.settle(self.settings.cluster_id);
        }
    }

    fn cluster_identities(&mut self, origin: &ClusterOrigin, update: Update) {
        let renewed = self.state.others.identities(origin, update);
        self.renew(renewed);
    }

    fn renew(&mut self, renewed: Vec<Renewed>) {
        self.state.renew(renewed);
    }

    /// Takes the next step, unless one is under way; the ipcache is told meanwhile what it may know.
    fn proceed(&mut self, cx: &mut Cx<'_, Self>) {
        if self.resting {
            return;
        }
        let work = if self.busy { None } else { self.state.remote.next() };
        loop {
            let rows = self.state.remote.next_rows();
            let Some(rows) = rows else { break };
            self.map(cx, rows);
        }
        match work {
            None => self.look_again(cx),
            Some(Work::Adopt(desired)) => self.adopt(cx, desired),
            Some(Work::Unmap(prefixes)) => self.unmap(cx, prefixes),
            Some(Work::Release(ids)) => {
                self.release(ids);
                self.look_again(cx);
            }
        }
    }

    /// No endpoint can learn of an identity before.
    fn await_policies(&self, cx: &mut Cx<'_, Self>) {
        let policy = self.peers.policy.clone();
        let why = "the first policies, before identities of other nodes";
        cx.ask(&policy, POLICIES_PATIENCE, why, PolicyMsg::Ready, AddressesAnswer::PoliciesReady);
    }

    fn look_again(&mut self, cx: &mut Cx<'_, Self>) {
        let stalled = self.state.remote.has_stalled();
        if stalled {
            self.looks.pause_once(cx, AGAIN_AFTER, AddressesAnswer::Again);
        }
    }

    fn map(&mut self, cx: &mut Cx<'_, Self>, rows: Vec<AddressMapping>) {
        let remote = &self.state.remote;
        let entry = |identity, via| IpcacheEntry {
            tunnel: remote.tunnel(via),
            ..IpcacheEntry::of(identity, IpcacheSource::Cluster)
        };
        let entries = rows.iter().map(|&(prefix, id, via)| (prefix, entry(id, via))).collect();
        let ipcache = self.peers.ipcache.clone();
        cx.ask(
            &ipcache,
            PATIENCE,
            format!("{} addresses of other nodes in the ipcache", rows.len()),
            |reply| IpcacheMsg::Upsert { entries, reply },
            move |answer| AddressesAnswer::Mapped(rows, answer),
        );
    }

    fn unmap(&mut self, cx: &mut Cx<'_, Self>, prefixes: Vec<IpNet>) {
        self.busy = true;
        self.state.remote.unmapping(&prefixes);
        let (ipcache, gone) = (self.peers.ipcache.clone(), prefixes.clone());
        cx.ask(
            &ipcache,
            PATIENCE,
            format!("{} addresses of other nodes out of the ipcache", prefixes.len()),
            |reply| IpcacheMsg::Remove { prefixes, source: IpcacheSource::Cluster, reply },
            move |answer| AddressesAnswer::Unmapped(gone, answer),
        );
    }

    fn mapped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        rows: Vec<AddressMapping>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        let done = self.is_written(cx, answer);
        let remote = &mut self.state.remote;
        match done {
            true => remote.mapped(rows),
            false => remote.unconfirmed(rows.into_iter().map(|(prefix, ..)| prefix)),
        }
    }

    fn unmapped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        prefixes: Vec<IpNet>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        self.busy = false;
        let done = self.is_written(cx, answer);
        let remote = &mut self.state.remote;
        match done {
            true => remote.unmapped(&prefixes),
            false => remote.unconfirmed(prefixes),
        }
    }

    /// Whether what the ipcache was told is in force; it tries again by itself.
    fn is_written(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) -> bool {
        match answer {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "addresses of other nodes are not in force yet");
            }
            Err(error) => self.failed(cx, &error.to_string()),
        }
        false
    }

    fn release(&mut self, ids: Vec<IdentityId>) {
        self.state.remote.released(&ids);
        if let Err(refused) = self.peers.identities.tell(IdentityMsg::Abandon(ids)) {
            tracing::warn!(%refused, "identities that no address has stay known");
        }
    }

    /// Something was not done; it is tried again later.
    pub(super) fn failed(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        tracing::warn!(error, "addresses of other nodes are not all in force; trying again");
        self.resting = true;
        self.looks.pause_once(cx, AGAIN_AFTER, AddressesAnswer::Again);
    }

    fn endpoint(&mut self, announcement: Announcement) {
        match announcement.state {
            EndpointState::Ready => {
                let id = announcement.id;
                self.state.own.insert(id, announcement);
                self.announce(id);
                self.move_disputed();
            }
            EndpointState::Disconnecting | EndpointState::Disconnected | EndpointState::Invalid => {
                self.gone(announcement.id)
            }
            // What is in force is what it was.
            _ => {}
        }
    }

    fn claimed(&mut self, identity: IdentityId) {
        let state = &mut *self.state;
        state.claimed.insert(identity);
        state.disputed.remove(&identity);
        let theirs = state.own.iter().filter(|(_, own)| own.identity == identity);
        let theirs: Vec<_> = theirs.map(|(&id, _)| id).collect();
        theirs.into_iter().for_each(|id| self.announce(id));
    }

    /// Has each endpoint look for its identity again whose number means something else to others;
    /// once, for the number may be all that it can have.
    fn move_disputed(&mut self) {
        let state = &mut *self.state;
        let AddressesState { own, disputed, reported, .. } = state;
        let theirs = own.values().filter(|own| disputed.contains(&own.identity));
        for id in theirs.map(|own| own.id).filter(|&id| reported.insert(id)) {
            let (target, patch) = (EndpointReference::Id(id), Box::default());
            let patch = EndpointsMsg::Patch { target, patch, reply: Reply::to(|_| {}) };
            if let Err(refused) = self.peers.endpoints.tell(patch) {
                tracing::error!(endpoint = %id, %refused, "it keeps a disputed identity");
            }
        }
    }

    /// Says whose an endpoint's addresses are, once its identity means the same to everybody.
    fn announce(&mut self, id: EndpointId) {
        if self.peers.session.is_none() {
            return;
        }
        let state = &mut *self.state;
        let Some(own) = state.own.get(&id) else { return };
        if !own.identity.is_reserved() && !state.claimed.contains(&own.identity) {
            return;
        }
        let pairs = AddressPair::of_endpoint(own, &self.settings);
        let after: BTreeMap<_, _> = pairs.into_iter().map(|pair| (pair.key, pair.value)).collect();
        let before = state.replace(id, after.clone());
        self.tell_difference(before, after);
    }

    /// Whose pods' addresses are is told anew.
    fn take_address(&mut self, address: IpAddr) {
        self.settings.address = address;
        let own: Vec<EndpointId> = self.state.own.keys().copied().collect();
        own.into_iter().for_each(|id| self.announce(id));
    }

    fn gone(&mut self, id: EndpointId) {
        let state = &mut *self.state;
        state.own.remove(&id);
        state.reported.remove(&id);
        let before = state.replace(id, BTreeMap::new());
        self.tell_difference(before, BTreeMap::new());
    }

    fn tell_difference(&self, before: BTreeMap<String, Vec<u8>>, after: BTreeMap<String, Vec<u8>>) {
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        let mut changes: BTreeMap<_, _> = gone.map(|key| (key.clone(), None)).collect();
        let new = after.into_iter().filter(|(key, value)| before.get(key) != Some(value));
        changes.extend(new.map(|(key, value)| (key, Some(value))));
        if !changes.is_empty() {
            self.tell_session(SessionMsg::Announce(changes));
        }
    }

    fn tell_session(&self, msg: SessionMsg) {
        if let Some(session) = &self.peers.session
            && let Err(refused) = session.tell(msg)
        {
            tracing::error!(%refused, "an address is not announced as it is");
        }
    }

    fn view(&self) -> AddressesView {
        let state = &*self.state;
        let (known, mapped, waiting, synced) = state.remote.counts();
        let clusters = state.others.counts().collect();
        AddressesView { known, mapped, waiting, synced, announced: state.announced.len(), clusters }
    }
}

impl Behaviour for ClusterAddresses {
    type Msg = AddressesMsg;
    type Answer = AddressesAnswer;
    type Observed = AddressesView;

    fn handle(&mut self, msg: AddressesMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            AddressesMsg::Update(update) => self.update(update),
            AddressesMsg::Objects { objects, defined } => self.objects(objects, defined),
            AddressesMsg::Clusters(names) => self.clusters(names),
            AddressesMsg::ClusterAddresses(origin, update) => {
                self.cluster_addresses(&origin, update);
            }
            AddressesMsg::ClusterIdentities(origin, update) => {
                self.cluster_identities(&origin, update);
            }
            AddressesMsg::Allocator(AllocatorNews::Identities(renewed)) => self.renew(renewed),
            AddressesMsg::Allocator(AllocatorNews::Claimed(identity)) => self.claimed(identity),
            AddressesMsg::Allocator(AllocatorNews::Disputed(identity)) => {
                self.state.dispute(identity);
                self.move_disputed();
            }
            AddressesMsg::OwnAddress(address) => self.take_address(address),
            AddressesMsg::Endpoint(EndpointChange::Is(announcement)) => self.endpoint(announcement),
            AddressesMsg::Endpoint(EndpointChange::Gone(id)) => self.gone(id),
            AddressesMsg::Show(reply) => reply.send(self.view()),
        }
        self.proceed(cx);
    }

    fn answered(&mut self, answer: AddressesAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            AddressesAnswer::Adopted(asked, answer) => self.adopted(cx, asked, answer),
            AddressesAnswer::Learned(asked, answer) => self.learned(cx, asked, answer),
            AddressesAnswer::PoliciesReady(Ok(())) => self.state.remote.policies_ready(),
            AddressesAnswer::PoliciesReady(Err(_)) => self.await_policies(cx),
            AddressesAnswer::Mapped(rows, answer) => self.mapped(cx, rows, answer),
            AddressesAnswer::Unmapped(prefixes, answer) => self.unmapped(cx, prefixes, answer),
            AddressesAnswer::Again => {
                self.looks.over();
                self.resting = false;
                self.state.remote.resume();
            }
        }
        self.proceed(cx);
    }

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.remote.lose_answers();
        self.await_policies(cx);
        self.proceed(cx);
    }

    fn observe(&self) -> AddressesView {
        self.view()
    }
}
