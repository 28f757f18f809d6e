//! Requests that wait: for the word of which pool a pod is, and for an address of it.
//!
//! ```text
//!  asked ─▶ of which pool? ─▶ a free address? ── yes ─▶ answered
//!                                    │ no                  ▲
//!                                    └─▶ waits for prefixes ┴─ too long ─▶ told why
//! ```
//!
//! Who waits counts as one who needs an address, also a while after it was told why there is none: its
//! pod comes back, and by then there should be one.

use std::time::Duration;

use super::{
    AddressFamily, IpamError, PoolsDemand,
    answers::{IpamAnswer, PendingPod},
    state::{AllocationRequest, Ipam, WAITING_MAX},
};
use crate::{
    endpoints::workloads::{PodPoolNames, PoolsRequest, WorkloadsMsg},
    host::{AskError, Cx},
    model::Families,
};

/// How long one who was told that there is none counts as one who needs it.
const PENDING: Duration = Duration::from_secs(300);

impl Ipam {
    /// Finds out of which pool the addresses are to be.
    pub(super) fn choose(
        &mut self,
        request: AllocationRequest,
        pool: Option<String>,
        cx: &mut Cx<'_, Self>,
    ) {
        let pod = request.owner.split_once('/').map(|(of, pod)| (of.to_owned(), pod.to_owned()));
        let (Some(pod), Some(workloads)) = (pod, &self.peers.workloads) else {
            return self.allocate(request, PodPoolNames::both(pool), cx);
        };
        if self.waiting_requests.count() >= WAITING_MAX {
            return request.reply.send(Err(IpamError::NotReady));
        }
        self.waiting_requests.last += 1;
        let number = self.waiting_requests.last;
        let until = request.until;
        let desired = self.allocations.desired(request.family);
        let families = Families {
            ipv4: desired.contains(&AddressFamily::Ipv4),
            ipv6: desired.contains(&AddressFamily::Ipv6),
        };
        let default = self.allocations.default_pool().to_owned();
        self.waiting_requests.choosing.insert(number, request);
        cx.ask(
            workloads,
            until.since(cx.now()),
            format!("of which pool pod {}/{} is", pod.0, pod.1),
            |reply| {
                let request = PoolsRequest { pod, families, chosen: pool, default };
                WorkloadsMsg::PoolsOf { request, reply }
            },
            move |answer| IpamAnswer::Chosen(number, answer),
        );
    }

    pub(super) fn chosen(
        &mut self,
        number: u64,
        answer: Result<Result<PodPoolNames, String>, AskError>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(request) = self.waiting_requests.choosing.remove(&number) else { return };
        match answer {
            Ok(Ok(pools)) => self.allocate(request, pools, cx),
            Ok(Err(why)) => request.reply.send(Err(IpamError::NoChoice(why))),
            Err(error) => {
                let why = format!(
                    "of which pool pod {} is, is not known yet ({error}): try again, or name a pool",
                    request.owner
                );
                request.reply.send(Err(IpamError::NoChoice(why)));
            }
        }
    }

    /// The pools have no address for it: it waits until they have, and is needed.
    pub(super) fn wait(
        &mut self,
        request: AllocationRequest,
        pools: PodPoolNames,
        lacking: Vec<(String, AddressFamily)>,
        cx: &mut Cx<'_, Self>,
    ) {
        let waiting = &mut self.waiting_requests;
        waiting.last += 1;
        let number = waiting.last;
        for (pool, family) in lacking {
            let pod = (pool, family, request.owner.clone());
            waiting.pending.insert(pod.clone(), number);
            cx.after(PENDING, IpamAnswer::Forget(pod, number));
        }
        if waiting.count() >= WAITING_MAX {
            return self.tell_lacking(request, &pools);
        }
        cx.after(request.until.since(cx.now()), IpamAnswer::GiveUp(number));
        waiting.lacking.insert(number, (request, pools));
    }

    /// There may be addresses for those who wait.
    pub(super) fn try_again(&mut self, cx: &mut Cx<'_, Self>) {
        let numbers: Vec<u64> = self.waiting_requests.lacking.keys().copied().collect();
        for number in numbers {
            let Some((request, pools)) = self.waiting_requests.lacking.get(&number) else {
                continue;
            };
            let lacks = !self.allocations.lacking(request.family, pools).is_empty();
            if lacks && !request.reply.is_closed() {
                continue;
            }
            if let Some((request, pools)) = self.waiting_requests.lacking.remove(&number) {
                self.allocate(request, pools, cx);
            }
        }
    }

    pub(super) fn give_up(&mut self, number: u64) {
        if let Some((request, pools)) = self.waiting_requests.lacking.remove(&number) {
            self.tell_lacking(request, &pools);
        }
    }

    fn tell_lacking(&self, request: AllocationRequest, pools: &PodPoolNames) {
        let lacking = self.allocations.lacking(request.family, pools).into_iter().next();
        let said = match self.waiting_requests.said.as_str() {
            "" => String::new(),
            said => format!(" (the operator says: {said})"),
        };
        let error = lacking.map_or(IpamError::NotReady, |(pool, family)| IpamError::Lacking {
            pool,
            family,
            said,
        });
        tracing::warn!(owner = request.owner, %error, "no address");
        request.reply.send(Err(error));
    }

    /// It has addresses: nothing more is needed for it.
    pub(super) fn served(&mut self, owner: &str) {
        self.waiting_requests.pending.retain(|(_, _, other), _| other != owner);
    }

    /// It does not come back.
    pub(super) fn forget(&mut self, pod: &PendingPod, number: u64) {
        let pending = &mut self.waiting_requests.pending;
        if pending.get(pod) == Some(&number) {
            pending.remove(pod);
        }
    }

    pub(super) fn demand(&self) -> PoolsDemand {
        self.allocations.demand(&self.waiting_requests.pending())
    }

    /// Tells who gets prefixes what is needed, if that is news.
    pub(super) fn tell_demand(&mut self) {
        let Some(outlet) = self.peers.demand.as_ref().filter(|_| !self.allocations.restoring())
        else {
            return;
        };
        let demand = self.demand();
        if self.waiting_requests.told.as_ref().is_some_and(|told| !told.differs(&demand)) {
            return;
        }
        match outlet.say(demand.clone()) {
            Ok(()) => self.waiting_requests.told = Some(demand),
            Err(refused) => tracing::warn!(%refused, "what is needed of pools is told later"),
        }
    }
}
