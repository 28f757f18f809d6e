//! The record of all addresses and their holders: it reserves, claims, hands out and takes back.
//! Time limits are noted here; the actor enforces them.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::{
    AddressFamily, Allocated, IpamError, PoolUse, PoolsDemand, SeveralPools, counted, pool::Pool,
    several::needed,
};
use crate::{
    endpoints::workloads::PodPoolNames,
    host::Time,
    model::Families,
    mutants::{Mutant, mutated},
    state_directory::{PoolPrefix, PoolPrefixes},
};

/// Name of the only pool, where there is one only.
pub(super) const DEFAULT_POOL: &str = "default";

/// Where addresses come from; a family without a prefix is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// IPv4 prefix.
    pub ipv4: Option<Ipv4Net>,
    /// IPv6 prefix.
    pub ipv6: Option<Ipv6Net>,
}

/// Who holds an address.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) owner: String,
    /// When it is given back unless it is claimed before.
    pub(super) expires: Option<Time>,
    /// Whether an endpoint, or the node itself, has it for good.
    pub(super) claimed: bool,
}

/// Every address and its holder.
#[derive(Debug)]
pub(super) struct AddressAllocations {
    /// By name; of each its prefixes, in the order in which addresses are handed out.
    pools: BTreeMap<String, Vec<Pool>>,
    families: Families,
    several: Option<SeveralPools>,
    held: BTreeMap<IpAddr, Holder>,
    restoring: bool,
}

impl AddressAllocations {
    pub(super) fn new(home: Pools, several: Option<SeveralPools>) -> Self {
        let default = several.as_ref().map_or(DEFAULT_POOL, |it| &it.default_pool).to_owned();
        let (ipv4, ipv6) = (home.ipv4.map(IpNet::from), home.ipv6.map(IpNet::from));
        let families = Families { ipv4: ipv4.is_some(), ipv6: ipv6.is_some() };
        let home = ipv4.into_iter().chain(ipv6).map(Pool::new).collect();
        let mut all = Self {
            pools: BTreeMap::from([(default, home)]),
            families: several.as_ref().map_or(families, |it| it.families),
            several: None,
            held: BTreeMap::new(),
            restoring: true,
        };
        if let Some(several) = &several {
            all.add(&several.prefixes);
        }
        all.several = several;
        all
    }

    pub(super) fn restoring(&self) -> bool {
        self.restoring
    }

    /// Whether there are several pools.
    pub(super) fn several(&self) -> Option<&SeveralPools> {
        self.several.as_ref()
    }

    pub(super) fn restore_finished(&mut self) {
        if !std::mem::take(&mut self.restoring) {
            return;
        }
        self.pools.values_mut().flatten().for_each(Pool::resume);
    }

    /// These prefixes are the node's, and no others. One that is closed is never opened again, and one
    /// of which somebody has an address does not go.
    pub(super) fn set_prefixes(&mut self, all: &PoolPrefixes) {
        for prefixes in self.pools.values_mut() {
            prefixes.retain(|it| all.contains_key(&it.prefix()) || it.used() > 0);
            for gone in prefixes.iter_mut().filter(|it| !all.contains_key(&it.prefix())) {
                gone.close();
            }
        }
        self.add(all);
        self.pools.retain(|_, prefixes| !prefixes.is_empty());
    }

    /// Adds those that are new. What somebody has of them already is not free: pods came back before
    /// their prefix did.
    fn add(&mut self, all: &PoolPrefixes) {
        for (&prefix, PoolPrefix { pool, closed }) in all {
            let prefix = prefix.trunc();
            let known = self.pools.values_mut().flatten().find(|it| it.prefix() == prefix);
            if let Some(known) = known {
                if *closed && !mutated(Mutant::GivenBackPrefixServes) {
                    known.close();
                }
                continue;
            }
            let mut new = Pool::new(prefix);
            let (first, last) = (prefix.network(), prefix.broadcast());
            if !mutated(Mutant::NewPrefixTakenForEmpty) {
                self.held.range(first..=last).for_each(|(address, _)| new.reserve(*address));
            }
            if *closed {
                new.close();
            }
            new.resume();
            self.pools.entry(pool.clone()).or_default().push(new);
        }
    }

    /// Closes those of these of which nobody has an address; says which. Who comes back may have one.
    pub(super) fn close(&mut self, prefixes: &[IpNet]) -> Vec<IpNet> {
        if self.restoring {
            return Vec::new();
        }
        let unused = |it: &&mut Pool| it.used() == 0 && prefixes.contains(&it.prefix());
        let all = self.pools.values_mut().flatten().filter(unused);
        all.map(|it| {
            if !mutated(Mutant::GivenBackPrefixServes) {
                it.close();
            }
            it.prefix()
        })
        .collect()
    }

