//! The programs under test, with maps of their own, in a network namespace of the test's thread.

use super::frame::Mac;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, ArrayOfMaps, HashMap, MapData, PerCpuHashMap};
use aya::programs::{ProgramError, SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::{FROM_CONTAINER, TO_CONTAINER};
use volvox_bpf_progs::{Features, OBJECT, maps};
use zerocopy::IntoBytes;

/// TC action: pass on.
pub const OK: u32 = 0;
/// TC action: dropped.
pub const SHOT: u32 = 2;
/// TC action: sent through another interface.
pub const REDIRECT: u32 = 7;

/// An interface by which a frame may have come.
const SOME_IFINDEX: u32 = 1;

/// Rows that a test needs at most; the real sizes would cost it hundreds of megabytes.
const MAX_ENTRIES: u32 = 1024;
/// The same of plain hash tables: few, so that rows share buckets, as they do in large tables.
const MAX_ENTRIES_HASH: u32 = 128;

pub type PolicyMap = LpmTrie<MapData, [u8; 8], PolicyRow>;

/// An endpoint of the test, with its interface.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    pub id: u16,
    pub identity: u32,
    pub ifindex: u32,
    pub ipv4: Ipv4Addr,
    pub ipv6: Ipv6Addr,
    pub mac: Mac,
    pub node_mac: Mac,
}

impl Endpoint {
    /// Its address of the family that `like` has.
    pub fn ip(&self, like: IpAddr) -> IpAddr {
        if like.is_ipv4() { self.v4() } else { self.v6() }
    }

    pub fn v4(&self) -> IpAddr {
        self.ipv4.into()
    }

    pub fn v6(&self) -> IpAddr {
        self.ipv6.into()
    }

    pub fn config(&self) -> ConfigRow {
        let notify =
            ConfigFlags::TRACE_NOTIFY | ConfigFlags::VERDICT_NOTIFY | ConfigFlags::DROP_NOTIFY;
        ConfigRow {
            generation: 1,
            ep_id: self.id,
            flags: ConfigFlags::SOURCE_CHECK | notify,
            identity: self.identity,
            policy_slot: policy_slot(self.id, 0),
            ifindex: self.ifindex,
            ipv4: self.ipv4.octets(),
            ipv6: self.ipv6.octets(),
            mac: self.mac,
            node_mac: self.node_mac,
            ..ConfigRow::default()
        }
    }

    pub fn lxc(&self) -> LxcRow {
        let wide = |mac: Mac| {
            let mut bytes = [0; 8];
            bytes[..6].copy_from_slice(&mac);
            bytes
        };
        LxcRow {
            ifindex: self.ifindex,
            lxc_id: self.id,
            mac: wide(self.mac),
            node_mac: wide(self.node_mac),
            sec_id: self.identity,
            ..LxcRow::default()
        }
    }
}

/// What became of a frame.
#[derive(Debug)]
pub struct Outcome {
    pub action: u32,
    pub frame: Vec<u8>,
    pub mark: u32,
}

pub struct Node {
    pub ebpf: Ebpf,
    /// Further objects over the same maps.
    pub others: Vec<Ebpf>,
    policies: BTreeMap<u32, PolicyMap>,
    /// Backends by id, and whether IPv4: what services are told of them.
    pub(super) backends: BTreeMap<(u32, bool), (SocketAddr, u8, BackendState)>,
    /// Which service lists which of them.
    pub(super) members: BTreeSet<(u16, u32, bool)>,
}

impl Node {
    pub fn new() -> Self {
        Self::with(Features::default())
    }

    /// Loads the programs with a feature set, in a new network namespace of this thread.
    pub fn with(features: Features) -> Self {
        enter_namespace();
        Self::load(features)
    }

    /// The programs once more, with maps of their own, where this thread is.
    pub fn beside() -> Self {
        Self::load(Features::default())
    }

    fn load(features: Features) -> Self {
        Self::of(load_object(OBJECT, features, None))
    }

