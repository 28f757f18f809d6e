//! The owner of prefixes: draws what nodes lack, has it recorded in the Lease, and writes it into their
//! CiliumNodes.

use std::{collections::BTreeMap, mem};

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{
    PrefixesView,
    answers::PrefixesAnswer,
    grants::{Grant, Grants},
    pool::{ClusterPools, Family, Occupied, troubles_of_shared},
    seen_node::SeenNode,
    writer::{PrefixWriter, PrefixesPeers, WriteAnswer, unreadable},
};
use crate::{
    host::{AskError, Behaviour, Cx},
    model::ApiObject,
    mutants::{Mutant, mutated},
    operator::news::{FollowedKind, KindStanding, ObjectNews, WorkerMsg},
    ports::{ObjectKey, Verb},
};

/// How many nodes are given something at a time: the Lease has to hold it.
const AT_A_TIME: usize = 200;

/// The owner of who has which prefix.
pub(in crate::operator) struct PrefixAllocator {
    writer: PrefixWriter,
    pools: ClusterPools,
    nodes: BTreeMap<String, PoolNode>,
    standing: KindStanding,
    /// What the Lease says, or why that cannot be read.
    recorded: Result<Grants, String>,
    occupied: Occupied,
    /// What the Lease is asked to say.
    asked: Grants,
    /// What is wrong, by node; what its CiliumNode is to say.
    troubles: BTreeMap<String, String>,
    given: u64,
}

/// A CiliumNode.
#[derive(Clone, Debug, Default)]
struct PoolNode {
    seen: SeenNode,
    cidrs: Vec<IpNet>,
    /// What it has of pools, of the time when it had some.
    pooled: Vec<IpNet>,
}

impl PrefixAllocator {
    pub(in crate::operator) fn new(
        peers: PrefixesPeers,
        pools: ClusterPools,
        recorded: Option<&str>,
    ) -> Self {
        Self {
            writer: PrefixWriter::new(peers),
            pools,
            nodes: BTreeMap::new(),
            standing: KindStanding::default(),
            recorded: Grants::read(recorded.filter(|_| !mutated(Mutant::PrefixesForgotten))),
            occupied: Occupied::default(),
            asked: Grants::default(),
            troubles: BTreeMap::new(),
            given: 0,
        }
    }

    fn changed(&mut self, objects: Vec<(ObjectKey, Option<ApiObject>)>) {
        for (ObjectKey { name, .. }, value) in objects {
            let Some(value) = value else {
                self.nodes.remove(&name);
                continue;
            };
            let node = PoolNode::read(&value.into_json());
            let before = self.nodes.insert(name.clone(), node.clone());
            let lost =
                before.filter(|before| before.seen.uid == node.seen.uid && node.cidrs.is_empty());
            // A server that was restored does not say any more what the node was given.
            if let (Some(before), Ok(recorded)) = (lost, &mut self.recorded)
                && !before.cidrs.is_empty()
            {
                let (uid, cidrs) = (before.seen.uid, before.cidrs);
                let grant = Grant { uid, cidrs, pools: BTreeMap::new() };
                recorded.0.entry(name).or_insert(grant);
            }
        }
    }

    /// Does what comes next.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        let may_give = self.standing == KindStanding::Followed && !self.pools.is_empty();
        if !may_give || !self.writer.is_idle() {
            return;
        }
        self.settle();
        self.write(cx);
        if self.writer.is_idle() {
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
                node.seen.uid == grant.uid && !grant.all().all(|it| node.has().any(|had| had == it))
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
        self.troubles = troubles_of_shared(
            self.nodes
                .iter()
                .flat_map(|(name, node)| node.cidrs.iter().map(|it| (name.as_str(), *it))),
        );
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
                grants.0.insert(name.clone(), Grant { uid: node.seen.uid.clone(), cidrs, pools });
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
        self.writer.record(cx, grants.text(), more, PrefixesAnswer::Recorded);
        self.asked = grants;
    }

    fn recorded(&mut self, cx: &mut Cx<'_, Self>, answer: &Result<bool, AskError>) {
        let grants = mem::take(&mut self.asked);
        if self.writer.recorded(cx, answer, PrefixesAnswer::Again) {
            self.recorded = Ok(grants);
            self.advance(cx);
        }
    }

    /// Writes what is recorded.
    fn write(&mut self, cx: &mut Cx<'_, Self>) {
        let Ok(recorded) = &self.recorded else { return };
        let due: Vec<(String, Value)> = recorded
            .0
            .iter()
            .filter(|(_, grant)| !grant.cidrs.is_empty())
            .filter_map(|(name, grant)| {
                let node = self.nodes.get(name).filter(|node| node.seen.is_free())?;
                Some((name.clone(), node.seen.patch(json!({ "podCIDRs": grant.cidrs }))))
            })
            .collect();
        for (name, patch) in due {
            self.given += 1;
            self.send(cx, name, Verb::Merge(patch));
        }
    }

    /// Says in CiliumNodes what is wrong, and that it is not any more.
    fn complain(&mut self, cx: &mut Cx<'_, Self>) {
        let differing = self.nodes.iter().filter_map(|(name, node)| {
            Some((name.clone(), node.seen.complaint(self.troubles.get(name))?))
        });
        for (name, verb) in differing.collect::<Vec<_>>() {
            self.send(cx, name, verb);
        }
    }

    fn send(&mut self, cx: &mut Cx<'_, Self>, name: String, verb: Verb) {
        if let Some(node) = self.nodes.get_mut(&name) {
            node.seen.written();
        }
        let of = name.clone();
        let then = move |answer| PrefixesAnswer::Written(of, answer);
        self.writer.write(cx, FollowedKind::CiliumNodes, name, verb, then);
    }

    fn written(&mut self, cx: &mut Cx<'_, Self>, name: &str, answer: WriteAnswer) {
        let result = self.writer.written(cx, name, answer, PrefixesAnswer::Again);
        if let (Err(error), Some(node)) = (result, self.nodes.get_mut(name)) {
            node.seen.not_written(&error);
        }
        self.advance(cx);
    }

    fn stopped(&self) -> Option<String> {
        self.recorded.as_ref().err().map(|error| unreadable(error))
    }
}

impl PoolNode {
    fn read(value: &Value) -> Self {
        let ipam = &value["spec"]["ipam"];
        let parsed = |list: &Value| -> Vec<IpNet> {
            let all = list.as_array().into_iter().flatten();
            all.filter_map(|it| it.as_str()?.parse().ok()).collect()
        };
        let pooled = ipam["pools"]["allocated"].as_array().into_iter().flatten();
        Self {
            seen: SeenNode::read(value),
            cidrs: parsed(&ipam["podCIDRs"]),
            pooled: pooled.flat_map(|pool| parsed(&pool["cidrs"])).collect(),
        }
    }

    /// All that it has.
    fn has(&self) -> impl Iterator<Item = IpNet> {
        self.cidrs.iter().chain(&self.pooled).copied()
    }
}

fn used_up(family: Family) -> String {
    let family = family.name();
    format!("no free {family} prefix is left in the pools: give the operator another range")
}

impl Behaviour for PrefixAllocator {
    type Msg = WorkerMsg<PrefixesView>;
    type Answer = PrefixesAnswer;
    type Observed = PrefixesView;

    fn started(&mut self, _: &mut Cx<'_, Self>) {
        self.writer.begin();
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
            PrefixesAnswer::Recorded(answer) => self.recorded(cx, &answer),
            PrefixesAnswer::Written(name, answer) => self.written(cx, &name, answer),
            PrefixesAnswer::Again => {
                self.writer.over();
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
