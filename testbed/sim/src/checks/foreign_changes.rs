//! Somebody else changes the kernel's rows while an agent runs: a sweep later they are right, and no
//! packet meets anything on the way but what it met before, or what it then met.

use std::{cell::RefCell, net::IpAddr, rc::Rc, time::Duration};

use ipnet::IpNet;
use volvox_actors_simulated::{
    model::{Direction, EndpointId, Frontend, IdentityId, PolicyEntry, PolicyKey, PolicyRows},
    ports::{ConfigRow, IpcacheRow, LxcRow, lxc_flags},
    testing::{KernelState, Landing},
};

use crate::{random::Random, world::node::Node};

/// A sweep and a moment.
const SWEEP: Duration = Duration::from_secs(31);
/// Rows of nobody: an endpoint's number, its address, a prefix, and an identity.
const NOBODY: EndpointId = EndpointId(3_500);
const ADDRESS: &str = "10.0.0.62";
const PREFIX: &str = "198.18.0.0/15";
const STRANGER: IdentityId = IdentityId(700);

/// What packets can see of what was changed.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Policy(Option<PolicyRows>),
    Mapped(Option<IpcacheRow>),
    Local(Option<LxcRow>),
    Lands(Landing),
    Config(Option<ConfigRow>),
    Tunnel(u32),
}

/// A thing that packets see.
#[derive(Clone, Copy, Debug)]
enum Sight {
    Policy(u32),
    Mapped(IpNet),
    Local(IpAddr),
    Lands(Frontend),
    Config(u32),
    Tunnel,
}

impl Sight {
    fn see(self, state: &KernelState) -> Seen {
        match self {
            Self::Policy(ifindex) => Seen::Policy(state.policy_of(ifindex).cloned()),
            Self::Mapped(prefix) => Seen::Mapped(state.rows.ipcache.get(&prefix).copied()),
            Self::Local(address) => Seen::Local(state.rows.lxc.get(&address).copied()),
            Self::Lands(frontend) => Seen::Lands(state.services.landing(frontend)),
            Self::Config(ifindex) => Seen::Config(state.rows.config.get(&ifindex).copied()),
            Self::Tunnel => Seen::Tunnel(state.routing.tunnel),
        }
    }
}

fn address() -> IpAddr {
    ADDRESS.parse().expect("an address")
}

fn prefix() -> IpNet {
    PREFIX.parse().expect("a prefix")
}

impl Node {
    /// The node comes to rest, somebody changes a row, and a sweep goes by.
    pub(crate) fn see_change_undone(&mut self, seed: u64) {
        self.come_to_rest();
        if !self.world.is_alive() || self.wrong.is_some() {
            return;
        }
        let mut random = Random::new(seed);
        let before = self.world.kernel.state();
        let Some(sight) = self.change(&mut random, &before) else { return };
        let (right, wrong) = (sight.see(&before), self.world.kernel.with(|state| sight.see(state)));
        self.trace.say(|| format!("somebody changes {sight:?}"));
        let third = Rc::new(RefCell::new(None));
        let (reported, trace) = (Rc::clone(&third), self.trace.clone());
        let allowed = [right.clone(), wrong];
        self.world.kernel.watch(move |state, op| {
            trace.kernel(op);
            let seen = sight.see(state);
            if !allowed.contains(&seen) {
                let what = format!("after {op:?} {sight:?} is neither, but {seen:?}");
                reported.borrow_mut().get_or_insert(what);
            }
        });
        self.time(SWEEP, random.number());
        if self.world.is_alive() && !self.world.fate.is_dead() {
            self.watch();
        }
        let after = self.world.kernel.with(|state| sight.see(state));
        if let Some(third) = third.take() {
            self.wrong(third);
        } else if after != right {
            self.wrong(format!("a sweep later {sight:?} is {after:?}, it was {right:?}"));
        }
    }

