//! Tests: the programs that balance sockets run once at the one cgroup that is configured, whatever
//! becomes of their pins, their maps or the mount.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, mount};
use volvox_bpf_progs::{Features, SocketHook};
use volvox_maps::sys;

use super::sandbox::Sandbox;
use crate::datapath::{Datapath, DatapathConfig, MapSizes, uninstall};

/// A cgroup of the test's own, below that of the process.
pub(super) struct Cgroup {
    pub(super) path: PathBuf,
    _mount: tempfile::TempDir,
}

impl Cgroup {
    pub(super) fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        mount("none", dir.path(), "cgroup2", MountFlags::empty(), None).unwrap();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let home = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
        let path = dir.path().join(home).join(format!("volvox-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self { path, _mount: dir }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        fs::remove_dir(&self.path).unwrap();
        let _ = rustix::mount::unmount(self._mount.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

pub(super) fn config(sandbox: &Sandbox, cgroup: Option<&Path>) -> DatapathConfig {
    DatapathConfig { sockets: cgroup.map(ToOwned::to_owned), ..sandbox.config() }
}

/// Each pinned link: the program that it runs, and the cgroup.
pub(super) fn links(sandbox: &Sandbox) -> BTreeMap<String, (u32, u64)> {
    let directory = sandbox.root().join("cilium/socketlb/links/cgroup");
    let Ok(entries) = fs::read_dir(directory) else { return BTreeMap::new() };
    let all = entries.flatten().map(|entry| {
        let link = sys::link_cgroup(sys::get(&entry.path()).unwrap()).unwrap();
        (entry.file_name().into_string().unwrap(), (link.prog_id, link.cgroup))
    });
    all.collect()
}

#[test]
fn sockets_are_balanced_at_one_cgroup_whatever_comes() {
    Sandbox::run(|sandbox| {
        let (here, there) = (Cgroup::new("here"), Cgroup::new("there"));
        let open = |config: &DatapathConfig| Datapath::open(config).unwrap();
        drop(open(&config(sandbox, None)));
        assert_eq!(links(sandbox), BTreeMap::new());
        drop(open(&config(sandbox, Some(&here.path))));
        let first = links(sandbox);
        let names: Vec<_> = first.keys().map(String::as_str).collect();
        let mut all = SocketHook::ALL.map(SocketHook::program);
        all.sort_unstable();
        assert_eq!(names, all);
        drop(open(&config(sandbox, Some(&here.path))));
        assert_eq!(links(sandbox), first, "nothing is loaded anew");
        // Links are lost, as when somebody removed their pins, or the version before had none there.
        for lost in ["cil_sock4_connect", "cil_sock4_bind", "cil_sock6_bind"] {
            let directory = sandbox.root().join("cilium/socketlb/links/cgroup");
            fs::remove_file(directory.join(lost)).unwrap();
        }
        drop(open(&config(sandbox, Some(&here.path))));
        assert!(links(sandbox).keys().eq(first.keys()));
        // The maps are replaced by others: no program goes on with those before.
        let first = links(sandbox);
        let larger = config(sandbox, Some(&here.path));
        let sizes = MapSizes { lb: 2 * larger.sizes.lb, ..larger.sizes };
        let larger = DatapathConfig { sizes, ..larger };
        drop(open(&larger));
        let resized = links(sandbox);
        assert!(first.iter().all(|(name, (id, _))| resized[name].0 != *id), "{resized:?}");
        drop(open(&larger));
        assert_eq!(links(sandbox), resized, "once is enough");
        drop(open(&config(sandbox, Some(&here.path))));
        let first = links(sandbox);
        // Other programs: the same cgroup goes from one to the other.
        let other = config(sandbox, Some(&here.path));
        let other =
            DatapathConfig { features: Features { ipv6: false, ..other.features }, ..other };
        drop(open(&other));
        let second = links(sandbox);
        assert!(
            first.iter().all(|(name, (id, at))| second[name].0 != *id && second[name].1 == *at)
        );
        // Another cgroup.
        drop(open(&config(sandbox, Some(&there.path))));
        let third = links(sandbox);
        assert!(first.iter().all(|(name, (_, at))| third[name].1 != *at));
        let without = open(&config(sandbox, Some(Path::new("/proc"))));
        let trouble = without.sockets_trouble().expect("it is no cgroup");
        assert!(trouble.contains("--cgroup-root"), "{trouble}");
        assert!(without.settle_sockets().is_err());
        drop(without);
        assert_eq!(links(sandbox), third, "the ones that are attached go on serving");
        drop(open(&config(sandbox, None)));
        assert_eq!(links(sandbox), BTreeMap::new());
        drop(open(&config(sandbox, Some(&here.path))));
        let removed = uninstall(sandbox.root()).unwrap();
        assert!(removed.iter().any(|it| it == "link cil_sock6_connect of a cgroup"), "{removed:?}");
        assert!(!sandbox.root().join("cilium").exists());
    });
}

#[test]
fn what_runs_at_a_cgroup_under_a_hidden_file_system_is_not_doubled() {
    Sandbox::run(|sandbox| {
        let cgroup = Cgroup::new("hidden");
        let config = config(sandbox, Some(&cgroup.path));
        let datapath = Datapath::open(&config).unwrap();
        assert_eq!(datapath.sockets_trouble(), None);
        // Somebody detaches one.
        let path = sandbox.root().join("cilium/socketlb/links/cgroup/cil_sock4_connect");
        sys::link_detach(sys::get(&path).unwrap()).unwrap();
        assert!(datapath.sockets_trouble().unwrap().contains("not all programs"));
        datapath.settle_sockets().unwrap();
        assert_eq!(datapath.sockets_trouble(), None);
        // At a pod's interface programs over the maps run, which the next run finds by them.
        let ifindex = sandbox.veth(1);
        datapath
            .devices(|devices| {
                devices.attach(ifindex, "lxc1", volvox_actors::ports::DeviceKind::Native)
            })
            .unwrap();
        drop(datapath);
        mount("bpf", sandbox.root(), "bpf", MountFlags::empty(), None).unwrap();
        let next = Datapath::open(&config).unwrap();
        assert_eq!(next.sockets_trouble(), None);
        let directory = fs::File::open(&cgroup.path).unwrap();
        let directory = std::os::fd::AsRawFd::as_raw_fd(&directory).cast_unsigned();
        /// `BPF_CGROUP_INET4_CONNECT`.
        const CONNECT4: u32 = 10;
        assert_eq!(sys::running(directory, CONNECT4).unwrap().len(), 1);
    });
}