    /// How much is used and needed, where `pending` says how many wait.
    pub(super) fn demand(&self, pending: &BTreeMap<(String, AddressFamily), u64>) -> PoolsDemand {
        let mut demand = PoolsDemand::default();
        let Some(several) = &self.several else { return demand };
        for (name, prefixes) in &self.pools {
            for it in prefixes {
                demand.used.insert(it.prefix(), it.used());
                let of = (name.clone(), family_of(it.prefix().addr()));
                let pool: &mut PoolUse = demand.pools.entry(of).or_default();
                pool.used += it.used();
                let free = if it.is_closed() { it.used() } else { counted(&it.prefix()) };
                pool.capacity = pool.capacity.saturating_add(free);
            }
        }
        for (of, count) in pending {
            demand.pools.entry(of.clone()).or_default().pending = *count;
        }
        for name in several.pre_allocation.keys() {
            for family in families(self.families) {
                demand.pools.entry((name.clone(), family)).or_default();
            }
        }
        for ((name, _), pool) in &mut demand.pools {
            let ahead = several.pre_allocation.get(name).copied().unwrap_or_default();
            pool.needed = needed(pool.used + pool.pending, ahead);
        }
        demand
    }

    /// Which pool an address is of; the default one if it is in no prefix.
    pub(super) fn pool_name(&self, address: IpAddr) -> &str {
        let has = |prefixes: &[Pool]| prefixes.iter().any(|it| it.prefix().contains(&address));
        let own = self.pools.iter().find(|(_, prefixes)| has(prefixes));
        own.map_or_else(|| self.default_pool(), |(name, _)| name)
    }

    pub(super) fn default_pool(&self) -> &str {
        self.several.as_ref().map_or(DEFAULT_POOL, |it| &it.default_pool)
    }

    pub(super) fn held(&self) -> &BTreeMap<IpAddr, Holder> {
        &self.held
    }

    /// Gives a certain address to that owner. What is reserved during restore has its endpoint.
    pub(super) fn reserve(&mut self, address: IpAddr, owner: String) -> Result<(), IpamError> {
        // Restoring may begin anew where it stood.
        let again = self.held.get(&address).is_some_and(|holder| holder.owner == owner);
        if self.restoring && again {
            return Ok(());
        }
        let claimed = self.restoring;
        // A restored endpoint keeps what it had, also after the range was changed.
        self.put(address, Holder { owner, expires: None, claimed }, self.restoring)
    }

    /// Makes the address its owner's for good; one that nobody has is reserved. An external one may
    /// lie outside of every pool.
    pub(super) fn claim(
        &mut self,
        address: IpAddr,
        owner: String,
        external: bool,
    ) -> Result<(), IpamError> {
        match self.held.get_mut(&address) {
            Some(holder) if holder.claimed && holder.owner != owner => {
                Err(IpamError::InUse { address, owner: holder.owner.clone() })
            }
            Some(holder) => {
                named(&owner)?;
                *holder = Holder { owner, expires: None, claimed: true };
                Ok(())
            }
            None => self.put(address, Holder { owner, expires: None, claimed: true }, external),
        }
    }

    /// Hands out the next address of the family, or of each family that is switched on, of these pools.
    pub(super) fn allocate(
        &mut self,
        family: Option<AddressFamily>,
        pools: &PodPoolNames,
        owner: String,
        expires: Option<Time>,
    ) -> Result<Allocated, IpamError> {
        named(&owner)?;
        let desired = self.desired(family);
        // All are found before any is taken: either family's failure leaves nothing behind.
        let found = desired
            .into_iter()
            .map(|family| self.next_of(family, of(pools, family)))
            .collect::<Result<Vec<IpAddr>, IpamError>>()?;
        let unmasqueraded = pools.unmasqueraded;
        let mut allocated = Allocated { unmasqueraded, ..Allocated::default() };
        for address in found {
            let pool = self.pool_name(address).to_owned();
            if let Some(prefix) = self.prefix_mut(address) {
                prefix.hand_out(address);
            }
            self.held.insert(address, Holder { owner: owner.clone(), expires, claimed: false });
            match address {
                IpAddr::V4(address) => {
                    (allocated.ipv4, allocated.ipv4_pool) = (Some(address), pool);
                }
                IpAddr::V6(address) => {
                    (allocated.ipv6, allocated.ipv6_pool) = (Some(address), pool);
                }
            }
        }
        Ok(allocated)
    }

    /// The family that is asked for, or all that are switched on.
    pub(super) fn desired(&self, family: Option<AddressFamily>) -> Vec<AddressFamily> {
        family.map_or_else(|| families(self.families), |family| vec![family])
    }

