//! The owner of prefixes: draws what nodes lack, has it recorded in the Lease, and writes it into their
//! CiliumNodes.

use std::{collections::BTreeMap, mem, rc::Rc, time::Duration};

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{
    PrefixesView,
    answers::PrefixesAnswer,
    grants::{Grant, Grants},
    pool::{ClusterPools, Family, Occupied, shared},
};
use crate::{
    host::{AskError, Behaviour, Cx, Pauses, Ref, Retry},
    mutants::{Mutant, mutated},
    operator::{
        ending::OnlyLife,
        leadership::LeadershipMsg,
        news::{FollowedKind, KindStanding, ObjectNews, WorkerMsg},
    },
    ports::{Cluster, ClusterError, ObjectKey, ObjectWrite, Verb},
};

/// How many nodes are given something at a time: the Lease has to hold it.
const AT_A_TIME: usize = 200;
/// How long the server may take for a CiliumNode.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the Lease may take.
const RECORD_PATIENCE: Duration = Duration::from_secs(30);
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_millis(250), most: Duration::from_secs(30) };

/// Whom the owner of prefixes talks to.
#[derive(Clone)]
pub(in crate::operator) struct PrefixesPeers {
    pub(in crate::operator) cluster: Rc<dyn Cluster>,
    pub(in crate::operator) leadership: Ref<LeadershipMsg>,
    pub(in crate::operator) life: OnlyLife,
}

/// The owner of who has which prefix.
pub(in crate::operator) struct PrefixAllocator {
    peers: PrefixesPeers,
    pools: ClusterPools,
    nodes: BTreeMap<String, PoolNode>,
    standing: KindStanding,
    /// What the Lease says, or why that cannot be read.
    recorded: Result<Grants, String>,
    occupied: Occupied,
    phase: GivingPhase,
    retry: Retry,
    /// What is wrong, by node; what its CiliumNode is to say.
    troubles: BTreeMap<String, String>,
    given: u64,
}

/// A CiliumNode.
#[derive(Clone, Debug, Default)]
struct PoolNode {
    uid: String,
    version: String,
    cidrs: Vec<IpNet>,
    /// What it has of pools, of the time when it had some.
    pooled: Vec<IpNet>,
    /// What it says is wrong.
    error: Option<String>,
    /// It was written to, and has not been seen since.
    is_written: bool,
}

/// What is under way.
#[derive(Debug, Default)]
enum GivingPhase {
    #[default]
    Idle,
    /// The Lease is asked to say this.
    Recording(Grants),
    /// So many CiliumNodes are being written.
    Writing(usize),
}

impl PrefixAllocator {
    pub(in crate::operator) fn new(
        peers: PrefixesPeers,
        pools: ClusterPools,
        recorded: Option<&str>,
    ) -> Self {
        Self {
            peers,
            pools,
            nodes: BTreeMap::new(),
            standing: KindStanding::default(),
            recorded: Grants::read(recorded.filter(|_| !mutated(Mutant::PrefixesForgotten))),
            occupied: Occupied::default(),
            phase: GivingPhase::default(),
            retry: Retry::default(),
            troubles: BTreeMap::new(),
            given: 0,
        }
    }

    fn changed(&mut self, objects: Vec<(ObjectKey, Option<Value>)>) {
        for (ObjectKey { name, .. }, value) in objects {
            let Some(value) = value else {
                self.nodes.remove(&name);
                continue;
            };
            let node = PoolNode::read(&value);
            let before = self.nodes.insert(name.clone(), node.clone());
            let lost = before.filter(|before| before.uid == node.uid && node.cidrs.is_empty());
            // A server that was restored does not say any more what the node was given.
            if let (Some(before), Ok(recorded)) = (lost, &mut self.recorded)
                && !before.cidrs.is_empty()
            {
                let (uid, cidrs) = (before.uid, before.cidrs);
                let grant = Grant { uid, cidrs, pools: BTreeMap::new() };
                recorded.0.entry(name).or_insert(grant);
            }
        }
    }

