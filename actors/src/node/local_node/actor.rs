//! The actor that keeps the host's own rows: it looks at the interfaces, writes what differs, and
//! tells the ipcache, services, devices and routes of it.
//!
//! ```text
//!              Sync, Changed                    rows differ
//!  not begun ───────────────▶ Looked ─▶ proceed ────────────▶ Written ─┐
//!                               ▲       ▲  │ │  ipcache lacks or has   │
//!                               │       │  │ │  too much               │
//!                          Look │       │  │ └────────────▶ Mapped ────┤
//!                               │       └──┼───────────────────────────┘ done
//!                               │          │ nothing differs     │
//!                               └── pause ◀┴─────────────────────┘ failed
//! ```
//!
//! `proceed` alone says what comes next, from what differs by then. Devices hear of the interfaces with
//! the first look and attach their programs then; whoever said `Sync` hears once nothing differs.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    rc::Rc,
    time::Duration,
};

use ipnet::IpNet;

use super::{
    NodeMsg, NodeSettings, NodeStatus,
    answers::{NodeAnswer, ReportedHostAddresses},
    desired::steps,
};
use crate::{
    host::{AskError, Behaviour, Cx, Lent, Pauses, Ref, Reply, Retry, Survives},
    model::{
        NodeFacts,
        drift::{DriftByMap, DriftReply, DriftWatch},
    },
    node::{devices::DevicesMsg, routes::RoutesMsg},
    policy::ipcache::{IpcacheEntry, IpcacheMsg, IpcacheSource},
    ports::{
        Kernel, KernelDone, KernelError, KernelJob, KernelOp, KernelOutcome, Link, LxcRow,
        lxc_flags,
    },
    services::service_cache::ServicesMsg,
};

/// How often the interfaces are looked at.
const EVERY: Duration = Duration::from_secs(60);
/// After the nth failure in a row the next look comes n times as late, but not later than usual.
const PAUSES: Pauses = Pauses::Linear { step: Duration::from_secs(1), most: EVERY };
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps the host's addresses in `cilium_lxc` and in the ipcache. Only differences are written.
pub struct Node {
    pub(super) kernel: Rc<dyn Kernel>,
    pub(super) watch: DriftWatch,
    /// The comparison under way.
    pub(super) sweep: Option<NodeSweep>,
    subscribers: NodeSubscribers,
    settings: Rc<NodeSettings>,
    /// Outlives a crash: what was written must be found again to be removed one day.
    pub(super) state: Lent<LocalNodeState>,
    waiting: Vec<Reply<()>>,
    /// The look under way, or the time of the next.
    looks: Retry,
    /// Something changed since the look began that is under way.
    again: bool,
    last_error: Option<String>,
}

/// Who hears of the node's interfaces and addresses.
#[derive(Clone)]
pub struct NodeSubscribers {
    /// The owner of the map from addresses to identities.
    pub ipcache: Ref<IpcacheMsg>,
    /// The owner of frontends.
    pub services: Ref<ServicesMsg>,
    /// The owner of the node's devices.
    pub devices: Ref<DevicesMsg>,
    /// The owner of the ways to other nodes.
    pub routes: Ref<RoutesMsg>,
}

/// Whether an interface is up, the largest packet that it takes, and its addresses.
type HostInterface = (bool, u32, Vec<IpNet>);

pub(super) struct LocalNodeState {
    begun: bool,
    /// The host's addresses as they were seen last.
    addresses: BTreeSet<IpAddr>,
    /// What the kernel says of it.
    facts: NodeFacts,
    /// Its interfaces as they were seen last: routes go with what is down or gone.
    interfaces: BTreeMap<u32, HostInterface>,
    /// The host's rows of `cilium_lxc`. None: there may be one, as whoever was to change it did not
    /// say what became of it.
    pub(super) rows: BTreeMap<IpAddr, Option<LxcRow>>,
    /// What the ipcache has heard, in the same way.
    mapped: BTreeMap<IpNet, Option<IpcacheEntry>>,
    /// Steps that the kernel is doing.
    pub(super) under_way: Vec<KernelOp>,
}

/// Of which row a step is.
const fn address_of(op: &KernelOp) -> Option<IpAddr> {
    match op {
        KernelOp::PutLxc { address, .. } | KernelOp::DeleteLxc { address, .. } => Some(*address),
        _ => None,
    }
}

/// A sweep under way.
#[derive(Default)]
pub(super) struct NodeSweep {
    /// The host's rows of `cilium_lxc`; pods' are compared by their endpoints.
    pub(super) rows: BTreeMap<IpAddr, LxcRow>,
    /// Keys that are no addresses.
    pub(super) strange: Vec<Box<[u8]>>,
    /// Rows were written meanwhile: what was read may be older.
    pub(super) spoilt: bool,
    pub(super) found: DriftByMap,
    pub(super) subscribers: Vec<DriftReply>,
}

