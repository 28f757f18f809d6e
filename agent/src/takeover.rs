//! The takeover of a node from Cilium: what would be kept, changed and lost is found out before anything
//! is touched. `volvox-agent migrate-check` prints it, and a start with `--take-over=cilium` goes by it.

use std::{fs, os::unix::net::UnixStream, path::Path};

use anyhow::{Context, bail};
use volvox_actors::{
    endpoints::endpoint::{EndpointSpec, OwnRows},
    ports::{HOST_DEVICE, HOST_IFINDEX, OVERLAY},
    state_directory::{ScannedDirectory, scan, writer_of_header},
};
use volvox_system::netlink::Socket;

use crate::{
    boot::datapath_config,
    config::{self, Config, RoutingMode, TakeOver},
    datapath::{self, Inheritance, KernelSurvey, survey},
    ports::{Directories, DiskFiles, Steps, hold_bpf},
};

/// The version of Cilium whose layouts are known.
const VERSION: &str = "1.19.";
/// Of what Cilium's agent leaves its process number.
const PID_FILE: &str = "cilium.pid";
const AGENT: &str = "cilium-agent";

/// What Cilium left on this node, and what would become of it.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kernel: KernelSurvey,
    version: Option<String>,
    /// What is to be taken over.
    pub inheritance: Inheritance,
}

impl Findings {
    /// Looks at the disk and at the kernel; `None` if no program of Cilium runs here.
    pub fn look(config: &Config) -> anyhow::Result<Option<Self>> {
        let state = config.run_dir.join("state");
        let files = DiskFiles::new(&Steps::new(state.clone(), config.lib_dir.clone()));
        let found = scan(&files);
        let specs = found.records.iter().map(|found| EndpointSpec::from(&found.record));
        let places = specs.filter(|spec| !spec.is_host());
        let recorded = places.filter_map(|spec| Some((spec.id?, spec.ifindex))).collect();
        let kernel = survey(&datapath_config(config, None)?, &recorded)?;
        if kernel.endpoints.is_empty() {
            return Ok(None);
        }
        let mut findings = Self { kernel, ..Self::default() };
        findings.inheritance.tunnel = config.routing_mode == RoutingMode::Tunnel;
        findings.look_at_tunnels()?;
        findings.look_for_agent(config);
        findings.look_at_version(&found, &state);
        findings.look_at_records(&found, config.enable_host_firewall)?;
        if let Some(dir) = &config.config_dir {
            let (lacking, changed) = config::cilium_remarks(dir)?;
            findings.kernel.lacking.extend(lacking);
            findings.kernel.changed.extend(changed);
        }
        Ok(Some(findings))
    }

    /// Whether pods of other nodes are reached in the same way.
    fn look_at_tunnels(&mut self) -> anyhow::Result<()> {
        let has_device = Socket::open()?.link_by_name(OVERLAY)?.is_some();
        match (self.inheritance.tunnel, has_device) {
            (true, true) => self.kernel.changed.push(format!(
                "device {OVERLAY} is taken as it is; routes of the node itself to pods of other nodes stay \
                 Cilium's, by {HOST_DEVICE}"
            )),
            (true, false) => self.kernel.changed.push(
                "pods of other nodes: Cilium had no tunnels here, and --routing-mode=tunnel makes some"
                    .to_owned(),
            ),
            (false, true) => self.kernel.lacking.push(format!(
                "tunnels to pods of other nodes ({OVERLAY}), with --routing-mode=native"
            )),
            (false, false) => {}
        }
        Ok(())
    }

    /// An agent of Cilium that runs would undo it.
    fn look_for_agent(&mut self, config: &Config) {
        let pid = fs::read_to_string(config.run_dir.join(PID_FILE)).unwrap_or_default();
        let pid = pid.trim();
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let remedy = "stop it first: its programs go on serving without it";
        if !pid.is_empty() && command.contains(AGENT) {
            self.refused(format!("Cilium's agent runs as process {pid}: {remedy}"));
        } else if UnixStream::connect(&config.socket_path).is_ok() {
            let path = config.socket_path.display();
            self.refused(format!("an agent answers at {path}: {remedy}"));
        }
    }

    fn refused(&mut self, line: String) {
        self.kernel.refused.push(line);
    }

    /// Records say who wrote them; ours do, too.
    fn look_at_version(&mut self, found: &ScannedDirectory, state: &Path) {
        let headers = found.records.iter().map(|found| state.join(&found.dir).join("ep_config.h"));
        self.version = headers.filter_map(|path| writer_of_header(&fs::read(path).ok()?)).next();
        match &self.version {
            Some(version) if !version.starts_with(VERSION) => {
                let line = format!(
                    "Cilium {version}: only what {VERSION}x leaves is known to go on; layouts of maps \
                     were compared, what their rows mean was not"
                );
                self.kernel.lacking.push(line);
            }
            Some(_) => {}
            None => {
                self.kernel
                    .changed
                    .push("no record says which version of Cilium wrote it".to_owned());
            }
        }
    }

