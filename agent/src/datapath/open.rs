//! The open datapath: maps, pins, the generation of programs, and what they are told of the node.
//! Work on each of them is left to the modules beside it.

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    thread,
};

use rustix::{
    process::{Resource, getrlimit, setrlimit},
    system::uname,
};
use volvox_actors::{
    model::{Addresses, Mac},
    ports::{KernelError, KernelSnapshot, ServiceTables},
};
use volvox_bpf_progs::{Features, layouts::NodeRow, maps::POLICY};
use volvox_maps::{
    error::{DatapathError, refused},
    pins::Pins,
    sys::{self, Map, TCX_INGRESS},
};
use volvox_system::{netlink::Protocol, sysctl::Sysctl};

use super::{
    devices::{Devices, Switch},
    filter::AttachMode,
    generation::{Build, Generation, Generations, maps_in_use},
    maps::{MapSizes, Maps, policy_spec},
    off,
    policies::{Built, Policies},
    running::maps_of_running,
    snapshot, sockets,
    switch::switch,
    takeover::{Inheritance, Takeover, is_shared_with_cilium},
    writes::Writes,
};

/// Number of the loopback interface, in every network namespace.
const LOOPBACK: u32 = 1;

/// Where the datapath is, and what it is to be like.
#[derive(Clone, Debug)]
pub struct DatapathConfig {
    /// A BPF file system, or a directory on one: `--bpf-root`.
    pub bpf_root: PathBuf,
    /// What the programs are loaded with; `maglev` is that of `sizes`.
    pub features: Features,
    /// Rows that the maps have room for.
    pub sizes: MapSizes,
    /// Where load is balanced by socket, if it is: `--cgroup-root`.
    pub sockets: Option<PathBuf>,
    /// Whether programs are attached by TCX links where the kernel has them: `--enable-tcx`.
    pub tcx: bool,
    /// What Cilium left, if that is to be taken over: `--take-over`.
    pub take_over: Option<Inheritance>,
    /// Whether TCP sockets end, too, whose backend is gone: `--lb-sock-terminate-all-protos`.
    pub end_tcp: bool,
    /// The node's network parameters: `--procfs`. In a container `/proc/sys` is read-only.
    pub sysctl: Sysctl,
}

/// The maps and programs of this node, open.
///
/// Opening it a second time writes nothing: when the pinned programs are the ones desired, none is
/// parsed, loaded or attached.
pub struct Datapath {
    pub(super) pins: Pins,
    pub(super) maps: Maps,
    pub(super) writes: Writes,
    pub(super) sizes: MapSizes,
    pub(super) build: Build,
    pub(super) mode: AttachMode,
    generation: RwLock<Arc<Generation>>,
    built: Built,
    at_devices: Mutex<()>,
    /// What the programs were told of the node last, but for who loaded them.
    node: Mutex<Option<NodeRow>>,
    end_tcp: bool,
    pub(super) sysctl: Sysctl,
    /// Where load is balanced by socket.
    sockets: Option<PathBuf>,
    /// Why that failed last, if it did.
    sockets_failed: Mutex<Option<String>>,
    /// The device of the BPF file system that was seen last.
    pub(super) mount: Mutex<u64>,
}

impl Datapath {
    /// Opens all maps, and makes those that are not there; loads the programs unless they are
    /// pinned already, and has every endpoint that ran others run them.
    pub fn open(config: &DatapathConfig) -> Result<Self, DatapathError> {
        let release = uname().release().to_string_lossy().into_owned();
        let tcx = sys::running(LOOPBACK, TCX_INGRESS).map(drop);
        let mode = AttachMode::choose(config.tcx, &release, tcx)?;
        if config.tcx && mode == AttachMode::Clsact {
            tracing::info!(release, "this kernel has no TCX: programs are attached by filters");
        }
        let pins = Pins::prepare(&config.bpf_root)?.taking_over(config.take_over.is_some());
        raise_file_limit();
        pins.sweep()?;
        let writes = Writes::default();
        let features = Features { maglev: config.sizes.maglev, ..config.features };
        let build = Build::of(features);
        let (mut maps, mut generation) = take_up(&pins, config.sizes, (&writes, mode), build)?;
        if maps.is_behind {
            // A change of size that was cut off is finished now, and the one asked for comes next.
            (maps, generation) = take_up(&pins, config.sizes, (&writes, mode), build)?;
        }
        if maps.is_behind {
            tracing::warn!("connection tracking keeps its size until the next start");
        }
        if let Some(inheritance) = &config.take_over {
            let (pins, maps, writes) = (&pins, &maps, &writes);
            Takeover { pins, maps, generation: &generation, writes, mode }.take(inheritance)?;
        }
        let sockets_failed =
            match sockets::settle(&pins, &maps, features, config.sockets.as_deref()) {
                // Pods are served all the same. `status` names it, and it is tried again.
                Err(error) => {
                    tracing::warn!(%error, "sockets are not balanced as they are to be");
                    Some(error.to_string())
                }
                Ok(()) => None,
            };
        // No hook that is to run the programs desired uses these any more; Cilium may want them back.
        if !is_shared_with_cilium(&pins) {
            off::remove(&pins, features)?;
        }
        let generation = RwLock::new(generation);
        let sizes = config.sizes;
        writes.tallies.of(POLICY.name).has_room(sizes.policy);
        let mount = Mutex::new(pins.device_of_root().unwrap_or_default());
        Ok(Self {
            pins,
            maps,
            writes,
            sizes,
            build,
            mode,
            generation,
            built: Built::default(),
            at_devices: Mutex::default(),
            node: Mutex::default(),
            end_tcp: config.end_tcp,
            sysctl: config.sysctl.clone(),
            sockets: config.sockets.clone(),
            sockets_failed: Mutex::new(sockets_failed),
            mount,
        })
    }

