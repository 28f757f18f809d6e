//! The actor around the policy engine: it owns the rules and the known identities, computes each
//! endpoint's policy, and waits until endpoints enforce it. Endpoints write the rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use serde::Serialize;
use serde_json::Value;

use super::{
    ClauseOrigin, EndpointPolicy, IdentityUser, PeerFacts, PolicyMsg, PolicyStatus, PolicyView,
    Repository, Subject, Touched,
    answers::PolicyAnswer,
    change::ChangeRound,
    knowledge::{Computed, Knowledge},
    requester::PolicyRequester,
    touched::ChangedPolicies,
};
use crate::{
    host::{AskError, Behaviour, Cx, Lent, Outlet, Ref, Reply, Survives},
    model::{ApiObject, IdentityId, Labels, NamedPorts},
    policy::{
        identity::{Identity, IdentityMsg},
        ipcache::IpcacheMsg,
        rules::{AwaitedEndpoints, PolicyNews, Reached},
    },
    ports::AgentNotices,
};

/// How long every endpoint may take to enforce a change. After that the change goes on: one that
/// never acknowledges must not hold up the rest.
pub(super) const ENFORCE_PATIENCE: Duration = Duration::from_secs(30);

/// How long the cluster's policies are waited for before they are asked for again: as long as it
/// takes.
const SYNC_PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Of more peers that are new at once it is not asked what each concerns: that takes longer than to
/// compute every policy.
const PEERS_MAX: usize = 32;

/// Kinds of objects that are policies, or that these name.
const KINDS: [&str; 5] = [
    "CiliumNetworkPolicy",
    "CiliumClusterwideNetworkPolicy",
    "NetworkPolicy",
    "CiliumCIDRGroup",
    "ClusterNetworkPolicy",
];

/// Whom the owner of the policy talks to.
#[derive(Clone)]
pub struct PolicyPeers {
    /// The supervisor of endpoints, which enforce what is computed here.
    pub endpoints: Outlet<PolicyNews>,
    /// Who numbers prefixes.
    pub identities: Ref<IdentityMsg>,
    /// Who maps prefixes to their identities.
    pub ipcache: Ref<IpcacheMsg>,
    /// Who follows the cluster, if policies come from there.
    pub cluster: Option<Outlet<Reply<()>>>,
    /// Who hears of policies that change, if anybody does.
    pub notices: Option<Rc<dyn AgentNotices>>,
}

/// The owner of the policy repository.
pub struct Policies {
    pub(super) peers: PolicyPeers,
    /// Outlives a crash.
    pub(super) known: Lent<Knowledge>,
    held: Vec<(Subject, PolicyRequester)>,
    /// Who waits for the first policies.
    pub(super) unready: Vec<Reply<()>>,
    /// Identities that not every endpoint knows yet, by the revision that does.
    learning: BTreeMap<u64, Learning>,
    /// Who waits until no change is under way.
    pub(super) idle: Vec<Reply<()>>,
    /// Where the change under way is. A crash forgets it: the change begins again.
    pub(super) round: ChangeRound,
    /// How often in a row endpoints were waited for in vain to know identities of other nodes.
    pub(super) in_vain: u8,
    /// The revision that the supervisor of endpoints was told last.
    reported: u64,
}

/// Identities that endpoints are being told of, and who waits for it.
#[derive(Default)]
struct Learning {
    ids: BTreeSet<IdentityId>,
    replies: Vec<Reply<u64>>,
}

/// What the owner of the policy shows of itself.
#[derive(Debug, Serialize)]
pub struct PoliciesStatus {
    revision: u64,
    ready: bool,
    subjects: usize,
    identities: usize,
    prefixes: usize,
    changes_waiting: usize,
    held: usize,
}

