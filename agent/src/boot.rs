//! Everything that is read before an actor lives: the disk on one thread, the kernel on another.

mod another_node;
mod datapath_config;
mod parts;
mod pools;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
    sync::Arc,
    thread,
};

use another_node::{pods_addresses, whose};
pub use datapath_config::datapath_config;
use ipnet::{Ipv4Net, Ipv6Net};
pub use pools::FoundPools;
use volvox_actors::{
    endpoints::ipam::Pools,
    host::{Clock, Time},
    model::{Addresses, EndpointId, Manifest},
    ports::{HOST_DEVICE, HOST_PEER, KernelSnapshot, Link, OVERLAY},
    state_directory::{
        EndpointRecord, HealthRecord, IdentityTable, NodeCopy, NodeState, PoolRecord,
        ScannedDirectory, Stored, scan,
    },
};
use volvox_inspect::flight::Recording;
use volvox_system::{SystemClock, netns, sysctl::Sysctl};

use crate::{
    config::{Config, Ipam},
    datapath::{Datapath, Inheritance},
    node_address::{self, Expected, Ways, is_reachable},
    node_health::Place,
    node_information::{self, Expected as ExpectedPrefixes},
    node_name::node_name,
    ports::{Directories, DiskFiles, files::Look, hold_bpf, manifests::Manifests},
    spans::Spans,
    takeover,
};

/// Maximum transmission unit of a node of whose devices none says it, bytes.
const MTU: u32 = 1500;

/// Interfaces whose names begin so are pods'.
pub const POD_INTERFACES: &str = "lxc";

/// What the run before left, and what the world says now.
pub struct Boot {
    /// The state and library directories, held against any other agent.
    pub directories: Directories,
    /// The BPF file system, held against any other agent.
    pub bpf_root: Option<File>,
    /// Maps and programs.
    pub datapath: Arc<Datapath>,
    /// What the kernel holds.
    pub kernel: KernelSnapshot,
    /// What the state directory holds.
    pub found: ScannedDirectory,
    /// Numbers of identities.
    pub identities: Stored<IdentityTable>,
    /// The node's own numbers.
    pub node: NodeNumbers,
    /// Prefixes that are to be heard from the cluster before new pods can come, and those of an
    /// earlier life, should nobody answer.
    pub awaited: Option<(ExpectedPrefixes, Option<Pools>)>,
    /// The directory of manifests, if there is one, and what it says.
    pub manifests: Option<(Manifests, Vec<Manifest>)>,
    /// Phases that have ended.
    pub phases: Vec<Phase>,
    /// The same and what follows, as Cilium cuts a start.
    pub spans: Spans,
    /// The flight recorder's ring.
    pub recording: Recording,
    /// What went wrong and did not stop the start.
    pub problems: Vec<String>,
}

/// A part of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What was done.
    pub name: &'static str,
    /// From then.
    pub started: Time,
    /// Till then.
    pub ended: Time,
}

impl Phase {
    /// One that began then and ends now.
    fn since(name: &'static str, started: Time) -> Self {
        Self { name, started, ended: SystemClock.now() }
    }
}

/// Addresses of this node and of its pods.
#[derive(Clone, Debug, Default)]
pub struct NodeNumbers {
    /// Pool of IPv4 addresses, if the family is on.
    pub ipv4_range: Option<Ipv4Net>,
    /// Pool of IPv6 addresses, if the family is on.
    pub ipv6_range: Option<Ipv6Net>,
    /// The address that pods route through.
    pub router: Addresses,
    /// By which other nodes reach this one.
    pub own: Addresses,
    /// The largest packet that its own devices take, bytes.
    pub mtu: u32,
    /// What it had of several pools.
    pub pools: FoundPools,
    /// Addresses that its health endpoint had, and which writing that was.
    pub health: (Addresses, u32),
}