    /// By what programs are attached.
    pub fn attach_mode(&self) -> AttachMode {
        self.mode
    }

    /// How much was written to the kernel so far.
    pub fn writes(&self) -> &Writes {
        &self.writes
    }

    /// Of which protocols sockets end whose backend is gone. Of TCP peers say so themselves, mostly.
    pub(super) fn ended_protocols(&self) -> &'static [Protocol] {
        if self.end_tcp { &[Protocol::Udp, Protocol::Tcp] } else { &[Protocol::Udp] }
    }

    /// Tells the programs which gateway the endpoints see, unless they know already.
    pub fn set_router(&self, addresses: Addresses, mac: Mac) -> Result<(), KernelError> {
        let row = self.maps.node.get(&0)?.unwrap_or_default();
        let desired = NodeRow {
            router_ipv4: addresses.ipv4.map_or([0; 4], |address| address.octets()),
            router_ipv6: addresses.ipv6.map_or([0; 16], |address| address.octets()),
            router_mac: mac.0,
            ..row
        };
        if desired != row {
            self.maps.node.put(&0, &desired)?;
        }
        self.remember(desired);
        Ok(())
    }

    /// The device by which the programs send packets in tunnels, 0 if they send none; the port of
    /// these; and which records they emit of what goes through them.
    pub(super) fn tunnel(&self) -> Result<(u32, u16, u16), KernelError> {
        // Another row is somebody else's: it is compared with this one now and then.
        let row = match self.reported() {
            Some(reported) => reported,
            None => self.maps.node.get(&0)?.unwrap_or_default(),
        };
        let records = u16::try_from(row.tunnel_flags).unwrap_or_default();
        Ok((row.tunnel_ifindex, row.tunnel_port.get(), records))
    }

    /// Tells them which these are.
    pub(super) fn set_tunnel(
        &self,
        ifindex: u32,
        port: u16,
        records: u16,
    ) -> Result<(), KernelError> {
        let there = self.maps.node.get(&0)?.unwrap_or_default();
        let row = self.node_row(there).unwrap_or(there);
        let (tunnel_ifindex, tunnel_port, tunnel_flags) = (ifindex, port.into(), records.into());
        let desired = NodeRow { tunnel_ifindex, tunnel_port, tunnel_flags, ..row };
        self.maps.node.put(&0, &desired)?;
        self.remember(desired);
        Ok(())
    }

    fn reported(&self) -> Option<NodeRow> {
        *self.node.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn remember(&self, row: NodeRow) {
        *self.node.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(row);
    }

    /// What the programs are to be told of the node, if they were told anything, given the row that
    /// is there: who loaded them is written elsewhere.
    fn node_row(&self, there: NodeRow) -> Option<NodeRow> {
        let NodeRow { build_hash, features, sockets, .. } = there;
        self.reported().map(|reported| NodeRow { build_hash, features, sockets, ..reported })
    }

    /// Whether the programs know of the node what they were told last.
    pub(super) fn is_node_as_written(&self) -> Result<bool, KernelError> {
        let row = self.maps.node.get(&0)?.unwrap_or_default();
        Ok(self.node_row(row).is_none_or(|desired| desired == row))
    }

    /// Tells them again.
    pub(super) fn put_node(&self) -> Result<(), KernelError> {
        let row = self.maps.node.get(&0)?.unwrap_or_default();
        self.node_row(row).map_or(Ok(()), |desired| self.maps.node.put(&0, &desired))
    }

    /// Reads all that restoring compares with.
    pub fn snapshot(&self) -> Result<KernelSnapshot, KernelError> {
        snapshot::read(&self.pins, &self.maps, &self.generation(), (&self.writes, self.mode))
    }

    /// Reads all that restoring compares with, and the policies that stand.
    pub fn snapshot_at_boot(&self) -> Result<KernelSnapshot, KernelError> {
        let mut snapshot = self.snapshot()?;
        let slots: Vec<u32> = snapshot.config.values().map(|row| row.policy_slot).collect();
        let (here, there) = slots.split_at(slots.len() / 2);
        let mut services = Ok(ServiceTables::default());
        snapshot.policies = thread::scope(|scope| {
            let other = scope.spawn(|| {
                services = self.maps.services.read();
                self.policies().read_all(there)
            });
            let mut policies = self.policies().read_all(here);
            // What it could not read, endpoints do.
            policies.extend(other.join().unwrap_or_default());
            policies
        });
        snapshot.services = services?;
        Ok(snapshot)
    }

    /// Loads a fresh generation beside the current one and has every hook run it.
    pub(super) fn load(&self) -> Result<(), KernelError> {
        let generations = Generations { pins: &self.pins, maps: &self.maps, build: self.build };
        let mut all = true;
        let loaded = generations.load(|generation| {
            // Known before the hooks are gone through: what is attached meanwhile is the new one.
            *self.generation.write().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                Arc::clone(generation);
            all = switch(&self.pins, &self.maps, (&self.writes, self.mode), generation)?;
            all &= self.devices(|devices| devices.switch(Switch::All))?;
            Ok(())
        });
        loaded.map_err(|error| match error {
            DatapathError::Kernel(error) => error,
            other => refused("load", "programs", &io::Error::other(other)),
        })?;
        if all { self.maps.finish_resizing() } else { Ok(()) }
    }

    /// What keeps the programs of endpoints from being those desired, if anything does.
    pub(super) fn programs_trouble(&self) -> Option<String> {
        self.generation().refused().map(str::to_owned)
    }

    /// What keeps the sockets' programs from running as they are to, if anything does.
    pub(super) fn sockets_trouble(&self) -> Option<String> {
        let path = self.sockets.as_deref()?;
        let trouble = sockets::trouble(&self.pins, &self.maps, path);
        let failed = self.sockets_failed.lock().unwrap_or_else(PoisonError::into_inner);
        // What runs may be of the version before: then only the attempt says what is wrong.
        failed.clone().or(trouble)
    }

    /// Has the sockets' programs run as they are to.
    pub(super) fn settle_sockets(&self) -> Result<(), KernelError> {
        let (features, path) = (self.build.features(), self.sockets.as_deref());
        let settled = sockets::settle(&self.pins, &self.maps, features, path);
        *self.sockets_failed.lock().unwrap_or_else(PoisonError::into_inner) =
            settled.as_ref().err().map(ToString::to_string);
        settled.map_err(|error| match error {
            DatapathError::Kernel(error) => error,
            other => refused("attach", "programs of sockets", &io::Error::other(other)),
        })
    }

    /// Works at devices, nobody else meanwhile.
    pub(super) fn devices<T>(&self, work: impl FnOnce(Devices<'_>) -> T) -> T {
        let _one = self.at_devices.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Self { pins, maps, writes, build, mode, .. } = self;
        work(Devices { pins, maps, build: *build, writes, mode: *mode })
    }

    /// The programs that hooks are to run.
    pub(super) fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.generation.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Endpoints' policy maps.
    pub(super) fn policies(&self) -> Policies<'_> {
        let spec = policy_spec(self.sizes);
        Policies {
            pins: &self.pins,
            maps: &self.maps,
            spec,
            built: &self.built,
            writes: &self.writes,
        }
    }
}