impl Policies {
    /// Makes each life of an owner that knows these identities, with names of their ports on other
    /// nodes, and the prefixes that an earlier run mapped; its repository is empty at first.
    pub fn factory(
        peers: impl Fn() -> PolicyPeers + 'static,
        repository: Repository,
        reserved: impl IntoIterator<Item = (IdentityId, Labels)>,
        inherited: BTreeMap<IpNet, IdentityId>,
        named_ports: BTreeMap<IdentityId, Arc<NamedPorts>>,
    ) -> impl FnMut() -> Self + 'static {
        let known = Survives::new(Knowledge::new(repository, reserved, inherited, named_ports));
        move || Self {
            peers: peers(),
            known: known.lend(),
            held: Vec::new(),
            unready: Vec::new(),
            learning: BTreeMap::new(),
            idle: Vec::new(),
            round: ChangeRound::Idle,
            in_vain: 0,
            reported: 0,
        }
    }

    pub(super) fn resolve(&mut self, subject: Subject, asker: PolicyRequester) {
        if !self.known.ready {
            return self.hold(subject, asker);
        }
        if !self.known.computed.contains_key(&subject) {
            let mut resolver = self.known.repository.resolver(&self.known.view);
            let computed = Computed::new(&mut resolver, self.known.revision, &subject, None);
            self.known.computed.insert(subject.clone(), computed);
        }
        asker.answer(Arc::clone(&self.known.computed[&subject].policy));
    }

    fn hold(&mut self, subject: Subject, asker: PolicyRequester) {
        // Only a cluster may leave its policies unsaid; manifests are on their way at start.
        let under_way = self.known.change.is_some() || !self.known.changes.is_empty();
        match asker {
            PolicyRequester::Keeper(reply) if self.peers.cluster.is_some() && !under_way => {
                self.known.keeping.insert(subject.labels);
                reply.send(None);
            }
            asker => self.held.push((subject, asker)),
        }
    }

    /// Waits for the cluster's policies, for everyone to see.
    fn await_cluster(&self, cx: &mut Cx<'_, Self>) {
        let Some(cluster) = self.peers.cluster.as_ref().filter(|_| !self.known.ready) else {
            return;
        };
        cx.ask(
            cluster,
            SYNC_PATIENCE,
            "every source of the cluster to be synced",
            |reply| reply,
            PolicyAnswer::Synced,
        );
    }

    /// The labels of endpoints whose policy is another one with these peers by rules that some may
    /// still enforce.
    fn concerned_before(&self, peers: &[PeerFacts]) -> BTreeSet<Arc<Labels>> {
        let before = self.known.behind.iter().filter_map(|behind| behind.rules.as_ref());
        before.flat_map(|before| self.known.concerned_by(before, peers)).collect()
    }

    /// Computes again what changes when one of these peers comes, goes or becomes another.
    pub(super) fn recompute_for(&mut self, peers: &[PeerFacts]) -> Touched {
        if peers.len() > PEERS_MAX {
            return self.recompute(|_| true);
        }
        let concerned = self.known.concerned_by(&self.known.repository, peers);
        self.recompute(|subject| concerned.contains(&subject.labels))
    }

    /// Computes the policies of these subjects again and counts the change. Those that are
    /// different.
    pub(super) fn recompute(&mut self, concerns: impl Fn(&Subject) -> bool) -> Touched {
        self.known.revision += 1;
        let revision = self.known.revision;
        let mut resolver = self.known.repository.resolver(&self.known.view);
        let mut different = ChangedPolicies::default();
        let mut all = BTreeMap::new();
        for (subject, before) in &self.known.computed {
            let computed = if concerns(subject) {
                let computed = Computed::new(&mut resolver, revision, subject, Some(before));
                if computed.policy.rows != before.policy.rows {
                    different.add(subject, &before.policy.rows, &computed.policy);
                }
                computed
            } else {
                let policy = EndpointPolicy { revision, ..(*before.policy).clone() };
                Computed { policy: Arc::new(policy), resolved: Arc::clone(&before.resolved) }
            };
            all.insert(subject.clone(), computed);
        }
        // At once: a crash on the way would leave subjects out, which would then miss changes.
        self.known.computed = all;
        different.all()
    }

    /// What is known now of those of these identities for which that is new.
    pub(super) fn take_in(&mut self, identities: Vec<Identity>) -> Vec<PeerFacts> {
        let mut new = Vec::new();
        for identity in identities {
            let named_ports = self.known.identity_users.named_ports(identity.id);
            let facts = PeerFacts { labels: identity.labels, prefix: identity.prefix, named_ports };
            if self.known.view.insert(identity.id, facts.clone()) {
                new.push(facts);
            }
        }
        new
    }

    fn learn(
        &mut self,
        cx: &mut Cx<'_, Self>,
        identities: Vec<Identity>,
        identity_users: Vec<IdentityUser>,
        reply: Reply<u64>,
    ) {
        let ids: BTreeSet<IdentityId> = identities.iter().map(|identity| identity.id).collect();
        let mut new = self.learn_users(identity_users);
        new.extend(self.take_in(identities));
        let mut touched = Touched::default();
        if !new.is_empty() {
            touched = self.recompute_for(&new);
            touched.labels.extend(self.concerned_before(&new));
        }
        if touched.labels.is_empty() {
            // Known here is not yet known to every endpoint.
            let under_way = self.learning.values_mut().rev();
            let mut same = under_way.filter(|learning| !learning.ids.is_disjoint(&ids));
            return match same.next() {
                Some(learning) => learning.replies.push(reply),
                None => reply.send(self.known.revision),
            };
        }
        let revision = self.known.revision;
        self.begin_learning(ids.clone()).push(reply);
        let endpoints = self.peers.endpoints.clone();
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "every endpoint to know a new identity",
            |reply| PolicyNews::PolicyChanged {
                revision,
                touched,
                strangers: ids,
                awaited: AwaitedEndpoints::Concerned,
                reply,
            },
            move |answer| PolicyAnswer::Known { revision, answer },
        );
    }

    fn known(&mut self, revision: u64, answer: Result<Reached, AskError>) {
        if let Err(error) = answer {
            tracing::warn!(revision, %error, "not every endpoint enforces this revision; going on");
        }
        self.end_learning(revision);
    }

    /// Endpoints are being told of these identities. Who waits until they know them.
    pub(super) fn begin_learning(&mut self, ids: BTreeSet<IdentityId>) -> &mut Vec<Reply<u64>> {
        let learning = self.learning.entry(self.known.revision).or_default();
        learning.ids.extend(ids);
        &mut learning.replies
    }

    /// They know what came with that revision, or are not waited for any more.
    pub(super) fn end_learning(&mut self, revision: u64) {
        let learning = self.learning.remove(&revision);
        let replies = learning.into_iter().flat_map(|learning| learning.replies);
        replies.for_each(|reply| reply.send(revision));
    }

    fn forget(&mut self, cx: &mut Cx<'_, Self>, id: IdentityId) {
        self.known.identity_users.forget(id);
        let Some(facts) = self.known.view.remove(id) else { return };
        // A set that has another number by now is still somebody's.
        if self.known.view.of_labels(&facts.labels).is_none() {
            self.known.computed.retain(|subject, _| subject.labels != facts.labels);
        }
        let touched = self.recompute_for(&[facts]);
        self.announce(cx, touched);
    }

    /// Tells endpoints of a change that nobody waits for.
    pub(super) fn announce(&mut self, cx: &mut Cx<'_, Self>, touched: Touched) {
        if touched.labels.is_empty() {
            return;
        }
        let (endpoints, revision) = (self.peers.endpoints.clone(), self.known.revision);
        cx.ask(
            &endpoints,
            ENFORCE_PATIENCE,
            "every endpoint to enforce a change",
            |reply| PolicyNews::PolicyChanged {
                revision,
                touched,
                strangers: BTreeSet::new(),
                awaited: AwaitedEndpoints::Concerned,
                reply,
            },
            PolicyAnswer::Heard,
        );
    }

    /// The first manifests are in: whoever asked meanwhile is answered.
    pub(super) fn become_ready(&mut self) {
        if !std::mem::replace(&mut self.known.ready, true) {
            for (subject, asker) in std::mem::take(&mut self.held) {
                self.resolve(subject, asker);
            }
            self.unready.drain(..).for_each(|reply| reply.send(()));
        }
    }

    /// An endpoint that a change does not touch has the new revision as well. Those whom it does
    /// touch were told of it before.
    fn tell_revision(&mut self) {
        let newest = self.known.revision;
        if self.reported != newest && self.known.ready {
            let reported = self.peers.endpoints.say(PolicyNews::Revision(newest));
            self.reported = if reported.is_ok() { newest } else { self.reported };
        }
    }

    fn show(&self, endpoints: &[Subject], reply: Reply<PolicyView>) {
        let mut policies = self.known.repository.status(endpoints, &self.known.view);
        let rejected = self.known.services.rejected();
        policies
            .extend(rejected.map(|(source, error)| PolicyStatus::refused(source, error.clone())));
        reply.send(PolicyView { revision: self.known.revision, policies });
    }

    fn origins(&self, reply: Reply<BTreeMap<u32, Vec<ClauseOrigin>>>) {
        let all = self.known.computed.values().flat_map(|computed| &computed.resolved.origins);
        reply.send(all.map(|(&cookie, origins)| (cookie, origins.clone())).collect());
    }
}