struct Disk {
    directories: Directories,
    found: ScannedDirectory,
    identities: Stored<IdentityTable>,
    node: Stored<NodeState>,
    copy: Stored<NodeCopy>,
    pools: Stored<PoolRecord>,
    health: Stored<HealthRecord>,
    manifests: Option<(Manifests, Vec<Manifest>)>,
    netns_cookies: BTreeMap<EndpointId, u64>,
    problems: Vec<String>,
    recording: Recording,
    phase: Phase,
}

impl Boot {
    /// Reads everything. Fails only where nothing can be served at all.
    pub fn read(config: &Config) -> anyhow::Result<Self> {
        let started = SystemClock.now();
        let directories = Directories::hold(&config.run_dir, &config.lib_dir)?;
        let bpf_root = hold_bpf(&config.bpf_root)?;
        let take_over = takeover::begin(config)?;
        sysctl(config).enable_forwarding(config.enable_ipv4, config.enable_ipv6)?;
        let claimed = Phase::since("claim directories", started);
        if !config.health.has_endpoint() {
            // Before the kernel is read: what is left of its endpoint is nobody's.
            if let Err(error) = Place::of(&config.run_dir, &config.procfs).remove() {
                tracing::warn!(%error, "a health endpoint is left that nobody wants");
            }
        }
        let (mut disk, kernel) = thread::scope(|scope| {
            let disk = scope.spawn(|| read_disk(config, directories, started));
            let kernel = read_kernel(config, take_over);
            let disk = disk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (disk, kernel)
        });
        let (datapath, mut kernel) = kernel?;
        kernel.netns_cookies = mem::take(&mut disk.netns_cookies);
        let read = Phase::since("open maps, read kernel", claimed.ended);
        let phases = vec![claimed, disk.phase, read];
        let mut problems = mem::take(&mut disk.problems);
        if let Some(node) = whose(disk.node.value.as_ref(), &disk.found, &kernel) {
            problems.push(format!(
                "the state directory is of node {node}: its records are put aside, and its \
                 prefixes are not used"
            ));
            disk.found.is_of_another(&node);
            disk.node.value = None;
        }
        let mut pools = FoundPools::of(disk.pools, &kernel);
        let (before, copy) = before((&disk.node, &disk.copy), &pools, &kernel);
        let (own, lasting) = node_address(config, &kernel, before.address)?;
        let known = Pools { ipv4: before.ipv4_range, ipv6: before.ipv6_range };
        let heard = node_information::heard();
        let expected = match heard {
            Some(_) => None,
            None => ExpectedPrefixes::of(config, known)?,
        };
        let said = heard.unwrap_or_default();
        pools.trusted = heard.is_none();
        let mut node = number(config, &disk.found, &kernel, &before, (said, expected), own);
        node.pools = pools;
        node.health = health_before(config, &disk.health, &node);
        // Half of it would be taken for all by the next start.
        if expected.is_none() {
            let persisted = (&disk.node, &disk.copy);
            save_node(&disk.directories, persisted, (&before, &node, lasting), &mut problems);
            datapath.set_router(node.router, Default::default())?;
        }
        let awaited = expected.map(|expected| (expected, copy));
        Ok(Self {
            directories: disk.directories,
            bpf_root,
            datapath: Arc::new(datapath),
            kernel,
            found: disk.found,
            identities: disk.identities,
            node,
            awaited,
            manifests: disk.manifests,
            phases,
            spans: Spans::of(started),
            recording: disk.recording,
            problems,
        })
    }
}

/// The node's network parameters.
fn sysctl(config: &Config) -> Sysctl {
    Sysctl::at(config.procfs.join("sys/net"))
}

