//! What goes wrong around an agent of the lab.

use std::{
    fs::{self, File},
    io::Write,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use aya::maps::MapData;
use rustix::mount::{MountFlags, mount, mount_remount};
use volvox_bpf_progs::layouts::{IpcacheKey, IpcacheRow, LxcKey, LxcRow};

use super::{World, broken};
use crate::{
    chaos::{
        faults::{Disk, Fault, Map},
        history::{History, Name},
    },
    lab::{self, ForeignProgram, Node, ip},
};

/// What fills the disk.
const FILLER: &str = "cilium/filler";
/// The recording of the agent that runs.
const RING: &str = "flight.ring";
/// An address of the node's range that no pod gets: the range gives others first.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 11, 200, 200));
/// The agent's routing rule, as it is listed.
const RULE: &str = "100:";

/// Before the first agent: a disk of its own, if something is to happen to it.
pub(super) fn prepare(history: &History, node: &Node) -> Result<Option<lab::Disk>> {
    let has = |wanted: &[Disk]| {
        history.faults().any(|it| matches!(it, Fault::Disk(disk) if wanted.contains(disk)))
    };
    if has(&[Disk::PowerCut, Disk::Failing]) {
        return lab::Disk::make(node).map(Some);
    }
    if has(&[Disk::Full, Disk::ReadOnly]) {
        let place = node.path("cilium");
        // Room for the recordings of some lives.
        mount("tmpfs", &place, "tmpfs", MountFlags::empty(), Some(c"size=64m"))
            .context("cannot make a disk")?;
    }
    Ok(None)
}

impl World<'_> {
    pub(super) fn fault(&mut self, fault: &Fault) -> Result<()> {
        match fault {
            Fault::Disk(disk) => self.disk(*disk),
            Fault::StateLost => {
                let state = self.node.path("cilium/state");
                fs::remove_dir_all(&state).with_context(|| state.display().to_string())
            }
            Fault::LogFull => {
                self.node.log_to(Some(Path::new("/dev/full")));
                Ok(())
            }
            Fault::LogWell => {
                self.node.log_to(None);
                Ok(())
            }
            Fault::Server(server, trouble) => self.around.servers.trouble(*server, *trouble),
            Fault::Taken(resource) => self.take(*resource),
            Fault::Back(resource) => self.give_back(*resource),
            Fault::Memory(limit) => self.limit_memory(*limit),
            Fault::Clock(clock) => self.set_clock(*clock),
            Fault::RouteRemoved(pod) => {
                for address in self.member(pod)?.pod.addresses.clone() {
                    let family = if address.is_ipv6() { "-6" } else { "-4" };
                    ip(&format!("{family} route del {address}"))?;
                }
                Ok(())
            }
            Fault::RulesRemoved => self.remove_rules(),
            Fault::InterfaceRemoved(pod) => {
                let [_, host] = self.member(pod)?.pod.links()?;
                // With the pod its hooks are gone, as they should be.
                self.judge.unwatch(&self.member(pod)?.pod);
                ip(&format!("link del {}", host.name)).map(drop)
            }
            Fault::LinksRemoved(pod) => self.remove_links(pod),
            Fault::RecordTorn(pod) => self.tear_record(pod),
            Fault::RowAdded => self.add_row(),
            Fault::RecordingTruncated => {
                let ring = self.node.path("cilium").join(RING);
                let file = File::options().write(true).open(&ring);
                file.with_context(|| ring.display().to_string())?.set_len(0)?;
                Ok(())
            }
            Fault::RowRemoved { map, pod } => self.remove_rows(*map, pod),
            Fault::ProgramAdded(pod) => {
                let [_, host] = self.member(pod)?.pod.links()?;
                self.around.foreign.push(ForeignProgram::in_front(&host.name)?);
                Ok(())
            }
        }
    }

    fn disk(&mut self, disk: Disk) -> Result<()> {
        match disk {
            Disk::Full => {
                let mut file = File::create(self.node.path(FILLER))?;
                while file.write_all(&[1; 4096]).is_ok() {}
                Ok(())
            }
            Disk::ReadOnly => self.remount(MountFlags::RDONLY),
            Disk::Failing => {
                self.around.disk_fails = true;
                self.around.disk.as_ref().context("no disk")?.fail()
            }
            Disk::Slow => self.slow_down_the_disk(),
            Disk::PowerCut => self.cut_power(),
            Disk::Well => self.disk_is_well(),
        }
    }

    /// All that was broken works again.
    pub(super) fn end_faults(&mut self) -> Result<()> {
        self.node.log_to(None);
        self.end_scarcity()?;
        if self.around.disk_fails {
            // Who runs has files of it.
            if self.node.has_agent() {
                self.kill()?;
            }
            self.disk_is_well()?;
        }
        if self.node.path(FILLER).exists() {
            self.disk_is_well()?;
        }
        self.around.foreign.clear();
        self.around.servers.are_well()
    }

    /// Rules are moved a minute after the start, or when nodes are named.
    fn remove_rules(&mut self) -> Result<()> {
        for family in ["-4", "-6"] {
            let waited = self.node.wait("the agent has no routing rules", |_| {
                Ok(ip(&format!("{family} rule show"))?.contains(RULE))
            });
            broken(waited)?;
            ip(&format!("{family} rule del pref {}", RULE.trim_end_matches(':')))?;
        }
        Ok(())
    }

    fn member(&self, name: &Name) -> Result<&super::Member> {
        self.pods.get(name).with_context(|| format!("{name} was not made yet"))
    }

    fn remount(&self, flags: MountFlags) -> Result<()> {
        let place = self.node.path("cilium");
        mount_remount(&place, flags, c"").context(
            "the disk cannot be remounted: an agent that runs has files open for writing; kill it first",
        )
    }

    fn disk_is_well(&mut self) -> Result<()> {
        self.around.scarcity.slow = None;
        if std::mem::take(&mut self.around.disk_fails) {
            return self.around.disk.as_ref().context("no disk")?.restore_power(&self.node);
        }
        if self.around.disk.is_some() || !mounted(&self.node.path("cilium"))? {
            return Ok(());
        }
        self.remount(MountFlags::empty())?;
        let filler = self.node.path(FILLER);
        if filler.exists() {
            fs::remove_file(filler)?;
        }
        Ok(())
    }

    fn cut_power(&mut self) -> Result<()> {
        self.around.disk.as_ref().context("no disk")?.cut_power()?;
        self.kill()?;
        self.around.disk_fails = false;
        self.around.disk.as_ref().context("no disk")?.restore_power(&self.node)
    }

    fn remove_links(&mut self, pod: &Name) -> Result<()> {
        let [_, host] = self.member(pod)?.pod.links()?;
        // Programs run by filters first, and by links soon after.
        let mut links = PathBuf::new();
        let waited = self.node.wait("its programs run by no links", |node| {
            let endpoints = node.endpoints()?;
            let its = endpoints
                .iter()
                .find(|it| it["status"]["networking"]["interface-index"] == host.ifindex)
                .with_context(|| format!("{pod} has no endpoint"))?;
            links = node.bpf_root().join(format!("cilium/endpoints/{}/links", its["id"]));
            Ok(fs::read_dir(&links).is_ok_and(|links| links.count() == 2))
        });
        broken(waited)?;
        for link in fs::read_dir(&links).with_context(|| links.display().to_string())? {
            fs::remove_file(link?.path())?;
        }
        Ok(())
    }

    fn remove_rows(&mut self, map: Map, pod: &Name) -> Result<()> {
        for address in self.member(pod)?.pod.addresses.clone() {
            let bits = if address.is_ipv6() { 128 } else { 32 };
            match map {
                Map::Lxc => {
                    let map = aya::maps::Map::HashMap(self.pin("cilium_lxc")?);
                    let mut map =
                        aya::maps::HashMap::<_, [u8; 20], [u8; size_of::<LxcRow>()]>::try_from(
                            map,
                        )?;
                    let LxcKey { address, family, .. } = LxcKey::new(address);
                    map.remove(
                        &[&address[..], &[family, 0, 0, 0]].concat().as_slice().try_into()?,
                    )?;
                }
                Map::Ipcache => {
                    let map = aya::maps::Map::LpmTrie(self.pin("cilium_ipcache_v2")?);
                    let mut map =
                        aya::maps::LpmTrie::<_, [u8; 20], [u8; size_of::<IpcacheRow>()]>::try_from(
                            map,
                        )?;
                    let key = IpcacheKey::new(address, bits);
                    let data = [&[0, 0, 0, key.family], &key.address[..]].concat();
                    let data: [u8; 20] = data.as_slice().try_into()?;
                    map.remove(&aya::maps::lpm_trie::Key::new(key.prefix_len, data))?;
                }
            }
        }
        Ok(())
    }

    /// No agent runs: which record is the pod's is found in it.
    fn tear_record(&self, pod: &Name) -> Result<()> {
        let container = &self.member(pod)?.pod.container_id;
        let state = self.node.path("cilium/state");
        for record in fs::read_dir(&state)? {
            let record = record?.path();
            let text = fs::read_to_string(record.join("ep_config.json")).unwrap_or_default();
            if text.contains(&**container) {
                for name in ["ep_config.json", "ep_config.h"] {
                    fs::write(record.join(name), "torn")?;
                }
                return Ok(());
            }
        }
        anyhow::bail!("the disk has no record of pod {pod}")
    }

    /// A row of an address that nobody has.
    fn add_row(&self) -> Result<()> {
        let map = aya::maps::Map::HashMap(self.pin("cilium_lxc")?);
        let mut map = aya::maps::HashMap::<_, [u8; 20], [u8; size_of::<LxcRow>()]>::try_from(map)?;
        let LxcKey { address, family, .. } = LxcKey::new(NOBODY);
        let key: [u8; 20] = [&address[..], &[family, 0, 0, 0]].concat().as_slice().try_into()?;
        map.insert(key, [1; size_of::<LxcRow>()], 0)?;
        Ok(())
    }

    fn pin(&self, name: &str) -> Result<MapData> {
        let path = self.node.bpf_root().join("tc/globals").join(name);
        MapData::from_pin(path).with_context(|| format!("cannot open the map {name}"))
    }
}

/// Whether something is mounted there.
fn mounted(place: &Path) -> Result<bool> {
    let place = place.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    Ok(mounts.lines().any(|line| line.split(' ').nth(1) == Some(&*place)))
}
