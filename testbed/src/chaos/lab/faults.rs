//! What goes wrong around an agent of the lab.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use aya::maps::MapData;
use rustix::mount::{MountFlags, mount, mount_remount};
use volvox_bpf_progs::layouts::{IpcacheKey, IpcacheRow, LxcKey, LxcRow};

use super::{World, broken};
use crate::{
    chaos::history::{Fault, History, Map, Name, Step},
    lab::{Disk, Node, Signal, ip},
};

/// What fills the disk.
const FILLER: &str = "cilium/filler";

/// Before the first agent: a disk of its own, if something is to happen to it.
pub(super) fn prepare(history: &History, node: &Node) -> Result<Option<Disk>> {
    if history.all_steps().contains(&&Step::Fault(Fault::PowerCut)) {
        return Disk::make(node).map(Some);
    }
    let is_disk = |step: &&Step| {
        matches!(step, Step::Fault(Fault::DiskFull | Fault::DiskReadOnly | Fault::DiskWell))
    };
    if history.all_steps().iter().any(is_disk) {
        let place = node.path("cilium");
        mount("tmpfs", &place, "tmpfs", MountFlags::empty(), Some(c"size=16m"))
            .context("cannot make a disk")?;
    }
    Ok(None)
}

impl World<'_> {
    pub(super) fn fault(&mut self, fault: &Fault) -> Result<()> {
        match fault {
            Fault::DiskFull => {
                let mut file = File::create(self.node.path(FILLER))?;
                while file.write_all(&[1; 4096]).is_ok() {}
                Ok(())
            }
            Fault::DiskReadOnly => self.remount(MountFlags::RDONLY),
            Fault::DiskWell => self.disk_is_well(),
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
            Fault::EtcdKilled => self.etcd.as_mut().context("no etcd")?.kill(),
            Fault::EtcdStopped => self.etcd.as_mut().context("no etcd")?.stop(),
            Fault::EtcdSaved => self.etcd.as_mut().context("no etcd")?.save(),
            Fault::EtcdRestored => {
                let etcd = self.etcd.as_mut().context("no etcd")?;
                if etcd.runs() {
                    etcd.kill()?;
                }
                etcd.restore()
            }
            Fault::EtcdWell => self.etcd_is_well(),
            Fault::PowerCut => self.cut_power(),
            Fault::CpuTaken => self.node.agent()?.signal(Signal::STOP),
            Fault::CpuWell => self.node.agent()?.signal(Signal::CONT),
            Fault::RouteRemoved(pod) => {
                for address in self.member(pod)?.pod.addresses.clone() {
                    let family = if address.is_ipv6() { "-6" } else { "-4" };
                    ip(&format!("{family} route del {address}"))?;
                }
                Ok(())
            }
            Fault::InterfaceRemoved(pod) => {
                let [_, host] = self.member(pod)?.pod.links()?;
                // With the pod its hooks are gone, as they should be.
                self.judge.unwatch(&self.member(pod)?.pod);
                ip(&format!("link del {}", host.name)).map(drop)
            }
            Fault::LinksRemoved(pod) => self.remove_links(pod),
            Fault::RowRemoved { map, pod } => self.remove_rows(*map, pod),
        }
    }

    /// All that was broken works again.
    pub(super) fn end_faults(&mut self) -> Result<()> {
        self.node.log_to(None);
        if self.node.has_agent() {
            self.node.agent()?.signal(Signal::CONT)?;
        }
        if self.node.path(FILLER).exists() {
            self.disk_is_well()?;
        }
        self.etcd_is_well()
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
        self.remount(MountFlags::empty())?;
        let filler = self.node.path(FILLER);
        if filler.exists() {
            fs::remove_file(filler)?;
        }
        Ok(())
    }

    fn etcd_is_well(&mut self) -> Result<()> {
        let Some(etcd) = &mut self.etcd else { return Ok(()) };
        if etcd.runs() { etcd.go_on() } else { etcd.start_again() }
    }

    fn cut_power(&mut self) -> Result<()> {
        self.disk.as_ref().context("no disk")?.cut_power()?;
        self.kill()?;
        self.disk.as_ref().context("no disk")?.restore_power(&self.node)
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

    fn pin(&self, name: &str) -> Result<MapData> {
        let path = self.node.bpf_root().join("tc/globals").join(name);
        MapData::from_pin(path).with_context(|| format!("cannot open the map {name}"))
    }
}