fn read_disk(config: &Config, directories: Directories, started: Time) -> Disk {
    let began = SystemClock.now();
    let recording = recording(config, started);
    let files = DiskFiles::new(&directories.steps);
    let mut problems: Vec<String> = directories.trouble.iter().map(ToString::to_string).collect();
    let found = scan(&files);
    let identities = IdentityTable::load(&files);
    let node = NodeState::SLOTS.load(&files);
    let copy = NodeCopy::SLOTS.load(&files);
    let pools = PoolRecord::SLOTS.load(&files);
    let torn = identities.errors.iter().chain(&node.errors).chain(&copy.errors);
    let health = HealthRecord::SLOTS.load(&files);
    let torn = torn.chain(&pools.errors).chain(&health.errors);
    problems.extend(torn.map(ToString::to_string));
    keep_unread(
        &directories,
        &found,
        [
            ("lib/identities", identities.is_unread()),
            ("node", node.is_unread()),
            ("lib/node", copy.is_unread()),
            ("lib/pools", pools.is_unread()),
            ("lib/health", health.is_unread()),
        ],
    );
    let dir = config.static_cnp_path.as_ref().filter(|_| config.api_server().is_none());
    let manifests = dir.map(|dir| {
        let mut manifests = Manifests::new(dir);
        let first = manifests.look(&Look::All);
        (manifests, first)
    });
    let netns_cookies = netns_cookies(&found);
    let phase = Phase::since("read state directory", began);
    Disk {
        directories,
        found,
        identities,
        node,
        copy,
        pools,
        health,
        manifests,
        netns_cookies,
        problems,
        recording,
        phase,
    }
}

/// What could not be read is not written over: the next start may read it.
fn keep_unread(directories: &Directories, found: &ScannedDirectory, files: [(&str, bool); 5]) {
    let unread = directories.steps.unread();
    found.unread.keys().for_each(|id| unread.keep(id.to_string()));
    files.iter().filter(|(_, is_unread)| *is_unread).for_each(|(name, _)| unread.keep(*name));
    if found.unlisted.is_some() {
        unread.keep_all();
    }
}

/// What the run before knew, and the prefixes of a copy that is not to be trusted unasked.
///
/// The copy takes the place of a state directory that was lost if pods are here that have addresses
/// of it: no number of theirs may move. Without any, the cluster may have given the prefix away.
fn before(
    (node, copy): (&Stored<NodeState>, &Stored<NodeCopy>),
    pools: &FoundPools,
    kernel: &KernelSnapshot,
) -> (NodeState, Option<Pools>) {
    if let Some(before) = &node.value {
        return (before.clone(), None);
    }
    let Some(copy) = copy.value.as_ref().filter(|copy| copy.node == node_name()) else {
        return Default::default();
    };
    let gave = copy.state.gave(pods_addresses(kernel)) || pools.gave(pods_addresses(kernel));
    if node.is_unread() || gave {
        return (copy.state.clone(), None);
    }
    let NodeState { ipv4_range, ipv6_range, .. } = copy.state;
    (NodeState::default(), Some(Pools { ipv4: ipv4_range, ipv6: ipv6_range }))
}

/// Cookies of the network namespaces of those whose record has one to compare with.
///
/// Each costs a quarter of a millisecond, for its namespace is entered: it is read only where the
/// interface's own Ethernet address does not say already whose it is, or two records claim one
/// interface or address.
fn netns_cookies(found: &ScannedDirectory) -> BTreeMap<EndpointId, u64> {
    let records = || found.records.iter().map(|found| &found.record);
    let (mut interfaces, mut addresses) = (BTreeMap::new(), BTreeMap::new());
    for record in records() {
        *interfaces.entry(record.ifindex).or_insert(0) += 1;
        for address in addresses_of(record) {
            *addresses.entry(address).or_insert(0) += 1;
        }
    }
    let in_doubt = |record: &EndpointRecord| {
        record.node_mac.is_zero()
            || interfaces[&record.ifindex] > 1
            || addresses_of(record).any(|address| addresses[&address] > 1)
    };
    let asked = records().filter(|record| record.netns_cookie != 0 && in_doubt(record));
    netns::cookies(asked.filter_map(|record| {
        let path = Path::new(&record.container_netns_path);
        // The number of a process may be another one's by now.
        let lasts = path.is_absolute() && !path.starts_with("/proc");
        lasts.then_some((record.id, path))
    }))
}

