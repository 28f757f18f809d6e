//! A node that only serves services, in memory.

use std::{cell::Cell, collections::BTreeSet, net::IpAddr, rc::Rc, time::Duration};

use serde_json::{Value, json};

use crate::{
    host::{Answer, Behaviour, Cx, NoAnswer, Ref, Universe},
    model::{Families, Feed, Frontend, L4Address, LookupScope, Transport, drift::DriftWatch},
    ports::{KernelOp, ObjectKey},
    services::{
        health_checks::HealthChecks,
        service_cache::{
            Algorithm, Balancing, ServiceSource, ServiceView, Services, ServicesMsg,
            ServicesSettings, ServicesStatus, UnknownBackend,
        },
        sockets::SocketsMsg,
    },
    testing::{Fate, KernelServices, Landing, MemoryKernel, MemoryListeners},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The node, and the kernel that outlives its agents.
pub(super) struct Fixture {
    pub(super) universe: Universe,
    pub(super) kernel: MemoryKernel,
    pub(super) fate: Fate,
    pub(super) services: Ref<ServicesMsg>,
    /// How often it was said that backends went.
    pub(super) gone: Rc<Cell<usize>>,
    /// Where load balancers ask for services.
    pub(super) listeners: MemoryListeners,
    sources: BTreeSet<ServiceSource>,
    /// How the next agent balances load.
    pub(super) balancing: Balancing,
    /// Whether TCP connections end with their backend in the next agent.
    pub(super) ends_tcp: bool,
}

impl Fixture {
    /// One that a cluster tells of services.
    pub(super) fn new() -> Self {
        Self::told_by(&[ServiceSource::Cluster])
    }

    pub(super) fn told_by(sources: &[ServiceSource]) -> Self {
        let fate = Fate::default();
        let kernel = MemoryKernel::new(&fate);
        let sources = sources.iter().copied().collect();
        let (gone, listeners) = (Rc::default(), MemoryListeners::default());
        let balancing = Algorithm::Maglev.into();
        let (universe, services) = spawn(&kernel, &sources, (balancing, false), &gone, &listeners);
        let fixture = Self {
            universe,
            kernel,
            fate,
            services,
            gone,
            listeners,
            sources,
            balancing,
            ends_tcp: false,
        };
        fixture.settle();
        fixture
    }

    /// The agent dies where it is, and lives again.
    pub(super) fn restart(&mut self) {
        self.kernel.forget();
        self.listeners.forget();
        let Self { kernel, sources, balancing, ends_tcp, gone, listeners, .. } = &*self;
        let (universe, services) = spawn(kernel, sources, (*balancing, *ends_tcp), gone, listeners);
        (self.universe, self.services) = (universe, services);
        self.settle();
    }

    /// Runs until nothing is left to do at this moment.
    pub(super) fn settle(&self) {
        loop {
            self.universe.settle();
            if !self.kernel.step(0) && !self.listeners.step() {
                return;
            }
        }
    }

    pub(super) fn wait(&self, seconds: u64) {
        for _ in 0..seconds {
            self.universe.advance(Duration::from_secs(1));
            self.settle();
        }
    }

    /// The cluster says this of objects; one that says no more than its kind and name is gone.
    pub(super) fn tell(&self, objects: &[Value]) {
        self.announce(objects);
        self.settle();
    }

    /// The same of Ingresses.
    pub(super) fn tell_ingresses(&self, objects: &[Value]) {
        self.announce_of(Feed::Ingresses, objects);
        self.settle();
    }

    /// The same of the node's pods.
    pub(super) fn tell_pods(&self, objects: &[Value]) {
        self.announce_of(Feed::Workloads, objects);
        self.settle();
    }

    pub(super) fn announce(&self, objects: &[Value]) {
        self.announce_of(Feed::Services, objects);
    }

    fn announce_of(&self, feed: Feed, objects: &[Value]) {
        let objects = objects.iter().map(|object| {
            let text = |name: &str| object["metadata"][name].as_str().unwrap().to_owned();
            let key = ObjectKey { namespace: text("namespace"), name: text("name") };
            let resource = match object["kind"].as_str().unwrap() {
                "Service" => "services",
                "Node" => "nodes",
                "Ingress" => "ingresses",
                "Pod" => "pods",
                _ => "endpointslices",
            };
            let is_there = object.as_object().unwrap().len() > 2;
            (resource, key, is_there.then(|| object.clone().into()))
        });
        let objects = objects.collect();
        self.services.tell(ServicesMsg::Objects { feed, objects }).unwrap();
    }

    pub(super) fn host_addresses(&self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        self.services.tell(ServicesMsg::HostAddresses(addresses)).unwrap();
        self.settle();
    }

    pub(super) fn maps(&self) -> KernelServices {
        self.kernel.with(|state| state.services.clone())
    }

    pub(super) fn landing(&self, at: &str) -> Landing {
        self.maps().landing(frontend(at))
    }

    pub(super) fn list(&self) -> Vec<ServiceView> {
        self.ask(ServicesMsg::List)
    }

    pub(super) fn status(&self) -> ServicesStatus {
        self.ask(ServicesMsg::Show)
    }

    /// Asks for a backend to be quarantined or not; the answer that it gets.
    pub(super) fn quarantine(
        &self,
        at: &str,
        expected: bool,
    ) -> Answer<Result<(), UnknownBackend>> {
        let backend = place(at);
        let make = |reply| ServicesMsg::Quarantine { backend, desired: expected, reply };
        let answer = self.universe.host.ask(&self.services, PATIENCE, "test", make);
        self.settle();
        answer
    }

    /// A whole sweep saw no connection with any of those who left, and that is told.
    pub(super) fn swept(&self) {
        let left = self.ask(ServicesMsg::Leaving);
        self.services.tell(ServicesMsg::Unused(left)).unwrap();
        self.settle();
    }

    pub(super) fn ask<T: 'static>(
        &self,
        make: impl FnOnce(crate::host::Reply<T>) -> ServicesMsg,
    ) -> T {
        let mut answer = self.universe.host.ask(&self.services, PATIENCE, "test", make);
        self.universe.settle();
        answer.now().unwrap().unwrap()
    }

    /// Steps that changed something since this was asked last.
    pub(super) fn writes_since(&self, before: usize) -> Vec<KernelOp> {
        self.kernel.writes().split_off(before)
    }
}

