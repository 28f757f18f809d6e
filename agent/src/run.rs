//! A run of the agent: the actors' thread, from the first message to the signal that ends it.

use std::{future::pending, mem, path::PathBuf, pin::pin, rc::Rc, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use volvox_actors::{
    cluster::publish::PublishSettings,
    endpoints::{ipam::Pools, supervisor::EndpointsMsg, workloads::WorkloadsMsg},
    host::{ActixDriver, Clock, Full, Host, Message, Record, Ref},
    model::{Families, Manifest},
    node::{conntrack::ConntrackMsg, devices::DevicesMsg, local_node::NodeMsg, routes::RoutesMsg},
    node_supervisor::{NodeSupervisor, Ports},
    policy::rules::PolicyMsg,
    ports::Notices,
    restore::{Inheritance, RestoreInput, RestoreMsg},
    services::service_cache::ServicesMsg,
};
use volvox_cluster::ClusterPort;
use volvox_containerd::Containerd;
use volvox_inspect::{
    evidence::{Evidence, PastLife},
    flight::boot_id,
};
use volvox_rest::delete_queue::{self, DeleteQueue, Exclusive, LOCK_PATIENCE};
use volvox_system::{
    SystemClock,
    resident::{self, Sparing},
};

use crate::{
    api::{self, Opener},
    boot::{Boot, POD_INTERFACES, Phase},
    cni_configuration,
    config::{Config, IdentityAllocationMode},
    datapath::KernelPort,
    gateway::gateway,
    health_ports::HealthPorts,
    kvstore,
    node_facts::FactsWatch,
    node_health::NodeHealth,
    node_information,
    notices::told_of_start,
    ports::{
        ClusterDirectory, DiskPort, Ears, LinkWatch, SignalWatch,
        manifests::{Manifests, Watch},
    },
    queued_deletions,
    remembered::{self, Remembered, remember},
    servers::Servers,
    settings,
    spans::{Scope, Spans},
    stop::{STOP_MAX, Signals, Started, UnderWay},
    wait_cycles, watchdog,
};

/// How long one wait for the cluster is shown; then it begins anew.
const HEAR_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Which prefixes are to be heard, and what is taken if nobody answers.
type Awaited = (node_information::Expected, Option<Pools>);
/// How long restoring may keep new endpoints waiting.
const OPEN_PATIENCE: Duration = Duration::from_secs(600);
/// How long programs at the node's devices may keep new endpoints waiting.
const DEVICES_PATIENCE: Duration = Duration::from_secs(10);
/// When it is first looked whether restoring has news; after that each wait is twice as long.
const NOTE_FIRST: Duration = Duration::from_millis(32);
/// How long such a wait gets at most.
const NOTE_EVERY: Duration = Duration::from_secs(2);
/// Changed manifests that are named in the trace; of more only their number is.
const NAMED_MAX: usize = 8;
/// By then endpoints are back, mostly.
const SETTLED_AFTER: Duration = Duration::from_millis(500);
/// Sources that no actor follows, by name.
const MANIFESTS: &str = "manifests";
const INTERFACES: &str = "interfaces";
const FULL_TABLES: &str = "full tables";
/// How soon a full mailbox is tried again.
const RETELL_AFTER: Duration = Duration::from_millis(100);

/// Lives until SIGTERM or SIGINT, or until it is known which prefixes pods have here: the next run
/// begins with them. The datapath goes on without the agent.
pub fn run(config: Config, boot: Boot) -> anyhow::Result<()> {
    // Before anybody is answered: a plugin that finds nobody must not write to a queue that is
    // being read.
    let queue = DeleteQueue::at(config.run_dir.join(delete_queue::DIRECTORY));
    // Where its lock cannot be had, plugins cannot write either, or are writing yet: the next start
    // reads what they wrote.
    let queue = queue
        .hold(LOCK_PATIENCE)
        .inspect_err(
            |error| tracing::error!(%error, "queue of deletions is left for the next start"),
        )
        .ok();
    actix::System::new().block_on(begin(config, boot, queue))
}

async fn begin(config: Config, mut boot: Boot, queue: Option<Exclusive>) -> anyhow::Result<()> {
    let (spans, spawning) = (boot.spans.clone(), SystemClock.now());
    // Who uses more memory for a moment still does his work.
    let sparing =
        resident::spare().inspect_err(|error| tracing::debug!(%error, "memory is not spared")).ok();
    let disk = Rc::new(DiskPort::start(&boot.directories.steps)?);
    let driver = Rc::new(ActixDriver::default());
    let host = Host::new(Rc::new(SystemClock), driver, boot.recording.recorder());
    for Phase { name, started, ended } in boot.phases.iter().copied() {
        host.record(Record::Phase { name, started, ended });
    }
    let kernel = Rc::new(KernelPort::start(&boot.datapath, &host)?);
    let (kvstore, store) = kvstore::start(&config)?;
    let cluster = config.api_server().map(ClusterPort::start).transpose()?;
    let follows = cluster.is_some();
    if !follows && config.identity_allocation_mode == IdentityAllocationMode::Crd {
        bail!(
            "--identity-allocation-mode=crd wants a cluster, and none is named: say \
             --k8s-kubeconfig-path as well, or drop it"
        );
    }
    let cluster = cluster.map(|cluster| Rc::new(cluster) as _);
    let clusters = config.clustermesh_config.clone().map(ClusterDirectory::new);
    let clusters = clusters.map(|clusters| Rc::new(clusters) as _);
    let answers = config.kube_proxy.replacement && config.kube_proxy.enable_health_check_nodeport;
    let families = Families { ipv4: config.enable_ipv4, ipv6: config.enable_ipv6 };
    let health_listeners = answers.then(|| HealthPorts::start(families)).transpose()?;
    let health_listeners = health_listeners.map(|ports| Rc::new(ports) as _);
    let (notices, notified) = told_of_start().context("a way to who listens to records")?;
    let health = NodeHealth::of(&config, &boot.node)?;
    let runtime = config.container_runtime_endpoint.socket().map(Containerd::start).transpose()?;
    let container_runtime = runtime.map(|runtime| Rc::new(runtime) as _);
    let ports = Ports {
        kernel: Rc::clone(&kernel) as _,
        disk: Rc::clone(&disk) as _,
        kvstore,
        cluster,
        clusters,
        health_listeners,
        health_places: health.clone().map(|health| Rc::new(health) as _),
        probes: health.map(|health| Rc::new(health) as _),
        container_runtime,
        notices: Some(notices),
    };
    actix::spawn(wait_cycles::watch(host.clone()));
    watchdog::watch(&host.beat()).context("start the watchdog's thread")?;
    let inheritance = Inheritance {
        identities: boot.identities.value.take().unwrap_or_default(),
        identities_generation: boot.identities.generation,
        kernel: mem::take(&mut boot.kernel),
    };
    let remembered = Remembered::read(&config.lib_dir.join(remembered::FILE));
    let mut settings = settings::node_supervisor(&config, &boot.node)?;
    remembered.tell(&mut settings);
    let publish = settings.publish.clone();
    if boot.awaited.is_some() {
        // A node of which half is known is not told of, nor does it take up or give back prefixes.
        (settings.publish, settings.follow.pod_pools) = (None, None);
        settings.health_endpoint = None;
    }
    let node_supervisor = NodeSupervisor::spawn(&host, &ports, settings, &inheritance);
    actix::spawn(remember(node_supervisor.clone(), Rc::clone(&disk), remembered));

    let (gateway, errands) = gateway();
    let (opener, opening) = api::opening();
    let ears = Ears::default();
    spans.end(Scope::DaemonInit, spawning, true);
    let serving = SystemClock.now();
    let servers =
        Servers::start(&config, &boot, gateway, host.beat(), opening, ears.clone(), notified)?;
    spans.end(Scope::InitApi, serving, true);
    spans.end_from_start(Scope::InitDaemon, true);
    spans.follow(&node_supervisor);
    let recording = boot.recording.view();
    let started = Started { recording, disk, kernel, store, servers };

    // All actors live; next they are told what there is.
    let evidence = Evidence::at(&config.run_dir);
    let past = past_life(&boot, &evidence);
    let (manifests, first) =
        boot.manifests.map_or_else(Default::default, |(watched, first)| (Some(watched), first));
    // A cluster says all there is itself.
    match &config.static_cnp_path {
        Some(dir) if follows => {
            tracing::warn!(dir = %dir.display(), "manifests are not read: a cluster is followed");
        }
        _ if follows => {}
        _ => hand_out(&node_supervisor, first).await,
    }
    let facts = FactsWatch::new(&config, boot.node.own, boot.node.mtu);
    actix::spawn(follow_links(node_supervisor.clone(), facts, ears.clone()));
    actix::spawn(follow_signals(node_supervisor.clone(), config.bpf_root.clone(), ears.clone()));
    if let Some(manifests) = manifests {
        actix::spawn(follow(node_supervisor.clone(), manifests, ears));
    }
    let input = RestoreInput {
        disk: boot.found,
        kernel: inheritance.kernel,
        identities: inheritance.identities,
        router: boot.node.router,
        options: Arc::new(settings::options(&config)),
        keep_options: config.keep_config,
        host: config.enable_host_firewall,
        health: config.health.has_endpoint().then_some(boot.node.health.0),
        enabled: config.restore,
        phases: boot.phases.iter().map(in_seconds).collect(),
        problems: boot.problems,
    };
    let awaited = boot.awaited.take().zip(publish);
    let hearing =
        hear(config.clone(), awaited.clone(), node_supervisor.host.clone(), opener.clone());
    let then = awaited.is_none().then_some((opener, config, spans));
    actix::spawn(open(node_supervisor.clone(), input, queue, then, (evidence, past, sparing)));

    // Questions from other threads are not one task among the endpoints': while thousands of
    // messages wait, this future is looked at every few dozen.
    let mut errands = pin!(errands.run(node_supervisor));
    let under_way = UnderWay::default();
    let signals = Signals::listen(STOP_MAX, under_way.clone())?;
    let name = tokio::select! {
        name = signals.first() => name?,
        // As sudden as a death, and as harmless: who waits for an answer asks the next run.
        heard = hearing => return Err(node_information::begin_anew(heard?)),
        () = &mut errands => bail!("nobody is left who could ask the agent anything"),
    };
    tracing::info!(signal = name, "agent ends; the datapath goes on");
    tokio::select! {
        () = started.hooks().stop(under_way) => {}
        // Who asked before is answered.
        () = async { errands.await; pending().await } => {}
    }
    Ok(())
}

/// Hears from the cluster which prefixes pods have here; for ever if nobody waits for that.
async fn hear(
    config: Config,
    awaited: Option<(Awaited, PublishSettings)>,
    host: Host,
    opener: Opener,
) -> anyhow::Result<Pools> {
    let Some((awaited, publish)) = awaited else { return pending().await };
    // Shown by `volvox why` like any other wait.
    let mut shown = host.await_port("cluster", HEAR_PATIENCE, "the prefixes of this node's pods");
    let tell = |what: String| {
        if opener.awaits(&what) {
            shown = host.await_port("cluster", HEAR_PATIENCE, what);
        }
    };
    let heard = node_information::hear(&config, awaited, &publish, tell).await;
    drop(shown);
    heard
}

/// Restores; then takes up what was to be deleted meanwhile, and lets new pods come, if they may.
async fn open(
    node_supervisor: NodeSupervisor,
    input: RestoreInput,
    queue: Option<Exclusive>,
    then: Option<(Opener, Config, Spans)>,
    (evidence, mut life, sparing): (Evidence, PastLife, Option<Sparing>),
) {
    // Programs of an earlier run serve at the devices from the start.
    let is_first = input.kernel.endpoints.is_empty();
    let opened = node_supervisor.host.outside("start", || {
        node_supervisor.host.ask(
            &node_supervisor.restore,
            OPEN_PATIENCE,
            "restored endpoints",
            |reply| RestoreMsg::Begin { input: Box::new(input), reply },
        )
    });
    if let Err(error) = opened.await {
        tracing::error!(%error, "restoring did not begin");
    }
    resident::give_back();
    // Who is lost is known by now, and soon nothing will be left of them.
    note(&node_supervisor, &evidence, &mut life).await;
    actix::spawn(follow_restore(node_supervisor.clone(), evidence, life, sparing));
    if let Some(queue) = queue {
        queued_deletions::carry_out(&node_supervisor, &queue).await;
    }
    let Some((opener, config, spans)) = then else { return };
    if is_first {
        let since = SystemClock.now();
        let attached = await_devices(&node_supervisor).await;
        spans.end(Scope::BpfBase, since, attached);
    }
    opener.open();
    spans.end_from_start(Scope::Overall, true);
    if let Some(path) = &config.cni.write_cni_conf_when_ready {
        cni_configuration::keep(&config, path);
    }
    tracing::info!(socket = %config.socket_path.display(), "agent is ready for new pods");
}

/// Waits until programs run at the node's devices: what a pod sends before would leave with its own
/// address. Whether they do.
async fn await_devices(node_supervisor: &NodeSupervisor) -> bool {
    let attached = node_supervisor.host.outside("start", || {
        let why = "programs at the node's devices";
        node_supervisor.host.ask(
            &node_supervisor.devices,
            DEVICES_PATIENCE,
            why,
            DevicesMsg::AtRest,
        )
    });
    let attached = attached.await;
    if let Err(error) = &attached {
        tracing::warn!(%error, "new pods come before programs run at the node's devices");
    }
    attached.is_ok()
}

/// This life, as later ones will know it.
fn past_life(boot: &Boot, evidence: &Evidence) -> PastLife {
    let birth = boot.recording.birth();
    PastLife {
        // Without a flight recorder nobody counts them.
        number: match birth.life {
            0 => evidence.lives().last().map_or(1, |last| last + 1),
            number => number,
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: boot_id(),
        started_unix_ns: SystemClock.wall(),
        report: Arc::default(),
    }
}

/// Keeps how this life restores, as often as there is news of it, until that is final.
async fn follow_restore(
    node_supervisor: NodeSupervisor,
    evidence: Evidence,
    mut life: PastLife,
    sparing: Option<Sparing>,
) {
    let mut pause = NOTE_FIRST;
    while !life.report.finished {
        tokio::time::sleep(pause).await;
        note(&node_supervisor, &evidence, &mut life).await;
        pause = NOTE_EVERY.min(pause * 2);
    }
    drop(sparing);
    resident::give_back();
    actix::spawn(resident::keep_giving_back());
    let tidied = tokio::task::spawn_blocking(move || evidence.tidy()).await;
    if let Ok(Err(error)) = tidied {
        tracing::warn!(%error, "records of earlier lives take more room than they should");
    }
}

/// Keeps how this life restores, if there is news of it.
async fn note(node_supervisor: &NodeSupervisor, evidence: &Evidence, life: &mut PastLife) {
    let report = node_supervisor.host.outside("evidence", || {
        let why = "how restoring goes, to be kept";
        node_supervisor.host.ask(&node_supervisor.restore, OPEN_PATIENCE, why, RestoreMsg::Report)
    });
    let Ok(report) = report.await else { return };
    if life.report == report {
        return;
    }
    life.report = report;
    let (to, noted) = (evidence.clone(), life.clone());
    let written = tokio::task::spawn_blocking(move || to.note(&noted)).await;
    if let Ok(Err(error)) = written {
        tracing::warn!(%error, "what this life restores is not kept for later ones");
    }
}

/// Tells who keeps policies, services and pods what the directory of manifests says; whose mailbox is
/// full, again until he has heard it.
async fn hand_out(node_supervisor: &NodeSupervisor, manifests: Vec<Manifest>) {
    let mut names: Vec<_> = manifests.iter().map(|it| it.source.as_str()).collect();
    let more = names.split_off(names.len().min(NAMED_MAX)).len();
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let what = format!("manifests: {}{and_more}", names.join(" "));
    let mut pods = Some(WorkloadsMsg::Manifests(manifests.clone()));
    let mut services = Some(ServicesMsg::Manifests(manifests.clone()));
    let mut policies = Some(PolicyMsg::Manifests(manifests));
    loop {
        node_supervisor.host.outside(&what, || {
            tell(&node_supervisor.workloads, &mut pods);
            tell(&node_supervisor.services, &mut services);
            tell(&node_supervisor.policy, &mut policies);
        });
        if pods.is_none() && services.is_none() && policies.is_none() {
            return;
        }
        tokio::time::sleep(RETELL_AFTER).await;
    }
}

/// Tells somebody what is untold; it stays so if the mailbox is full.
fn tell<M: Message>(to: &Ref<M>, untold: &mut Option<M>) {
    if let Some(Err(Full { msg, gone: false })) = untold.take().map(|msg| to.tell(msg)) {
        *untold = Some(msg);
    }
}

async fn follow(node_supervisor: NodeSupervisor, manifests: Manifests, ears: Ears) {
    match Watch::start(manifests) {
        Ok(mut watch) => {
            ears.connect(MANIFESTS, node_supervisor.host.now());
            while let Some(changes) = watch.next().await {
                ears.hear(MANIFESTS, node_supervisor.host.now());
                hand_out(&node_supervisor, changes).await;
            }
        }
        Err(error) => {
            tracing::error!(%error, "manifests are read once and not again");
            ears.lose(MANIFESTS, error.to_string());
        }
    }
    pending().await
}

/// Has the node looked at when something changes at its interfaces.
async fn follow_links(node_supervisor: NodeSupervisor, mut facts: FactsWatch, ears: Ears) {
    let mut watch = match LinkWatch::start(POD_INTERFACES) {
        Ok(watch) => watch,
        Err(error) => {
            ears.lose(INTERFACES, error.to_string());
            return tracing::error!(%error, "changes of interfaces are seen by the clock only");
        }
    };
    ears.connect(INTERFACES, node_supervisor.host.now());
    // What changed between the start and now was not heard. Endpoints that come back go first.
    tokio::time::sleep(SETTLED_AFTER).await;
    let mut notices = Notices { node: true, ..Notices::default() };
    loop {
        let of_node = notices.node || notices.all;
        node_supervisor.host.outside("interfaces changed", || hand_on(&node_supervisor, notices));
        if of_node && let Some(changed) = facts.look().await {
            node_supervisor.host.outside("the node changed", || node_supervisor.node_is(&changed));
        }
        match watch.next().await {
            Some(next) => notices = next,
            None => break,
        }
        ears.hear(INTERFACES, node_supervisor.host.now());
    }
    ears.lose(INTERFACES, "the kernel's notices cannot be read".to_owned());
}

/// Has those look whom it concerns. Who does not hear of it looks by the clock.
fn hand_on(node_supervisor: &NodeSupervisor, notices: Notices) {
    let Notices { all, node, routing, .. } = notices;
    let of_pods = all || !notices.links.is_empty() || !notices.addresses.is_empty();
    let heard = [
        !(all || routing) || node_supervisor.routes.tell(RoutesMsg::Disturbed).is_ok(),
        !(all || node) || node_supervisor.node.tell(NodeMsg::Changed).is_ok(),
        !of_pods || node_supervisor.endpoints.tell(EndpointsMsg::Disturbed(notices)).is_ok(),
    ];
    if heard.contains(&false) {
        tracing::warn!("what changed at interfaces and routes is looked at within a minute");
    }
}

/// Has dead connections collected when the datapath finds no room.
async fn follow_signals(node_supervisor: NodeSupervisor, bpf_root: PathBuf, ears: Ears) {
    let mut watch = match SignalWatch::start(&bpf_root) {
        Ok(watch) => watch,
        Err(error) => {
            ears.lose(FULL_TABLES, error.to_string());
            return tracing::error!(%error, "dead connections are collected by the clock only");
        }
    };
    ears.connect(FULL_TABLES, node_supervisor.host.now());
    while let Some((table, families)) = watch.next().await {
        ears.hear(FULL_TABLES, node_supervisor.host.now());
        node_supervisor.host.outside("no room", || {
            let full = ConntrackMsg::Full { table, families };
            if let Err(refused) = node_supervisor.conntrack.tell(full) {
                tracing::warn!(%refused, "the next signal has dead connections collected");
            }
        });
    }
}

fn in_seconds(phase: &Phase) -> (String, f64) {
    (phase.name.to_owned(), phase.ended.since(phase.started).as_secs_f64())
}