    /// In which of these families the pools have no free address, with the pool.
    pub(super) fn lacking(
        &self,
        family: Option<AddressFamily>,
        pools: &PodPoolNames,
    ) -> Vec<(String, AddressFamily)> {
        let all = self.desired(family).into_iter();
        all.filter(|family| self.next_of(*family, of(pools, *family)).is_err())
            .map(|family| (of(pools, family).unwrap_or(self.default_pool()).to_owned(), family))
            .collect()
    }

    /// Gives an address back unless it is somebody's for good.
    pub(super) fn withdraw(&mut self, address: IpAddr) -> Result<(), IpamError> {
        match self.held.get(&address) {
            Some(Holder { claimed: true, owner, .. }) => {
                Err(IpamError::InUse { address, owner: owner.clone() })
            }
            _ => self.release(address),
        }
    }

    /// Gives an address back if that owner has claimed it.
    pub(super) fn unclaim(&mut self, address: IpAddr, owner: &str) -> Result<(), IpamError> {
        let own = |holder: &Holder| holder.claimed && holder.owner == owner;
        match self.held.get(&address).is_some_and(own) {
            true => self.release(address),
            false => Err(IpamError::NotAllocated(address)),
        }
    }

    /// Gives an address back.
    pub(super) fn release(&mut self, address: IpAddr) -> Result<(), IpamError> {
        self.held.remove(&address).ok_or(IpamError::NotAllocated(address))?;
        if let Some(pool) = self.prefix_mut(address) {
            pool.give_back(address);
        }
        Ok(())
    }

    fn put(&mut self, address: IpAddr, holder: Holder, anywhere: bool) -> Result<(), IpamError> {
        named(&holder.owner)?;
        if let Some(holder) = self.held.get(&address) {
            return Err(IpamError::InUse { address, owner: holder.owner.clone() });
        }
        match self.prefix_mut(address) {
            Some(pool) if pool.is_closed() && !anywhere => {
                return Err(IpamError::Closed { address, prefix: pool.prefix() });
            }
            Some(pool) if pool.holds(address) => pool.reserve(address),
            _ if anywhere => {}
            _ => return Err(self.not_here(address)),
        }
        self.held.insert(address, holder);
        Ok(())
    }

    /// Why an address cannot be had here.
    fn not_here(&self, address: IpAddr) -> IpamError {
        let family = family_of(address);
        let is_of = |it: &IpNet| family_of(it.addr()) == family;
        let all: Vec<IpNet> =
            self.pools.values().flatten().map(Pool::prefix).filter(is_of).collect();
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        match (texts.is_empty(), families(self.families).contains(&family)) {
            (true, false) => IpamError::Disabled(family),
            _ => IpamError::NotInPool { address, pool: texts.join(" or ") },
        }
    }

    fn next_of(&self, family: AddressFamily, pool: Option<&str>) -> Result<IpAddr, IpamError> {
        if !families(self.families).contains(&family) {
            return Err(IpamError::Disabled(family));
        }
        let pool = pool.unwrap_or(self.default_pool());
        let prefixes = self.pools.get(pool).map(Vec::as_slice).unwrap_or_default();
        let mut own = prefixes.iter().filter(|it| family_of(it.prefix().addr()) == family);
        if let Some(address) = own.clone().find_map(Pool::peek) {
            return Ok(address);
        }
        Err(match (&self.several, own.next()) {
            (None, Some(only)) => {
                IpamError::Exhausted { pool: only.prefix().to_string(), size: only.size() }
            }
            _ => IpamError::Lacking { pool: pool.to_owned(), family, said: String::new() },
        })
    }

    fn prefix_mut(&mut self, address: IpAddr) -> Option<&mut Pool> {
        self.pools.values_mut().flatten().find(|it| it.prefix().contains(&address))
    }
}

/// The pool of a family; `None` is the default one.
fn of(pools: &PodPoolNames, family: AddressFamily) -> Option<&str> {
    match family {
        AddressFamily::Ipv4 => pools.ipv4.as_deref(),
        AddressFamily::Ipv6 => pools.ipv6.as_deref(),
    }
}

/// Those that are switched on.
fn families(on: Families) -> Vec<AddressFamily> {
    let all = [(AddressFamily::Ipv4, on.ipv4), (AddressFamily::Ipv6, on.ipv6)];
    all.into_iter().filter(|(_, on)| *on).map(|(family, _)| family).collect()
}

fn family_of(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Ipv4 } else { AddressFamily::Ipv6 }
}

fn named(owner: &str) -> Result<(), IpamError> {
    if owner.trim().is_empty() { Err(IpamError::NoOwner) } else { Ok(()) }
}
