//! Does a single step of a job: it knows for each operation which part of the datapath, or which
//! netlink call, does it. Which thread takes the step, and when, is decided elsewhere.

use std::sync::Arc;

use volvox_actors::ports::{HookState, KernelError, KernelOp, KernelOutcome, OVERLAY, RoutingOp};
use volvox_maps::{
    error::netlink,
    pins::HOOKS,
    rows::{
        config_from_raw, config_to_raw, device_to_raw, endpoint_to_raw, ipcache_key,
        ipcache_to_raw, lxc_from_raw, lxc_to_raw, unmasqueraded_keys,
    },
};
use volvox_system::netlink::Socket;

use super::{
    Datapath, conntrack,
    hooks::{Hooks, Place},
    pace::Pace,
    pages, probe, routing, stale_sockets,
    writes::count,
};
use volvox_bpf_progs::layouts::LxcKey;

/// Does steps, one after the other, with a netlink socket of its own.
pub(super) struct Stepper {
    datapath: Arc<Datapath>,
    netlink: Option<Socket>,
}

impl Stepper {
    pub(super) fn new(datapath: &Arc<Datapath>) -> Self {
        Self { datapath: Arc::clone(datapath), netlink: None }
    }

    fn netlink(&mut self) -> Result<&mut Socket, KernelError> {
        if self.netlink.is_none() {
            self.netlink = Some(Socket::open().map_err(netlink)?);
        }
        Ok(self.netlink.as_mut().expect("it was just opened"))
    }

    /// Does a step.
    pub(super) fn step(&mut self, op: KernelOp) -> Result<KernelOutcome, KernelError> {
        match op {
            KernelOp::Snapshot => {
                // Whoever is asked about devices says what is in the way.
                self.datapath.see_mount();
                Ok(KernelOutcome::Snapshot(Box::new(self.datapath.snapshot()?)))
            }
            KernelOp::ReadLinks => {
                let netlink = self.netlink()?;
                Ok(KernelOutcome::Links(
                    netlink.links_and_ways_out().map_err(volvox_maps::error::netlink)?,
                ))
            }
            KernelOp::ReadLink { ifindex } => {
                let link = self.netlink()?.link_by_index(ifindex).map_err(netlink)?;
                Ok(KernelOutcome::Links(link.into_iter().map(|link| (ifindex, link)).collect()))
            }
            KernelOp::Probe(places) => {
                self.datapath.see_mount();
                let probes = self.hooks(|hooks| probe::probe(hooks, &places))?;
                Ok(KernelOutcome::Probed(probes))
            }
            KernelOp::ReadPolicy { slot } => {
                Ok(KernelOutcome::Policy(self.datapath.policies().read(slot)?))
            }
            KernelOp::ReadRows { map, from } => {
                Ok(KernelOutcome::Rows(Box::new(pages::read(&self.datapath, map, from)?)))
            }
            KernelOp::ComparePolicies(checks) => {
                let differing = self.datapath.policies().differing(&checks)?;
                Ok(KernelOutcome::DifferingPolicies(differing))
            }
            KernelOp::CompareMaglev(tables) => {
                let differing = self.datapath.maps.services.differing_tables(&tables)?;
                Ok(KernelOutcome::DifferingTables(differing))
            }
            KernelOp::ReadAttachment { endpoint, ifindex } => {
                let attachment = self.hooks(|hooks| hooks.read(Place { endpoint, ifindex }))?;
                Ok(KernelOutcome::Attachment(attachment))
            }
            KernelOp::ReadDevices => {
                let mount = self.datapath.see_mount();
                let mut tables = self.datapath.devices(|devices| devices.read())?;
                (tables.mount, tables.sockets) = (mount, self.datapath.sockets_trouble());
                tables.programs = self.datapath.programs_trouble();
                Ok(KernelOutcome::Devices(Box::new(tables)))
            }
            KernelOp::ReadRouting => {
                let datapath = Arc::clone(&self.datapath);
                let mut routing = routing::read(self.netlink()?, &datapath.sysctl)?;
                (routing.tunnel, routing.port, routing.records) = self.datapath.tunnel()?;
                if let Some(overlay) = routing.devices.get_mut(OVERLAY) {
                    let tables = self.datapath.devices(|devices| devices.read())?;
                    let links = tables.links.get(&overlay.ifindex);
                    overlay.attached = links.is_some_and(|links| links.state == HookState::Link);
                }
                Ok(KernelOutcome::Routing(Box::new(routing)))
            }
            KernelOp::EndSockets { namespaces } => {
                let (maps, protocols) =
                    (&self.datapath.maps.services, self.datapath.ended_protocols());
                let ended = stale_sockets::end(maps, &namespaces, protocols)?;
                Ok(KernelOutcome::Ended(ended))
            }
            op => self.change(op).map(|()| KernelOutcome::Done),
        }
    }

