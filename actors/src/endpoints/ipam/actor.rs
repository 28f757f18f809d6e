//! The actor that hands out addresses and takes back those that nobody claims in time.
//! Until restore is over, requests wait. Which addresses are held is in the allocations.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use serde::Serialize;

use super::{
    AddressLease, IpamError, IpamMsg, Pools, SeveralPools,
    allocations::{AddressAllocations, DEFAULT_POOL, Holder},
    answers::IpamAnswer,
    state::{AllocationRequest, Ipam, IpamPeers, PATIENCE, WAITING_MAX, WaitingRequests},
};
use crate::{
    endpoints::workloads::PodPoolNames,
    host::{Behaviour, Cx, Reply, Survives},
    mutants::{Mutant, mutated},
};

/// What IPAM shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IpamView {
    /// Addresses that somebody holds.
    pub held: usize,
    /// Those of them that are given back unless they are claimed.
    pub expiring: usize,
    /// Whether addresses are still being restored.
    pub restoring: bool,
    /// Questions that wait for the end of it, or for a pool.
    pub waiting: usize,
}

impl Ipam {
    /// Makes each life of the actor that hands out addresses of one pool.
    pub fn factory(pools: Pools) -> impl FnMut() -> Self + 'static {
        Self::of_several(pools, None, IpamPeers::default)
    }

    /// The same of several pools: `home` is what the node itself has its address of, of the default one.
    pub fn of_several(
        home: Pools,
        several: Option<SeveralPools>,
        peers: impl Fn() -> IpamPeers + 'static,
    ) -> impl FnMut() -> Self + 'static {
        let allocations = Survives::new(AddressAllocations::new(home, several));
        move || Self {
            peers: peers(),
            allocations: allocations.lend(),
            timers: BTreeMap::new(),
            waiting: Vec::new(),
            waiting_requests: WaitingRequests::default(),
        }
    }

    /// Hands out addresses of these pools; where they have none, it may wait.
    pub(super) fn allocate(
        &mut self,
        question: AllocationRequest,
        pools: PodPoolNames,
        cx: &mut Cx<'_, Self>,
    ) {
        // Nobody would give back what nobody heard of.
        if question.reply.is_closed() {
            return;
        }
        let AllocationRequest { family, expires, .. } = question;
        let until = expires.map(|span| cx.now() + span);
        let allocated = self.allocations.allocate(family, &pools, question.owner.clone(), until);
        if let Err(IpamError::Lacking { .. }) = allocated {
            let lacking = self.allocations.lacking(family, &pools);
            return self.wait(question, pools, lacking, cx);
        }
        if let Ok(allocated) = &allocated {
            if let Some(span) = expires {
                let ipv4 = allocated.ipv4.map(IpAddr::V4);
                for address in ipv4.into_iter().chain(allocated.ipv6.map(IpAddr::V6)) {
                    self.expire_after(span, address, cx);
                }
            }
            self.served(&question.owner);
        }
        question.reply.send(allocated);
    }

    /// Takes a request up, once restoring is over.
    fn requested(
        &mut self,
        question: AllocationRequest,
        pool: Option<String>,
        cx: &mut Cx<'_, Self>,
    ) {
        let open = !self.allocations.restoring() || mutated(Mutant::AddressBeforeReserve);
        match open {
            true => self.choose(question, pool, cx),
            false if self.waiting.len() < WAITING_MAX => self.waiting.push((question, pool)),
            false => question.reply.send(Err(IpamError::NotReady)),
        }
    }

    fn expire_after(&mut self, span: Duration, address: IpAddr, cx: &mut Cx<'_, Self>) {
        self.timers.insert(address, cx.after(span, IpamAnswer::Expire(address)));
    }

    fn keep_timerless(&mut self, address: IpAddr, cx: &mut Cx<'_, Self>) {
        if let Some(timer) = self.timers.remove(&address) {
            cx.cancel(timer);
        }
    }

    fn given_back(
        &mut self,
        address: IpAddr,
        result: Result<(), IpamError>,
        reply: Reply<Result<(), IpamError>>,
        cx: &mut Cx<'_, Self>,
    ) {
        if result.is_ok() {
            self.keep_timerless(address, cx);
        }
        reply.send(result);
    }

    fn expire(&mut self, address: IpAddr, cx: &mut Cx<'_, Self>) {
        let allocations = &mut *self.allocations;
        let due = allocations
            .held()
            .get(&address)
            .filter(|held| held.expires.is_some_and(|at| at <= cx.now()));
        if let Some(holder) = due {
            tracing::info!(%address, owner = %holder.owner, "nobody claimed the address; given back");
            // It has a holder: the line above shows it.
            let _ = allocations.release(address);
            self.timers.remove(&address);
        }
    }

    /// Addresses or prefixes may have come or gone.
    fn end_turn(&mut self, cx: &mut Cx<'_, Self>) {
        self.try_again(cx);
        self.tell_demand();
    }

    fn dump(&self, cx: &Cx<'_, Self>) -> BTreeMap<IpAddr, AddressLease> {
        let lease = |(&address, holder): (&IpAddr, &Holder)| {
            let expires_in = holder.expires.map(|at| at.since(cx.now()));
            let pool = self.allocations.pool_name(address).to_owned();
            (address, AddressLease { owner: holder.owner.clone(), pool, expires_in })
        };
        self.allocations.held().iter().map(lease).collect()
    }
}

