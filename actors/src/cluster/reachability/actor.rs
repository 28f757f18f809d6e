//! The actor that probes nodes: it knows which there are, decides which probe is due, and believes what came of
//! it or tries again.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use super::{
    AddressReach, LatencyHistogram, LatencyKey, NodeReach, ProbeResult, ReachabilityMsg,
    ReachabilityView,
    answers::ReachabilityAnswer,
    check::{Again, ProbeCheck},
    schedule::{
        ECHO_AGAIN, ECHO_PATIENCE, ECHOES_PER_SECOND, HELLO_AGAIN, HELLO_PATIENCE,
        HELLO_UNANSWERED, HELLOS_MAX, HELLOS_PER_SECOND, NODES_EVERY, TICK, echo_every, interval,
    },
};
use crate::{
    cluster::remote_nodes::{NodeEntry, RemoteNodesList, RemoteNodesMsg},
    host::{AskError, Behaviour, Cx, Lent, Ref, Survives, Time, TimerId},
    model::{Addresses, Families, NodeKey},
    ports::{Echo, Probes},
};

/// How long the port may take beyond what it is given.
const PATIENCE: Duration = Duration::from_secs(30);
/// What of a second a tick is.
const TICKS_PER_SECOND: u32 = 2;
/// What a probe that failed counts as, among latencies.
const FAILED_AS: Duration = Duration::from_secs(10);
/// Kinds of a node's addresses by which it is probed, the first of them first.
const INTERNAL: &str = "InternalIP";
/// Address that its pods route through: it is not probed, as Cilium does not.
const ROUTER: &str = "CiliumInternalIP";

/// How nodes are probed.
#[derive(Clone, Debug)]
pub struct ReachabilitySettings {
    /// This node.
    pub key: NodeKey,
    /// Families that are switched on.
    pub families: Families,
    /// By which others reach this node.
    pub addresses: Addresses,
    /// Where its health endpoint was.
    pub health: Addresses,
    /// Whether health endpoints are probed, too.
    pub endpoints: bool,
    /// Echo requests of a probe, until one is answered.
    pub requests: u32,
    /// How seldom HTTP is asked, from 0 to 1.
    pub ratio: f64,
}

/// Whom who probes nodes talks to.
#[derive(Clone)]
pub struct ReachabilityPeers {
    /// Who sends probes.
    pub probes: Rc<dyn Probes>,
    /// Who knows the other nodes, if there may be some.
    pub nodes: Option<Ref<RemoteNodesMsg>>,
}

/// Probes nodes.
pub struct Reachability {
    peers: ReachabilityPeers,
    /// Outlive a crash: they change.
    settings: Lent<ReachabilitySettings>,
    state: Lent<ReachabilityState>,
    /// When it is next looked what is due.
    timer: Option<(Time, TimerId)>,
    /// Requests by HTTP that are under way.
    asking: usize,
}

/// What outlives a crash: what probes said.
#[derive(Default)]
struct ReachabilityState {
    others: BTreeMap<NodeKey, ProbedNode>,
    probed: BTreeMap<IpAddr, AddressProbes>,
    /// When the round began, by both clocks.
    round: Option<(Time, u64)>,
    latencies: BTreeMap<LatencyKey, LatencyHistogram>,
}

/// Where a node is probed; the first address is its primary one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProbedNode {
    host: Vec<IpAddr>,
    endpoint: Vec<IpAddr>,
}

struct AddressProbes {
    icmp: ProbeCheck,
    http: ProbeCheck,
}

impl ProbedNode {
    /// Where another node is probed: at the first address of each family, and at its health endpoint.
    fn of(entry: &NodeEntry, settings: &ReachabilitySettings) -> Self {
        let of = |v4: bool| {
            let all = entry.addresses.iter().filter(move |it| it.ip.is_ipv4() == v4);
            let mut all = all.filter(|it| it.kind != ROUTER);
            let internal = all.clone().find(|it| it.kind == INTERNAL);
            internal.or_else(|| all.next()).map(|it| it.ip)
        };
        let host = [of(true), of(false)].into_iter().flatten().collect();
        Self { host, endpoint: entry.health.iter().collect() }.within(settings)
    }

