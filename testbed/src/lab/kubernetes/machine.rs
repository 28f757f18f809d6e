//! A machine of a cluster: namespaces and a disk of its own, containerd, and a kubelet.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{groups::Groups, images::Images};
use crate::lab::{Netns, Process, image, ip, programs, wait_for};

/// What its first process does.
const SCRIPT: &str = include_str!("machine.sh");
/// Where the machine sees its directory.
const LAB: &str = "/lab";

/// A machine that runs pods. Dropped, it is switched off, and its disk is the lab's.
pub struct Machine {
    /// `n1`, `n2`, …
    pub name: String,
    /// Its address on the machines' network.
    pub address: Ipv4Addr,
    place: PathBuf,
    running: Option<Running>,
}

/// Its processes, in the order in which they end.
struct Running {
    kubelet: Option<Process>,
    runtime: Option<Process>,
    /// The first process, as the lab sees it.
    pid: u32,
    _first: Process,
    netns: Netns,
    _groups: Groups,
}

impl Machine {
    /// The Nth machine, connected to the bridge of that name and switched on. It knows the images, and
    /// its kubelet asks the API server of that kubeconfig.
    pub(super) fn start(
        number: u8,
        bridge: &str,
        images: &Images,
        kubeconfig: &str,
        certificate: &Path,
    ) -> Result<Self> {
        let name = format!("n{number}");
        let place = PathBuf::from(format!("/run/machine-{name}"));
        fs::create_dir_all(place.join("disk"))?;
        let script = place.join("machine.sh");
        fs::write(&script, SCRIPT)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        // The kubeconfig names files as the lab sees them.
        let there = format!("{LAB}/ca.crt");
        let kubeconfig = kubeconfig.replace(&certificate.display().to_string(), &there);
        fs::write(place.join("kubeconfig"), kubeconfig)?;
        fs::copy(certificate, place.join("ca.crt"))?;
        fs::write(place.join("containerd.toml"), runtime_configuration())?;
        fs::write(place.join("kubelet.yaml"), kubelet_configuration().to_string())?;
        let address = Ipv4Addr::new(192, 0, 2, number);
        let mut machine = Self { name, address, place, running: None };
        machine.switch_on(bridge)?;
        images.import_into(&machine)?;
        Ok(machine)
    }

    /// Switches it on, with what is on its disk, and waits until containerd answers.
    pub(super) fn switch_on(&mut self, bridge: &str) -> Result<()> {
        ensure!(self.running.is_none(), "{} is on", self.name);
        let groups = Groups::create(&self.place.join("hierarchies"), &self.name)?;
        fs::write(self.place.join("groups"), groups.lines())?;
        let netns = self.connect(bridge)?;
        let ready = self.place.join("ready");
        let _ = fs::remove_file(&ready);
        let words = [
            format!("--net={}", netns.path().display()),
            "unshare".into(),
            "--mount".into(),
            "--pid".into(),
            "--fork".into(),
            "--kill-child".into(),
            "--uts".into(),
            "--ipc".into(),
            self.place.join("machine.sh").display().to_string(),
            self.name.clone(),
            self.place.display().to_string(),
        ];
        let log = self.place.join("machine.log");
        let mut first = Process::start("nsenter".as_ref(), &words, &log)?;
        wait_for("the machine starts", || {
            first.check().with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
            Ok(ready.exists())
        })?;
        let pid = fs::read_to_string(self.place.join("pid"))?.trim().parse()?;
        let (kubelet, runtime) = (None, None);
        self.running =
            Some(Running { kubelet, runtime, pid, _first: first, netns, _groups: groups });
        self.start_runtime()?;
        self.start_kubelet()
    }

    fn connect(&self, bridge: &str) -> Result<Netns> {
        let name = &self.name;
        let netns = Netns::create(name)?;
        for words in [
            format!("link add {name} type veth peer name eth0 netns {name}"),
            format!("link set {name} master {bridge} up"),
            format!("-n {name} link set lo up"),
            format!("-n {name} addr add {}/24 dev eth0", self.address),
            format!("-n {name} link set eth0 up"),
            format!("-n {name} route add default via {}", super::ADDRESS),
        ] {
            ip(&words)?;
        }
        Ok(netns)
    }

    /// Pulls the plug: every process ends, interfaces and all that the kernel had are gone, the disk
    /// stays.
    pub fn switch_off(&mut self) -> Result<()> {
        self.running.take().context("it is off").map(drop)
    }

    /// Starts containerd after a [`Machine::kill`].
    pub fn start_runtime(&mut self) -> Result<()> {
        let words = ["containerd".to_owned(), format!("--config={LAB}/containerd.toml")];
        self.running()?.runtime = Some(self.start_within(&words, "containerd.log")?);
        wait_for("containerd answers", || Ok(self.run("ctr version").is_ok()))
    }