/// Stands for who ends sockets.
struct Ender(Rc<Cell<usize>>);

impl Behaviour for Ender {
    type Msg = SocketsMsg;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, _: SocketsMsg, _: &mut Cx<'_, Self>) {
        self.0.set(self.0.get() + 1);
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

fn spawn(
    kernel: &MemoryKernel,
    sources: &BTreeSet<ServiceSource>,
    (balancing, ends_tcp): (Balancing, bool),
    gone: &Rc<Cell<usize>>,
    listeners: &MemoryListeners,
) -> (Universe, Ref<ServicesMsg>) {
    let universe = Universe::default();
    let settings = ServicesSettings {
        node: "here".to_owned(),
        families: Families::DUAL,
        balancing,
        ends_tcp,
        sources: sources.clone(),
    };
    let gone = Rc::clone(gone);
    let sockets = universe.spawn("sockets", move || Ender(Rc::clone(&gone)));
    let health = HealthChecks::factory(Rc::new(listeners.clone()));
    let health = Some(universe.spawn("health-checks", health));
    let found = kernel.with(|state| state.services.tables());
    let kernel = Rc::new(kernel.clone());
    let services =
        Services::factory(kernel, settings, found, Some(sockets), health, DriftWatch::default());
    let services = universe.spawn("services", services);
    (universe, services)
}

/// A place as `ADDRESS:PORT`, of TCP.
pub(super) fn place(text: &str) -> L4Address {
    let at: std::net::SocketAddr = text.parse().unwrap();
    L4Address { address: at.ip(), port: at.port(), transport: Transport::TCP }
}

/// The frontend of a place for everyone, or with `/i` behind it for who is inside the cluster.
pub(super) fn frontend(text: &str) -> Frontend {
    match text.strip_suffix("/i") {
        Some(text) => Frontend { at: place(text), scope: LookupScope::Internal },
        None => Frontend { at: place(text), scope: LookupScope::External },
    }
}

pub(super) fn at(places: &[&str]) -> Landing {
    match places {
        [] => Landing::NoBackend,
        all => Landing::At(all.iter().map(|it| place(it)).collect()),
    }
}

/// The same Service or slice, of datagrams.
pub(super) fn of_udp(mut object: Value) -> Value {
    for ports in ["/ports/0", "/spec/ports/0"] {
        if let Some(port) = object.pointer_mut(ports) {
            port["protocol"] = json!("UDP");
        }
    }
    object
}

/// A Service of one port, 80.
pub(super) fn service(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]},
    })
}

/// A slice whose members serve at port 8080: `ADDRESS`, and behind it whatever of `@NODE` and
/// `-STATE`, `ending`, `leaving` or `unready`, is to be said.
pub(super) fn slice(name: &str, of: &str, members: &[&str]) -> Value {
    let endpoint = |text: &&str| {
        let (text, state) = text.split_once('-').map_or((*text, ""), |(text, it)| (text, it));
        let (address, node) = text.split_once('@').unwrap_or((text, "elsewhere"));
        let [ready, ends] = [state.is_empty(), ["ending", "leaving"].contains(&state)];
        let serves = ready || state == "ending";
        let conditions = json!({"ready": ready, "terminating": ends, "serving": serves});
        json!({"addresses": [address], "nodeName": node, "conditions": conditions})
    };
    let is_ipv6 = members.first().is_some_and(|it| {
        it.split(['@', '-']).next().unwrap().parse::<IpAddr>().unwrap().is_ipv6()
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "shop", "name": name, "labels": {"kubernetes.io/service-name": of},
        },
        "addressType": if is_ipv6 { "IPv6" } else { "IPv4" },
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": members.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// What says that an object is gone.
pub(super) fn gone(mut object: Value) -> Value {
    object.as_object_mut().unwrap().retain(|key, _| ["kind", "metadata"].contains(&key.as_str()));
    object
}
