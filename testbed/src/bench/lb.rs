//! Services: from a cluster's objects to real maps, one of them changed, and a restart with all of
//! them while no API server answers.

use std::{
    fs,
    net::Ipv4Addr,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_actors::{
    host::{ActixDriver, Host, NoRecorder, Ref},
    model::{Families, Feed, drift::DriftWatch},
    ports::{InOrder, ObjectKey},
    services::service_cache::{
        Balancing, ClusterObject, ServiceSource, Services, ServicesMsg, ServicesSettings,
        ServicesStatus,
    },
};
use volvox_agent::datapath::{Datapath, DatapathConfig, KernelPort, MapSizes};
use volvox_bpf_progs::Features;
use volvox_system::{SystemClock, sysctl::Sysctl};

use super::{Figure, Options, Unit, nat};
use crate::{
    lab::{Binaries, Metrics, Node},
    progress::Progress,
};

/// Rows of each map: a service of one backend takes three of the first, one for all ports that it has not.
const ROOM: u32 = 262_144;
/// How long the owner of services may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often one service is changed in a round.
const CHANGES: u32 = 50;
/// How many services are told at once where memory is measured.
const PAGE: usize = 500;
/// Capacity of the owner's mailbox, as in an agent.
const MAILBOX: usize = 131_072;
/// The lab's BPF file system.
const ROOT: &str = "/sys/fs/bpf";
/// Series of what was written to the kernel, and the label of its objects.
const WRITES: &str = "volvox_kernel_writes_total";
const OF_SERVICES: &str = "object=\"services\"";
/// How to reach an API server that is not there.
const NOBODY: &str = r#"{
    "apiVersion": "v1", "kind": "Config", "current-context": "c",
    "clusters": [{ "name": "c", "cluster": { "server": "http://127.0.0.1:1" } }],
    "users": [{ "name": "u", "user": {} }],
    "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }]
}"#;

/// Fills the maps again and again, then restarts with them.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let count = options.services;
    let translations = nat::run(options)?;
    let mut memory = Figure::new("lb.memory", Unit::Bytes).below(1024.0);
    memory.push(lived(async |owner| owner.fill_by_pages(count).await)?);
    let mut sync = Figure::new("lb.sync", Unit::Seconds);
    if count == 50_000 {
        sync = sync.below(0.7);
    }
    let mut change = Figure::new("lb.change", Unit::Seconds).below(0.001);
    progress.rounds("filling maps", options.rounds.into(), |_| {
        lived(async |owner| {
            sync.push_time(owner.fill(count).await?);
            for nth in 0..CHANGES {
                change.push_time(owner.change(nth * (count / CHANGES)).await?);
            }
            Ok(())
        })
    })?;
    let restore = restart(options, &progress)?;
    Ok([sync, change, memory].into_iter().chain(restore).chain(translations).collect())
}

/// Makes the maps anew, and has an owner of services live for that work. The maps stay.
fn lived<T>(work: impl AsyncFnOnce(Owner) -> Result<T>) -> Result<T> {
    let root = PathBuf::from(ROOT);
    for directory in ["tc", "cilium"] {
        // Of a life before.
        let _ = fs::remove_dir_all(root.join(directory));
    }
    let datapath = Arc::new(Datapath::open(&DatapathConfig {
        bpf_root: root,
        features: Features::default(),
        sizes: MapSizes { lb: ROOM, ..MapSizes::default() },
        sockets: None,
        tcx: true,
        end_tcp: false,
        take_over: None,
        sysctl: Sysctl::default(),
    })?);
    let found = datapath.snapshot_at_boot()?.services;
    actix::System::new().block_on(async move {
        let driver = Rc::new(ActixDriver::default());
        let host = Host::new(Rc::new(SystemClock), driver, Box::new(NoRecorder));
        let port = Rc::new(KernelPort::start(&datapath, &host)?);
        let settings = ServicesSettings {
            node: "node".to_owned(),
            families: Families::DUAL,
            balancing: Balancing::default(),
            ends_tcp: false,
            sources: [ServiceSource::Cluster].into(),
        };
        let kernel = Rc::new(InOrder::new(port, &host));
        let services =
            Services::factory(kernel, settings, found, None, None, DriftWatch::default());
        let services = host.spawn("services".to_owned(), MAILBOX, services);
        // The node's own addresses, for which ports that services do not serve are its own.
        let own = ServicesMsg::HostAddresses([[192, 0, 2, 1].into()].into());
        services.tell(own).ok().context("the mailbox is full")?;
        work(Owner { services, host, datapath }).await
    })
}

/// The owner of services, to be told what a cluster says.
struct Owner {
    services: Ref<ServicesMsg>,
    host: Host,
    datapath: Arc<Datapath>,
}

impl Owner {
    fn tell(&self, objects: Vec<ClusterObject>) -> Result<()> {
        let objects = ServicesMsg::Objects { feed: Feed::Services, objects };
        self.services.tell(objects).ok().context("the mailbox is full")
    }

    /// How many rows of services were written.
    fn written(&self) -> u64 {
        let counts = self.datapath.writes().counts();
        counts.iter().find(|(name, _)| *name == "services").map_or(0, |(_, count)| *count)
    }