    /// Starts the kubelet after a [`Machine::kill`].
    pub fn start_kubelet(&mut self) -> Result<()> {
        let program = programs::find("kubelet").context("no kubelet")?;
        let words = [
            program.display().to_string(),
            format!("--config={LAB}/kubelet.yaml"),
            format!("--kubeconfig={LAB}/kubeconfig"),
            format!("--hostname-override={}", self.name),
            format!("--node-ip={}", self.address),
            "--container-runtime=remote".into(),
            "--container-runtime-endpoint=unix:///run/containerd/containerd.sock".into(),
        ];
        self.running()?.kubelet = Some(self.start_within(&words, "kubelet.log")?);
        Ok(())
    }

    /// SIGKILL to every process of that name.
    pub fn kill(&self, program: &str) -> Result<()> {
        self.run(&format!("pkill -KILL -x {program}")).map(drop)
    }

    /// What a command printed that was run on the machine; fails unless it succeeds.
    pub fn run(&self, words: &str) -> Result<String> {
        self.run_words(&words.split(' ').collect::<Vec<_>>())
    }

    /// The same with words that have spaces.
    pub fn run_words(&self, words: &[&str]) -> Result<String> {
        let ran = Command::new("nsenter").args(self.entering()?).args(words).output()?;
        let complaint = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.success(), "{words:?} on {}: {complaint}", self.name);
        Ok(String::from_utf8(ran.stdout)?)
    }

    /// The network namespace of the machine itself.
    pub fn netns(&self) -> Result<&Netns> {
        Ok(&self.running.as_ref().context("it is off")?.netns)
    }

    /// The network namespace of the pod that has this address.
    pub fn pod(&self, address: Ipv4Addr) -> Result<Netns> {
        let root = PathBuf::from(format!("/proc/{}/root/run/netns", self.pid()?));
        for entry in fs::read_dir(&root)? {
            let path = entry?.path();
            // One may be going.
            let Ok(netns) = Netns::open(&path) else { continue };
            let addresses = netns.run(|| ip("-o -4 addr show dev eth0")).unwrap_or_default();
            if addresses.contains(&format!(" {address}/")) {
                return Ok(netns);
            }
        }
        anyhow::bail!("{} has no pod with the address {address}", self.name)
    }

    /// A file of the machine, as the lab sees it.
    pub fn file(&self, path: &str) -> Result<PathBuf> {
        Ok(PathBuf::from(format!("/proc/{}/root", self.pid()?)).join(path.trim_start_matches('/')))
    }

    /// The end of what containerd and the kubelet printed.
    pub fn logs(&self) -> String {
        let end = |name: &str| {
            let text = fs::read_to_string(self.place.join(name)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            format!("{name}:\n{}\n", lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        ["machine.log", "containerd.log", "kubelet.log"].map(end).concat()
    }

    /// Has a file of the lab in its directory; how the machine calls it.
    pub(super) fn give(&self, file: &Path) -> Result<String> {
        let name = file.file_name().context("a file without a name")?;
        let to = self.place.join(name);
        if !to.exists() {
            fs::hard_link(file, &to).or_else(|_| fs::copy(file, &to).map(drop))?;
        }
        Ok(format!("{LAB}/{}", name.to_string_lossy()))
    }

    fn pid(&self) -> Result<u32> {
        Ok(self.running.as_ref().context("it is off")?.pid)
    }

    fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().context("it is off")
    }

    fn entering(&self) -> Result<Vec<String>> {
        let all = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"].map(String::from);
        let within = [format!("{LAB}/machine.sh"), "--within".to_owned()];
        let target = ["--target".to_owned(), self.pid()?.to_string()];
        Ok([&target[..], &all[..], &within[..]].concat())
    }

    fn start_within(&self, words: &[String], log: &str) -> Result<Process> {
        let words = [self.entering()?, words.to_vec()].concat();
        Process::start("nsenter".as_ref(), &words, &self.place.join(log))
    }
}

fn runtime_configuration() -> String {
    format!(
        r#"version = 2

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{}"
disable_apparmor = true
# Lowering the score takes a right that the lab may not have.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#,
        image::NAME
    )
}

fn kubelet_configuration() -> serde_json::Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        // Whoever reaches it is of the lab.
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "cgroupDriver": "cgroupfs",
        "failSwapOn": false,
        "nodeStatusUpdateFrequency": "2s",
        "clusterDomain": "cluster.local",
        // The real machine's disk may be as full as it is.
        "evictionHard": {
            "imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "maxPods": 200,
    })
}