    fn change(&mut self, op: KernelOp) -> Result<(), KernelError> {
        let policies = self.datapath.policies();
        match op {
            KernelOp::BuildPolicy { slot, rows } => policies.build(slot, &rows),
            KernelOp::PutPolicyRow { slot, key, entry } => policies.put_row(slot, &key, &entry),
            KernelOp::DeletePolicyRow { slot, key } => policies.delete_row(slot, &key),
            KernelOp::PinPolicy { endpoint, slot } => policies.pin(endpoint, slot),
            KernelOp::UnpinPolicy { endpoint } => policies.unpin(endpoint),
            KernelOp::Attach { endpoint, ifindex } => {
                self.hooks(|hooks| hooks.attach(Place { endpoint, ifindex }))
            }
            KernelOp::Detach { endpoint, ifindex } => {
                let place = Place { endpoint, ifindex };
                // Filters do not say whose they are; the interface's configuration does.
                let row = self.datapath.maps.config.get(&ifindex)?;
                match row.is_some_and(|row| config_from_raw(&row).endpoint != endpoint) {
                    true => self.hooks(|hooks| hooks.unlink(place)),
                    false => self.hooks(|hooks| hooks.detach(place)),
                }
            }
            KernelOp::AttachDevice { ifindex, name, kind } => {
                self.datapath.devices(|devices| devices.attach(ifindex, &name, kind))
            }
            KernelOp::DetachDevice { name } => {
                self.datapath.devices(|devices| devices.detach(&name))
            }
            KernelOp::AttachSockets => self.datapath.settle_sockets(),
            KernelOp::LinkUp { .. }
            | KernelOp::LinkDown { .. }
            | KernelOp::DeletePair { .. }
            | KernelOp::PutRoute { .. }
            | KernelOp::DeleteRoute { .. }
            | KernelOp::Routing(_) => self.network(op),
            op => self.row(op),
        }
    }

    /// Replaces filters by links, each when nobody works at interfaces.
    pub(super) fn settle(&mut self, place: Place, pace: &Pace) -> Result<(), KernelError> {
        for hook in HOOKS {
            pace.wait();
            self.hooks(|hooks| hooks.settle(place, hook))?;
        }
        Ok(())
    }

    /// Steps of one row.
    fn row(&self, op: KernelOp) -> Result<(), KernelError> {
        let maps = &self.datapath.maps;
        match op {
            KernelOp::PutConfig(row) => maps.config.put(&row.ifindex, &config_to_raw(&row)),
            KernelOp::DeleteConfig { ifindex, endpoint } => match maps.config.get(&ifindex)? {
                Some(row) if config_from_raw(&row).endpoint == endpoint => {
                    maps.config.delete(&ifindex).map(drop)
                }
                _ => Ok(()),
            },
            KernelOp::PutLxc { address, row } => {
                maps.lxc.put(&LxcKey::new(address), &lxc_to_raw(&row))
            }
            KernelOp::DeleteLxc { address, endpoint } => {
                let key = LxcKey::new(address);
                match maps.lxc.get(&key)? {
                    Some(row) if lxc_from_raw(&row).endpoint == endpoint => {
                        maps.lxc.delete(&key).map(drop)
                    }
                    _ => Ok(()),
                }
            }
            KernelOp::PutEndpoint { endpoint, row } => {
                maps.endpoint.put(&u32::from(endpoint.0), &endpoint_to_raw(&row))
            }
            KernelOp::DeleteEndpoint { endpoint } => {
                maps.endpoint.delete(&u32::from(endpoint.0)).map(drop)
            }
            KernelOp::PutIpcache(rows) => {
                let (keys, values): (Vec<_>, Vec<_>) = rows
                    .iter()
                    .map(|(prefix, row)| (ipcache_key(prefix), ipcache_to_raw(row)))
                    .unzip();
                maps.ipcache.put_all(&keys, &values)
            }
            KernelOp::DeleteIpcache(prefixes) => {
                let keys: Vec<_> = prefixes.iter().map(ipcache_key).collect();
                maps.ipcache.delete_all(&keys).map(drop)
            }
            KernelOp::PutDevice { ifindex, row } => {
                maps.device.put(&ifindex, &device_to_raw(ifindex, &row))
            }
            KernelOp::DeleteDevice { ifindex } => maps.device.delete(&ifindex).map(drop),
            KernelOp::PutUnmasqueraded(all) => {
                let (ipv4, ipv6) = unmasqueraded_keys(&all);
                maps.unmasqueraded4.put_all(&ipv4, &vec![0; ipv4.len()])?;
                maps.unmasqueraded6.put_all(&ipv6, &vec![0; ipv6.len()])
            }
            KernelOp::DeleteUnmasqueraded(all) => {
                let (ipv4, ipv6) = unmasqueraded_keys(&all);
                maps.unmasqueraded4.delete_all(&ipv4)?;
                maps.unmasqueraded6.delete_all(&ipv6).map(drop)
            }
            KernelOp::PutNode => self.datapath.put_node(),
            KernelOp::DeleteStrange { map, keys } => pages::delete(&self.datapath, map, &keys),
            KernelOp::PutServices(rows) => maps.services.put(rows),
            KernelOp::DeleteServices(keys) => maps.services.delete(keys),
            KernelOp::ForgetServices(services) => conntrack::forget(maps, &services).map(drop),
            other => unreachable!("{other:?} is no step of one row"),
        }
    }