    fn look_at_records(
        &mut self,
        found: &ScannedDirectory,
        host_firewall: bool,
    ) -> anyhow::Result<()> {
        let links = Socket::open()?.links()?;
        let mut fqdn = Vec::new();
        for found in &found.records {
            let record = &found.record;
            if !record.dns_rules.is_empty() || !record.dns_rules_v2.is_empty() {
                fqdn.push(record.id.to_string());
            }
            let spec = EndpointSpec::from(record);
            let is_host = spec.config_ifindex() == HOST_IFINDEX;
            let link = links.get(&spec.ifindex);
            let is_there =
                link.is_some_and(|link| link.differs(&spec.ifname, spec.node_mac).is_none());
            if if is_host { host_firewall } else { is_there } {
                self.inheritance.endpoints.push(OwnRows::of_record(record).config);
            }
        }
        if !fqdn.is_empty() {
            let line = format!(
                "rules with toFQDNs: names are not looked up, at endpoints {}",
                fqdn.join(", ")
            );
            self.kernel.lacking.push(line);
        }
        for (endpoint, ifindex) in self.kernel.endpoints.clone() {
            let mut rows = self.inheritance.endpoints.iter();
            let name = links.get(&ifindex).map_or_else(
                || format!("interface {ifindex}"),
                |link| format!("interface {}", link.name),
            );
            if rows.any(|row| row.endpoint == endpoint && row.ifindex == ifindex) {
                continue;
            }
            if found.health.iter().any(|dir| *dir == endpoint.to_string()) {
                let line = format!(
                    "health endpoint {endpoint} at {name}: this agent makes its own, unless \
                     --enable-endpoint-health-checking=false"
                );
                self.kernel.changed.push(line);
            } else {
                self.refused(format!(
                    "endpoint {endpoint} at {name} has no record that can be used: start Cilium until \
                     it is ready again, or delete its pod"
                ));
            }
        }
        let (records, count) = (found.records.len(), self.kernel.endpoints.len());
        let line = format!(
            "{count} endpoints of {records} records: their numbers, addresses, identities and the \
             policies that stand"
        );
        self.kernel.kept.insert(0, line);
        Ok(())
    }

    /// All that was found, for people.
    pub fn lines(&self) -> Vec<String> {
        let version = self.version.as_deref().unwrap_or("of a version that no record says");
        let count = self.kernel.endpoints.len();
        let mut lines = vec![format!("Cilium {version}: its programs run at {count} endpoints")];
        let all = [
            ("kept", &self.kernel.kept),
            ("changed", &self.kernel.changed),
            ("lacking", &self.kernel.lacking),
            ("refused", &self.kernel.refused),
        ];
        for (what, some) in all {
            lines.extend(some.iter().map(|line| format!("{what:<8} {line}")));
        }
        lines
    }

    /// Fails, and says of everything why, if a takeover may not be begun.
    fn permit(&self, without_features: bool) -> anyhow::Result<()> {
        let lacking: &[String] = if without_features { &[] } else { &self.kernel.lacking };
        if lacking.is_empty() && self.kernel.refused.is_empty() {
            return Ok(());
        }
        let mut remedies = Vec::new();
        if !self.kernel.refused.is_empty() {
            remedies.push("put right what is refused");
        }
        if !lacking.is_empty() {
            remedies.push("do without what is lacking by --take-over-without-features=true");
        }
        let all: Vec<_> = self.kernel.refused.iter().chain(lacking).map(String::as_str).collect();
        bail!(
            "nothing is taken over from Cilium, and nothing was touched: {}; {}",
            all.join("; "),
            remedies.join(", or ")
        )
    }
}

/// What a start is to take over, if it is told to: nothing of what there is was touched before.
pub fn begin(config: &Config) -> anyhow::Result<Option<Inheritance>> {
    if config.takeover.take_over == TakeOver::None {
        return Ok(None);
    }
    let Some(findings) = Findings::look(config)? else {
        return Ok(Some(Inheritance::default()));
    };
    for line in findings.lines() {
        tracing::info!("{line}");
    }
    findings.permit(config.takeover.take_over_without_features)?;
    Ok(Some(findings.inheritance))
}

/// `volvox-agent migrate-check`: says what a takeover would do. Fails if it would be refused.
pub fn check(config: &Config) -> anyhow::Result<()> {
    let Some(findings) = Findings::look(config).context("look at what Cilium left")? else {
        volvox_system::say!("no program of Cilium runs here: there is nothing to take over");
        return Ok(());
    };
    for line in findings.lines() {
        volvox_system::say!("{line}");
    }
    findings.permit(config.takeover.take_over_without_features)?;
    volvox_system::say!("start the agent with --take-over=cilium");
    Ok(())
}

/// `volvox-agent hand-back`: what is to be done before Cilium's agent starts. Refused while an agent runs.
pub fn hand_back(config: &Config) -> anyhow::Result<()> {
    let held = Directories::hold(&config.run_dir, &config.lib_dir)?;
    let bpf_root = hold_bpf(&config.bpf_root)?;
    for line in datapath::hand_back(&config.bpf_root)? {
        volvox_system::say!("{line}");
    }
    drop((held, bpf_root));
    volvox_system::say!("start Cilium's agent: it gives each link its own program, in place");
    Ok(())
}