impl Node {
    /// Makes each life of the node's actor. `lxc` is what the kernel's map of local addresses
    /// holds at start; rows that are not the host's are left alone.
    pub fn factory(
        kernel: Rc<dyn Kernel>,
        subscribers: NodeSubscribers,
        settings: NodeSettings,
        lxc: &BTreeMap<IpAddr, LxcRow>,
        watch: DriftWatch,
    ) -> impl FnMut() -> Self + 'static {
        let is_host = |row: &LxcRow| row.flags & lxc_flags::HOST != 0;
        let rows = lxc.iter().filter(|(_, row)| is_host(row));
        let state = Survives::new(LocalNodeState {
            begun: false,
            addresses: BTreeSet::new(),
            facts: settings.facts.clone(),
            interfaces: BTreeMap::new(),
            rows: rows.map(|(&address, &row)| (address, Some(row))).collect(),
            mapped: BTreeMap::new(),
            under_way: Vec::new(),
        });
        let settings = Rc::new(settings);
        move || Self {
            kernel: Rc::clone(&kernel),
            watch: watch.clone(),
            sweep: None,
            subscribers: subscribers.clone(),
            settings: Rc::clone(&settings),
            state: state.lend(),
            waiting: Vec::new(),
            looks: Retry::default(),
            again: false,
            last_error: None,
        }
    }

    pub(super) fn look(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.looks.begin_now(cx) {
            return;
        }
        self.state.begun = true;
        let reply = cx.expect("kernel", PATIENCE, "the node's interfaces", NodeAnswer::Looked);
        self.kernel.submit(KernelJob::new(vec![KernelOp::ReadLinks]), reply);
    }

    /// What changes amid a look may have been missed by it: the next follows at once.
    fn changed(&mut self, cx: &mut Cx<'_, Self>) {
        self.again = self.looks.is_asked();
        if self.state.begun {
            self.look(cx);
        }
    }

    fn looked(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        let links = KernelDone::of_one(done, |outcome| match outcome {
            KernelOutcome::Links(links) => Some(links),
            _ => None,
        });
        match links {
            Ok(links) => {
                let addresses = self.settings.host_addresses(&links);
                self.state.addresses.clone_from(&addresses);
                // Whoever does not hear of it now will at the next look.
                if let Err(refused) =
                    self.subscribers.services.tell(ServicesMsg::HostAddresses(addresses))
                {
                    tracing::warn!(%refused, "services did not hear of the host's addresses");
                }
                self.tell_routes(&links);
                if let Err(refused) =
                    self.subscribers.devices.tell(DevicesMsg::Links(Rc::new(links)))
                {
                    tracing::warn!(%refused, "nobody heard of the node's interfaces");
                }
                self.proceed(cx);
            }
            Err(error) => self.finish(Err(error), cx),
        }
    }

    /// Ways to other nodes are looked at when something changed at the node's own interfaces.
    fn tell_routes(&mut self, links: &BTreeMap<u32, Link>) {
        let own = links.values().filter(|link| !self.settings.is_pods(link));
        let now: BTreeMap<u32, HostInterface> =
            own.map(|link| (link.ifindex, (link.up, link.mtu, link.addresses.clone()))).collect();
        let before = std::mem::replace(&mut self.state.interfaces, now.clone());
        if !before.is_empty()
            && before != now
            && let Err(refused) = self.subscribers.routes.tell(RoutesMsg::Disturbed)
        {
            tracing::warn!(%refused, "ways to other nodes are looked at within a minute");
        }
    }

    /// Takes the next step towards what is desired: rows, then what the ipcache lacks, then what
    /// it has too much.
    fn proceed(&mut self, cx: &mut Cx<'_, Self>) {
        let state = &mut *self.state;
        let ops = steps(&state.rows, &self.settings.rows(&state.addresses));
        if !ops.is_empty() {
            self.sweep.iter_mut().for_each(NodeSweep::spoil);
            state.rows.extend(ops.iter().filter_map(address_of).map(|address| (address, None)));
            state.under_way.clone_from(&ops);
            let why = format!("{} of the host's addresses", ops.len());
            let reply = cx.expect("kernel", PATIENCE, why, NodeAnswer::Written);
            return self.kernel.submit(KernelJob::new(ops), reply);
        }
        let desired = self.settings.entries(&state.addresses);
        let surplus: Vec<_> =
            state.mapped.keys().filter(|prefix| !desired.contains_key(prefix)).copied().collect();
        let mut missing = desired;
        missing.retain(|prefix, entry| state.mapped.get(prefix) != Some(&Some(*entry)));
        if !missing.is_empty() {
            state.mapped.extend(missing.keys().map(|&prefix| (prefix, None)));
            let entries = missing.iter().map(|(&prefix, &entry)| (prefix, entry)).collect();
            let upsert = |reply| IpcacheMsg::Upsert { entries, reply };
            let reported =
                |answer| NodeAnswer::Mapped(ReportedHostAddresses::There(missing), answer);
            cx.ask(&self.subscribers.ipcache, PATIENCE, "the host's identities", upsert, reported);
        } else if !surplus.is_empty() {
            state.mapped.extend(surplus.iter().map(|&prefix| (prefix, None)));
            let (prefixes, source) = (surplus.clone(), IpcacheSource::Node);
            let remove = |reply| IpcacheMsg::Remove { prefixes, source, reply };
            let reported =
                |answer| NodeAnswer::Mapped(ReportedHostAddresses::Gone(surplus), answer);
            cx.ask(
                &self.subscribers.ipcache,
                PATIENCE,
                "addresses that are gone",
                remove,
                reported,
            );
        } else {
            self.finish(Ok(()), cx);
        }
    }

    fn written(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        let error = {
            let state = &mut *self.state;
            let ops = std::mem::take(&mut state.under_way);
            let succeeded = done.as_ref().map_or(0, |done| done.outcomes.len());
            for op in ops.into_iter().take(succeeded) {
                match op {
                    KernelOp::PutLxc { address, row } => state.rows.insert(address, Some(row)),
                    KernelOp::DeleteLxc { address, .. } => state.rows.remove(&address),
                    _ => None,
                };
            }
            match done {
                Ok(done) => done.failed.map(|(_, error)| error.to_string()),
                Err(error) => Some(error.to_string()),
            }
        };
        match error {
            None => self.proceed(cx),
            Some(error) => self.finish(Err(error), cx),
        }
    }

    /// The ipcache tries again by itself what it could not write; what it did not hear of is told
    /// to it again.
    fn mapped(
        &mut self,
        reported: ReportedHostAddresses,
        answer: Result<Result<(), KernelError>, AskError>,
        cx: &mut Cx<'_, Self>,
    ) {
        let mapped = &mut self.state.mapped;
        match reported {
            _ if answer.is_err() => {}
            ReportedHostAddresses::There(entries) => {
                mapped.extend(entries.into_iter().map(|(at, it)| (at, Some(it))))
            }
            ReportedHostAddresses::Gone(prefixes) => {
                mapped.retain(|prefix, _| !prefixes.contains(prefix))
            }
        }
        match answer {
            Ok(Ok(())) => self.proceed(cx),
            Ok(Err(error)) => self.finish(Err(error.to_string()), cx),
            Err(error) => self.finish(Err(error.to_string()), cx),
        }
    }

    fn finish(&mut self, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        match result {
            Ok(()) => {
                self.looks.succeeded();
                self.last_error = None;
                self.waiting.drain(..).for_each(|reply| reply.send(()));
                let wait = if std::mem::take(&mut self.again) { Duration::ZERO } else { EVERY };
                self.looks.pause(cx, wait, NodeAnswer::Look);
            }
            Err(error) => {
                let wait = self.looks.failed(PAUSES, cx, NodeAnswer::Look);
                tracing::warn!(error, retry_in = ?wait, "the host's addresses were not taken in");
                self.last_error = Some(error);
            }
        }
    }

    fn status(&self) -> NodeStatus {
        NodeStatus {
            router: self.settings.router,
            addresses: self.state.addresses.clone(),
            facts: self.state.facts.clone(),
            last_error: self.last_error.clone(),
        }
    }
}

