//! Endpoints whose containers are gone while nobody said DEL, and endpoints whose pod nobody named: what
//! the container runtime says of them. Only the kernel decides whether an endpoint goes.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Abandoned, Endpoints, answers::EndpointsAnswer, child::SupervisedEndpoint, look::Unclaimed,
    probe::seen,
};
use crate::{
    endpoints::{
        endpoint::{EndpointMsg, EndpointSpec, EndpointState, Patch},
        workloads::{PodFacts, WorkloadsMsg},
    },
    host::{AskError, Cx, Reply},
    model::EndpointId,
    mutants::{Mutant, mutated},
    ports::{KernelDone, KernelJob, KernelOp, RuntimePod},
};

/// How long the kernel may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a DEL is waited for once the interface is gone.
const DEL_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks that are further apart an interface may have been back. More than the longest pause of
/// who follows the runtime.
const LOOKS_APART: Duration = Duration::from_secs(120);
/// How long what the cluster says of a pod may take: it may not have told of it yet.
const DESCRIBE_PATIENCE: Duration = Duration::from_secs(600);

impl Endpoints {
    /// These containers are gone, as their runtime says. The kernel is asked for the interfaces of their
    /// endpoints; answered once it is done what follows.
    pub(super) fn abandoned(
        &mut self,
        cx: &mut Cx<'_, Self>,
        containers: BTreeSet<String>,
        reply: Reply<Abandoned>,
    ) {
        let children = self.family.children.values();
        let concerned = children.filter(|child| is_abandoned(child, &containers));
        let places: Vec<_> = concerned.map(|it| (it.view.id, it.view.spec.ifindex)).collect();
        let ids: BTreeSet<_> = places.iter().map(|(id, _)| *id).collect();
        self.unclaimed.retain(|id, _| ids.contains(id));
        if places.is_empty() {
            return reply.send(Abandoned::default());
        }
        let then = move |answer| EndpointsAnswer::Abandoned { containers, reply, answer };
        let why = format!("the interfaces of {} endpoints without container", places.len());
        let looked = cx.expect("kernel", PATIENCE, why, then);
        self.peers.kernel.submit(KernelJob::new(vec![KernelOp::Probe(places)]), looked);
    }

    /// Removes those whose interface has been gone for as long as a DEL is waited for.
    pub(super) fn abandoned_seen(
        &mut self,
        cx: &mut Cx<'_, Self>,
        containers: &BTreeSet<String>,
        reply: Reply<Abandoned>,
        answer: Result<KernelDone, AskError>,
    ) {
        let (now, mut found) = (cx.now(), Abandoned::default());
        for (id, probe) in seen(answer) {
            let child = self.family.children.get(&id);
            let Some(child) = child.filter(|child| is_abandoned(child, containers)) else {
                continue;
            };
            let lives = child.view.spec.is_at(probe.link.as_ref());
            if lives && !mutated(Mutant::RuntimeTrusted) {
                self.unclaimed.remove(&id);
                found.living += 1;
                continue;
            }
            let unclaimed = self.unclaimed.entry(id).or_insert(Unclaimed { since: now, seen: now });
            if now.since(unclaimed.seen) >= LOOKS_APART {
                unclaimed.since = now;
            }
            unclaimed.seen = now;
            if now.since(unclaimed.since) < DEL_PATIENCE {
                found.waiting += 1;
                continue;
            }
            tracing::warn!(
                endpoint = %id,
                container = child.view.spec.container_id,
                "container and interface are gone and nobody said DEL; endpoint is removed"
            );
            match child.address.tell(EndpointMsg::Delete { reply: Reply::to(|_| {}) }) {
                Ok(()) => found.removed += 1,
                // One that is busy goes the next time.
                Err(_) => found.waiting += 1,
            }
        }
        reply.send(found);
    }

    /// The runtime says whose sandbox a container is: its endpoints learn it if nobody said so, and the
    /// cluster is asked for that pod.
    pub(super) fn introduce(&self, cx: &mut Cx<'_, Self>, container: &str, pod: &RuntimePod) {
        let children = self.family.children.values();
        let unnamed = children.filter(|child| {
            let spec = &child.view.spec;
            spec.container_id == container && !child.is_going() && spec.lacks(pod)
        });
        for child in unnamed {
            let interface = EndpointSpec {
                namespace: pod.namespace.clone(),
                pod_name: pod.name.clone(),
                pod_uid: pod.uid.clone(),
                ..EndpointSpec::default()
            };
            let patch = Box::new(Patch { interface: Some(interface), ..Patch::default() });
            // One that is busy is told the next time.
            if child.address.tell(EndpointMsg::Patch { patch, reply: None }).is_err() {
                continue;
            }
            let id = child.view.id;
            let RuntimePod { namespace, name, uid } = pod.clone();
            tracing::info!(endpoint = %id, pod = %format!("{namespace}/{name}"), "pod is known by its sandbox");
            let why = format!("what the cluster says of pod {namespace}/{name}");
            let workloads = self.workloads.clone();
            cx.ask(
                &workloads,
                DESCRIBE_PATIENCE,
                why,
                |reply| WorkloadsMsg::Describe { namespace, pod: name, uid, reply },
                move |answer| EndpointsAnswer::Introduced(id, answer),
            );
        }
    }

    /// The cluster said it. If it did not in time, it will say so itself when it knows.
    pub(super) fn introduced(&mut self, id: EndpointId, answer: Result<PodFacts, AskError>) {
        if let (Ok(facts), Some(child)) = (answer, self.family.children.get_mut(&id)) {
            child.describe(&facts);
        }
    }
}

/// Whether it is to go with one of these containers. One that is not known by an interface is nobody's to judge.
fn is_abandoned(child: &SupervisedEndpoint, containers: &BTreeSet<String>) -> bool {
    let spec = &child.view.spec;
    containers.contains(&spec.container_id)
        && child.view.state.may_become(EndpointState::Disconnecting)
        && spec.interface_of_its_own().is_some_and(|ifindex| ifindex != 0)
}
