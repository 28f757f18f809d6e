//! The owner of pools: draws what nodes lack, has it recorded in the Lease, and writes it into their
//! CiliumNodes.

use std::{collections::BTreeMap, mem, rc::Rc, time::Duration};

use serde_json::{Value, json};

use super::{
    answers::PodPrefixesAnswer, creation::NewPodPool, demand::PooledNode, known::PodPools,
    plan::plan,
};
use crate::{
    host::{AskError, Behaviour, Cx, Pauses, Ref, Retry},
    mutants::{Mutant, mutated},
    operator::{
        ending::OnlyLife,
        leadership::LeadershipMsg,
        news::{FollowedKind, KindStanding, ObjectNews, WorkerMsg},
        prefixes::{Grants, Occupied, PrefixesView},
    },
    ports::{Cluster, ClusterError, ObjectKey, ObjectWrite, Verb},
};

/// How long the server may take for an object.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the Lease may take.
const RECORD_PATIENCE: Duration = Duration::from_secs(30);
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_millis(250), most: Duration::from_secs(30) };

/// Whom the owner of pools talks to.
#[derive(Clone)]
pub(in crate::operator) struct PodPrefixesPeers {
    pub(in crate::operator) cluster: Rc<dyn Cluster>,
    pub(in crate::operator) leadership: Ref<LeadershipMsg>,
    pub(in crate::operator) life: OnlyLife,
}

/// The owner of who has what of which pool.
pub(in crate::operator) struct PodPrefixAllocator {
    peers: PodPrefixesPeers,
    /// Pools that are to be there, and were not looked for yet.
    missing: Vec<NewPodPool>,
    nodes: BTreeMap<String, PooledNode>,
    pools: PodPools,
    /// Whether all CiliumNodes, and all pools, are known.
    standings: [KindStanding; 2],
    /// What the Lease says, or why that cannot be read.
    recorded: Result<Grants, String>,
    occupied: Occupied,
    phase: PodPhase,
    retry: Retry,
    /// What is wrong, by node; what its CiliumNode is to say.
    troubles: BTreeMap<String, String>,
    /// What is wrong with pools.
    pool_troubles: BTreeMap<String, String>,
    lacking: usize,
    given: u64,
}

/// What is under way.
#[derive(Debug, Default)]
enum PodPhase {
    #[default]
    Idle,
    /// The Lease is asked to say this; then these are written, each to the version of its CiliumNode that
    /// was seen before.
    Confirming(Grants, Vec<(String, Value)>),
    /// So many objects are being written.
    Writing(usize),
}

impl PodPrefixAllocator {
    pub(in crate::operator) fn new(
        peers: PodPrefixesPeers,
        missing: Vec<NewPodPool>,
        recorded: Option<&str>,
    ) -> Self {
        Self {
            peers,
            missing,
            nodes: BTreeMap::new(),
            pools: PodPools::default(),
            standings: [KindStanding::default(); 2],
            recorded: Grants::read(recorded.filter(|_| !mutated(Mutant::PrefixesForgotten))),
            occupied: Occupied::default(),
            phase: PodPhase::default(),
            retry: Retry::default(),
            troubles: BTreeMap::new(),
            pool_troubles: BTreeMap::new(),
            lacking: 0,
            given: 0,
        }
    }

    fn changed(&mut self, of: FollowedKind, objects: Vec<(ObjectKey, Option<Value>)>) {
        for (ObjectKey { name, .. }, value) in objects {
            match (of, value) {
                (FollowedKind::PodPools, value) => self.pools.changed(name, value.as_ref()),
                (_, Some(value)) => drop(self.nodes.insert(name, PooledNode::read(&value))),
                (_, None) => drop(self.nodes.remove(&name)),
            }
        }
    }

