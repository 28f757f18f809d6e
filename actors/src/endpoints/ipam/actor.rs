//! The actor that hands out addresses and takes back those that nobody claims in time.
//! Until restore is over, requests wait. Which addresses are held is in the allocations.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use serde::Serialize;

use super::{
    AddressFamily, AddressLease, Allocated, IpamError, IpamMsg, Pools,
    allocations::{AddressAllocations, DEFAULT_POOL, Holder},
    answers::IpamAnswer,
};
use crate::{
    host::{Behaviour, Cx, Lent, Reply, Survives, TimerId},
    mutants::{Mutant, mutated},
};

/// How many questions wait for the end of restore; the next ones are told to come again.
const WAITING_MAX: usize = 256;

/// The owner of all addresses.
pub struct Ipam {
    /// Outlives a crash: an address that has a holder must never be handed out again.
    allocations: Lent<AddressAllocations>,
    timers: BTreeMap<IpAddr, TimerId>,
    waiting: Vec<AllocationRequest>,
}

/// A request for addresses.
struct AllocationRequest {
    family: Option<AddressFamily>,
    owner: String,
    expires: Option<Duration>,
    reply: Reply<Result<Allocated, IpamError>>,
}

/// What IPAM shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IpamView {
    /// Addresses that somebody holds.
    pub held: usize,
    /// Those of them that are given back unless they are claimed.
    pub expiring: usize,
    /// Whether addresses are still being restored.
    pub restoring: bool,
    /// Questions that wait for the end of it.
    pub waiting: usize,
}

impl Ipam {
    /// Makes each life of the actor that hands out addresses of these pools.
    pub fn factory(pools: Pools) -> impl FnMut() -> Self + 'static {
        let allocations = Survives::new(AddressAllocations::new(pools));
        move || Self {
            allocations: allocations.lend(),
            timers: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    fn allocate(&mut self, question: AllocationRequest, cx: &mut Cx<'_, Self>) {
        let AllocationRequest { family, owner, expires, reply } = question;
        // Nobody would give back what nobody heard of.
        if reply.is_closed() {
            return;
        }
        let until = expires.map(|span| cx.now() + span);
        let allocated = self.allocations.allocate(family, owner, until);
        if let (Ok(allocated), Some(span)) = (&allocated, expires) {
            let ipv4 = allocated.ipv4.map(IpAddr::V4);
            for address in ipv4.into_iter().chain(allocated.ipv6.map(IpAddr::V6)) {
                self.expire_after(span, address, cx);
            }
        }
        reply.send(allocated);
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

    fn dump(&self, cx: &Cx<'_, Self>) -> BTreeMap<IpAddr, AddressLease> {
        let lease = |(&address, holder): (&IpAddr, &Holder)| {
            let expires_in = holder.expires.map(|at| at.since(cx.now()));
            let pool = DEFAULT_POOL.to_owned();
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
    }

    fn handle(&mut self, msg: IpamMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            IpamMsg::Reserve { address, owner, reply } => {
                let reserved = self.allocations.reserve(address, owner);
                reply.send(reserved);
            }
            IpamMsg::ReserveAll { desired, reply } => {
                let allocations = &mut *self.allocations;
                let one = |(address, owner)| allocations.reserve(address, owner);
                reply.send(desired.into_iter().map(one).collect());
            }
            IpamMsg::Allocate { pool: Some(pool), reply, .. }
                if !matches!(pool.as_str(), "" | DEFAULT_POOL) =>
            {
                reply.send(Err(IpamError::NoPool(pool)));
            }
            IpamMsg::Allocate { family, owner, pool: _, expires, reply } => {
                let question = AllocationRequest { family, owner, expires, reply };
                let open = !self.allocations.restoring();
                if open || mutated(Mutant::AddressBeforeReserve) {
                    self.allocate(question, cx);
                } else if self.waiting.len() < WAITING_MAX {
                    self.waiting.push(question);
                } else {
                    question.reply.send(Err(IpamError::NotReady));
                }
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
                for question in std::mem::take(&mut self.waiting) {
                    self.allocate(question, cx);
                }
            }
            IpamMsg::Dump(reply) => reply.send(self.dump(cx)),
        }
    }

    fn answered(&mut self, answer: IpamAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            IpamAnswer::Expire(address) => self.expire(address, cx),
        }
    }

    fn observe(&self) -> IpamView {
        let allocations = &*self.allocations;
        IpamView {
            held: allocations.held().len(),
            expiring: allocations.held().values().filter(|holder| holder.expires.is_some()).count(),
            restoring: allocations.restoring(),
            waiting: self.waiting.len(),
        }
    }
}
