//! `GET /healthz`: whether the agent is well, in brief or with the state of each part.

use std::{collections::BTreeMap, net::IpAddr};

use axum::{extract::State, http::HeaderMap};
use serde_json::json;
use volvox_actors::{endpoints::ipam::AddressLease, node::routes::RoutingMode};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{
    ClusterMeshStatus, ClusterStatus, Controller, ControllerStatus, IdentityRange, IpamStatus,
    KubernetesStatus, Mode, PodPools, RoutingStatus, Status, StatusAnswer, StatusDetails,
};

use crate::api::{
    Api, Facts,
    collector::{Findings, ProbeKind},
    features, pools,
    sharing::Sharing,
    troubles::{self, SOURCE, Trouble},
    views::Views,
};

/// The state of an agent that serves nobody.
pub(crate) const FAILURE: &str = "Failure";
/// Why one is not well of which nothing is known.
const UNANSWERED: &str = "the agent's actors do not answer in time";
/// The header by which whoever asks says whether Kubernetes has to be reached.
pub(crate) const KUBERNETES_HEADER: &str = "require-k8s-connectivity";
/// How much of what is wrong is named in one line.
const NAMED_MAX: usize = 5;

/// How the agent is: 200, whatever it says of its parts.
pub(crate) async fn get(State(api): State<Api>, headers: HeaderMap) -> Answer {
    let brief = said(&headers, "brief").unwrap_or(false);
    let wants_kubernetes = said(&headers, KUBERNETES_HEADER).unwrap_or(true);
    let (answer, first) = look(&api, brief, wants_kubernetes).await?;
    let mut answer = serde_json::to_value(answer).map_err(ApiError::failed)?;
    // Of what is wrong a brief answer has the first.
    if let Some(first) = first.filter(|_| brief) {
        answer["controllers"] = json!([first]);
    }
    ok(&answer)
}

/// What a header says, if it says yes or no.
pub(crate) fn said(headers: &HeaderMap, name: &str) -> Option<bool> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// How the agent is, with or without its parts.
pub(crate) async fn status(api: &Api, brief: bool) -> Result<StatusAnswer, ApiError> {
    Ok(look(api, brief, true).await?.0)
}

/// Why the agent serves nobody, or lacks what it has to have; nothing if it is well. A dependency that is down is
/// no reason, unless it is asked for: an agent that is ended because of it would not mend it.
pub(crate) async fn unwell(api: &Api, wants_kubernetes: bool) -> Result<Option<String>, ApiError> {
    if let Some(stuck) = troubles::stuck(api) {
        return Ok(Some(stuck.text));
    }
    let found = api.collector.ask(api).await;
    // It may be stuck by now.
    if let Some(stuck) = troubles::stuck(api) {
        return Ok(Some(stuck.text));
    }
    if let (None, Some(error)) = (&found.views, found.error) {
        return Err(error.into());
    }
    let controllers = ProbeKind::Controllers.name();
    if found.views.is_none() || found.stale.contains_key(controllers) {
        return Ok(Some(UNANSWERED.to_owned()));
    }
    let lacking = found.kubernetes_error().filter(|_| wants_kubernetes);
    Ok(lacking.map(|error| format!("Kubernetes service is not ready: {error}")))
}

/// How the agent is, and what is wrong first.
async fn look(
    api: &Api,
    brief: bool,
    wants_kubernetes: bool,
) -> Result<(StatusAnswer, Option<Controller>), ApiError> {
    let failure = |text: &str| {
        let cilium = Status { state: FAILURE.to_owned(), msg: text.to_owned() };
        Ok((StatusAnswer { cilium, ..StatusAnswer::default() }, None))
    };
    if let Some(stuck) = troubles::stuck(api) {
        return failure(&stuck.text);
    }
    let mut found = api.collector.ask(api).await;
    let Some(views) = found.views.take() else {
        if let Some(error) = found.error {
            return Err(error.into());
        }
        let text = troubles::stuck(api).map(|stuck| stuck.text);
        return failure(text.as_deref().unwrap_or(UNANSWERED));
    };
    let mut troubles = troubles::all(api, &views);
    troubles.extend(found.pools.as_ref().and_then(pools::trouble));
    troubles.extend(found.health.troubles());
    let first = first_of_all(&found, wants_kubernetes);
    let counted = troubles.iter().filter(|it| wants_kubernetes || !it.name.starts_with(SOURCE));
    let texts: Vec<&str> =
        first.iter().map(String::as_str).chain(counted.map(|it| it.text.as_str())).collect();
    let cilium = Status {
        state: if texts.is_empty() { "Ok" } else { "Warning" }.to_owned(),
        msg: message(&api.facts.version, &texts),
    };
    let controller_first = troubles.first().cloned().map(controller);
    let stale = found.stale.clone();
    let health = found.health.daemon();
    if brief {
        let cluster = ClusterStatus { health, ..ClusterStatus::default() };
        return Ok((StatusAnswer { cilium, cluster, stale, details: None }, controller_first));
    }
    let cluster = ClusterStatus { health, nodes: None, own: api.facts.node_name.clone() };
    let details = Some(details(&api.facts, troubles, &views, found));
    Ok((StatusAnswer { cilium, cluster, stale, details }, controller_first))
}