impl Behaviour for Node {
    type Msg = NodeMsg;
    type Answer = NodeAnswer;
    type Observed = NodeStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.watch.sweep_later(cx, NodeAnswer::Sweep);
        let begun = self.state.begun;
        if begun {
            self.look(cx);
        }
    }

    fn handle(&mut self, msg: NodeMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            NodeMsg::Sync(reply) => {
                self.waiting.push(reply);
                self.look(cx);
            }
            NodeMsg::Changed => self.changed(cx),
            NodeMsg::Facts(facts) => self.state.facts = facts,
            NodeMsg::Compare(subscriber) => self.compare(Some(subscriber), cx),
            NodeMsg::Show(reply) => reply.send(self.status()),
        }
    }

    fn answered(&mut self, answer: NodeAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            NodeAnswer::Sweep => self.compare(None, cx),
            NodeAnswer::Look => self.look(cx),
            NodeAnswer::Looked(done) => self.looked(done, cx),
            NodeAnswer::Written(done) => self.written(done, cx),
            NodeAnswer::Mapped(reported, answer) => self.mapped(reported, answer, cx),
            NodeAnswer::Page(done) => self.page(done, cx),
            NodeAnswer::Mended(done) => {
                if let Ok(KernelDone { failed: Some((_, error)), .. }) = done {
                    tracing::warn!(%error, "the node's own rows stay until the next sweep");
                }
            }
        }
    }

    fn observe(&self) -> NodeStatus {
        self.status()
    }
}