    /// Steps at interfaces and routes.
    fn network(&mut self, op: KernelOp) -> Result<(), KernelError> {
        if let KernelOp::Routing(RoutingOp::Tunnel { ifindex, port, records }) = op {
            return self.datapath.set_tunnel(ifindex, port, records);
        }
        let datapath = Arc::clone(&self.datapath);
        let socket = self.netlink()?;
        match op {
            KernelOp::Routing(op) => {
                routing::change(socket, &datapath.sysctl, op)?;
                Ok(())
            }
            KernelOp::LinkUp { ifindex } => socket.set_link_up(ifindex),
            KernelOp::LinkDown { ifindex } => socket.set_link_down(ifindex),
            KernelOp::DeletePair { ifindex, peer } => {
                if !is_idle(&datapath, socket, (ifindex, peer))? {
                    return Ok(());
                }
                socket.delete_link(ifindex).map(drop)
            }
            KernelOp::PutRoute { address, ifindex } => socket.put_route(address, ifindex),
            KernelOp::DeleteRoute { address, ifindex } => {
                socket.delete_route(address, ifindex).map(drop)
            }
            other => unreachable!("{other:?} is no step at an interface"),
        }
        .map_err(netlink)?;
        count(&self.datapath.writes.network);
        Ok(())
    }

    /// Works at hooks with the current program generation, again if that changes meanwhile.
    fn hooks<T>(
        &mut self,
        mut work: impl FnMut(&mut Hooks<'_>) -> Result<T, KernelError>,
    ) -> Result<T, KernelError> {
        let datapath = Arc::clone(&self.datapath);
        let socket = self.netlink()?;
        loop {
            let generation = datapath.generation();
            let mut hooks = {
                let how = (&datapath.writes, datapath.mode);
                Hooks::new(&datapath.pins, &generation, socket, how)
            };
            let done = work(&mut hooks);
            if Arc::ptr_eq(&generation, &datapath.generation()) {
                return done;
            }
        }
    }
}

/// Whether a pair still is one that nobody uses, and no row says that an endpoint is there.
fn is_idle(
    datapath: &Datapath,
    socket: &mut Socket,
    (ifindex, peer): (u32, u32),
) -> Result<bool, KernelError> {
    let links = socket.links().map_err(netlink)?;
    let pair = links.get(&ifindex).zip(links.get(&peer));
    if !pair.is_some_and(|(link, peer)| link.is_idle_pair(peer)) {
        return Ok(false);
    }
    let mut is_used = false;
    for interface in [ifindex, peer] {
        is_used |= datapath.maps.config.get(&interface)?.is_some();
    }
    datapath.maps.endpoint.for_each(|_, row| is_used |= [ifindex, peer].contains(&row.ifindex))?;
    Ok(!is_used)
}
