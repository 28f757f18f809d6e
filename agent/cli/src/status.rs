//! `volvox status`: asks the agent for all that its state is made of, and shows it on one page.

mod verbose;
mod waiting;

use std::{collections::BTreeMap, path::Path};

use hyper::Method;
use serde_json::{Value, json};
use volvox_actors::{
    node::devices::{DeviceStatus, DevicesStatus},
    policy::rules::PolicyView,
    restore::RestoreReport,
};
use volvox_inspect::{evidence::Evidence, flight::boot_id};
use volvox_rest::{
    RestClient,
    models::{
        ClusterNodes, Endpoint, KubeProxyReplacement, NodeDevice, Recorder, RemoteCluster,
        ServicesSummary, Source, Status, StatusAnswer, StatusDetails, WaitList,
    },
};

use self::{verbose::verbose, waiting::wait};
use super::{
    args::StatusArguments,
    error::ClientError,
    health,
    output::{Output, count},
    restore::{lost_line, summary},
    sources,
};

pub(super) async fn show(
    client: &RestClient,
    out: &mut Output<'_>,
    state_dir: &Path,
    arguments: &StatusArguments,
) -> Result<(), ClientError> {
    let brief = arguments.brief;
    if arguments.wait {
        wait(client, arguments.wait_duration).await?;
    }
    let brief_header = if brief { "true" } else { "false" };
    let headers = [("brief", brief_header)];
    let answer = client.send(Method::GET, "/healthz", &headers, None::<&Value>).await?;
    let said: StatusAnswer = answer.json()?;
    if brief {
        return out.answer(&said, |out, said| out.line(&said.cilium.state));
    }
    let verbose = arguments.verbose.then(|| verbose(&said));
    whole(client, out, state_dir, said).await?;
    match verbose {
        Some(parts) if !out.is_for_programs() => parts.show(out),
        _ => Ok(()),
    }
}

/// All that its state is made of.
async fn whole(
    client: &RestClient,
    out: &mut Output<'_>,
    state_dir: &Path,
    said: StatusAnswer,
) -> Result<(), ClientError> {
    let endpoints: Vec<Endpoint> = client.get("/endpoint").await?;
    let restore: RestoreReport = client.get("/volvox/restore").await?;
    let policy: PolicyView = client.get("/volvox/policy").await?;
    let nodes: ClusterNodes = client.get("/cluster/nodes").await?;
    let devices: DevicesStatus = client.get("/volvox/devices").await?;
    let services: ServicesSummary = client.get("/volvox/services").await?;
    let heard: Vec<Source> = client.get("/volvox/sources").await?;
    let waits: WaitList = client.get("/volvox/waits").await?;
    let recorder: Recorder = client.get("/volvox/flight").await?;
    let reached = health::ask(client.socket()).await.ok();
    let lost = Evidence::at(state_dir).lost(&boot_id());
    if out.is_for_programs() {
        return out.value(&json!({
            "lost-since-boot": lost,
            "health": said,
            "endpoints": states(&endpoints),
            "restore-finished": restore.finished,
            "policy-revision": policy.revision,
            "nodes": nodes.nodes_added.len(),
            "node-health": reached,
            "devices": devices,
            "services": services,
            "sources": heard,
            "waits": waits.waits.len(),
            "recorder": recorder,
        }));
    }
    let (version, wrong) = said.cilium.version_and_trouble();
    let details = said.details.unwrap_or_default();
    let troubles = trouble_lines(&details, wrong);
    let clusters = details.cluster_mesh.iter().flat_map(|mesh| &mesh.clusters);
    let clusters: Vec<_> = clusters.map(cluster_line).collect();
    let refused = policy.policies.iter().filter(|status| status.error.is_some()).count();
    out.members(&[
        ("Agent", format!("{} {version}", said.cilium.state)),
        ("Troubles", troubles),
        ("Node", node_line(said.cluster.own, &nodes)),
        ("Health", reached.as_ref().map(health::line).unwrap_or_default()),
        ("Endpoints", endpoint_line(&endpoints)),
        ("Restore", summary(&restore)),
        ("Lost", lost.iter().map(lost_line).collect::<Vec<_>>().join("\n")),
        (
            "Policy",
            format!(
                "revision {}, {}, {refused} refused{}",
                policy.revision,
                count(policy.policies.len(), "document"),
                match details.host_firewall.mode.as_str() {
                    "Enabled" => "; of the node itself, too",
                    _ => "",
                }
            ),
        ),
        ("Addresses", details.ipam.status.trim_end_matches(", ").replace(", ", "\n")),
        ("Devices", device_lines(&devices)),
        ("Programs", program_line(&details.attach_mode)),
        ("Services", service_lines(&services)),
        ("KubeProxy", replacement_line(&details.kube_proxy_replacement)),
        ("KVStore", kvstore_line(&details.kvstore)),
        ("Runtime", details.container_runtime.as_ref().map_or_else(String::new, runtime_line)),
        ("Clusters", lines(clusters.iter().map(String::as_str))),
        ("Sources", sources::lines(&heard)),
        ("Waits", wait_line(&waits)),
        ("Recorder", recorder_line(&recorder)),
    ])
}

/// What is wrong: a line each, or what of it fits a line.
fn trouble_lines(details: &StatusDetails, wrong: &str) -> String {
    let each = details.controllers.iter().map(|it| it.status.last_failure_msg.as_str());
    if details.controllers.is_empty() { wrong.to_owned() } else { lines(each) }
}

