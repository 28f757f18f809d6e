//! What the kernel shows at endpoints' interfaces: asked when it says that something changed there, and
//! when somebody wants to know how they are.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use super::{EndpointReference, Endpoints, answers::EndpointsAnswer, child::SupervisedEndpoint};
use crate::{
    endpoints::endpoint::{BuildCounts, EndpointMsg, EndpointState, EndpointView, Lost},
    host::{AskError, Cx, Reply, Time},
    model::EndpointId,
    ports::{KernelDone, KernelJob, KernelOp, KernelOutcome, Notices, Probe},
};

/// How long whoever wants to know waits for the kernel.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who waits until what was seen is taken in: answered when nobody holds it any more.
struct Asked(Vec<Reply<bool>>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|reply| reply.send(true));
    }
}

impl Endpoints {
    /// Something changed at interfaces: whose endpoints it may concern are looked at.
    pub(super) fn disturbed(&mut self, cx: &mut Cx<'_, Self>, notices: &Notices) {
        let concerned = self.family.children.values().filter(|child| is_concerned(child, notices));
        let concerned = places(concerned);
        if !concerned.is_empty() {
            self.probe(cx, concerned, Vec::new(), false);
        }
    }

    /// Asks the kernel about an endpoint, or about all; answered once what it says is taken in.
    pub(super) fn verify(
        &mut self,
        cx: &mut Cx<'_, Self>,
        target: Option<EndpointReference>,
        reply: Reply<bool>,
    ) {
        if let Some(target) = target {
            let places = places(self.find(&target));
            return self.probe(cx, places, vec![reply], false);
        }
        self.verifying.next.push(reply);
        if !self.verifying.under_way {
            self.verify_all(cx);
        }
    }

    fn verify_all(&mut self, cx: &mut Cx<'_, Self>) {
        let replies = std::mem::take(&mut self.verifying.next);
        self.verifying.under_way = true;
        let all = self.family.children.values().filter(|child| is_in_doubt(&child.view));
        let all = places(all);
        if all.is_empty() {
            replies.into_iter().for_each(|reply| reply.send(false));
            return self.verified(cx);
        }
        self.probe(cx, all, replies, true);
    }

    fn probe(
        &self,
        cx: &mut Cx<'_, Self>,
        places: Vec<(EndpointId, u32)>,
        replies: Vec<Reply<bool>>,
        all: bool,
    ) {
        let asked = cx.now();
        let then = move |answer| EndpointsAnswer::Probed { asked, replies, all, answer };
        let why = format!("a look at {} interfaces", places.len());
        let reply = cx.expect("kernel", PATIENCE, why, then);
        self.peers.kernel.submit(KernelJob::new(vec![KernelOp::Probe(places)]), reply);
    }

    /// Tells each endpoint what was seen of it that is not as it should be, or is so again.
    pub(super) fn probed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        (asked, all): (Time, bool),
        replies: Vec<Reply<bool>>,
        answer: Result<KernelDone, AskError>,
    ) {
        let waiting = Rc::new(Asked(replies));
        for (id, probe) in seen(answer) {
            let Some(child) = self.family.children.get(&id) else { continue };
            let view = &child.view;
            if Lost::seen(&view.spec, &probe) == view.lost && view.lost.is_none() {
                continue;
            }
            let waiting = Rc::clone(&waiting);
            let reply = Reply::to(move |_| drop(waiting));
            // One that is busy is looked at the next time.
            let _ =
                child.address.tell(EndpointMsg::Probed { probe: Box::new(probe), asked, reply });
        }
        if all {
            self.verified(cx);
        }
    }

    /// All were looked at: who came meanwhile has his turn.
    fn verified(&mut self, cx: &mut Cx<'_, Self>) {
        self.verifying.under_way = false;
        if !self.verifying.next.is_empty() {
            self.verify_all(cx);
        }
    }
}

/// Whether it could be otherwise than it says. Who was not built in this life says nothing that a look could
/// show wrong, and its first build looks: a look at all would only hold up hundreds of them.
fn is_in_doubt(view: &EndpointView) -> bool {
    use EndpointState::{Regenerating, Restoring, WaitingToRegenerate};
    let BuildCounts { builds, failures, .. } = view.counts;
    let is_new = builds == 0 && failures == 0 && view.lost.is_none();
    !is_new || !matches!(view.state, Restoring | WaitingToRegenerate | Regenerating)
}

pub(super) fn seen(answer: Result<KernelDone, AskError>) -> BTreeMap<EndpointId, Probe> {
    let probes = KernelDone::of_one(answer, |outcome| match outcome {
        KernelOutcome::Probed(probes) => Some(probes),
        _ => None,
    });
    probes.unwrap_or_else(|error| {
        tracing::warn!(error, "interfaces were not looked at; what is said of them is older");
        BTreeMap::new()
    })
}

/// Where these are to be looked at. One that is being built has it looked at again when it is ready.
fn places<'a>(
    children: impl IntoIterator<Item = &'a SupervisedEndpoint>,
) -> Vec<(EndpointId, u32)> {
    let lives = |state| {
        !matches!(
            state,
            EndpointState::Disconnecting | EndpointState::Disconnected | EndpointState::Invalid
        )
    };
    let living = children.into_iter().filter(|child| lives(child.view.state));
    let place =
        |child: &SupervisedEndpoint| Some((child.view.id, child.view.spec.interface_of_its_own()?));
    living.filter_map(place).collect()
}

/// Whether what the kernel said may be about an endpoint, and no news of its own doing.
fn is_concerned(child: &SupervisedEndpoint, notices: &Notices) -> bool {
    let spec = &child.view.spec;
    let Some(ifindex) = spec.interface_of_its_own() else { return false };
    if notices.all || spec.addresses.iter().any(|address| notices.addresses.contains(&address)) {
        return true;
    }
    match notices.links.get(&ifindex) {
        None => false,
        Some(None) => true,
        Some(Some(link)) => {
            let differs = !link.up || link.differs(&spec.ifname, spec.node_mac).is_some();
            differs || child.view.lost.is_some()
        }
    }
}
