//! How an endpoint comes to be: checked, labelled, its addresses claimed, spawned.

use std::{collections::BTreeSet, rc::Rc, sync::Arc, time::Duration};

use super::{
    EndpointReference, Endpoints,
    answers::EndpointsAnswer,
    check::inspect,
    child::SupervisedEndpoint,
    news::endpoint_news,
    state::{CreateReply, Creating},
};
use crate::{
    endpoints::{
        actor_name::actor_name,
        endpoint::{CreateError, Endpoint, EndpointMsg, EndpointSpec, EndpointState, EndpointView},
        ipam::{IpamError, IpamMsg},
        workloads::{PodFacts, WorkloadsMsg},
    },
    host::{AskError, Cx},
    model::EndpointId,
    ports::{KernelDone, KernelJob, KernelOp},
};

/// How long another supervisor may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many crashes of the supervisor a creation survives: it may be their cause.
const CRASHES_MAX: u32 = 2;

impl Creating {
    /// Who its addresses are claimed for.
    fn owner(&self) -> String {
        self.spec.owner(self.id)
    }

    /// What the caller said itself goes before what the cluster says.
    fn describe(&mut self, PodFacts { mut labels, named_ports }: PodFacts) {
        for label in self.own_labels.iter() {
            labels.insert(label.clone());
        }
        self.spec.labels = labels;
        self.spec.named_ports = named_ports;
        self.described = true;
    }
}

impl Endpoints {
    pub(super) fn create(
        &mut self,
        cx: &mut Cx<'_, Self>,
        spec: EndpointSpec,
        sync: bool,
        reply: CreateReply,
    ) {
        let id = match self.check(&spec) {
            Ok(id) => id,
            Err(error) => return reply.send(Err(error)),
        };
        self.family.creations += 1;
        let creation = self.family.creations;
        let unclaimed = spec.addresses.iter().collect();
        let creating = Creating {
            id,
            own_labels: spec.labels.clone(),
            described: spec.pod_name.is_empty(),
            spec,
            sync,
            reply,
            unclaimed,
            claimed: BTreeSet::new(),
            crashes: 0,
        };
        self.family.creating.insert(creation, creating);
        self.inspect(cx, creation);
    }

    /// Looks at its interface. One that is not what the caller says would not be found again after
    /// a restart, or is none of a pod's.
    fn inspect(&mut self, cx: &mut Cx<'_, Self>, creation: u64) {
        let Some(creating) = self.family.creating.get(&creation) else { return };
        let ifindex = creating.spec.ifindex;
        let why = format!("interface number {ifindex}");
        let seen = move |answer| EndpointsAnswer::Inspected(creation, answer);
        let reply = cx.expect("kernel", PATIENCE, why, seen);
        let ops = vec![KernelOp::ReadLink { ifindex }];
        self.peers.kernel.submit(KernelJob::new(ops), reply);
    }

    pub(super) fn inspected(
        &mut self,
        cx: &mut Cx<'_, Self>,
        creation: u64,
        answer: Result<KernelDone, AskError>,
    ) {
        let Some(creating) = self.family.creating.get(&creation) else { return };
        match inspect(&creating.spec, answer) {
            Ok(()) => self.ask_pod(cx, creation),
            Err(error) => self.abandon(creation, Some(error)),
        }
    }

    /// Goes on with what was under way when the run before crashed.
    pub(super) fn resume_creations(&mut self, cx: &mut Cx<'_, Self>) {
        let creations: Vec<u64> = self.family.creating.keys().copied().collect();
        for creation in creations {
            let Some(creating) = self.family.creating.get_mut(&creation) else { continue };
            creating.crashes += 1;
            if creating.crashes > CRASHES_MAX {
                let error = "the agent's supervisor of endpoints crashes over it".to_owned();
                self.abandon(creation, Some(CreateError::Failed(error)));
            } else {
                self.inspect(cx, creation);
            }
        }
    }

    fn ask_pod(&mut self, cx: &mut Cx<'_, Self>, creation: u64) {
        let Some(creating) = self.family.creating.get(&creation) else { return };
        if creating.described {
            return self.claim(cx, creation);
        }
        let spec = &creating.spec;
        let (namespace, pod) = (spec.namespace.clone(), spec.pod_name.clone());
        let uid = spec.pod_uid.clone();
        let workloads = self.workloads.clone();
        cx.ask(
            &workloads,
            PATIENCE,
            format!("what the cluster says of pod {namespace}/{pod}"),
            |reply| WorkloadsMsg::Describe { namespace, pod, uid, reply },
            move |answer| EndpointsAnswer::Described(creation, answer),
        );
    }