/// The policies among a source's objects.
pub(super) fn policies_of(objects: Vec<ApiObject>) -> Vec<ApiObject> {
    let is_policy = |object: &ApiObject| match object {
        ApiObject::NetworkPolicy(_) | ApiObject::List(_) => true,
        ApiObject::Malformed(object) => object.kind == "NetworkPolicy",
        ApiObject::Json(object) => object
            .get("kind")
            .and_then(Value::as_str)
            .is_none_or(|kind| KINDS.contains(&kind.strip_suffix("List").unwrap_or(kind))),
        _ => false,
    };
    objects.into_iter().filter(is_policy).collect()
}

impl Behaviour for Policies {
    type Msg = PolicyMsg;
    type Answer = PolicyAnswer;
    type Observed = PoliciesStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.resume(cx);
        self.await_cluster(cx);
    }

    fn handle(&mut self, msg: PolicyMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            PolicyMsg::Manifests(manifests) => self.manifests(cx, manifests),
            PolicyMsg::Learn { identities, identity_users, reply } => {
                self.learn(cx, identities, identity_users, reply);
            }
            PolicyMsg::Acquaint { identities, named_ports, reply } => {
                self.acquaint(cx, identities, named_ports, reply);
            }
            PolicyMsg::BearsOnly { endpoint, identity } => {
                self.bears_only(cx, endpoint, identity);
            }
            PolicyMsg::Forget(id) => self.forget(cx, id),
            PolicyMsg::Resolve { subject, reply } => {
                self.resolve(subject, PolicyRequester::Other(reply))
            }
            PolicyMsg::ResolveOrKeep { subject, reply } => {
                self.resolve(subject, PolicyRequester::Keeper(reply));
            }
            PolicyMsg::Ready(reply) => match self.known.ready {
                true => reply.send(()),
                false => self.unready.push(reply),
            },
            PolicyMsg::Show { endpoints, reply } => self.show(&endpoints, reply),
            PolicyMsg::Remarks { subject, reply } => reply.send(self.remarks(&subject)),
            PolicyMsg::Refused(reply) => reply.send(self.refused_policies()),
            PolicyMsg::Derived { subject, reply } => {
                reply.send(self.known.repository.derived(&subject.labels));
            }
            PolicyMsg::Written(reply) => reply.send(self.written()),
            PolicyMsg::Selectors { subjects, reply } => reply.send(self.selectors(subjects)),
            PolicyMsg::Explain { question, reply } => reply.send(self.explain(&question)),
            PolicyMsg::Origins(reply) => self.origins(reply),
            PolicyMsg::Enforcement { enforcement, reply } => {
                self.enforcement(cx, enforcement);
                reply.send(());
            }
            PolicyMsg::Idle(reply) => {
                self.idle.push(reply);
                self.answer_idle();
            }
        }
        self.tell_revision();
    }

    fn answered(&mut self, answer: PolicyAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            PolicyAnswer::Synced(Ok(())) => {}
            PolicyAnswer::Synced(Err(_)) => self.await_cluster(cx),
            PolicyAnswer::Numbered(answer) => self.numbered(cx, answer),
            PolicyAnswer::Prepared(answer) => self.prepared(cx, answer),
            PolicyAnswer::Bequeathed(answer) => self.inherited_policy_written(cx, answer),
            PolicyAnswer::Premapped(answer) => self.premapped(cx, answer),
            PolicyAnswer::Enforced { revision, answer } => self.enforced(cx, revision, answer),
            PolicyAnswer::Mapped(answer) => self.mapped(cx, answer),
            PolicyAnswer::Returned(answer) => self.returned(cx, answer),
            PolicyAnswer::Acquainted { revision, reply, answer } => {
                self.acquainted(revision, reply, answer);
            }
            PolicyAnswer::Known { revision, answer } => self.known(revision, answer),
            PolicyAnswer::Heard(answer) => {
                if let Err(error) = answer {
                    tracing::warn!(%error, "not every endpoint enforces the newest policy yet");
                }
            }
            PolicyAnswer::Unmapped(answer) => self.unmapped(cx, answer),
            PolicyAnswer::Retry => self.retry(cx),
        }
        self.tell_revision();
    }

    fn observe(&self) -> PoliciesStatus {
        PoliciesStatus {
            revision: self.known.revision,
            ready: self.known.ready,
            subjects: self.known.computed.len(),
            identities: self.known.view.iter().count(),
            prefixes: self.known.prefixes.len(),
            changes_waiting: self.known.changes.len(),
            held: self.held.len(),
        }
    }
}
