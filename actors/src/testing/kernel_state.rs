//! The state of the memory kernel, and the effect of each step on it. When steps run and which
//! of them fail is left to the memory kernel itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{kernel_routing::KernelRouting, kernel_services::KernelServices};
use crate::{
    model::{BackendId, EndpointId, PolicyRows},
    ports::{
        Attachment, DeviceLinks, DeviceTables, HookState, KernelError, KernelOp, KernelOutcome,
        KernelSnapshot, Link, Probe, Refusal, Swept,
    },
};

/// What a kernel holds, and how each step changes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelState {
    /// Rows, interfaces, routes, programs.
    pub rows: KernelSnapshot,
    /// Interfaces that were given programs, and for whom.
    pub hooked: BTreeMap<u32, EndpointId>,
    /// Policy maps in their slots.
    pub slots: BTreeMap<u32, PolicyRows>,
    /// Policy maps that were built and not flipped.
    pub aside: BTreeMap<u32, PolicyRows>,
    /// Policy maps that are pinned by name.
    pub pins: BTreeMap<EndpointId, u32>,
    /// Addresses with connections, and whose they were: a number that the test gives its owner.
    pub connections: BTreeMap<IpAddr, u64>,
    /// Backends with connections by services.
    pub connected: BTreeSet<BackendId>,
    /// The maps that balance load.
    pub services: KernelServices,
    /// What is known of devices, and what runs at them.
    pub devices: DeviceTables,
    /// What leads to other nodes.
    pub routing: KernelRouting,
    /// How often programs were loaded.
    pub loads: u64,
    /// How many rows a policy map has room for; none is any number.
    pub policy_rows_max: Option<usize>,
}

impl KernelState {
    /// What a restart would read.
    pub fn snapshot(&self) -> KernelSnapshot {
        KernelSnapshot { policy_pins: self.pins.keys().copied().collect(), ..self.rows.clone() }
    }

    /// The same, with the policies that stand in slots.
    pub fn snapshot_at_boot(&self) -> KernelSnapshot {
        let slots = self.rows.config.values().map(|row| row.policy_slot);
        let policy = |slot| Some((slot, Arc::new(self.slots.get(&slot)?.clone())));
        KernelSnapshot {
            policies: slots.filter_map(policy).collect(),
            services: self.services.tables(),
            ..self.snapshot()
        }
    }

    /// The policy that packets of that interface meet; `None` if they are all dropped.
    pub fn policy_of(&self, ifindex: u32) -> Option<&PolicyRows> {
        self.slots.get(&self.rows.config.get(&ifindex)?.policy_slot)
    }

    fn has_no_room(&self, rows: usize) -> bool {
        self.policy_rows_max.is_some_and(|most| rows > most)
    }

    /// An interface appears.
    pub fn plug(&mut self, link: Link) {
        self.rows.links.insert(link.ifindex, link);
    }

    /// An interface goes, with its routes and programs; pins of links stay, with nothing behind.
    pub fn unplug(&mut self, ifindex: u32) {
        self.rows.links.remove(&ifindex);
        self.rows.routes.retain(|_, to| *to != ifindex);
        if let Some(links) = self.devices.links.remove(&ifindex) {
            self.devices.gone.insert(links.name);
        }
        self.routing.lose(ifindex);
        if let Some(id) = self.hooked.remove(&ifindex) {
            self.rows.attachments.remove(&id);
        }
    }

    /// An interface goes down, and its routes with it.
    pub fn go_down(&mut self, ifindex: u32) {
        if let Some(link) = self.rows.links.get_mut(&ifindex) {
            link.up = false;
        }
        self.rows.routes.retain(|_, to| *to != ifindex);
        self.routing.lose(ifindex);
    }

    /// What is at an endpoint's interface.
    fn probe(&self, id: EndpointId, ifindex: u32) -> Probe {
        let link = self.rows.links.get(&ifindex).cloned();
        let attachment = self.rows.attachments.get(&id).copied().filter(|_| link.is_some());
        let routes = self.rows.routes.iter().filter(|(_, to)| **to == ifindex);
        let routes = routes.map(|(address, _)| *address).collect();
        Probe { link, attachment: attachment.unwrap_or_default(), routes }
    }