    /// Without what this node does not probe.
    fn within(mut self, settings: &ReachabilitySettings) -> Self {
        let Families { ipv4, ipv6 } = settings.families;
        let is_on = |it: &IpAddr| if it.is_ipv4() { ipv4 } else { ipv6 };
        self.host.retain(is_on);
        self.endpoint.retain(|it| settings.endpoints && is_on(it));
        self
    }

    fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.host.iter().chain(&self.endpoint).copied()
    }
}

impl Reachability {
    /// Makes each life of who probes nodes.
    pub fn factory(
        peers: impl Fn() -> ReachabilityPeers + 'static,
        settings: ReachabilitySettings,
    ) -> impl FnMut() -> Self + 'static {
        let (settings, state) = (Survives::new(settings), Survives::<ReachabilityState>::default());
        move || Self {
            peers: peers(),
            settings: settings.lend(),
            state: state.lend(),
            timer: None,
            asking: 0,
        }
    }

    fn ask_nodes(&self, cx: &mut Cx<'_, Self>) {
        let Some(nodes) = &self.peers.nodes else { return };
        let why = "which nodes there are, to probe them";
        cx.ask(nodes, PATIENCE, why, RemoteNodesMsg::List, ReachabilityAnswer::Nodes);
    }

    fn nodes(&mut self, cx: &mut Cx<'_, Self>, answer: Result<RemoteNodesList, AskError>) {
        cx.after(NODES_EVERY, ReachabilityAnswer::AskNodes);
        let Ok(list) = answer else { return };
        let settings = &*self.settings;
        let others = list.nodes.iter();
        let others: BTreeMap<_, _> =
            others.map(|(key, entry)| (key.clone(), ProbedNode::of(entry, settings))).collect();
        if self.state.others != others {
            self.state.others = others;
            self.choose(cx);
        }
    }

    fn own(&self) -> ProbedNode {
        let ReachabilitySettings { addresses, health, .. } = &*self.settings;
        let own =
            ProbedNode { host: addresses.iter().collect(), endpoint: health.iter().collect() };
        own.within(&self.settings)
    }

    /// Probes all addresses of all nodes, and no others. One that is new is probed soon.
    fn choose(&mut self, cx: &mut Cx<'_, Self>) {
        let own = self.own();
        let state = &mut *self.state;
        let of_others = state.others.values().flat_map(ProbedNode::all);
        let desired: BTreeSet<IpAddr> = own.all().chain(of_others).collect();
        state.probed.retain(|address, _| desired.contains(address));
        let mut due = cx.now();
        for address in desired {
            state.probed.entry(address).or_insert_with(|| {
                let probes =
                    AddressProbes { icmp: ProbeCheck::new(due), http: ProbeCheck::new(due) };
                due = due + Duration::from_secs(1) / ECHOES_PER_SECOND;
                probes
            });
        }
        self.plan(cx);
    }

    /// Comes back when the next probe is due.
    fn plan(&mut self, cx: &mut Cx<'_, Self>) {
        let probes = self.state.probed.values();
        let echoes = probes.clone().filter_map(|it| it.icmp.next());
        // Where as many are under way as may be, the next answer is waited for.
        let may_ask = self.asking < HELLOS_MAX;
        let hellos = probes.filter(|_| may_ask).filter_map(|it| it.http.next());
        let Some(next) = echoes.chain(hellos).min() else { return };
        let next = next.max(cx.now() + TICK);
        match self.timer {
            Some((at, _)) if at <= next => return,
            Some((_, timer)) => cx.cancel(timer),
            None => {}
        }
        let span = next.since(cx.now());
        self.timer = Some((next, cx.after(span, ReachabilityAnswer::Tick)));
    }

    fn tick(&mut self, cx: &mut Cx<'_, Self>) {
        self.timer = None;
        self.turn_round(cx);
        self.echo(cx);
        self.hello(cx);
        self.plan(cx);
    }

    /// A round is as long as each address is asked once; then latencies are counted.
    fn turn_round(&mut self, cx: &Cx<'_, Self>) {
        let interval = self.interval();
        let (now, wall) = (cx.now(), cx.wall());
        match self.state.round {
            None => self.state.round = Some((now, wall)),
            Some((began, _)) if now.since(began) >= interval => {
                self.state.round = Some((now, wall));
                self.observe_latencies();
            }
            Some(_) => {}
        }
    }

    fn interval(&self) -> Duration {
        interval(self.settings.ratio, self.state.probed.len())
    }

    fn echo(&mut self, cx: &mut Cx<'_, Self>) {
        let now = cx.now();
        let due = self.state.probed.iter_mut().filter(|(_, it)| it.icmp.is_due(now));
        let due = due.take((ECHOES_PER_SECOND / TICKS_PER_SECOND) as usize);
        let addresses: Vec<IpAddr> = due
            .map(|(address, it)| {
                it.icmp.out = true;
                *address
            })
            .collect();
        if addresses.is_empty() {
            return;
        }
        let why = format!("{} addresses to answer ICMP", addresses.len());
        let asked = addresses.clone();
        let then = move |answer| ReachabilityAnswer::Echoed(asked, answer);
        let reply = cx.expect("probes", PATIENCE, why, then);
        self.peers.probes.echo(addresses, self.settings.requests, ECHO_PATIENCE, reply);
    }

    fn hello(&mut self, cx: &mut Cx<'_, Self>) {
        let now = cx.now();
        let most = (HELLOS_PER_SECOND / TICKS_PER_SECOND) as usize;
        let most = most.min(HELLOS_MAX.saturating_sub(self.asking));
        let due = self.state.probed.iter_mut().filter(|(_, it)| it.http.is_due(now)).take(most);
        let due: Vec<IpAddr> = due
            .map(|(address, it)| {
                it.http.out = true;
                *address
            })
            .collect();
        for address in due {
            self.asking += 1;
            let then = move |answer| ReachabilityAnswer::Helloed(address, answer);
            let why = format!("{address} to answer HTTP");
            let reply = cx.expect("probes", HELLO_PATIENCE + PATIENCE, why, then);
            self.peers.probes.hello(address, HELLO_PATIENCE, reply);
        }
    }

    fn echoed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        asked: &[IpAddr],
        answer: Result<BTreeMap<IpAddr, Echo>, AskError>,
    ) {
        let (now, wall) = (cx.now(), cx.wall());
        let usual = echo_every(self.state.probed.len());
        let again = Again { usual, soon: ECHO_AGAIN, failing: usual };
        let mut answer = answer.unwrap_or_default();
        for address in asked {
            let Some(probes) = self.state.probed.get_mut(address) else { continue };
            let Some(outcome) = answer.remove(address) else {
                probes.icmp.unanswered(now, again);
                continue;
            };
            // What is new of ICMP is a reason to ask by HTTP.
            if probes.icmp.answered(outcome, now, wall, again) {
                probes.http.hasten(now);
                report(*address, "ICMP", probes.icmp.shown.as_ref());
            }
        }
        self.plan(cx);
    }

    fn helloed(&mut self, cx: &mut Cx<'_, Self>, address: IpAddr, answer: Result<Echo, AskError>) {
        self.asking = self.asking.saturating_sub(1);
        let usual = self.interval();
        let again = Again { usual, soon: HELLO_AGAIN, failing: usual.min(HELLO_UNANSWERED) };
        let (now, wall) = (cx.now(), cx.wall());
        if let Some(probes) = self.state.probed.get_mut(&address) {
            match answer {
                Ok(outcome) => {
                    if probes.http.answered(outcome, now, wall, again) {
                        report(address, "HTTP", probes.http.shown.as_ref());
                    }
                }
                Err(_) => probes.http.unanswered(now, again),
            }
        }
        self.plan(cx);
    }

    fn reach(&self, address: &IpAddr) -> AddressReach {
        let probes = self.state.probed.get(address);
        AddressReach {
            ip: *address,
            icmp: probes.and_then(|it| it.icmp.shown.clone()),
            http: probes.and_then(|it| it.http.shown.clone()),
        }
    }

    fn node(&self, key: &NodeKey, node: &ProbedNode, local: bool) -> NodeReach {
        let all = |all: &[IpAddr]| all.iter().map(|address| self.reach(address)).collect();
        let name = key.shown();
        NodeReach { name, local, host: all(&node.host), endpoint: all(&node.endpoint) }
    }

    fn view(&self) -> ReachabilityView {
        let key = &self.settings.key;
        let own = self.node(key, &self.own(), true);
        let others = self.state.others.iter().map(|(key, node)| self.node(key, node, false));
        ReachabilityView {
            began: self.state.round.map_or(0, |(_, wall)| wall),
            interval: self.interval(),
            local: key.shown(),
            nodes: [own].into_iter().chain(others).collect(),
            latencies: self.state.latencies.clone(),
        }
    }

    fn observe_latencies(&mut self) {
        let view = self.view();
        // As Cilium: nodes that have no health endpoint are left out.
        for node in view.nodes.iter().filter(|node| !node.endpoint.is_empty()) {
            for (of, all) in [("node", &node.host), ("endpoint", &node.endpoint)] {
                for (place, reach) in all.iter().enumerate() {
                    let address = if place == 0 { "primary" } else { "secondary" };
                    for (protocol, result) in [("icmp", &reach.icmp), ("http", &reach.http)] {
                        let Some(result) = result else { continue };
                        let latency = latency(result);
                        let key = LatencyKey { of, protocol, address };
                        self.state.latencies.entry(key).or_default().observe(latency);
                    }
                }
            }
        }
    }
}

