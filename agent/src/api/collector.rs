//! Who looks after the state of the agent's parts: a probe of each, in a loop of its own. `GET /healthz` answers
//! from what probes found last. One that hangs holds up no other and no answer; after a minute it is stale, and is
//! named.
//!
//! As long as somebody asks, a probe runs every five seconds, and once more for who asks: he is answered with what
//! is true then, unless that takes longer than a moment. While nobody asks, nothing is looked at.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::{JoinSet, LocalSet, spawn_blocking},
    time::{Instant, sleep, sleep_until, timeout_at},
};
use volvox_actors::{
    cluster::api_server::{ClusterMsg, SourceState, SourceStatus},
    endpoints::ipam::{AddressLease, IpamMsg},
    host::Clock,
    model::Timestamp,
};
use volvox_rest::models::{BpfMapStatus, PodPools, Status};
use volvox_system::SystemClock;

use super::{
    Api, features,
    node_health::{self, NodeHealthViews},
    pools,
    sharing::Sharing,
    views::Views,
};
use crate::gateway::GatewayError;

/// How often a probe runs, from its end on.
const EVERY: Duration = Duration::from_secs(5);
/// After that long it is said in the log that there is no answer,
const WARNED_AFTER: Duration = Duration::from_secs(15);
/// and after that long what was found before is stale.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// Nobody asks any more: nothing is looked at.
const RESTS_AFTER: Duration = Duration::from_secs(60);
/// How long who asks waits for what is true now, where what was found is recent,
const MOMENT: Duration = Duration::from_millis(250);
/// and where it is not; from the begin of a probe on, so that one that hangs is waited for once.
const PATIENCE: Duration = Duration::from_secs(4);
const RECENT: Duration = Duration::from_secs(15);
const WHAT: &str = "GET /healthz";

/// What a probe looks at, by the names of Cilium's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProbeKind {
    /// Sizes of maps.
    BpfMaps,
    /// The CNI configuration.
    CniConfig,
    /// Probes of nodes.
    CiliumHealth,
    /// Everything that may be wrong with a part of the agent.
    Controllers,
    /// Addresses.
    Ipam,
    /// The cluster.
    Kubernetes,
    /// The store.
    Kvstore,
}

impl ProbeKind {
    const ALL: [Self; 7] = [
        Self::BpfMaps,
        Self::CniConfig,
        Self::CiliumHealth,
        Self::Controllers,
        Self::Ipam,
        Self::Kubernetes,
        Self::Kvstore,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BpfMaps => "bpf-maps",
            Self::CniConfig => "cni-config",
            Self::CiliumHealth => "cilium-health",
            Self::Controllers => "controllers",
            Self::Ipam => "ipam",
            Self::Kubernetes => "kubernetes",
            Self::Kvstore => "kvstore",
        }
    }

    async fn run(self, api: &Api) -> Result<Finding, GatewayError> {
        Ok(match self {
            Self::BpfMaps => {
                let facts = Arc::clone(&api.facts);
                aside(move || Finding::BpfMaps(features::map_sizes(&facts))).await?
            }
            Self::CniConfig => {
                let facts = Arc::clone(&api.facts);
                aside(move || Finding::CniConfig(features::cni_file(&facts.features))).await?
            }
            Self::CiliumHealth => Finding::CiliumHealth(node_health::gather(api, WHAT).await?),
            Self::Controllers => Finding::Controllers(Box::new(Views::ask(api, WHAT).await?)),
            Self::Ipam => {
                let leases = api.gateway.ask(WHAT, |node| &node.ipam, IpamMsg::Dump);
                let (leases, pools) = tokio::try_join!(leases, pools::gather(api, WHAT))?;
                Finding::Ipam(leases, pools)
            }
            Self::Kubernetes => {
                let show = ClusterMsg::Show;
                let listed = api.gateway.ask_if(WHAT, |node| node.cluster.as_ref(), show).await?;
                Finding::Kubernetes(listed)
            }
            Self::Kvstore => Finding::Kvstore(Sharing::gather(api, WHAT).await?),
        })
    }
}

/// Files and the kernel may hang: they are asked on a thread of their own.
async fn aside(work: impl FnOnce() -> Finding + Send + 'static) -> Result<Finding, GatewayError> {
    spawn_blocking(work).await.map_err(|_| GatewayError::Hung)
}