    /// Does a step.
    pub(super) fn step(&mut self, op: &KernelOp) -> Result<KernelOutcome, KernelError> {
        let outcome = match op {
            KernelOp::Snapshot => KernelOutcome::Snapshot(Box::new(self.snapshot())),
            KernelOp::ReadLinks => KernelOutcome::Links(self.rows.links.clone()),
            KernelOp::ReadLink { ifindex } => {
                let link = self.rows.links.get(ifindex);
                KernelOutcome::Links(
                    link.map(|link| (*ifindex, link.clone())).into_iter().collect(),
                )
            }
            KernelOp::Probe(places) => KernelOutcome::Probed(
                places.iter().map(|&(id, ifindex)| (id, self.probe(id, ifindex))).collect(),
            ),
            KernelOp::ReadRouting => {
                let routing = self.routing.read(&self.rows.links, &self.devices);
                KernelOutcome::Routing(Box::new(routing))
            }
            KernelOp::ReadPolicy { slot } => KernelOutcome::Policy(self.slots.get(slot).cloned()),
            KernelOp::ReadRows { map, from } => {
                KernelOutcome::Rows(Box::new(self.page(*map, from.as_deref())))
            }
            KernelOp::ComparePolicies(all) => {
                let differing = all.iter().filter(|check| self.differs(check));
                KernelOutcome::DifferingPolicies(differing.map(|check| check.endpoint).collect())
            }
            KernelOp::CompareMaglev(all) => {
                KernelOutcome::DifferingTables(self.services.differing_tables(all))
            }
            KernelOp::ReadAttachment { endpoint, .. } => {
                let found = self.rows.attachments.get(endpoint).copied();
                KernelOutcome::Attachment(found.unwrap_or_default())
            }
            KernelOp::ReadDevices => KernelOutcome::Devices(Box::new(self.devices.clone())),
            KernelOp::EndSockets { .. } => KernelOutcome::Ended(0),
            KernelOp::CollectConntrack { backends, .. } => KernelOutcome::Collected {
                connections: Swept::default(),
                translations: Swept::default(),
                fill: 0,
                used: backends.intersection(&self.connected).copied().collect(),
            },
            op => {
                self.change(op)?;
                KernelOutcome::Done
            }
        };
        Ok(outcome)
    }

    fn change(&mut self, op: &KernelOp) -> Result<(), KernelError> {
        match op {
            KernelOp::LinkUp { ifindex } => self.link(op, *ifindex)?.up = true,
            KernelOp::LinkDown { ifindex } => {
                self.link(op, *ifindex)?;
                self.go_down(*ifindex);
            }
            KernelOp::PutRoute { address, ifindex } => {
                if !self.link(op, *ifindex)?.up {
                    return Err(refused(op.name(), Refusal::Other));
                }
                self.rows.routes.insert(*address, *ifindex);
            }
            KernelOp::DeleteRoute { address, ifindex } => {
                if self.rows.routes.get(address) == Some(ifindex) {
                    self.rows.routes.remove(address);
                }
            }
            KernelOp::ScrubConntrack { addresses } => {
                self.connections
                    .retain(|address, _| !addresses.iter().any(|other| other == *address));
            }
            KernelOp::PutServices(_)
            | KernelOp::DeleteServices(_)
            | KernelOp::ForgetServices(_) => {
                self.services.change(op);
            }
            KernelOp::PutNode => self.routing.tell_again(),
            // Rows in memory have no key but those that somebody may write.
            KernelOp::DeleteStrange { .. } => {}
            KernelOp::Routing(routing) => {
                let links = &mut self.rows.links;
                self.routing.change(routing, links).map_err(|why| refused(op.name(), why))?;
            }
            KernelOp::LoadPrograms => {
                self.loads += 1;
                self.rows.attachments.values_mut().for_each(outdate);
                let links = self.devices.links.values_mut();
                links.for_each(|links| links.state = HookState::Stale);
            }
            KernelOp::Attach { endpoint, ifindex } => {
                self.link(op, *ifindex)?;
                self.hooked.insert(*ifindex, *endpoint);
                let at = self.rows.attachments.entry(*endpoint).or_default();
                for hook in [&mut at.from_container, &mut at.to_container] {
                    if *hook != HookState::Link {
                        *hook = HookState::Filter;
                    }
                }
            }
            KernelOp::Settle { endpoint, ifindex } => {
                self.link(op, *ifindex)?;
                self.hooked.insert(*ifindex, *endpoint);
                let both = HookState::Link;
                let both = Attachment { from_container: both, to_container: both };
                self.rows.attachments.insert(*endpoint, both);
            }
            KernelOp::AttachDevice { ifindex, name, kind } => {
                self.link(op, *ifindex)?;
                let (name, kind) = (name.clone(), *kind);
                // Pins of who had the name before make room.
                self.devices.links.retain(|_, links| links.name != name);
                self.devices.gone.remove(&name);
                let links = DeviceLinks { name, kind, state: HookState::Link };
                self.devices.links.insert(*ifindex, links);
            }
            KernelOp::DetachDevice { name } => {
                self.devices.links.retain(|_, links| links.name != *name);
                self.devices.gone.remove(name);
            }
            KernelOp::AttachSockets => self.devices.sockets = None,
            KernelOp::Detach { endpoint, .. } => {
                self.hooked.retain(|_, id| id != endpoint);
                self.rows.attachments.remove(endpoint);
            }
            op => self.change_maps(op)?,
        }
        Ok(())
    }