    pub(super) fn described(
        &mut self,
        cx: &mut Cx<'_, Self>,
        creation: u64,
        answer: Result<PodFacts, AskError>,
    ) {
        let facts = match answer {
            Ok(facts) => facts,
            Err(error) => {
                let error = format!(
                    "the labels of its pod are not known yet ({error}); try again, and ask \
                     `volvox why` what the agent waits for"
                );
                return self.abandon(creation, Some(CreateError::NotReady(error)));
            }
        };
        if let Some(creating) = self.family.creating.get_mut(&creation) {
            creating.describe(facts);
        }
        self.claim(cx, creation);
    }

    /// What the cluster says of a pod changed while its endpoint is being made.
    pub(super) fn describe_creations(
        &mut self,
        is_meant: impl Fn(&EndpointSpec) -> bool,
        facts: &PodFacts,
    ) {
        let meant = |creating: &&mut Creating| creating.described && is_meant(&creating.spec);
        for creating in self.family.creating.values_mut().filter(meant) {
            creating.describe(facts.clone());
        }
    }

    fn claim(&mut self, cx: &mut Cx<'_, Self>, creation: u64) {
        let Some(creating) = self.family.creating.get_mut(&creation) else { return };
        let Some(&address) = creating.unclaimed.front() else {
            return self.learn_users(cx, creation);
        };
        creating.claimed.insert(address);
        let (owner, external) = (creating.owner(), creating.spec.is_chained());
        let peers = Rc::clone(&self.peers);
        cx.ask(
            &peers.ipam,
            PATIENCE,
            format!("address {address}"),
            |reply| IpamMsg::Claim { address, owner, external, reply },
            move |answer| EndpointsAnswer::Claimed(creation, answer),
        );
    }

    pub(super) fn claimed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        creation: u64,
        answer: Result<Result<(), IpamError>, AskError>,
    ) {
        let error = match answer {
            Ok(Ok(())) => None,
            Ok(Err(error @ IpamError::InUse { .. })) => Some(CreateError::InUse(error.to_string())),
            Ok(Err(error)) => Some(CreateError::Invalid(error.to_string())),
            Err(error) => Some(CreateError::Failed(format!("IPAM: {error}"))),
        };
        match error {
            None => {
                if let Some(creating) = self.family.creating.get_mut(&creation) {
                    creating.unclaimed.pop_front();
                }
                self.claim(cx, creation);
            }
            Some(error) => self.abandon(creation, Some(error)),
        }
    }

    /// Nothing of it was made yet, and nothing of it shall be.
    pub(super) fn abandon_creations(&mut self, target: &EndpointReference) {
        let meant = |(&creation, creating): (&u64, &Creating)| {
            target.means(creating.id, &creating.spec).then_some(creation)
        };
        let meant: Vec<u64> = self.family.creating.iter().filter_map(meant).collect();
        for creation in meant {
            let error = "its deletion was asked for while it was being made".to_owned();
            self.abandon(creation, Some(CreateError::Failed(error)));
        }
    }

    /// Gives back what a failed creation had.
    pub(super) fn abandon(&mut self, creation: u64, error: Option<CreateError>) {
        let Some(creating) = self.family.creating.remove(&creation) else { return };
        self.family.numbers.free(creating.id);
        for &address in &creating.claimed {
            let owner = creating.owner();
            if let Err(refused) = self.peers.ipam.tell(IpamMsg::Unclaim { address, owner }) {
                tracing::warn!(%address, %refused, "address not released");
            }
        }
        if let Some(error) = error {
            creating.reply.send(Err(error));
        }
    }

    /// Nothing is in its way any more.
    fn learn_users(&mut self, cx: &mut Cx<'_, Self>, creation: u64) {
        let Some(creating) = self.family.creating.remove(&creation) else { return };
        let Creating { id, spec, sync, reply, .. } = creating;
        if sync {
            self.spawn(cx, id, spec, Some(reply));
        } else {
            let view = self.spawn(cx, id, spec, None);
            reply.send(Ok(view));
        }
    }

    /// Brings an endpoint of that number to life; `reply` is told when it is built.
    pub(super) fn spawn(
        &mut self,
        cx: &mut Cx<'_, Self>,
        id: EndpointId,
        spec: EndpointSpec,
        reply: Option<CreateReply>,
    ) -> Arc<EndpointView> {
        let view = Arc::new(EndpointView::seed(id, &spec, EndpointState::WaitingForIdentity));
        let name = actor_name(id, &spec);
        let maker = Endpoint::maker(Rc::clone(&self.peers), id, spec);
        let address = cx.host().spawn(name, self.schedule.queue, maker);
        // A new mailbox is empty.
        let _ = address.tell(EndpointMsg::Begin { reply });
        self.family
            .children
            .insert(id, SupervisedEndpoint::new(address, Arc::clone(&view), None, None));
        self.family.announcers.iter().for_each(|announcer| announcer.comes(&view));
        if let Some(notices) = &self.peers.notices {
            notices.happened(endpoint_news(&view, false));
        }
        view
    }
}