    /// Does what comes next.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        let idle = matches!(self.phase, PodPhase::Idle) && self.retry.is_idle();
        let known = match self.standings {
            // Without a definition there are no pools, and nodes are told so.
            [nodes, pools] => nodes == KindStanding::Followed && pools != KindStanding::Unknown,
        };
        if !idle || !known || self.recorded.is_err() {
            return;
        }
        self.create(cx);
        if matches!(self.phase, PodPhase::Idle) {
            self.settle();
            self.draw(cx);
        }
    }

    /// Makes the pools that are to be there.
    fn create(&mut self, cx: &mut Cx<'_, Self>) {
        if self.standings[1] != KindStanding::Followed {
            return;
        }
        let pools = &self.pools;
        self.missing.retain(|pool| pools.get(pool.name()).is_none());
        for pool in self.missing.clone() {
            let (name, document) = (pool.name().to_owned(), pool.document());
            let key = ObjectKey { namespace: String::new(), name: name.clone() };
            let why = format!("CiliumPodIPPool {name}");
            let then = move |answer| PodPrefixesAnswer::Created(name, answer);
            let reply = cx.expect("cluster", PATIENCE, why, then);
            let resource = FollowedKind::PodPools.resource();
            let verb = Verb::Create(document);
            self.peers.cluster.write(ObjectWrite { resource, key, verb }, reply);
            self.one_more();
        }
    }

    /// What was recorded and stands in its CiliumNode by now need not be recorded any more, nor what is
    /// for a node that went.
    fn settle(&mut self) {
        let Ok(recorded) = &mut self.recorded else { return };
        let nodes = &self.nodes;
        recorded.0.retain(|name, grant| {
            nodes.get(name).is_some_and(|node| {
                let has = |cidr| node.has().any(|(_, had)| had == cidr);
                node.uid == grant.uid && !grant.all().all(has)
            })
        });
    }

    /// Draws what nodes lack, and has it recorded.
    fn draw(&mut self, cx: &mut Cx<'_, Self>) {
        let Ok(recorded) = &self.recorded else { return };
        let plan = plan(&self.nodes, &self.pools, recorded, &self.occupied);
        self.occupied = plan.occupied;
        self.lacking = plan.lacking;
        tell("CiliumNode", &self.troubles, &plan.troubles);
        self.troubles = plan.troubles;
        let of_pools = self.pools.troubles();
        tell("CiliumPodIPPool", &self.pool_troubles, &of_pools);
        self.pool_troubles = of_pools;
        let due: Vec<(String, Value)> = plan
            .grants
            .0
            .iter()
            .filter(|(_, grant)| !grant.pools.is_empty())
            .filter_map(|(name, grant)| {
                let node = self.nodes.get(name).filter(|node| !node.is_written)?;
                Some((name.clone(), node.given(&grant.pools)))
            })
            .collect();
        if due.is_empty() {
            return self.complain(cx);
        }
        if mutated(Mutant::PrefixesUnrecorded) {
            self.recorded = Ok(plan.grants);
            return self.write(cx, due);
        }
        let prefixes = Some(plan.grants.text());
        let why = format!("the Lease to say what {} nodes are given", due.len());
        self.phase = PodPhase::Confirming(plan.grants, due);
        let leadership = self.peers.leadership.clone();
        cx.ask(
            &leadership,
            RECORD_PATIENCE,
            why,
            |reply| LeadershipMsg::Confirm { prefixes, reply },
            PodPrefixesAnswer::Confirmed,
        );
    }

    fn confirmed(&mut self, cx: &mut Cx<'_, Self>, answer: Result<bool, AskError>) {
        let PodPhase::Confirming(grants, due) = mem::take(&mut self.phase) else { return };
        // It may have been recorded all the same. Who does not lead any more ends.
        if answer != Ok(true) {
            let _ = self.retry.failed(PAUSES, cx, PodPrefixesAnswer::Again);
            return;
        }
        self.recorded = Ok(grants);
        self.retry.succeeded();
        self.write(cx, due);
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>, due: Vec<(String, Value)>) {
        for (name, patch) in due {
            // Of one that changed meanwhile the server knows as well, and no other version may be on its way.
            if self.nodes.get(&name).is_some_and(|node| node.is_meant_by(&patch)) {
                self.given += 1;
                self.send(cx, name, Verb::Merge(patch));
            }
        }
        self.advance(cx);
    }

    /// Says in CiliumNodes what is wrong, and that it is not any more.
    fn complain(&mut self, cx: &mut Cx<'_, Self>) {
        let differing = self.nodes.iter().filter(|(name, node)| {
            !node.is_written && self.troubles.get(*name) != node.error.as_ref()
        });
        let due: Vec<(String, Value)> = differing
            .map(|(name, node)| {
                let error = self.troubles.get(name).cloned().unwrap_or_default();
                let said = json!({ "operator-status": { "error": error } });
                (name.clone(), node.patch("status", said))
            })
            .collect();
        for (name, patch) in due {
            self.send(cx, name, Verb::MergeStatus(patch));
        }
    }

    fn send(&mut self, cx: &mut Cx<'_, Self>, name: String, verb: Verb) {
        if let Some(node) = self.nodes.get_mut(&name) {
            node.is_written = true;
        }
        let key = ObjectKey { namespace: String::new(), name: name.clone() };
        let why = format!("CiliumNode {name}");
        let then = move |answer| PodPrefixesAnswer::Written(name, answer);
        let reply = cx.expect("cluster", PATIENCE, why, then);
        let resource = FollowedKind::CiliumNodes.resource();
        self.peers.cluster.write(ObjectWrite { resource, key, verb }, reply);
        self.one_more();
    }

    fn one_more(&mut self) {
        let under_way = match self.phase {
            PodPhase::Writing(others) => others,
            _ => 0,
        };
        self.phase = PodPhase::Writing(under_way + 1);
    }

    fn one_less(&mut self) {
        self.phase = match self.phase {
            PodPhase::Writing(more) if more > 1 => PodPhase::Writing(more - 1),
            _ => PodPhase::Idle,
        };
    }

    fn written(
        &mut self,
        cx: &mut Cx<'_, Self>,
        name: &str,
        answer: Result<Result<(), ClusterError>, AskError>,
    ) {
        self.one_less();
        match ClusterError::of_asked(answer, &*self.peers.cluster) {
            Ok(()) if self.retry.is_idle() => self.retry.succeeded(),
            Ok(()) => {}
            // Another version is on its way, or the word that it is gone.
            Err(ClusterError::Conflict(_) | ClusterError::NotFound(_)) => {}
            Err(error) => {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.is_written = false;
                }
                self.failed(cx, "CiliumNode", name, &error.to_string());
            }
        }
        self.advance(cx);
    }

    fn created(
        &mut self,
        cx: &mut Cx<'_, Self>,
        name: &str,
        answer: Result<Result<(), ClusterError>, AskError>,
    ) {
        self.one_less();
        match ClusterError::of_asked(answer, &*self.peers.cluster) {
            // Somebody else may have made it; it is theirs then.
            Ok(()) | Err(ClusterError::Conflict(_)) => {
                tracing::info!(pool = name, "CiliumPodIPPool is there");
                self.missing.retain(|pool| pool.name() != name);
            }
            Err(error) => self.failed(cx, "CiliumPodIPPool", name, &error.to_string()),
        }
        self.advance(cx);
    }

    fn failed(&mut self, cx: &mut Cx<'_, Self>, kind: &str, name: &str, error: &str) {
        if !self.retry.is_pausing() {
            let retry_in = self.retry.failed(PAUSES, cx, PodPrefixesAnswer::Again);
            tracing::warn!(kind, name, error, ?retry_in, "object was not written");
        }
    }

    fn stopped(&self) -> Option<String> {
        self.recorded.as_ref().err().map(|error| {
            format!(
                "the Lease's annotation volvox.io/prefixes cannot be read ({error}), and which \
                 prefixes are given is not known: remove the annotation when no operator runs"
            )
        })
    }
}

