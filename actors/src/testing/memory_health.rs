//! The place of a health endpoint in memory, and who answers probes. The place stays when the agent dies; a place
//! that is half made does, too.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    rc::Rc,
    time::Duration,
};

use super::{Fate, MemoryKernel, Turn};
use crate::{
    host::Reply,
    model::Mac,
    ports::{
        DesiredHealthPlace, Echo, HEALTH_DEVICE, HealthPlace, HealthPlaceError, HealthPlaces, Link,
        Probes,
    },
};

/// After how long everybody answers.
const LATENCY: Duration = Duration::from_micros(300);
const FIRST_IFINDEX: u32 = 900;

/// The place, and who does not answer.
#[derive(Clone)]
pub struct MemoryHealth(Rc<RefCell<MemoryHealthState>>);

struct MemoryHealthState {
    fate: Fate,
    kernel: MemoryKernel,
    place: Option<HealthPlace>,
    /// A place whose interfaces are there, and nothing else.
    half: Option<u32>,
    made: u32,
    silent: BTreeSet<IpAddr>,
    asked: VecDeque<HealthRequest>,
    echoes: usize,
    hellos: BTreeMap<IpAddr, usize>,
}

enum HealthRequest {
    Look(Reply<Result<Option<HealthPlace>, HealthPlaceError>>),
    Make(DesiredHealthPlace, Reply<Result<HealthPlace, HealthPlaceError>>),
    Remove(Reply<Result<(), HealthPlaceError>>),
    Echo(Vec<IpAddr>, Reply<BTreeMap<IpAddr, Echo>>),
    Hello(IpAddr, Reply<Echo>),
}

impl MemoryHealth {
    /// A node without such a place.
    pub fn new(fate: &Fate, kernel: &MemoryKernel) -> Self {
        Self(Rc::new(RefCell::new(MemoryHealthState {
            fate: fate.clone(),
            kernel: kernel.clone(),
            place: None,
            half: None,
            made: 0,
            silent: BTreeSet::new(),
            asked: VecDeque::new(),
            echoes: 0,
            hellos: BTreeMap::new(),
        })))
    }

    /// What there is.
    pub fn place(&self) -> Option<HealthPlace> {
        self.0.borrow().place.clone()
    }

    /// How often it was made.
    pub fn made(&self) -> u32 {
        self.0.borrow().made
    }

    /// Echo requests that were sent so far.
    pub fn echoes(&self) -> usize {
        self.0.borrow().echoes
    }

    /// How often that address was asked by HTTP.
    pub fn hellos(&self, address: IpAddr) -> usize {
        self.0.borrow().hellos.get(&address).copied().unwrap_or_default()
    }

    /// These do not answer, and all others do.
    pub fn silence(&self, silent: &[IpAddr]) {
        self.0.borrow_mut().silent = silent.iter().copied().collect();
    }

    /// The place is lost, as with its container.
    pub fn lose(&self) {
        self.0.borrow_mut().clear();
    }

    /// The agent died.
    pub fn forget(&self) {
        self.0.borrow_mut().asked.clear();
    }

    /// Does the next thing; whether there was one.
    pub fn step(&self) -> bool {
        let inner = &mut *self.0.borrow_mut();
        match inner.asked.pop_front() {
            None => return false,
            Some(HealthRequest::Look(reply)) => {
                let place = inner.place.clone();
                inner.answer("look", |_| place, reply);
            }
            Some(HealthRequest::Make(desired, reply)) => inner.make(&desired, reply),
            Some(HealthRequest::Remove(reply)) => {
                inner.answer("remove", MemoryHealthState::clear, reply);
            }
            Some(HealthRequest::Echo(addresses, reply)) => {
                inner.echoes += addresses.len();
                let answers =
                    addresses.into_iter().map(|it| (it, inner.echo(it, "Connection timed out")));
                reply.send(answers.collect());
            }
            Some(HealthRequest::Hello(address, reply)) => {
                *inner.hellos.entry(address).or_default() += 1;
                reply.send(inner.echo(address, "connection refused"));
            }
        }
        true
    }
}

impl MemoryHealthState {
    fn answer<T>(
        &mut self,
        step: &'static str,
        work: impl FnOnce(&mut Self) -> T,
        reply: Reply<Result<T, HealthPlaceError>>,
    ) {
        match self.fate.turn(step) {
            Turn::Die => drop(reply),
            Turn::Work => reply.send(Ok(work(self))),
            _ => reply.send(Err(HealthPlaceError(format!("{step}: no")))),
        }
    }

    fn make(
        &mut self,
        desired: &DesiredHealthPlace,
        reply: Reply<Result<HealthPlace, HealthPlaceError>>,
    ) {
        let turn = self.fate.turn("make a pair");
        if turn == Turn::Work {
            self.clear();
            self.made += 1;
            let ifindex = FIRST_IFINDEX + self.made;
            self.half = Some(ifindex);
            let name = HEALTH_DEVICE.to_owned();
            let link = Link { ifindex, name, mac: self.mac(0), ..Link::default() };
            self.kernel.tamper(|state| state.plug(link));
        }
        let place = HealthPlace {
            ifindex: FIRST_IFINDEX + self.made,
            node_mac: self.mac(0),
            mac: self.mac(1),
            addresses: desired.addresses,
            netns_cookie: u64::from(self.made),
            netns_path: "/run/health".to_owned(),
        };
        let whole = |state: &mut Self| {
            state.half = None;
            state.place = Some(place.clone());
            place
        };
        match turn {
            Turn::Work => self.answer("configure it", whole, reply),
            Turn::Die => drop(reply),
            _ => reply.send(Err(HealthPlaceError("no".to_owned()))),
        }
    }

    fn mac(&self, side: u8) -> Mac {
        Mac([2, 0xc1, 0, 0, side, self.made as u8])
    }

    fn clear(&mut self) {
        let place = self.place.take().map(|place| place.ifindex);
        for ifindex in self.half.take().into_iter().chain(place) {
            self.kernel.tamper(|state| state.unplug(ifindex));
        }
    }

    fn echo(&self, address: IpAddr, error: &str) -> Echo {
        if self.silent.contains(&address) { Err(error.to_owned()) } else { Ok(LATENCY) }
    }

    fn ask(&mut self, request: HealthRequest) {
        self.asked.push_back(request);
    }
}

impl HealthPlaces for MemoryHealth {
    fn look(&self, reply: Reply<Result<Option<HealthPlace>, HealthPlaceError>>) {
        self.0.borrow_mut().ask(HealthRequest::Look(reply));
    }

    fn make(
        &self,
        desired: DesiredHealthPlace,
        reply: Reply<Result<HealthPlace, HealthPlaceError>>,
    ) {
        self.0.borrow_mut().ask(HealthRequest::Make(desired, reply));
    }

    fn remove(&self, reply: Reply<Result<(), HealthPlaceError>>) {
        self.0.borrow_mut().ask(HealthRequest::Remove(reply));
    }
}

impl Probes for MemoryHealth {
    fn echo(
        &self,
        addresses: Vec<IpAddr>,
        _: u32,
        _: Duration,
        reply: Reply<BTreeMap<IpAddr, Echo>>,
    ) {
        self.0.borrow_mut().ask(HealthRequest::Echo(addresses, reply));
    }

    fn hello(&self, address: IpAddr, _: Duration, reply: Reply<Echo>) {
        self.0.borrow_mut().ask(HealthRequest::Hello(address, reply));
    }
}