/// What is said first of all, in Cilium's order: it makes the rest doubtful, or is why it is wrong.
fn first_of_all(found: &Findings, wants_kubernetes: bool) -> Option<String> {
    if !found.unrun.is_empty() {
        return Some(format!("Not all probes executed at least once: {}", found.unrun.join(", ")));
    }
    if !found.stale.is_empty() {
        let names: Vec<_> =
            found.stale.iter().map(|(name, since)| format!("{name} since {since}")).collect();
        return Some(format!("Stale status data: {}", names.join(", ")));
    }
    let kvstore = found.sharing.as_ref().map(Sharing::status);
    if let Some(kvstore) = kvstore.filter(|it| !matches!(it.state.as_str(), "Ok" | "Disabled")) {
        return Some(format!("Kvstore service is not ready: {}", kvstore.msg));
    }
    if let Some(error) = found.kubernetes_error().filter(|_| wants_kubernetes) {
        return Some(format!("Kubernetes service is not ready: {error}"));
    }
    (found.cni_config.state == FAILURE)
        .then(|| format!("Could not write CNI config file: {}", found.cni_config.msg))
}

/// The version, and what is wrong, as far as it fits a line.
fn message(version: &str, troubles: &[&str]) -> String {
    let named = troubles.iter().take(NAMED_MAX).copied();
    let mut parts: Vec<&str> = [version].into_iter().chain(named).collect();
    let rest = format!("and {} more", troubles.len().saturating_sub(NAMED_MAX));
    if troubles.len() > NAMED_MAX {
        parts.push(&rest);
    }
    parts.join("; ")
}

fn details(facts: &Facts, troubles: Vec<Trouble>, views: &Views, found: Findings) -> StatusDetails {
    let devices = &views.devices;
    let ipam = ipam(facts, &found.leases, found.pools.as_ref());
    let kubernetes = match troubles.iter().any(|trouble| trouble.name.starts_with(SOURCE)) {
        _ if !facts.follows_cluster => "Disabled",
        true => "Warning",
        false => "Ok",
    };
    let disabled = |msg: &str| Status { state: "Disabled".to_owned(), msg: msg.to_owned() };
    StatusDetails {
        attach_mode: facts.attach_mode.name().to_owned(),
        bpf_maps: found.bpf_maps,
        clock_source: Mode::new("ktime"),
        cluster_mesh: views.mesh.clone().map(|clusters| ClusterMeshStatus { clusters }),
        cni_chaining: Mode::new(&facts.features.cni_chaining),
        cni_file: found.cni_config,
        container_runtime: views.runtime.clone(),
        controllers: troubles.into_iter().map(controller).collect(),
        datapath_mode: "veth".to_owned(),
        encryption: Mode::new("Disabled"),
        host_firewall: Mode::new(if facts.host_firewall { "Enabled" } else { "Disabled" }),
        hubble: match &facts.hubble {
            Ok(true) => Status { state: "Ok".to_owned(), msg: String::new() },
            Ok(false) => disabled(""),
            Err(error) => Status { state: "Failure".to_owned(), msg: error.clone() },
        },
        identity_range: IdentityRange {
            max_identity: facts.cluster_id.last().0,
            min_identity: facts.cluster_id.first().0,
        },
        ipam,
        kube_proxy_replacement: features::kube_proxy_replacement(&facts.features, devices),
        kubernetes: KubernetesStatus { k8s_api_versions: None, state: kubernetes.to_owned() },
        kvstore: match &found.sharing {
            Some(report) => report.status(),
            None => disabled("identities are kept by the agent itself"),
        },
        masquerading: features::masquerading(&facts.features, devices),
        routing: RoutingStatus {
            inter_host_routing_mode: match facts.routing {
                RoutingMode::Tunnel { .. } => "Tunnel [vxlan]".to_owned(),
                RoutingMode::Native { .. } => "Native".to_owned(),
            },
            intra_host_routing_mode: "BPF".to_owned(),
        },
    }
}

fn controller(trouble: Trouble) -> Controller {
    let Trouble { name, failures, text } = trouble;
    let status = ControllerStatus { consecutive_failure_count: failures, last_failure_msg: text };
    Controller { name, status }
}

fn ipam(
    facts: &Facts,
    leases: &BTreeMap<IpAddr, AddressLease>,
    pools: Option<&PodPools>,
) -> IpamStatus {
    let family = |v4: bool| -> Vec<String> {
        leases.keys().filter(|address| address.is_ipv4() == v4).map(IpAddr::to_string).collect()
    };
    let (ipv4, ipv6) = (family(true), family(false));
    // Those of chained pods are another plugin's, mostly from elsewhere.
    let count =
        |is_of_range: &dyn Fn(&IpAddr) -> bool| leases.keys().filter(|ip| is_of_range(ip)).count();
    let mut status = String::new();
    if let Some(range) = facts.ipv4_range {
        // The first and the last address are never handed out.
        let size = (1u64 << (32 - range.prefix_len())).saturating_sub(2);
        let used = count(&|ip| matches!(ip, IpAddr::V4(ip) if range.contains(ip)));
        status += &format!("IPv4: {used}/{size} allocated from {range}, ");
    }
    if let Some(range) = facts.ipv6_range {
        let bits = u32::from(128 - range.prefix_len());
        let size = 1u128.checked_shl(bits).unwrap_or(u128::MAX).saturating_sub(1);
        let used = count(&|ip| matches!(ip, IpAddr::V6(ip) if range.contains(ip)));
        status += &format!("IPv6: {used}/{size} allocated from {range}, ");
    }
    IpamStatus {
        allocations: leases.iter().map(|(ip, l)| (ip.to_string(), l.owner.clone())).collect(),
        ipv4: (!ipv4.is_empty()).then_some(ipv4),
        ipv6: (!ipv6.is_empty()).then_some(ipv6),
        status: pools.map_or(status, pools::line),
    }
}
