//! What the container runtime and the CNI plugin do about pods.

use std::time::Duration;

use volvox_actors_simulated::{
    endpoints::{
        endpoint::EndpointView,
        ipam::{Allocated, IpamMsg},
        supervisor::{DeleteError, EndpointReference, EndpointsMsg},
    },
    host::{Answer, Reply},
    model::{Addresses, EndpointId},
};

use super::{
    node::Node,
    pod::{Call, Pod},
    requests::Deleted,
};
use crate::model::{PODS, expected::ExpectedPod};

/// How long addresses are kept for an endpoint to come.
const EXPIRES: Duration = Duration::from_secs(600);

/// How soon a deletion is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

impl Node {
    fn pod(&mut self, number: u8) -> &mut Pod {
        self.pods.entry(number).or_insert_with(|| Pod::new(number))
    }

    /// Begins to start a pod.
    pub(crate) fn add(&mut self, number: u8) {
        if !self.world.is_alive() || self.pod(number).exists {
            return;
        }
        let pod = self.pod(number);
        pod.incarnation += 1;
        pod.exists = true;
        let owner = pod.owner();
        let ipam = self.world.node_supervisor().ipam.clone();
        let answer = self.world.pose(&ipam, |reply| IpamMsg::Allocate {
            family: None,
            owner,
            pool: None,
            expires: Some(EXPIRES),
            reply,
        });
        self.pod(number).call = Some(Call::Addresses(answer));
    }

    /// Who waits for a pod to start waits no more.
    pub(crate) fn cancel(&mut self, number: u8) {
        if matches!(self.pod(number).call, Some(Call::Addresses(_) | Call::Endpoint(_))) {
            self.remove(number);
        }
    }

    /// Begins to delete a pod.
    pub(crate) fn remove(&mut self, number: u8) {
        let going = matches!(self.pod(number).call, Some(Call::Deletion(_) | Call::Again(_)));
        if !self.pod(number).exists || going {
            return;
        }
        self.pod(number).call = None;
        if let Some(subject) = self.oracle.borrow_mut().expected.pods.get_mut(&number) {
            subject.runs = false;
        }
        if self.world.is_alive() {
            self.ask_deletion(number);
        } else {
            self.queue(number);
        }
    }

    fn ask_deletion(&mut self, number: u8) {
        let pod = self.pod(number);
        let attachment = pod.attachment(pod.incarnation);
        let answer = self.pose_deletion(&attachment);
        self.pod(number).call = Some(Call::Deletion(answer));
    }

    fn pose_deletion(&self, attachment: &str) -> Answer<Deleted> {
        let target = EndpointReference::AttachmentId(attachment.to_owned());
        let endpoints = self.world.node_supervisor().endpoints.clone();
        self.world.pose(&endpoints, |reply| EndpointsMsg::Delete { target, reply })
    }

    /// The plugin finds no agent: the next one is to do it.
    fn queue(&mut self, number: u8) {
        let pod = self.pod(number);
        let attachment = pod.attachment(pod.incarnation);
        self.requests.queued.insert(attachment);
        self.vanish(number);
    }

    /// The pod is no more, nor is its interface.
    pub(crate) fn vanish(&mut self, number: u8) {
        let pod = self.pod(number);
        (pod.exists, pod.call) = (false, None);
        let ifindex = pod.ifindex();
        self.world.kernel.tamper(|state| state.unplug(ifindex));
        self.oracle.borrow_mut().expected.pods.remove(&number);
        self.container_goes(number);
    }

    /// An interface goes, and nobody says so.
    pub(crate) fn unplug(&mut self, number: u8) {
        if self.pod(number).exists && self.pod(number).call.is_none() {
            self.vanish(number);
        }
    }

    /// A pod is gone, with the machine; whoever started it may want it deleted.
    pub(crate) fn lose_pod(&mut self, number: u8, deleted: bool) {
        if !self.pod(number).exists {
            return;
        }
        match deleted {
            true => self.queue(number),
            false => self.vanish(number),
        }
    }