impl Behaviour for Ipam {
    type Msg = IpamMsg;
    type Answer = IpamAnswer;
    type Observed = IpamView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        let left = |(&address, holder): (&IpAddr, &Holder)| {
            holder.expires.map(|at| (address, at.since(cx.now())))
        };
        let expiring: Vec<_> = self.allocations.held().iter().filter_map(left).collect();
        for (address, span) in expiring {
            self.expire_after(span, address, cx);
        }
        self.tell_demand();
    }

    fn handle(&mut self, msg: IpamMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            IpamMsg::Reserve { address, owner, reply } => {
                let reserved = self.allocations.reserve(address, owner);
                reply.send(reserved);
            }
            IpamMsg::ReserveAll { desired, reply } => {
                let allocations = &mut *self.allocations;
                let one = |(address, owner)| {
                    allocations.reserve(address, owner)?;
                    Ok(allocations.pool_name(address).to_owned())
                };
                reply.send(desired.into_iter().map(one).collect());
            }
            IpamMsg::Allocate { pool: Some(pool), reply, .. }
                if self.allocations.several().is_none()
                    && !matches!(pool.as_str(), "" | DEFAULT_POOL) =>
            {
                reply.send(Err(IpamError::NoPool(pool)));
            }
            IpamMsg::Allocate { family, owner, pool, expires, reply } => {
                let until = cx.now() + PATIENCE;
                let question = AllocationRequest { family, owner, expires, until, reply };
                self.requested(question, pool.filter(|name| !name.is_empty()), cx);
            }
            IpamMsg::Claim { address, owner, external, reply } => {
                let claimed = self.allocations.claim(address, owner, external);
                if claimed.is_ok() {
                    self.keep_timerless(address, cx);
                }
                reply.send(claimed);
            }
            IpamMsg::Unclaim { address, owner } => {
                // That it has no claim is fine.
                let _ = self.allocations.unclaim(address, &owner);
            }
            IpamMsg::Release { address, reply } => {
                let released = self.allocations.release(address);
                self.given_back(address, released, reply, cx);
            }
            IpamMsg::Withdraw { address, reply } => {
                let withdrawn = self.allocations.withdraw(address);
                self.given_back(address, withdrawn, reply, cx);
            }
            IpamMsg::RestoreFinished => {
                self.allocations.restore_finished();
                for (question, pool) in std::mem::take(&mut self.waiting) {
                    self.choose(question, pool, cx);
                }
            }
            IpamMsg::Prefixes { all, said } => {
                self.allocations.set_prefixes(&all);
                self.waiting_requests.said = said;
            }
            IpamMsg::Close { prefixes, reply } => {
                let closed = self.allocations.close(&prefixes);
                reply.send(closed);
            }
            IpamMsg::Demand(reply) => reply.send(self.demand()),
            IpamMsg::Dump(reply) => reply.send(self.dump(cx)),
        }
        self.end_turn(cx);
    }

    fn answered(&mut self, answer: IpamAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            IpamAnswer::Expire(address) => self.expire(address, cx),
            IpamAnswer::Chosen(number, answer) => self.chosen(number, answer, cx),
            IpamAnswer::GiveUp(number) => self.give_up(number),
            IpamAnswer::Forget(pod, number) => self.forget(&pod, number),
        }
        self.end_turn(cx);
    }

    fn observe(&self) -> IpamView {
        let allocations = &*self.allocations;
        IpamView {
            held: allocations.held().len(),
            expiring: allocations.held().values().filter(|holder| holder.expires.is_some()).count(),
            restoring: allocations.restoring(),
            waiting: self.waiting.len() + self.waiting_requests.count(),
        }
    }
}