    /// Changes something; what that was. Nothing if there is no such thing at the moment.
    fn change(&self, random: &mut Random, before: &KernelState) -> Option<Sight> {
        let kernel = &self.world.kernel;
        match random.roll(7) {
            kind @ (0 | 1) => {
                let oracle = self.oracle.borrow();
                let pods: Vec<u32> = oracle.expected.pods.values().map(|it| it.ifindex).collect();
                let ifindex = pick(random, &pods)?;
                let slot = before.rows.config.get(&ifindex)?.policy_slot;
                let rows = before.slots.get(&slot)?.clone();
                let first = pick(random, &rows.keys().copied().collect::<Vec<_>>());
                kernel.tamper(|state| {
                    let rows = state.slots.entry(slot).or_default();
                    match first.filter(|_| kind == 0) {
                        Some(key) => {
                            rows.remove(&key);
                        }
                        None => {
                            rows.insert(stranger(), entry());
                        }
                    }
                });
                Some(Sight::Policy(ifindex))
            }
            2 => {
                let oracle = self.oracle.borrow();
                let all = oracle.expected.pods.values().flat_map(|it| it.addresses.iter());
                let all: Vec<IpNet> = all.map(IpNet::from).collect();
                let prefix = pick(random, &all)?;
                let removes = random.roll(2) == 0;
                kernel.tamper(|state| match removes {
                    true => {
                        state.rows.ipcache.remove(&prefix);
                    }
                    false => {
                        state.rows.ipcache.insert(prefix, IpcacheRow::of(STRANGER));
                    }
                });
                Some(Sight::Mapped(prefix))
            }
            3 => {
                let row = IpcacheRow::of(STRANGER);
                kernel.tamper(|state| {
                    state.rows.ipcache.insert(prefix(), row);
                });
                Some(Sight::Mapped(prefix()))
            }
            4 => self.change_service(random, before),
            5 => Some(self.add_nobody(random, before)),
            _ => Some(self.change_node(random, before)),
        }
    }

    /// A row of a service goes.
    fn change_service(&self, random: &mut Random, before: &KernelState) -> Option<Sight> {
        let services = &before.services;
        let firsts = services.slots.keys().filter(|(_, slot)| *slot == 0);
        let frontend = pick(random, &firsts.map(|(at, _)| *at).collect::<Vec<_>>())?;
        let (first, is_ipv4) = (services.slots[&(frontend, 0)], frontend.at.address.is_ipv4());
        let backend = services.slots.get(&(frontend, 1)).copied();
        let kind = random.roll(4);
        self.world.kernel.tamper(|state| {
            let services = &mut state.services;
            match (kind, backend) {
                (0, _) => {
                    services.slots.remove(&(frontend, 0));
                }
                (1, Some(_)) => {
                    services.slots.remove(&(frontend, 1));
                }
                (2, Some(row)) => {
                    let id = volvox_actors_simulated::model::BackendId(row.word);
                    services.backends.remove(&(id, is_ipv4));
                }
                _ => {
                    services.reverse_nat.remove(&(first.id, is_ipv4));
                }
            }
        });
        Some(Sight::Lands(frontend))
    }

    /// Rows of an endpoint that is none.
    fn add_nobody(&self, random: &mut Random, before: &KernelState) -> Sight {
        let local =
            random.roll(2) == 0 && !self.oracle.borrow().expected.addresses().contains(&address());
        let ifindex = 9_998;
        self.world.kernel.tamper(|state| {
            if local {
                let row = LxcRow { endpoint: NOBODY.0, ifindex, ..LxcRow::default() };
                state.rows.lxc.insert(address(), row);
                return;
            }
            let like = before.rows.config.values().next().copied();
            let row = ConfigRow {
                generation: 1,
                endpoint: NOBODY,
                flags: 0,
                identity: STRANGER,
                policy_slot: like.map_or(0, |row| row.policy_slot),
                ifindex,
                addresses: Default::default(),
                mac: Default::default(),
                node_mac: Default::default(),
            };
            state.rows.config.insert(ifindex, row);
        });
        if local { Sight::Local(address()) } else { Sight::Config(ifindex) }
    }

    /// What the programs know of the node.
    fn change_node(&self, random: &mut Random, before: &KernelState) -> Sight {
        let host = before.rows.lxc.iter().find(|(_, row)| row.flags & lxc_flags::HOST != 0);
        let host = host.map(|(address, _)| *address).filter(|_| random.roll(2) == 0);
        self.world.kernel.tamper(|state| match host {
            Some(address) => {
                state.rows.lxc.remove(&address);
            }
            None => state.routing.tunnel = 4_711,
        });
        host.map_or(Sight::Tunnel, Sight::Local)
    }
}

fn pick<T: Copy>(random: &mut Random, all: &[T]) -> Option<T> {
    if all.is_empty() { None } else { Some(random.one_of(all)) }
}

fn stranger() -> PolicyKey {
    let direction = Direction::Ingress;
    PolicyKey { direction, identity: STRANGER, protocol: 0, port: 0, bits: 0 }
}

fn entry() -> PolicyEntry {
    PolicyEntry { deny: false, precedence: 1, cookie: 0 }
}
