//! The record of all addresses and their holders: it reserves, claims, hands out and takes back.
//! Time limits are noted here; the actor enforces them.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::{AddressFamily, Allocated, IpamError, pool::Pool};
use crate::host::Time;

/// Name of the only pool.
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
    ipv4: Option<Pool>,
    ipv6: Option<Pool>,
    held: BTreeMap<IpAddr, Holder>,
    restoring: bool,
}

impl AddressAllocations {
    pub(super) fn new(pools: Pools) -> Self {
        Self {
            ipv4: pools.ipv4.map(|prefix| Pool::new(prefix.into())),
            ipv6: pools.ipv6.map(|prefix| Pool::new(prefix.into())),
            held: BTreeMap::new(),
            restoring: true,
        }
    }

    pub(super) fn restoring(&self) -> bool {
        self.restoring
    }

    pub(super) fn restore_finished(&mut self) {
        if !std::mem::take(&mut self.restoring) {
            return;
        }
        for pool in self.ipv4.iter_mut().chain(&mut self.ipv6) {
            pool.resume();
        }
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

    /// Hands out the next address of the family, or of each family that is switched on.
    pub(super) fn allocate(
        &mut self,
        family: Option<AddressFamily>,
        owner: String,
        expires: Option<Time>,
    ) -> Result<Allocated, IpamError> {
        named(&owner)?;
        let desired = match family {
            Some(family) => vec![family],
            None => [AddressFamily::Ipv4, AddressFamily::Ipv6]
                .into_iter()
                .filter(|&family| self.pool(family).is_some())
                .collect(),
        };
        // All are found before any is taken: either family's failure leaves nothing behind.
        let found = desired
            .into_iter()
            .map(|family| self.next_of(family))
            .collect::<Result<Vec<IpAddr>, IpamError>>()?;
        let mut allocated = Allocated { pool: DEFAULT_POOL.to_owned(), ..Allocated::default() };
        for address in found {
            if let Some(pool) = self.pool_mut(address) {
                pool.hand_out(address);
            }
            self.held.insert(address, Holder { owner: owner.clone(), expires, claimed: false });
            match address {
                IpAddr::V4(address) => allocated.ipv4 = Some(address),
                IpAddr::V6(address) => allocated.ipv6 = Some(address),
            }
        }
        Ok(allocated)
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
        if let Some(pool) = self.pool_mut(address) {
            pool.give_back(address);
        }
        Ok(())
    }

    fn put(&mut self, address: IpAddr, holder: Holder, anywhere: bool) -> Result<(), IpamError> {
        named(&holder.owner)?;
        if let Some(holder) = self.held.get(&address) {
            return Err(IpamError::InUse { address, owner: holder.owner.clone() });
        }
        match self.pool_mut(address) {
            Some(pool) if pool.holds(address) => pool.reserve(address),
            _ if anywhere => {}
            Some(pool) => {
                let pool = pool.prefix().to_string();
                return Err(IpamError::NotInPool { address, pool });
            }
            None => return Err(IpamError::Disabled(family_of(address))),
        }
        self.held.insert(address, holder);
        Ok(())
    }

    fn next_of(&self, family: AddressFamily) -> Result<IpAddr, IpamError> {
        let pool = self.pool(family).ok_or(IpamError::Disabled(family))?;
        pool.peek().ok_or_else(|| IpamError::Exhausted {
            pool: pool.prefix().to_string(),
            size: pool.size(),
        })
    }

    fn pool(&self, family: AddressFamily) -> Option<&Pool> {
        match family {
            AddressFamily::Ipv4 => self.ipv4.as_ref(),
            AddressFamily::Ipv6 => self.ipv6.as_ref(),
        }
    }

    fn pool_mut(&mut self, address: IpAddr) -> Option<&mut Pool> {
        match family_of(address) {
            AddressFamily::Ipv4 => self.ipv4.as_mut(),
            AddressFamily::Ipv6 => self.ipv6.as_mut(),
        }
    }
}

fn family_of(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Ipv4 } else { AddressFamily::Ipv6 }
}

fn named(owner: &str) -> Result<(), IpamError> {
    if owner.trim().is_empty() { Err(IpamError::NoOwner) } else { Ok(()) }
}