    /// The deletion of a pod that went long ago is repeated.
    pub(crate) fn remove_earlier(&mut self, number: u8) {
        let pod = self.pod(number);
        let Some(earlier) = pod.incarnation.checked_sub(1) else { return };
        let attachment = pod.attachment(earlier);
        if self.world.is_alive() {
            let answer = self.pose_deletion(&attachment);
            self.requests.deletions.push((attachment, answer));
        } else {
            self.requests.queued.insert(attachment);
        }
    }

    /// Asks for what was queued while there was no agent.
    pub(crate) fn ask_queued(&mut self) {
        for attachment in std::mem::take(&mut self.requests.queued) {
            let answer = self.pose_deletion(&attachment);
            self.requests.deletions.push((attachment, answer));
        }
    }

    /// The agent is gone: nobody answers any more.
    pub(crate) fn hang_up(&mut self) {
        for (attachment, _) in std::mem::take(&mut self.requests.deletions) {
            self.requests.queued.insert(attachment);
        }
        for number in 1..=PODS {
            match self.pod(number).call.take() {
                None => {}
                Some(Call::Addresses(_)) => self.pod(number).exists = false,
                Some(_) => self.queue(number),
            }
        }
    }

    /// Takes in what was answered; whether anything was.
    pub(crate) fn answers(&mut self) -> bool {
        let mut any = false;
        for number in 1..=PODS {
            any |= self.answer(number);
        }
        let mut open = Vec::new();
        for (attachment, mut answer) in std::mem::take(&mut self.requests.deletions) {
            match answer.now() {
                None => open.push((attachment, answer)),
                Some(Ok(Ok(_) | Err(DeleteError::NotFound))) => {}
                Some(_) => drop(self.requests.queued.insert(attachment)),
            }
        }
        self.requests.deletions = open;
        self.regenerated();
        self.granted();
        any
    }

    fn answer(&mut self, number: u8) -> bool {
        let now = self.world.life().universe.host.now();
        let Some(mut call) = self.pod(number).call.take() else { return false };
        match &mut call {
            Call::Addresses(answer) => match answer.now() {
                None => {}
                Some(Ok(Ok(allocated))) => {
                    self.allocated(number, &allocated);
                    return true;
                }
                Some(_) => {
                    self.pod(number).exists = false;
                    return true;
                }
            },
            Call::Endpoint(answer) => match answer.now() {
                None => {}
                Some(Ok(Ok(view))) => {
                    self.started(number, &view);
                    return true;
                }
                Some(_) => {
                    self.remove(number);
                    return true;
                }
            },
            Call::Deletion(answer) => match answer.now() {
                None => {}
                Some(Ok(Ok(errors))) => {
                    self.deleted(number, errors);
                    return true;
                }
                Some(Ok(Err(DeleteError::NotFound))) => {
                    self.withdraw(number);
                    self.vanish(number);
                    return true;
                }
                Some(_) => {
                    self.pod(number).call = Some(Call::Again(now + AGAIN));
                    return true;
                }
            },
            Call::Again(at) if *at <= now => {
                self.ask_deletion(number);
                return true;
            }
            Call::Again(_) => {}
        }
        self.pod(number).call = Some(call);
        false
    }

    /// The pod has addresses: its interface is made, then its endpoint is asked for.
    fn allocated(&mut self, number: u8, allocated: &Allocated) {
        let addresses = Addresses { ipv4: allocated.ipv4, ipv6: allocated.ipv6 };
        self.forget_deleted();
        let used = self.oracle.borrow().expected.addresses();
        if let Some(address) = addresses.iter().find(|address| used.contains(address)) {
            self.wrong(format!("{address} was handed out to pod {number}, but another has it"));
        }
        let pod = self.pod(number);
        let subject = ExpectedPod {
            ifindex: pod.ifindex(),
            addresses,
            apps: pod.apps.clone(),
            runs: false,
            endpoint: None,
            owner: pod.token(),
            identity: None,
        };
        let (link, spec) = (pod.link(), pod.spec(addresses));
        self.world.kernel.tamper(|state| state.plug(link));
        self.oracle.borrow_mut().expected.pods.insert(number, subject);
        self.container_runs(number);
        let answer = self.world.begin_create(spec);
        self.pod(number).call = Some(Call::Endpoint(answer));
    }

