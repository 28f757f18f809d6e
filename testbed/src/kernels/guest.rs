//! What is tried on the kernel that runs: loading the programs, and a node that is restarted under traffic, by links
//! where it has them, by filters, and with one changed for the other.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use volvox_agent::datapath::{Datapath, DatapathConfig, MapSizes};

use super::objects::{Loaded, everything, load};
use crate::{
    fleet::Fleet,
    lab::{self, Binaries, Cgroup, Inventory, Node, Through},
    progress::Progress,
    traffic::{Kind, stop_all},
};

/// Pods on the node.
const PODS: usize = 8;
/// Packets a second of a stream: an emulated machine has no time for more.
const RATE: u32 = 50;

/// Later lives of the agent: whether it is to have links, and its endpoints. With a host firewall the node is
/// one of them.
const LIVES: [(&str, usize); 4] =
    [("true", PODS + 1), ("false", PODS), ("false", PODS + 1), ("true", PODS)];

/// What was found on a kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Findings {
    /// The kernel's own number.
    pub(super) release: String,
    /// What became of each object, by the clang that made it.
    pub(super) objects: BTreeMap<String, Loaded>,
    /// What the agent said of itself at last.
    pub(super) state: String,
    /// By what programs ran, one life after the other.
    pub(super) modes: Vec<String>,
    /// How often the agent was killed and started again.
    pub(super) restarts: usize,
    /// Packets of all streams.
    pub(super) sent: u64,
    /// Those that nobody answered.
    pub(super) lost: u64,
    /// Those that got through although policy forbids them.
    pub(super) forbidden: u64,
    /// Endpoints whose numbers moved.
    pub(super) moved: usize,
}

impl Findings {
    /// Fails unless all is as it should be.
    pub(super) fn judge(&self) -> Result<()> {
        for (clang, objects) in &self.objects {
            for (object, error) in objects {
                ensure!(error.is_none(), "{object} by {clang} is refused: {error:?}");
            }
        }
        ensure!(!self.objects.is_empty(), "no object was tried");
        ensure!(self.state == "Ok", "the agent says {}", self.state);
        ensure!(
            self.modes.iter().any(|mode| mode == "tc"),
            "no life had filters: {:?}",
            self.modes
        );
        ensure!(self.sent > 0 && self.restarts > 0, "nothing was tried: {self:?}");
        let (lost, moved, forbidden) = (self.lost, self.moved, self.forbidden);
        ensure!(
            (lost, moved, forbidden) == (0, 0, 0),
            "{lost} lost, {moved} moved, {forbidden} forbidden"
        );
        Ok(())
    }
}

/// Tries all of it in a lab, and writes down what was found. The exit code.
pub(super) fn run(place: &Path) -> Result<i32> {
    lab::inside(|| {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
        let objects = load_all(&place.join("objects"))?;
        let mut findings = Findings { release, objects, ..Findings::default() };
        restart(&mut findings)?;
        fs::write(place.join("findings"), serde_json::to_vec(&findings)?)?;
        Ok(())
    })
}

/// Loads all objects over maps that are made for it.
fn load_all(objects: &Path) -> Result<BTreeMap<String, Loaded>> {
    let root = Path::new("/sys/fs/bpf/load");
    fs::create_dir_all(root)?;
    let features = everything();
    let config = DatapathConfig {
        bpf_root: root.to_owned(),
        features,
        sizes: MapSizes { maglev: features.maglev, ..MapSizes::default() },
        sockets: None,
        tcx: true,
        end_tcp: false,
        take_over: None,
        sysctl: Default::default(),
    };
    let datapath = Arc::new(Datapath::open(&config).context("open the datapath")?);
    let loaded = load(objects, &root.join("tc/globals"))?;
    drop(datapath);
    Ok(loaded)
}

/// Has a node with pods live through restarts under traffic.
fn restart(findings: &mut Findings) -> Result<()> {
    let cgroup = Cgroup::create(&lab::path("cgroup"))?;
    let mut node = Node::new(Binaries::find()?)?;
    let root = cgroup.path().display().to_string();
    node.set_flag("bpf-lb-sock", Some("true"));
    node.set_flag("cgroup-root", Some(&root));
    node.set_flag("bpf-lb-algorithm", Some("maglev"));
    node.set_flag("bpf-lb-mode-annotation", Some("true"));
    let mut fleet = Fleet::launch_on(node, PODS, Through::Rest, &Progress::new(true))?;
    let before = Inventory::read(&fleet.node)?;
    let streams = vec![
        fleet.stream(Kind::Udp, 0, 1, false, RATE)?,
        fleet.stream(Kind::Udp, 2, 3, true, RATE)?,
        fleet.stream(Kind::Ping, 4, 5, false, RATE)?,
    ];
    let forbidden = fleet.stream(Kind::Udp, 0, 5, false, RATE)?;
    note(&fleet.node, findings)?;
    for (tcx, endpoints) in LIVES {
        fleet.node.kill_agent()?;
        fleet.node.set_flag("enable-tcx", Some(tcx));
        let firewall = if endpoints > PODS { "true" } else { "false" };
        fleet.node.set_flag("enable-host-firewall", Some(firewall));
        fleet.node.start_agent()?;
        fleet.node.wait_for_ready(endpoints)?;
        findings.restarts += 1;
        note(&fleet.node, findings)?;
    }
    fleet.node.wait("the agent finds something wrong", |node| {
        let health: Value = node.rest().get("/healthz")?;
        Ok(health["cilium"]["state"] == "Ok")
    })?;
    findings.state = "Ok".to_owned();
    findings.forbidden = forbidden.answers();
    drop(forbidden);
    for report in stop_all(streams)? {
        findings.sent += report.sent;
        findings.lost += report.lost + report.failures;
    }
    findings.moved = before.moved(&Inventory::read(&fleet.node)?);
    Ok(())
}

fn note(node: &Node, findings: &mut Findings) -> Result<()> {
    let health: Value = node.rest().get("/healthz")?;
    let mode = health["attach-mode"].as_str().unwrap_or("unknown").to_owned();
    if findings.modes.last() != Some(&mode) {
        findings.modes.push(mode);
    }
    Ok(())
}