    /// Programs that are loaded already.
    pub fn of(ebpf: Ebpf) -> Self {
        Self {
            ebpf,
            others: Vec::new(),
            policies: BTreeMap::new(),
            backends: BTreeMap::new(),
            members: BTreeSet::new(),
        }
    }

    /// An interface and all rows of an endpoint with an empty policy. Its numbers follow the id.
    pub fn endpoint(&mut self, id: u16) -> Endpoint {
        let endpoint = self.interface(id);
        self.know(&endpoint);
        endpoint
    }

    /// All rows of an endpoint with an empty policy.
    pub fn know(&mut self, endpoint: &Endpoint) {
        self.map::<HashMap<_, LxcKey, LxcRow>>("cilium_lxc", |mut map| {
            for address in [endpoint.v4(), endpoint.v6()] {
                map.insert(LxcKey::new(address), endpoint.lxc(), 0).unwrap();
            }
        });
        for address in [endpoint.v4(), endpoint.v6()] {
            self.ipcache(address, if address.is_ipv4() { 32 } else { 128 }, endpoint.identity);
        }
        self.policy(policy_slot(endpoint.id, 0), &[]);
        self.configure(endpoint.config());
    }

    /// Only the interface of an endpoint.
    pub fn interface(&mut self, id: u16) -> Endpoint {
        let name = format!("lxc{id}");
        run_ip(&["link", "add", &name, "type", "veth", "peer", "name", &format!("eth{id}")]);
        let [high, low] = id.to_be_bytes();
        Endpoint {
            id,
            identity: 10_000 + u32::from(id),
            ifindex: ifindex(&name),
            ipv4: Ipv4Addr::new(10, 1, high, low),
            ipv6: Ipv6Addr::new(0xf00d, 0, 0, 0, 0, 0, 0, id),
            mac: [2, 0, 0, 1, high, low],
            node_mac: [2, 0, 0, 2, high, low],
        }
    }

    pub fn configure(&mut self, row: ConfigRow) {
        self.map::<HashMap<_, u32, ConfigRow>>("volvox_config", |mut map| {
            map.insert(row.ifindex, row, 0).unwrap()
        });
    }

    /// The ipcache's row of one address.
    pub fn ipcache_row(&mut self, address: IpAddr, row: IpcacheRow) {
        self.ipcache_of(address, if address.is_ipv4() { 32 } else { 128 }, row);
    }

    pub fn ipcache(&mut self, address: IpAddr, bits: u8, identity: u32) {
        self.ipcache_of(address, bits, IpcacheRow { identity, ..IpcacheRow::default() });
    }

    fn ipcache_of(&mut self, address: IpAddr, bits: u8, row: IpcacheRow) {
        let key = IpcacheKey::new(address, bits);
        self.map::<LpmTrie<_, [u8; 20], IpcacheRow>>("cilium_ipcache_v2", |mut map| {
            let data = key.as_bytes()[4..].try_into().unwrap();
            map.insert(&Key::new(key.prefix_len, data), row, 0).unwrap();
        });
    }

    /// Puts a new policy of these rows into a slot.
    pub fn policy(&mut self, slot: u32, rows: &[(PolicyKey, PolicyRow)]) {
        let mut policy = PolicyMap::create(maps::POLICY.max_entries, maps::POLICY.flags).unwrap();
        for (key, row) in rows {
            let data = key.as_bytes()[4..].try_into().unwrap();
            policy.insert(&Key::new(key.prefix_len, data), row, 0).unwrap();
        }
        self.map::<ArrayOfMaps<_, PolicyMap>>("volvox_policy", |mut map| {
            map.set(slot, &policy, 0).unwrap()
        });
        self.policies.insert(slot, policy);
    }

    /// The policy of an endpoint, all of it.
    pub fn rules(&mut self, endpoint: &Endpoint, rows: &[(PolicyKey, PolicyRow)]) {
        self.policy(policy_slot(endpoint.id, 0), rows);
    }

    pub fn node(&mut self, row: NodeRow) {
        self.map::<Array<_, NodeRow>>("volvox_node", |mut map| map.set(0, row, 0).unwrap());
    }