/// Logs what is wrong since now.
fn tell(kind: &str, before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) {
    for (name, trouble) in now.iter().filter(|(name, trouble)| before.get(*name) != Some(trouble)) {
        tracing::warn!(kind, name, trouble, "pools cannot serve as they are");
    }
}

impl Behaviour for PodPrefixAllocator {
    type Msg = WorkerMsg<PrefixesView>;
    type Answer = PodPrefixesAnswer;
    type Observed = PrefixesView;

    fn started(&mut self, _: &mut Cx<'_, Self>) {
        self.peers.life.begin();
        if let Some(why) = self.stopped() {
            tracing::error!(why, "no prefixes are given");
        }
    }

    fn handle(&mut self, msg: WorkerMsg<PrefixesView>, cx: &mut Cx<'_, Self>) {
        match msg {
            WorkerMsg::News(ObjectNews::Changed(of, objects)) => self.changed(of, objects),
            WorkerMsg::News(ObjectNews::Standing(of, standing)) => {
                self.standings[usize::from(of == FollowedKind::PodPools)] = standing;
            }
            WorkerMsg::Show(reply) => return reply.send(self.observe()),
        }
        self.advance(cx);
    }

    fn answered(&mut self, answer: PodPrefixesAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            PodPrefixesAnswer::Confirmed(answer) => self.confirmed(cx, answer),
            PodPrefixesAnswer::Written(name, answer) => self.written(cx, &name, answer),
            PodPrefixesAnswer::Created(name, answer) => self.created(cx, &name, answer),
            PodPrefixesAnswer::Again => {
                self.retry.over();
                self.advance(cx);
            }
        }
    }

    fn observe(&self) -> PrefixesView {
        let texts = |all: &BTreeMap<String, String>| {
            all.iter().map(|(name, text)| (name.clone(), text.clone())).collect()
        };
        PrefixesView {
            nodes: self.nodes.len(),
            lacking: self.lacking,
            given: self.given,
            pools: self.pools.names().count(),
            troubles: texts(&self.troubles),
            pool_troubles: texts(&self.pool_troubles),
            stopped: self.stopped(),
        }
    }
}