fn addresses_of(record: &EndpointRecord) -> impl Iterator<Item = IpAddr> + use<> {
    let (ipv4, ipv6) = (record.ipv4.map(IpAddr::from), record.ipv6.map(IpAddr::from));
    ipv4.into_iter().chain(ipv6)
}

/// The flight recorder's ring, and the one of the run before put aside.
fn recording(config: &Config, started: Time) -> Recording {
    match config.flight_recorder {
        true => Recording::begin(&config.run_dir, config.flight_recorder_size, started),
        false => Recording::off(&config.run_dir),
    }
}

fn read_kernel(
    config: &Config,
    take_over: Option<Inheritance>,
) -> anyhow::Result<(Datapath, KernelSnapshot)> {
    let datapath = Datapath::open(&datapath_config(config, take_over)?)?;
    let snapshot = datapath.snapshot_at_boot()?;
    Ok((datapath, snapshot))
}

/// Interfaces that are neither pods' nor made by an agent.
pub fn own_links(links: &BTreeMap<u32, Link>) -> impl Iterator<Item = &Link> {
    let made = [OVERLAY, HOST_DEVICE, HOST_PEER];
    links.values().filter(move |link| {
        !link.name.starts_with(POD_INTERFACES) && !made.contains(&link.name.as_str())
    })
}

/// Addresses of the node itself.
fn own_addresses(kernel: &KernelSnapshot) -> impl Iterator<Item = IpAddr> {
    own_links(&kernel.links).flat_map(|link| link.addresses.iter().map(ipnet::IpNet::addr))
}

/// The largest packet that all of the node's devices take by which it can be reached, bytes.
pub fn own_mtu(links: &BTreeMap<u32, Link>) -> u32 {
    let reached = own_links(links).filter(|link| {
        let mut addresses = link.addresses.iter().map(ipnet::IpNet::addr);
        link.up && link.name != "lo" && addresses.any(|it| is_reachable(&it))
    });
    reached.map(|link| link.mtu).filter(|mtu| *mtu > 0).min().unwrap_or(MTU)
}

/// By which other nodes reach it, and what of that the next run is to keep.
fn node_address(
    config: &Config,
    kernel: &KernelSnapshot,
    before: Addresses,
) -> anyhow::Result<(Addresses, Addresses)> {
    let expected = Expected { ipv4: config.ipv4_node, ipv6: config.ipv6_node };
    let links: Vec<&Link> = own_links(&kernel.links).collect();
    let ways = Ways::read()?;
    let own = node_address::choose(expected, before, &links, &ways)?;
    Ok((own, ways.lasting(own, before)))
}