    /// What the programs know of the node.
    pub fn read_node(&mut self) -> NodeRow {
        let mut row = NodeRow::default();
        self.map::<Array<_, NodeRow>>("volvox_node", |map| row = map.get(&0, 0).unwrap());
        row
    }

    /// Sends a frame from inside an endpoint.
    pub fn send(&mut self, from: &Endpoint, frame: &[u8]) -> Outcome {
        self.run(FROM_CONTAINER, from.ifindex, 0, frame, 1).0
    }

    /// Sends a frame that the host's stack forwards to an endpoint, with a packet mark.
    pub fn deliver(&mut self, to: &Endpoint, mark: u32, frame: &[u8]) -> Outcome {
        self.run_by(TO_CONTAINER, (to.ifindex, SOME_IFINDEX), mark, frame, 1).0
    }

    /// Sends a frame of the host's own to an endpoint.
    pub fn tell(&mut self, to: &Endpoint, frame: &[u8]) -> Outcome {
        self.run(TO_CONTAINER, to.ifindex, 0, frame, 1).0
    }

    /// Runs a program; the second result is nanoseconds a run.
    pub fn run(
        &mut self,
        program: &str,
        ifindex: u32,
        mark: u32,
        frame: &[u8],
        repeat: u32,
    ) -> (Outcome, u64) {
        self.run_by(program, (ifindex, 0), mark, frame, repeat)
    }

    /// The same at one interface, of a frame that came by another one; by none if that is 0.
    fn run_by(
        &mut self,
        program: &str,
        (ifindex, came_by): (u32, u32),
        mark: u32,
        frame: &[u8],
        repeat: u32,
    ) -> (Outcome, u64) {
        let mut context = [0; 192];
        context[8..12].copy_from_slice(&mark.to_ne_bytes());
        context[36..40].copy_from_slice(&came_by.to_ne_bytes());
        context[40..44].copy_from_slice(&ifindex.to_ne_bytes());
        let (mut context_out, mut out) = ([0; 192], vec![0; frame.len() + 256]);
        let result = self
            .program(program)
            .test_run(TestRunOptions {
                data_in: Some(frame),
                data_out: Some(&mut out),
                ctx_in: Some(&context),
                ctx_out: Some(&mut context_out),
                repeat,
                ..TestRunOptions::default()
            })
            .unwrap();
        out.truncate(result.data_size_out as usize);
        let mark = u32::from_ne_bytes(context_out[8..12].try_into().unwrap());
        (
            Outcome { action: result.return_value, frame: out, mark },
            result.duration.as_nanos() as u64,
        )
    }

    /// A program of any of its objects, loaded.
    pub fn program(&mut self, name: &str) -> &mut SchedClassifier {
        let mut objects = self.others.iter_mut().chain([&mut self.ebpf]);
        let program = objects.find_map(|object| object.program_mut(name)).unwrap();
        let program: &mut SchedClassifier = program.try_into().unwrap();
        if program.fd().is_err() {
            load(name, || program.load());
        }
        program
    }

    /// Packets and bytes by reason and direction, over all CPUs, lines and files.
    pub fn metrics(&mut self) -> BTreeMap<(u8, u8), (u64, u64)> {
        let mut sums = BTreeMap::new();
        self.map::<PerCpuHashMap<_, MetricsKey, MetricsRow>>("cilium_metrics", |map| {
            for entry in map.iter() {
                let (key, rows) = entry.unwrap();
                let sum: &mut (u64, u64) = sums.entry((key.reason, key.direction)).or_default();
                for row in rows.iter() {
                    *sum = (sum.0 + row.packets, sum.1 + row.bytes);
                }
            }
        });
        sums
    }

    /// Drops so far, by reason.
    pub fn drops(&mut self) -> BTreeMap<u8, u64> {
        let mut sums = BTreeMap::new();
        for ((reason, _), (packets, _)) in self.metrics() {
            if reason != 0 {
                *sums.entry(reason).or_default() += packets;
            }
        }
        sums
    }