fn latency(result: &ProbeResult) -> Duration {
    if result.error.is_some() { FAILED_AS } else { result.latency }
}

/// Says in the log what became of an address; that one that is new answers is no news.
fn report(address: IpAddr, protocol: &str, shown: Option<&ProbeResult>) {
    match shown.and_then(|it| it.error.as_ref()) {
        Some(error) => tracing::warn!(%address, protocol, error, "a node is not reached"),
        None => tracing::debug!(%address, protocol, "a node is reached"),
    }
}

impl Behaviour for Reachability {
    type Msg = ReachabilityMsg;
    type Answer = ReachabilityAnswer;
    type Observed = ReachabilityView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        // Nobody hears what comes of probes that were under way.
        for probes in self.state.probed.values_mut() {
            (probes.icmp.out, probes.http.out) = (false, false);
        }
        self.choose(cx);
        self.ask_nodes(cx);
    }

    fn handle(&mut self, msg: ReachabilityMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            ReachabilityMsg::OwnAddresses(addresses) => {
                self.settings.addresses = addresses;
                self.choose(cx);
            }
            ReachabilityMsg::OwnHealth(addresses) => {
                self.settings.health = addresses;
                self.choose(cx);
            }
            ReachabilityMsg::Show(reply) => reply.send(Arc::new(self.view())),
        }
    }

    fn answered(&mut self, answer: ReachabilityAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            ReachabilityAnswer::Tick => self.tick(cx),
            ReachabilityAnswer::AskNodes => self.ask_nodes(cx),
            ReachabilityAnswer::Nodes(answer) => self.nodes(cx, answer),
            ReachabilityAnswer::Echoed(asked, answer) => self.echoed(cx, &asked, answer),
            ReachabilityAnswer::Helloed(address, answer) => self.helloed(cx, address, answer),
        }
    }

    fn observe(&self) -> ReachabilityView {
        self.view()
    }
}