/// What a probe found.
enum Finding {
    BpfMaps(BpfMapStatus),
    CniConfig(Status),
    CiliumHealth(NodeHealthViews),
    Controllers(Box<Views>),
    Ipam(BTreeMap<IpAddr, AddressLease>, Option<PodPools>),
    Kubernetes(Option<Vec<SourceStatus>>),
    Kvstore(Option<Sharing>),
}

/// What all of them found last. What is absent was not found yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) bpf_maps: BpfMapStatus,
    pub(super) cni_config: Status,
    pub(super) health: NodeHealthViews,
    pub(super) views: Option<Arc<Views>>,
    pub(super) leases: BTreeMap<IpAddr, AddressLease>,
    pub(super) pools: Option<PodPools>,
    pub(super) listed: Option<Vec<SourceStatus>>,
    pub(super) sharing: Option<Sharing>,
    /// Probes that have not run once.
    pub(super) unrun: Vec<&'static str>,
    /// Probes that do not answer, and since when.
    pub(super) stale: BTreeMap<String, String>,
    /// Why nothing could be asked, if that is so.
    pub(super) error: Option<GatewayError>,
}

impl Findings {
    fn take(&mut self, found: Finding) {
        match found {
            Finding::BpfMaps(found) => self.bpf_maps = found,
            Finding::CniConfig(found) => self.cni_config = found,
            Finding::CiliumHealth(found) => self.health = found,
            Finding::Controllers(found) => self.views = Some(Arc::new(*found)),
            Finding::Ipam(leases, pools) => (self.leases, self.pools) = (leases, pools),
            Finding::Kubernetes(found) => self.listed = found,
            Finding::Kvstore(found) => self.sharing = found,
        }
    }

    /// The first source of the cluster that cannot be followed, and why.
    pub(super) fn kubernetes_error(&self) -> Option<String> {
        self.listed.iter().flatten().find_map(|status| match &status.state {
            SourceState::Broken { error, .. } => Some(format!("{}: {error}", status.name)),
            _ => None,
        })
    }
}

/// How a probe is.
#[derive(Default)]
struct ProbeState {
    /// The question for which it began, when that was by both clocks, if it runs.
    running: Option<(u64, Instant, u64)>,
    /// The last question that it answered, and when.
    answered: Option<(u64, Instant)>,
    /// How often it did not answer in time or failed, one after the other.
    failures: u32,
    error: Option<GatewayError>,
}

#[derive(Default)]
struct CollectorState {
    probes: BTreeMap<ProbeKind, ProbeState>,
    findings: Findings,
    asked: Option<Instant>,
}

/// How long is too long.
#[derive(Clone, Copy)]
struct Limits {
    warned: Duration,
    stale: Duration,
}

struct Shared {
    limits: Limits,
    begun: Once,
    state: Mutex<CollectorState>,
    /// The number of the last question.
    questions: watch::Sender<u64>,
    answered: Notify,
}

/// The probes, and what they found. Clones are the same.
#[derive(Clone)]
pub struct StatusCollector(Arc<Shared>);

impl Default for StatusCollector {
    fn default() -> Self {
        Self::limited(Limits { warned: WARNED_AFTER, stale: STALE_AFTER })
    }
}

impl StatusCollector {
    fn limited(limits: Limits) -> Self {
        Self(Arc::new(Shared {
            limits,
            begun: Once::new(),
            state: Mutex::default(),
            questions: watch::channel(0).0,
            answered: Notify::new(),
        }))
    }
}

impl fmt::Debug for StatusCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusCollector")
    }
}

impl StatusCollector {
    /// What is known: of now, if that can be known within a moment.
    pub(super) async fn ask(&self, api: &Api) -> Findings {
        let Shared { begun, questions, .. } = &*self.0;
        begun.call_once(|| self.begin(api));
        let now = Instant::now();
        self.state().asked = Some(now);
        let mut question = 0;
        questions.send_modify(|last| {
            *last += 1;
            question = *last;
        });
        loop {
            let answered = self.0.answered.notified();
            let Some(until) = self.awaited(question, now) else { break };
            if timeout_at(until, answered).await.is_err()
                && self.awaited(question, now) == Some(until)
            {
                break;
            }
        }
        self.findings()
    }