/// The ranges and the router address: those of the run before, then what the cluster said, unless
/// flags say otherwise. There is none of a range that the cluster is yet to say.
fn number(
    config: &Config,
    found: &ScannedDirectory,
    kernel: &KernelSnapshot,
    before: &NodeState,
    (said, awaited): (Pools, Option<ExpectedPrefixes>),
    own: Addresses,
) -> NodeNumbers {
    let node_ipv4 = own.ipv4.unwrap_or(Ipv4Addr::LOCALHOST);
    let (known4, known6) = (before.ipv4_range.or(said.ipv4), before.ipv6_range.or(said.ipv6));
    let kept4 = known4.filter(|_| config.ipv4_range == crate::config::Range::Auto);
    let kept6 = known6.filter(|_| config.ipv6_range == crate::config::Range::Auto);
    let (later4, later6) =
        awaited.map_or((false, false), |expected| (expected.ipv4, expected.ipv6));
    let ipv4_range = (config.enable_ipv4 && !later4)
        .then(|| kept4.unwrap_or_else(|| config.ipv4_range.or_auto(node_ipv4)));
    let ipv6_range = (config.enable_ipv6 && !later6)
        .then(|| kept6.unwrap_or_else(|| config.ipv6_range.or_auto(node_ipv4)));

    let mut taken: BTreeSet<IpAddr> = own_addresses(kernel).collect();
    let records = found.records.iter().map(|found| &found.record);
    taken.extend(records.clone().filter_map(|record| record.ipv4.map(IpAddr::V4)));
    taken.extend(records.filter_map(|record| record.ipv6.map(IpAddr::V6)));
    taken.extend(kernel.lxc.keys().copied());
    // What state was lost says the device that has it.
    let host = kernel.links.values().find(|link| link.name == HOST_DEVICE);
    let held = host.into_iter().flat_map(|link| link.addresses.iter().map(ipnet::IpNet::addr));
    let held: Addresses = held.filter(is_reachable).collect();
    let ipv4 = match ipv4_range {
        Some(range) => {
            let persisted =
                before.router.ipv4.or(held.ipv4).filter(|address| range.contains(address));
            persisted
                .or_else(|| range.hosts().find(|address| !taken.contains(&IpAddr::V4(*address))))
        }
        None => held.ipv4.filter(|_| later4),
    };
    let ipv6 = match ipv6_range {
        Some(range) => {
            let persisted =
                before.router.ipv6.or(held.ipv6).filter(|address| range.contains(address));
            persisted.or_else(|| first_ipv6(range, &taken))
        }
        None => held.ipv6.filter(|_| later6),
    };
    let router = Addresses { ipv4, ipv6 };
    let mtu = match config.said_mtu() {
        0 => own_mtu(&kernel.links),
        said => said,
    };
    NodeNumbers { ipv4_range, ipv6_range, router, own, mtu, ..NodeNumbers::default() }
}

/// Addresses that the health endpoint had, and is to have again: those that this node still has to give.
fn health_before(
    config: &Config,
    stored: &Stored<HealthRecord>,
    node: &NodeNumbers,
) -> (Addresses, u32) {
    let record = stored.value.as_ref().filter(|record| record.node == node_name());
    let had = record.map(|record| record.addresses).unwrap_or_default();
    // Prefixes of pools are many, and change: who has them says whether an address is one's.
    let is_given = |address: &IpAddr| match address {
        _ if config.ipam == Some(Ipam::MultiPool) => true,
        IpAddr::V4(it) => node.ipv4_range.is_some_and(|range| range.contains(it)),
        IpAddr::V6(it) => node.ipv6_range.is_some_and(|range| range.contains(it)),
    };
    (had.iter().filter(is_given).collect(), stored.generation)
}

/// The first free address behind the network's own.
fn first_ipv6(range: Ipv6Net, taken: &BTreeSet<IpAddr>) -> Option<Ipv6Addr> {
    range.hosts().skip(1).find(|address| !taken.contains(&IpAddr::V6(*address)))
}

/// Writes what the next run is to know, and its copy, where they say something else.
fn save_node(
    directories: &Directories,
    (persisted, copied): (&Stored<NodeState>, &Stored<NodeCopy>),
    (before, node, lasting): (&NodeState, &NodeNumbers, Addresses),
    problems: &mut Vec<String>,
) {
    let state = NodeState {
        router: node.router,
        ipv4_range: node.ipv4_range,
        ipv6_range: node.ipv6_range,
        address: lasting,
        name: node_name(),
        ..before.clone()
    };
    let mut ops = Vec::new();
    if persisted.value.as_ref() != Some(&state) {
        ops.push(NodeState::SLOTS.save(&state, persisted.generation.wrapping_add(1)));
    }
    let copy = NodeCopy { node: node_name(), state };
    if copied.value.as_ref() != Some(&copy) {
        ops.push(NodeCopy::SLOTS.save(&copy, copied.generation.wrapping_add(1)));
    }
    for op in ops {
        if let Err(error) = directories.steps.run(&[op]) {
            problems.push(error.to_string());
        }
    }
}
