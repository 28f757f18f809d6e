//! The owner of pools: draws what nodes lack, has it recorded in the Lease, and writes it into their
//! CiliumNodes.

use std::{collections::BTreeMap, mem};

use serde_json::Value;

use super::{
    answers::PodPrefixesAnswer, creation::NewPodPool, demand::PooledNode, known::PodPools,
    plan::plan,
};
use crate::{
    host::{AskError, Behaviour, Cx},
    model::ApiObject,
    mutants::{Mutant, mutated},
    operator::{
        news::{FollowedKind, KindStanding, ObjectNews, WorkerMsg},
        prefixes::{
            Grants, Occupied, PrefixWriter, PrefixesPeers, PrefixesView, WriteAnswer, unreadable,
        },
    },
    ports::{ObjectKey, Verb},
};

/// The owner of who has what of which pool.
pub(in crate::operator) struct PodPrefixAllocator {
    writer: PrefixWriter,
    /// Pools that are to be there, and were not looked for yet.
    missing: Vec<NewPodPool>,
    nodes: BTreeMap<String, PooledNode>,
    pools: PodPools,
    /// Whether all CiliumNodes, and all pools, are known.
    standings: [KindStanding; 2],
    /// What the Lease says, or why that cannot be read.
    recorded: Result<Grants, String>,
    occupied: Occupied,
    asked: AskedGrants,
    /// What is wrong, by node; what its CiliumNode is to say.
    troubles: BTreeMap<String, String>,
    /// What is wrong with pools.
    pool_troubles: BTreeMap<String, String>,
    lacking: usize,
    given: u64,
}

/// What the Lease is asked to say; then these are written, each to the version of its CiliumNode that was
/// seen before.
#[derive(Debug, Default)]
struct AskedGrants {
    grants: Grants,
    due: Vec<(String, Value)>,
}

impl PodPrefixAllocator {
    pub(in crate::operator) fn new(
        peers: PrefixesPeers,
        missing: Vec<NewPodPool>,
        recorded: Option<&str>,
    ) -> Self {
        Self {
            writer: PrefixWriter::new(peers),
            missing,
            nodes: BTreeMap::new(),
            pools: PodPools::default(),
            standings: [KindStanding::default(); 2],
            recorded: Grants::read(recorded.filter(|_| !mutated(Mutant::PrefixesForgotten))),
            occupied: Occupied::default(),
            asked: AskedGrants::default(),
            troubles: BTreeMap::new(),
            pool_troubles: BTreeMap::new(),
            lacking: 0,
            given: 0,
        }
    }

    fn changed(&mut self, of: FollowedKind, objects: Vec<(ObjectKey, Option<ApiObject>)>) {
        for (ObjectKey { name, .. }, value) in objects {
            match (of, value) {
                (FollowedKind::PodPools, value) => {
                    self.pools.changed(name, value.map(ApiObject::into_json).as_ref());
                }
                (_, Some(value)) => {
                    drop(self.nodes.insert(name, PooledNode::read(&value.into_json())));
                }
                (_, None) => drop(self.nodes.remove(&name)),
            }
        }
    }

    /// Does what comes next.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        let known = match self.standings {
            // Without a definition there are no pools, and nodes are told so.
            [nodes, pools] => nodes == KindStanding::Followed && pools != KindStanding::Unknown,
        };
        if !self.writer.is_idle() || !known || self.recorded.is_err() {
            return;
        }
        self.create(cx);
        if self.writer.is_idle() {
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
            let name = pool.name().to_owned();
            let of = name.clone();
            let then = move |answer| PodPrefixesAnswer::Created(of, answer);
            let verb = Verb::Create(pool.document());
            self.writer.write(cx, FollowedKind::PodPools, name, verb, then);
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
                node.seen.uid == grant.uid && !grant.all().all(has)
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
                let node = self.nodes.get(name).filter(|node| node.seen.is_free())?;
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
        self.writer.record(cx, plan.grants.text(), due.len(), PodPrefixesAnswer::Confirmed);
        self.asked = AskedGrants { grants: plan.grants, due };
    }

    fn confirmed(&mut self, cx: &mut Cx<'_, Self>, answer: &Result<bool, AskError>) {
        let AskedGrants { grants, due } = mem::take(&mut self.asked);
        if self.writer.recorded(cx, answer, PodPrefixesAnswer::Again) {
            self.recorded = Ok(grants);
            self.write(cx, due);
        }
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>, due: Vec<(String, Value)>) {
        for (name, patch) in due {
            // Of one that changed meanwhile the server knows as well, and no other version may be on its way.
            if self.nodes.get(&name).is_some_and(|node| node.seen.is_meant_by(&patch)) {
                self.given += 1;
                self.send(cx, name, Verb::Merge(patch));
            }
        }
        self.advance(cx);
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
        let then = move |answer| PodPrefixesAnswer::Written(of, answer);
        self.writer.write(cx, FollowedKind::CiliumNodes, name, verb, then);
    }

    fn written(&mut self, cx: &mut Cx<'_, Self>, name: &str, answer: WriteAnswer) {
        let result = self.writer.written(cx, name, answer, PodPrefixesAnswer::Again);
        if let (Err(error), Some(node)) = (result, self.nodes.get_mut(name)) {
            node.seen.not_written(&error);
        }
        self.advance(cx);
    }

    fn created(&mut self, cx: &mut Cx<'_, Self>, name: &str, answer: WriteAnswer) {
        let object = (FollowedKind::PodPools, name);
        if self.writer.created(cx, object, answer, PodPrefixesAnswer::Again) {
            tracing::info!(pool = name, "CiliumPodIPPool is there");
            self.missing.retain(|pool| pool.name() != name);
        }
        self.advance(cx);
    }

    fn stopped(&self) -> Option<String> {
        self.recorded.as_ref().err().map(|error| unreadable(error))
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
        self.writer.begin();
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
            PodPrefixesAnswer::Confirmed(answer) => self.confirmed(cx, &answer),
            PodPrefixesAnswer::Written(name, answer) => self.written(cx, &name, answer),
            PodPrefixesAnswer::Created(name, answer) => self.created(cx, &name, answer),
            PodPrefixesAnswer::Again => {
                self.writer.over();
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