    fn change_maps(&mut self, op: &KernelOp) -> Result<(), KernelError> {
        let absent = || refused(op.name(), Refusal::NotFound);
        match op {
            KernelOp::BuildPolicy { slot, rows } => {
                if self.has_no_room(rows.len()) {
                    return Err(refused(op.name(), Refusal::MapFull));
                }
                self.aside.insert(*slot, rows.clone());
            }
            KernelOp::FlipPolicy { slot } => {
                let built = self.aside.remove(slot).ok_or_else(absent)?;
                self.slots.insert(*slot, built);
            }
            KernelOp::PutPolicyRow { slot, key, entry } => {
                let rows = self.slots.get(slot).ok_or_else(absent)?;
                if self.has_no_room(rows.len() + usize::from(!rows.contains_key(key))) {
                    return Err(refused(op.name(), Refusal::MapFull));
                }
                self.slots.entry(*slot).or_default().insert(*key, *entry);
            }
            KernelOp::DeletePolicyRow { slot, key } => {
                self.slots.get_mut(slot).ok_or_else(absent)?.remove(key);
            }
            KernelOp::ClearSlot { slot } => {
                self.aside.remove(slot);
                self.slots.remove(slot);
            }
            KernelOp::PinPolicy { endpoint, slot } => {
                self.slots.get(slot).ok_or_else(absent)?;
                self.pins.insert(*endpoint, *slot);
            }
            KernelOp::UnpinPolicy { endpoint } => {
                self.pins.remove(endpoint);
            }
            KernelOp::DeletePair { ifindex, peer } => self.delete_pair(*ifindex, *peer),
            op => self.change_rows(op),
        }
        Ok(())
    }

    fn delete_pair(&mut self, ifindex: u32, peer: u32) {
        let is_used = self.rows.config.contains_key(&ifindex)
            || self.rows.endpoints.values().any(|row| row.ifindex == ifindex);
        let pair = self.rows.links.get(&ifindex).zip(self.rows.links.get(&peer));
        if pair.is_some_and(|(link, peer)| link.is_idle_pair(peer)) && !is_used {
            self.unplug(ifindex);
            self.unplug(peer);
        }
    }

    fn change_rows(&mut self, op: &KernelOp) {
        let rows = &mut self.rows;
        match op {
            KernelOp::PutConfig(row) => {
                rows.config.insert(row.ifindex, *row);
            }
            KernelOp::DeleteConfig { ifindex, endpoint } => {
                if rows.config.get(ifindex).is_some_and(|row| row.endpoint == *endpoint) {
                    rows.config.remove(ifindex);
                }
            }
            KernelOp::PutLxc { address, row } => {
                rows.lxc.insert(*address, *row);
            }
            KernelOp::DeleteLxc { address, endpoint } => {
                if rows.lxc.get(address).is_some_and(|row| row.endpoint == *endpoint) {
                    rows.lxc.remove(address);
                }
            }
            KernelOp::PutEndpoint { endpoint, row } => {
                rows.endpoints.insert(*endpoint, row.clone());
                rows.torn_rows.retain(|torn| torn != endpoint);
            }
            KernelOp::DeleteEndpoint { endpoint } => {
                rows.endpoints.remove(endpoint);
                rows.torn_rows.retain(|torn| torn != endpoint);
            }
            KernelOp::PutDevice { ifindex, row } => {
                self.devices.rows.insert(*ifindex, *row);
            }
            KernelOp::DeleteDevice { ifindex } => {
                self.devices.rows.remove(ifindex);
            }
            KernelOp::PutUnmasqueraded(all) => self.devices.unmasqueraded.extend(all),
            KernelOp::DeleteUnmasqueraded(all) => {
                self.devices.unmasqueraded.retain(|prefix| !all.contains(prefix));
            }
            KernelOp::PutIpcache(all) => rows.ipcache.extend(all.iter().copied()),
            KernelOp::DeleteIpcache(all) => rows.ipcache.retain(|prefix, _| !all.contains(prefix)),
            other => unreachable!("{other:?} is no step of one row"),
        }
    }

    fn link(&mut self, op: &KernelOp, ifindex: u32) -> Result<&mut Link, KernelError> {
        let absent = || refused(op.name(), Refusal::NoDevice);
        self.rows.links.get_mut(&ifindex).ok_or_else(absent)
    }
}

fn outdate(at: &mut Attachment) {
    for hook in [&mut at.from_container, &mut at.to_container] {
        if *hook != HookState::Empty {
            *hook = HookState::Stale;
        }
    }
}

/// Whether a step changes nothing that lasts.
pub(super) fn is_read(op: &KernelOp) -> bool {
    matches!(
        op,
        KernelOp::Snapshot
            | KernelOp::ReadLinks
            | KernelOp::ReadLink { .. }
            | KernelOp::Probe(_)
            | KernelOp::ReadDevices
            | KernelOp::ReadRouting
            | KernelOp::ReadPolicy { .. }
            | KernelOp::ReadRows { .. }
            | KernelOp::ComparePolicies(_)
            | KernelOp::CompareMaglev(_)
            | KernelOp::ReadAttachment { .. }
            | KernelOp::EndSockets { .. }
            | KernelOp::CollectConntrack { .. }
    )
}

pub(super) fn refused(op: &'static str, refusal: Refusal) -> KernelError {
    KernelError {
        op,
        about: "memory".to_owned(),
        cause: format!("{refusal:?}"),
        remedy: "let it work",
        refusal,
    }
}