    /// Waits until all that was said is in the kernel.
    async fn rest(&self) -> Result<ServicesStatus> {
        loop {
            let status =
                self.host.ask(&self.services, PATIENCE, "the bench", ServicesMsg::Show).await?;
            ensure!(status.last_error.is_none() && status.problems.is_empty(), "{status:?}");
            if status.unread + status.open == 0 {
                return Ok(status);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn has(&self, count: u32) -> Result<()> {
        let status = self.rest().await?;
        let (frontends, backends) = (status.frontends, status.backends);
        ensure!(
            frontends == count as usize && backends == count as usize,
            "{frontends} frontends and {backends} backends of {count}"
        );
        Ok(())
    }

    /// Tells all at once, as a cluster's first list comes; how long it took to the last row.
    async fn fill(&self, count: u32) -> Result<Duration> {
        let all = (0..count).flat_map(|nth| [service(nth), slice(nth, 0)]).collect();
        let begun = Instant::now();
        self.tell(all)?;
        self.has(count).await?;
        Ok(begun.elapsed())
    }

    /// Tells all in small pieces, so that the objects themselves take no memory; how many bytes each
    /// service takes.
    async fn fill_by_pages(&self, count: u32) -> Result<f64> {
        let before = resident()?;
        for first in (0..count).step_by(PAGE) {
            let page = first..count.min(first + PAGE as u32);
            self.tell(page.flat_map(|nth| [service(nth), slice(nth, 0)]).collect())?;
            self.rest().await?;
        }
        self.has(count).await?;
        Ok((resident()? - before) / f64::from(count))
    }

    /// Gives one service another backend; how long it took to the last row.
    async fn change(&self, nth: u32) -> Result<Duration> {
        let (one, before) = (vec![slice(nth, 1)], self.written());
        let begun = Instant::now();
        self.tell(one)?;
        self.rest().await?;
        let took = begun.elapsed();
        // A backend, whose it is, a slot, and both of one that goes.
        let rows = self.written() - before;
        ensure!(rows >= 5, "a change wrote {rows} rows");
        Ok(took)
    }
}

/// Memory that this process has, bytes.
fn resident() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let row = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: Option<f64> =
        row.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok());
    Ok(1024.0 * kilobytes.context("the kernel does not say what this process has")?)
}

fn key(nth: u32) -> ObjectKey {
    ObjectKey { namespace: format!("shop-{}", nth / 1000), name: format!("service-{nth}") }
}

fn service(nth: u32) -> ClusterObject {
    let ObjectKey { namespace, name } = key(nth);
    let address = Ipv4Addr::from_bits(0x0a60_0000 + nth);
    let value = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": namespace, "name": name, "labels": { "app": name } },
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address],
            "selector": { "app": name }, "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ports": [{ "name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080 }],
        },
    });
    ("services", key(nth), Some(value.into()))
}

/// The slice of a service, whose backend is on the network of that number.
fn slice(nth: u32, network: u32) -> ClusterObject {
    let ObjectKey { namespace, name } = key(nth);
    let address = Ipv4Addr::from_bits(0x0a80_0000 + (network << 20) + nth);
    let slice = ObjectKey { name: format!("{name}-x7k2p"), namespace: namespace.clone() };
    let value = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": slice.name,
            "labels": { "kubernetes.io/service-name": name },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "protocol": "TCP", "port": 8080 }],
        "endpoints": [{
            "addresses": [address], "nodeName": format!("node-{}", nth % 100),
            "conditions": { "ready": true, "serving": true, "terminating": false },
        }],
    });
    ("endpointslices", slice, Some(value.into()))
}

/// Has a real agent find all of that in the maps while its API server is away: how long it takes
/// until its API answers, which it does when all numbers are reserved, and what it wrote.
fn restart(options: &Options, progress: &Progress) -> Result<Vec<Figure>> {
    let mut ready = Figure::new("lb.restore", Unit::Seconds);
    if options.services == 50_000 {
        ready = ready.below(0.3);
    }
    let mut writes = Figure::new("lb.restore_writes", Unit::Count).zero();
    let mut lost = Figure::new("lb.restore_lost", Unit::Count).zero();
    let mut node = Node::new(Binaries::find()?)?;
    let kubeconfig = node.path("nobody.kubeconfig");
    fs::write(&kubeconfig, NOBODY)?;
    node.set_flag("bpf-lb-map-max", Some(&ROOM.to_string()));
    node.set_flag("k8s-kubeconfig-path", Some(&kubeconfig.display().to_string()));
    // The first life loads the node's programs, which those after it find.
    node.exec_agent()?;
    node.wait_for_api()?;
    node.kill_agent()?;
    progress.rounds("restarting", options.rounds.into(), |_| {
        node.exec_agent()?;
        ready.push_time(node.wait_for_api()?);
        let metrics = Metrics::scrape(node.rest())?;
        let written = metrics.family(WRITES).find(|(labels, _)| labels.contains(OF_SERVICES));
        writes.push(written.context("the agent does not count what it writes")?.1);
        let services: Vec<Value> = node.rest().get("/service")?;
        lost.push_count(u64::from(options.services) - services.len() as u64);
        node.kill_agent()
    })?;
    Ok(vec![ready, writes, lost])
}