    /// Until when who asked that waits for a probe; not at all if each has answered or will not soon.
    fn awaited(&self, question: u64, asked: Instant) -> Option<Instant> {
        let state = self.state();
        let until = |kind: ProbeKind| {
            let probe = state.probes.get(&kind);
            let answered = probe.and_then(|it| it.answered);
            if answered.is_some_and(|(last, _)| last >= question) {
                return None;
            }
            let is_recent = answered.is_some_and(|(_, at)| asked.duration_since(at) < RECENT);
            let began = probe.and_then(|it| it.running).map_or(asked, |(_, began, _)| began);
            let until = if is_recent { asked + MOMENT } else { began + PATIENCE };
            Some(until).filter(|until| *until > Instant::now())
        };
        ProbeKind::ALL.into_iter().filter_map(until).max()
    }

    fn findings(&self) -> Findings {
        let state = self.state();
        let mut findings = state.findings.clone();
        for kind in ProbeKind::ALL {
            let probe = state.probes.get(&kind);
            if probe.is_none_or(|it| it.answered.is_none()) {
                findings.unrun.push(kind.name());
            }
            if let Some((_, began, wall)) = probe.and_then(|it| it.running)
                && began.elapsed() >= self.0.limits.stale
            {
                findings.stale.insert(kind.name().to_owned(), Timestamp::from_nanos(wall).0);
            }
            findings.error = findings.error.or(probe.and_then(|it| it.error));
        }
        findings
    }

    /// Starts the loops, on a thread of their own: they run while the API answers others.
    fn begin(&self, api: &Api) {
        let (collector, api) = (self.clone(), api.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let started = runtime.and_then(|runtime| {
            volvox_system::threads::spawn("status", move || {
                LocalSet::new().block_on(&runtime, async {
                    let mut probes = JoinSet::new();
                    for kind in ProbeKind::ALL {
                        probes.spawn_local(collector.clone().follow(kind, api.clone()));
                    }
                    probes.join_all().await;
                });
            })
        });
        if let Err(error) = started {
            tracing::error!(%error, "the agent's parts are not looked after");
        }
    }

    /// Runs a probe again and again, until the actors have ended.
    async fn follow(self, kind: ProbeKind, api: Api) {
        let mut questions = self.0.questions.subscribe();
        loop {
            let question = *questions.borrow_and_update();
            let running = (question, Instant::now(), SystemClock.wall());
            self.change(kind, |probe| probe.running = Some(running));
            let found = self.watch_over(kind, kind.run(&api)).await;
            let is_over = matches!(found, Some(Err(GatewayError::Down)));
            self.ended(kind, question, found);
            if is_over {
                return;
            }
            let rests = self.state().asked.is_none_or(|at| at.elapsed() >= RESTS_AFTER);
            tokio::select! {
                changed = questions.changed() => if changed.is_err() { return },
                () = sleep(EVERY), if !rests => {}
            }
        }
    }

    /// What it found; nothing if it took too long, for that is not true any more.
    async fn watch_over(
        &self,
        kind: ProbeKind,
        run: impl Future<Output = Result<Finding, GatewayError>>,
    ) -> Option<Result<Finding, GatewayError>> {
        let began = Instant::now();
        let mut run = std::pin::pin!(run);
        tokio::select! {
            found = &mut run => return Some(found),
            () = sleep_until(began + self.0.limits.warned) => {
                tracing::warn!(probe = kind.name(), "no response from a probe of the agent's state");
            }
        }
        tokio::select! {
            found = &mut run => return Some(found),
            () = sleep_until(began + self.0.limits.stale) => {
                self.change(kind, |probe| probe.failures += 1);
                tracing::error!(probe = kind.name(), "what is known of the agent's state is stale");
            }
        }
        // It is not begun anew before it returns.
        drop(run.await);
        None
    }

    fn ended(&self, kind: ProbeKind, question: u64, found: Option<Result<Finding, GatewayError>>) {
        {
            let mut state = self.state();
            let CollectorState { probes, findings, .. } = &mut *state;
            let probe = probes.entry(kind).or_default();
            probe.running = None;
            match found {
                Some(Ok(found)) => {
                    (probe.failures, probe.error) = (0, None);
                    findings.take(found);
                    probe.answered = Some((question, Instant::now()));
                }
                Some(Err(error)) => {
                    probe.failures += 1;
                    probe.error = Some(error);
                    // Whoever asked need not wait: what was found before stays.
                    let before = probe.answered.map_or_else(Instant::now, |(_, at)| at);
                    probe.answered = Some((question, before));
                }
                None => {}
            }
        }
        self.0.answered.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, CollectorState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, kind: ProbeKind, change: impl FnOnce(&mut ProbeState)) {
        change(self.state().probes.entry(kind).or_default());
    }
}