    /// The pod starts: from now on its packets pass where they may.
    fn started(&mut self, number: u8, view: &EndpointView) {
        let id = view.id;
        if self.requests.freed.contains(&id) {
            self.wrong(format!("endpoint number {id} was given back and is handed out again"));
        }
        let oracle = std::rc::Rc::clone(&self.oracle);
        let mut oracle = oracle.borrow_mut();
        if oracle.expected.pods.values().any(|other| other.endpoint == Some(id)) {
            self.wrong(format!("endpoint number {id} was handed out twice"));
        }
        if !self.world.disk.with(|files| files.has(&format!("{id}/ep_config.json"))) {
            self.wrong(format!("pod {number} started, and a restart would not find endpoint {id}"));
        }
        let Some(subject) = oracle.expected.pods.get_mut(&number) else { return };
        (subject.endpoint, subject.runs) = (Some(id), true);
        let ifindex = subject.ifindex;
        self.world.kernel.with(|state| oracle.look(state, ifindex));
    }

    /// The pod's endpoint is gone, and so is everything of it.
    fn deleted(&mut self, number: u8, errors: u32) {
        let subject = self.oracle.borrow().expected.pods.get(&number).cloned();
        let endpoint = subject.as_ref().and_then(|subject| subject.endpoint);
        if let (Some(subject), Some(id), 0) = (subject, endpoint, errors) {
            if self.has_left(&subject, id) {
                self.wrong(format!("the deletion of endpoint {id} was answered before it is gone"));
            }
            self.requests.freed.insert(id);
        }
        self.vanish(number);
    }

    /// Whether anything of an endpoint is left in the kernel or on the disk.
    fn has_left(&self, subject: &ExpectedPod, id: EndpointId) -> bool {
        let in_kernel = self.world.kernel.with(|state| {
            let row = state.rows.config.get(&subject.ifindex);
            row.is_some_and(|row| row.endpoint == id)
                || state.rows.lxc.values().any(|row| row.endpoint == id.0)
                || state.rows.endpoints.contains_key(&id)
        });
        in_kernel || self.world.disk.with(|files| files.has(&id.to_string()))
    }

    /// Pods whose deletion took place, although its answer was lost to a crash and it will be
    /// asked for again: their addresses are anybody's.
    fn forget_deleted(&mut self) {
        let again = |pod: &&Pod| matches!(pod.call, Some(Call::Again(_)));
        let asked: Vec<u8> = self.pods.values().filter(again).map(|pod| pod.number).collect();
        for number in asked {
            let subject = self.oracle.borrow().expected.pods.get(&number).cloned();
            let endpoint = subject.as_ref().and_then(|subject| subject.endpoint);
            if let (Some(subject), Some(id)) = (subject, endpoint)
                && !self.has_left(&subject, id)
            {
                self.oracle.borrow_mut().expected.pods.remove(&number);
            }
        }
    }

    /// Gives back addresses that no endpoint has.
    fn withdraw(&mut self, number: u8) {
        let addresses = self.oracle.borrow().expected.pods.get(&number).map(|it| it.addresses);
        for address in addresses.into_iter().flat_map(Addresses::iter) {
            let reply = Reply::to(|_| {});
            // A full mailbox has it expire.
            let _ = self.world.node_supervisor().ipam.tell(IpamMsg::Withdraw { address, reply });
        }
    }
}