/// This node, and how many others are known.
fn node_line(own: String, nodes: &ClusterNodes) -> String {
    match nodes.nodes_added.len().saturating_sub(1) {
        0 => own,
        others => format!("{own}, and {} known", count(others, "other node")),
    }
}

/// Whether a kube-proxy is replaced, and at which devices.
fn replacement_line(status: &KubeProxyReplacement) -> String {
    let direct = |name: &str| status.direct_routing_device.as_deref() == Some(name);
    let device = |NodeDevice { ip, name }: &NodeDevice| {
        let addresses = ip.iter().map(|address| format!(" {address}")).collect::<String>();
        let direct = if direct(name) { " (Direct Routing)" } else { "" };
        format!("{name}{addresses}{direct}")
    };
    let devices: Vec<_> = status.device_list.iter().map(device).collect();
    match devices.is_empty() {
        true => format!("replacement {}", status.mode),
        false => format!("replacement {} [{}]", status.mode, devices.join(", ")),
    }
}

fn lines<'a>(each: impl Iterator<Item = &'a str>) -> String {
    each.collect::<Vec<_>>().join("\n")
}

fn states(endpoints: &[Endpoint]) -> BTreeMap<&str, usize> {
    let mut states = BTreeMap::new();
    for endpoint in endpoints {
        *states.entry(endpoint.status.state.as_str()).or_default() += 1;
    }
    states
}

fn endpoint_line(endpoints: &[Endpoint]) -> String {
    let states: Vec<_> =
        states(endpoints).iter().map(|(state, number)| format!("{number} {state}")).collect();
    match states.is_empty() {
        true => "none".to_owned(),
        false => format!("{} ({})", endpoints.len(), states.join(", ")),
    }
}

fn recorder_line(recorder: &Recorder) -> String {
    let troubles = recorder.troubles.iter().cloned();
    let file = recorder.file.iter().map(|file| format!("{} records in {file}", recorder.records));
    file.chain(troubles).collect::<Vec<_>>().join("\n")
}

/// Each, with the addresses that stand for others behind it.
fn device_lines(devices: &DevicesStatus) -> String {
    let line = |device: &DeviceStatus| {
        let addresses: Vec<_> = device.addresses.iter().map(|it| it.to_string()).collect();
        let addresses =
            if addresses.is_empty() { "no address".to_owned() } else { addresses.join(", ") };
        let state = if device.attached { "" } else { ", no programs yet" };
        format!("{} ({addresses}{state})", device.name)
    };
    match devices.devices.as_slice() {
        [] => "none leads out".to_owned(),
        all => all.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}

/// By what they run at interfaces, and what that costs.
fn program_line(attach_mode: &str) -> String {
    match attach_mode {
        "tcx" => "by TCX links",
        "tc" => {
            "by filters of clsact, not by TCX links: one that somebody adds later may run first"
        }
        other => other,
    }
    .to_owned()
}

/// How many there are, how far they are written, and what pruning waits for.
fn service_lines(services: &ServicesSummary) -> String {
    let ServicesSummary { frontends, backends, quarantined, leaving, .. } = services;
    let ServicesSummary { room, rows, awaited, found, .. } = services;
    let written = match (services.unread, services.open) {
        (0, 0) => "all written".to_owned(),
        (0, open) => format!("{open} not written yet"),
        (unread, open) => format!("{open} not written and {unread} not looked at yet"),
    };
    let full = match room {
        0 => String::new(),
        room => format!("; the fullest map has {rows} of {room} rows"),
    };
    let retained = Some(format!("{quarantined} quarantined")).filter(|_| *quarantined > 0);
    let leaving = Some(format!("{leaving} leaving")).filter(|_| *leaving > 0);
    let mut counts = vec![count(*frontends, "frontend"), count(*backends, "backend")];
    counts.extend(retained.into_iter().chain(leaving).chain([written]));
    let mut lines = vec![counts.join(", ") + &full];
    if !awaited.is_empty() {
        let whom: Vec<_> = awaited.iter().map(|source| source.name()).collect();
        lines.push(format!("pruning waits for {}", whom.join(", ")));
    }
    if !found.is_empty() {
        lines.push(format!(
            "at start {} found in the maps, see the log",
            count(found.len(), "fault")
        ));
    }
    lines.join("\n")
}

/// Nothing where there is none.
fn kvstore_line(status: &Status) -> String {
    match status.state.as_str() {
        "" | "Disabled" => String::new(),
        state => format!("{state}, {}", status.msg),
    }
}

/// The container runtime; one that is not there does no harm.
fn runtime_line(status: &Status) -> String {
    match status.state.as_str() {
        "Disabled" => format!("not followed: {}", status.msg),
        state => format!("{state}, {}", status.msg),
    }
}

/// Another cluster.
fn cluster_line(remote: &RemoteCluster) -> String {
    let known = [
        count(remote.num_nodes, "node"),
        format!("{} identities", remote.num_identities),
        format!("{} addresses", remote.num_endpoints),
        count(remote.num_shared_services, "shared service"),
    ];
    let state = match remote.ready {
        true => "Ok".to_owned(),
        false => format!("Warning, {}", remote.status),
    };
    format!("{} (number {}): {state}; {}", remote.name, remote.config.cluster_id, known.join(", "))
}

fn wait_line(waits: &WaitList) -> String {
    // This very question is not one of them: it was answered.
    match (waits.waits.len(), waits.cycle.is_empty()) {
        (0, _) => "none".to_owned(),
        (number, true) => count(number, "question") + " open; `volvox why` shows them",
        (_, false) => "actors wait for each other in a ring; `volvox why` shows it".to_owned(),
    }
}
