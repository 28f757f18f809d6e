//! Interfaces to other machines that come, change and go.

use volvox_actors_simulated::{
    model::Mac,
    node::local_node::NodeMsg,
    ports::{Link, OVERLAY},
};

use super::{machine, node::Node};
use crate::{
    history::events::DeviceEvent,
    model::devices::{DEVICES, addresses, devices, global, name},
};

/// Numbers of such interfaces follow. Those of pods are above 1000.
const FIRST_NUMBER: u32 = 10;

impl Node {
    /// Something happens to an interface to other machines.
    pub(crate) fn device(&mut self, number: u8, what: DeviceEvent, reported: bool) {
        let there = self.world.kernel.with(|state| {
            devices(state).find(|link| link.name == name(number)).map(|link| link.ifindex)
        });
        match (what, there) {
            (DeviceEvent::Comes(set), before) => self.plug_device(number, set, before),
            (DeviceEvent::OverlayGoes, _) => self.world.kernel.tamper(|state| {
                let overlay = state.routing.devices.get(OVERLAY).map(|device| device.ifindex);
                overlay.into_iter().for_each(|ifindex| state.unplug(ifindex));
            }),
            (_, None) => return,
            (DeviceEvent::Goes, Some(ifindex)) => self.world.kernel.tamper(|it| it.unplug(ifindex)),
            (DeviceEvent::Down, Some(ifindex)) => {
                self.world.kernel.tamper(|it| it.go_down(ifindex))
            }
            (DeviceEvent::Up, Some(ifindex)) => self.change_device(ifindex, |link| link.up = true),
            (DeviceEvent::Has(set), Some(ifindex)) => {
                self.change_device(ifindex, |link| link.addresses = addresses(number, set));
            }
        }
        let mut oracle = self.oracle.borrow_mut();
        match what {
            DeviceEvent::OverlayGoes => oracle.devices.touched(OVERLAY),
            _ => oracle.devices.touched(&name(number)),
        }
        oracle.routes.may_go();
        drop(oracle);
        self.devices_changed(reported);
    }

    fn plug_device(&mut self, number: u8, set: u8, before: Option<u32>) {
        self.device_numbers += 1;
        let link = Link {
            ifindex: FIRST_NUMBER + self.device_numbers,
            name: name(number),
            mac: Mac([2, 1, 0, 0, 0, number]),
            up: true,
            mtu: 1500,
            addresses: addresses(number, set),
            default_route: number == DEVICES,
            ..Link::default()
        };
        self.world.kernel.tamper(|state| {
            before.into_iter().for_each(|ifindex| state.unplug(ifindex));
            state.plug(link);
        });
    }

    fn change_device(&self, ifindex: u32, change: impl FnMut(&mut Link)) {
        self.world.kernel.tamper(|state| {
            state.rows.links.get_mut(&ifindex).into_iter().for_each(change);
        });
    }

    /// The node's addresses are others; whoever watches interfaces says so now, or it is seen later.
    fn devices_changed(&self, reported: bool) {
        let hosts = self.world.kernel.with(|state| devices(state).flat_map(global).collect());
        self.oracle.borrow_mut().services.hosts = hosts;
        if reported && self.world.is_alive() {
            // A full mailbox has it seen later.
            let _ = self.world.node_supervisor().node.tell(NodeMsg::Changed);
        }
    }

    /// The machine begins anew, with the interfaces that it had.
    pub(crate) fn begin_anew(&self, links: Vec<Link>) {
        machine::begin(&self.world.kernel);
        self.world.kernel.tamper(|state| links.into_iter().for_each(|link| state.plug(link)));
        let mut oracle = self.oracle.borrow_mut();
        oracle.devices = Default::default();
        oracle.routes.may_go();
    }

    /// All of them vanish.
    pub(crate) fn unplug_devices(&mut self) {
        (1..=DEVICES).for_each(|number| self.device(number, DeviceEvent::Goes, true));
    }
}