    /// The one reason for which a frame from an endpoint is dropped; `None` if it passes.
    pub fn drop_of(&mut self, send: impl FnOnce(&mut Self) -> Outcome) -> Option<u8> {
        let before = self.drops();
        let outcome = send(self);
        let after = self.drops();
        let mut changed = after.iter().filter(|(reason, count)| before.get(reason) != Some(count));
        let reason = changed.next().map(|(reason, _)| *reason);
        assert_eq!(
            reason.is_some(),
            outcome.action == SHOT || reason == Some(158) && outcome.action == REDIRECT,
            "{outcome:?} and the metrics disagree"
        );
        assert!(changed.next().is_none(), "one packet, two reasons: {before:?} {after:?}");
        reason
    }

    /// Uses a map of the object by its type.
    pub fn map<'a, M>(&'a mut self, name: &str, with: impl FnOnce(M))
    where
        M: TryFrom<&'a mut aya::maps::Map, Error: std::fmt::Debug>,
    {
        with(M::try_from(self.ebpf.map_mut(name).unwrap()).unwrap());
    }
}

/// Opens an object; its maps are shared with others by pins, if there is a directory. What the verifier
/// looks at is most of what a test takes, so each program is loaded when it is first used.
pub(super) fn load_object(object: &[u8], features: Features, pins: Option<&str>) -> Ebpf {
    let globals = features.globals();
    let mut loader = EbpfLoader::new();
    for (name, value) in &globals {
        loader.override_global(name, value, true);
    }
    shrink(&mut loader);
    if let Some(pins) = pins {
        for map in maps::MAPS {
            loader.map_pin_path(map.name, Path::new(pins).join(map.name));
        }
    }
    loader.load(object).expect("the object's maps can be created: are you root?")
}

/// Makes no map larger than a test needs, but those whose places a program knows by number.
pub(super) fn shrink(loader: &mut EbpfLoader<'_>) {
    for map in maps::MAPS {
        let max = match map.map_type {
            maps::MapType::Array => continue,
            maps::MapType::Hash => MAX_ENTRIES_HASH,
            _ => MAX_ENTRIES,
        };
        if map.max_entries > max && map.inner.is_none() {
            loader.map_max_entries(map.name, max);
        }
    }
}

/// Loads a program, again and again: the verifier gives up when a signal is pending, as it is
/// whenever something stops the process for a moment.
pub(super) fn load(name: &str, mut program: impl FnMut() -> Result<(), ProgramError>) {
    for _ in 0..32 {
        match program() {
            Ok(()) => return,
            Err(ProgramError::LoadError { io_error, .. })
                if io_error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("the verifier refuses {name}: {error:?}"),
        }
    }
    panic!("the verifier was interrupted 32 times on {name}");
}

thread_local! {
    static HAS_OWN_FILES: Cell<bool> = const { Cell::new(false) };
}

/// A table of files for this test: a process that another test starts would have this one's sockets
/// until it is another program, and what was closed would still be open. Threads that the test starts
/// share it.
pub(super) fn own_files() {
    if !HAS_OWN_FILES.replace(true) {
        // SAFETY: takes no pointers. What this test opens, no other test has, nor the other way round.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
    }
}

/// This thread is one that a test started, and shares its files.
pub(super) fn share_files() {
    HAS_OWN_FILES.set(true);
}

pub(super) fn enter_namespace() {
    own_files();
    // SAFETY: takes no pointers; it only changes the namespace of this thread.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(
        result,
        0,
        "this test needs root, for a network namespace and BPF: {}",
        std::io::Error::last_os_error()
    );
}

pub fn run_ip(arguments: &[&str]) {
    let status =
        Command::new("ip").args(arguments).status().expect("ip is installed: package iproute2");
    assert!(status.success(), "ip {} failed", arguments.join(" "));
}

pub fn ifindex(name: &str) -> u32 {
    let path = std::ffi::CString::new(name).unwrap();
    // SAFETY: the name is NUL-terminated and outlives the call.
    unsafe { libc::if_nametoindex(path.as_ptr()) }
}