/// Opens the maps, and has every hook run programs that use them.
fn take_up(
    pins: &Pins,
    sizes: MapSizes,
    (writes, mode): (&Writes, AttachMode),
    build: Build,
) -> Result<(Maps, Arc<Generation>), DatapathError> {
    // Where a pin is lost, the map is that of the programs that are pinned, or of those that run.
    let running = OnceCell::new();
    let orphans = || {
        let running: &BTreeSet<u32> = running.get_or_init(maps_of_running);
        let running = running.iter().filter_map(|id| Map::by_id(*id).ok());
        maps_in_use(pins).into_iter().chain(running).collect()
    };
    let maps = Maps::open(pins, (sizes, build.features()), writes, orphans)?;
    let mut all = true;
    let generation = Generations { pins, maps: &maps, build }.open(|generation| {
        all = switch(pins, &maps, (writes, mode), generation)?;
        Ok(())
    })?;
    all &= Devices { pins, maps: &maps, build, writes, mode }.switch(Switch::Needed)?;
    // The programs before know those before.
    all &= generation.refused().is_none();
    // Else it is done before connections are swept, when endpoints have seen to their hooks.
    if all && let Err(error) = maps.finish_resizing() {
        tracing::warn!(%error, "connections stay in the map before, where programs find them");
    }
    Ok((maps, generation))
}

/// A mass change holds a descriptor for each policy map under way.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
    }
}