    /// Does what comes next.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        let idle = matches!(self.phase, GivingPhase::Idle) && self.retry.is_idle();
        if !idle || self.standing != KindStanding::Followed || self.pools.is_empty() {
            return;
        }
        self.settle();
        self.write(cx);
        if matches!(self.phase, GivingPhase::Idle) {
            self.record(cx);
        }
    }

    /// What was recorded and stands in its CiliumNode by now need not be recorded any more, nor what is
    /// for a node that went.
    fn settle(&mut self) {
        let Ok(recorded) = &mut self.recorded else { return };
        let nodes = &self.nodes;
        recorded.0.retain(|name, grant| {
            nodes.get(name).is_some_and(|node| {
                node.uid == grant.uid && !grant.all().all(|it| node.has().any(|had| had == it))
            })
        });
    }

    /// Draws what nodes lack, and has it recorded.
    fn record(&mut self, cx: &mut Cx<'_, Self>) {
        let Ok(recorded) = &self.recorded else { return };
        let mut grants = recorded.clone();
        let all = self.nodes.values().flat_map(PoolNode::has);
        let pending = recorded.0.values().flat_map(Grant::all);
        let mut occupied = self.occupied.renewed(all.chain(pending));
        self.troubles = troubles_of_shared(&self.nodes);
        let mut more = 0;
        for (name, node) in &self.nodes {
            let before = recorded.0.get(name);
            if before.is_some_and(|grant| !grant.cidrs.is_empty()) || more == AT_A_TIME {
                continue;
            }
            let mut cidrs = node.cidrs.clone();
            for family in self.pools.lacking(&node.cidrs) {
                match occupied.take("", &self.pools, family) {
                    Some(cidr) => cidrs.push(cidr),
                    None => drop(self.troubles.insert(name.clone(), used_up(family))),
                }
            }
            if cidrs.len() > node.cidrs.len() {
                more += 1;
                // What an operator before gave of pools, and may still write, stays recorded.
                let pools = before.map(|grant| grant.pools.clone()).unwrap_or_default();
                grants.0.insert(name.clone(), Grant { uid: node.uid.clone(), cidrs, pools });
            }
        }
        self.occupied = occupied;
        if more == 0 {
            return self.complain(cx);
        }
        if mutated(Mutant::PrefixesUnrecorded) {
            self.recorded = Ok(grants);
            return self.write(cx);
        }
        let prefixes = Some(grants.text());
        self.phase = GivingPhase::Recording(grants);
        let why = format!("the Lease to say what {more} nodes are given");
        let leadership = self.peers.leadership.clone();
        cx.ask(
            &leadership,
            RECORD_PATIENCE,
            why,
            |reply| LeadershipMsg::Confirm { prefixes, reply },
            PrefixesAnswer::Recorded,
        );
    }

    fn recorded(&mut self, cx: &mut Cx<'_, Self>, answer: Result<bool, AskError>) {
        let GivingPhase::Recording(grants) = mem::take(&mut self.phase) else { return };
        // It may have been recorded all the same. Who does not lead any more ends.
        if answer == Ok(true) {
            self.recorded = Ok(grants);
            self.retry.succeeded();
            return self.advance(cx);
        }
        let _ = self.retry.failed(PAUSES, cx, PrefixesAnswer::Again);
    }

    /// Writes what is recorded.
    fn write(&mut self, cx: &mut Cx<'_, Self>) {
        let Ok(recorded) = &self.recorded else { return };
        let due: Vec<(String, Value)> = recorded
            .0
            .iter()
            .filter(|(_, grant)| !grant.cidrs.is_empty())
            .filter_map(|(name, grant)| {
                let node = self.nodes.get(name).filter(|node| !node.is_written)?;
                Some((name.clone(), node.patch("spec", json!({ "podCIDRs": grant.cidrs }))))
            })
            .collect();
        for (name, patch) in due {
            self.given += 1;
            self.send(cx, name, Verb::Merge(patch));
        }
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
        let then = move |answer| PrefixesAnswer::Written(name, answer);
        let reply = cx.expect("cluster", PATIENCE, why, then);
        let resource = FollowedKind::CiliumNodes.resource();
        self.peers.cluster.write(ObjectWrite { resource, key, verb }, reply);
        let under_way = match self.phase {
            GivingPhase::Writing(others) => others,
            _ => 0,
        };
        self.phase = GivingPhase::Writing(under_way + 1);
    }

    fn written(
        &mut self,
        cx: &mut Cx<'_, Self>,
        name: &str,
        answer: Result<Result<(), ClusterError>, AskError>,
    ) {
        let GivingPhase::Writing(under_way) = self.phase else { return };
        self.phase = match under_way {
            0 | 1 => GivingPhase::Idle,
            more => GivingPhase::Writing(more - 1),
        };
        match ClusterError::of_asked(answer, &*self.peers.cluster) {
            Ok(()) => {
                if self.retry.is_idle() {
                    self.retry.succeeded();
                }
            }
            // Another version is on its way, or the word that it is gone.
            Err(ClusterError::Conflict(_) | ClusterError::NotFound(_)) => {}
            Err(error) => self.failed(cx, name, &error.to_string()),
        }
        self.advance(cx);
    }

    fn failed(&mut self, cx: &mut Cx<'_, Self>, name: &str, error: &str) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.is_written = false;
        }
        if !self.retry.is_pausing() {
            let retry_in = self.retry.failed(PAUSES, cx, PrefixesAnswer::Again);
            tracing::warn!(node = name, error, ?retry_in, "CiliumNode was not written");
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

impl PoolNode {
    fn read(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ipam = &value["spec"]["ipam"];
        let parsed = |list: &Value| -> Vec<IpNet> {
            let all = list.as_array().into_iter().flatten();
            all.filter_map(|it| it.as_str()?.parse().ok()).collect()
        };
        let pooled = ipam["pools"]["allocated"].as_array().into_iter().flatten();
        let error = text(&value["status"]["ipam"]["operator-status"]["error"]);
        Self {
            uid: text(&value["metadata"]["uid"]),
            version: text(&value["metadata"]["resourceVersion"]),
            cidrs: parsed(&ipam["podCIDRs"]),
            pooled: pooled.flat_map(|pool| parsed(&pool["cidrs"])).collect(),
            error: Some(error).filter(|error| !error.is_empty()),
            is_written: false,
        }
    }

    /// All that it has.
    fn has(&self) -> impl Iterator<Item = IpNet> {
        self.cidrs.iter().chain(&self.pooled).copied()
    }

    /// A patch of its `ipam` in the version that was seen.
    fn patch(&self, part: &str, ipam: Value) -> Value {
        json!({
            "metadata": { "resourceVersion": self.version },
            part: { "ipam": ipam },
        })
    }
}

fn used_up(family: Family) -> String {
    let family = family.name();
    format!("no free {family} prefix is left in the pools: give the operator another range")
}

fn troubles_of_shared(nodes: &BTreeMap<String, PoolNode>) -> BTreeMap<String, String> {
    let all = nodes.iter().map(|(name, node)| (name.as_str(), node.cidrs.as_slice()));
    let shared = shared(all).into_iter();
    let trouble = |(name, (cidr, other)): (&str, (IpNet, &str))| {
        let text = format!(
            "addresses of {cidr} are node {other}'s as well: drain this node, remove its CiliumNode, and \
             let it join again"
        );
        (name.to_owned(), text)
    };
    shared.map(trouble).collect()
}

impl Behaviour for PrefixAllocator {
    type Msg = WorkerMsg<PrefixesView>;
    type Answer = PrefixesAnswer;
    type Observed = PrefixesView;

    fn started(&mut self, _: &mut Cx<'_, Self>) {
        self.peers.life.begin();
        if let Some(why) = self.stopped() {
            tracing::error!(why, "no prefixes are given");
        }
    }

    fn handle(&mut self, msg: WorkerMsg<PrefixesView>, cx: &mut Cx<'_, Self>) {
        match msg {
            WorkerMsg::News(ObjectNews::Changed(_, objects)) => self.changed(objects),
            WorkerMsg::News(ObjectNews::Standing(_, standing)) => self.standing = standing,
            WorkerMsg::Show(reply) => return reply.send(self.observe()),
        }
        self.advance(cx);
    }

    fn answered(&mut self, answer: PrefixesAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            PrefixesAnswer::Recorded(answer) => self.recorded(cx, answer),
            PrefixesAnswer::Written(name, answer) => self.written(cx, &name, answer),
            PrefixesAnswer::Again => {
                self.retry.over();
                self.advance(cx);
            }
        }
    }

    fn observe(&self) -> PrefixesView {
        let lacking = |node: &&PoolNode| !self.pools.lacking(&node.cidrs).is_empty();
        let troubles = self.troubles.iter().map(|(name, text)| (name.clone(), text.clone()));
        PrefixesView {
            nodes: self.nodes.len(),
            lacking: self.nodes.values().filter(lacking).count(),
            given: self.given,
            pools: 0,
            pool_troubles: Vec::new(),
            troubles: troubles.collect(),
            stopped: self.stopped(),
        }
    }
}
