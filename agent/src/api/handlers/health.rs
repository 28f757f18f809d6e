//! `GET /healthz`: whether the agent is well, in brief or with the state of each part.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use axum::{extract::State, http::HeaderMap};
use tokio::time::timeout;
use volvox_actors::{
    endpoints::ipam::{AddressLease, IpamMsg},
    node::routes::RoutingMode,
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{
    ClusterMeshStatus, ClusterStatus, Controller, ControllerStatus, IdentityRange, IpamStatus,
    KubernetesStatus, Mode, PodPools, RoutingStatus, Status, StatusAnswer, StatusDetails,
};

use crate::{
    api::{
        Api, Facts, features, pools,
        troubles::{self, SOURCE, Trouble},
        views::Views,
    },
    gateway::GatewayError,
};

/// The state of an agent that serves nobody.
pub(crate) const FAILURE: &str = "Failure";
/// How long the actors may take to answer, shorter than a kubelet waits for its probes.
const PATIENCE: Duration = Duration::from_secs(4);
/// How much of what is wrong is named in one line.
const NAMED_MAX: usize = 5;

/// How the agent is: 200, whatever it says of its parts.
pub(crate) async fn get(State(api): State<Api>, headers: HeaderMap) -> Answer {
    let brief = headers.get("brief").is_some_and(|value| value.as_bytes() == b"true");
    ok(&status(&api, brief).await?)
}

/// How the agent is, with or without its parts.
pub(crate) async fn status(api: &Api, brief: bool) -> Result<StatusAnswer, ApiError> {
    let failure = |text: &str| StatusAnswer {
        cilium: Status { state: FAILURE.to_owned(), msg: text.to_owned() },
        ..StatusAnswer::default()
    };
    if let Some(stuck) = troubles::stuck(api) {
        return Ok(failure(&stuck.text));
    }
    // Also when brief, actors are asked: an agent whose actors hang is not well.
    let what = "GET /healthz";
    let all = async {
        tokio::try_join!(Views::ask(api, what), leases(api, brief), pools::gather(api, what))
    };
    let Ok(answers) = timeout(PATIENCE, all).await else {
        let text = troubles::stuck(api).map(|stuck| stuck.text);
        return Ok(failure(text.as_deref().unwrap_or("the agent's actors do not answer in time")));
    };
    let (views, leases, pools) = answers?;
    let mut troubles = troubles::all(api, &views);
    troubles.extend(pools.as_ref().and_then(pools::trouble));
    let cilium = Status {
        state: if troubles.is_empty() { "Ok" } else { "Warning" }.to_owned(),
        msg: message(&api.facts.version, &troubles),
    };
    if brief {
        return Ok(StatusAnswer { cilium, ..StatusAnswer::default() });
    }
    Ok(StatusAnswer {
        cilium,
        cluster: ClusterStatus {
            health: views.health.daemon(),
            nodes: None,
            own: api.facts.node_name.clone(),
        },
        details: Some(details(
            &api.facts,
            troubles,
            views,
            ipam(&api.facts, &leases, pools.as_ref()),
        )),
    })
}

/// The version, and what is wrong, as far as it fits a line.
fn message(version: &str, troubles: &[Trouble]) -> String {
    let named = troubles.iter().take(NAMED_MAX).map(|trouble| trouble.text.as_str());
    let mut parts: Vec<&str> = [version].into_iter().chain(named).collect();
    let rest = format!("and {} more", troubles.len().saturating_sub(NAMED_MAX));
    if troubles.len() > NAMED_MAX {
        parts.push(&rest);
    }
    parts.join("; ")
}

fn details(facts: &Facts, troubles: Vec<Trouble>, views: Views, ipam: IpamStatus) -> StatusDetails {
    let devices = &views.devices;
    let kubernetes = match troubles.iter().any(|trouble| trouble.name.starts_with(SOURCE)) {
        _ if !facts.follows_cluster => "Disabled",
        true => "Warning",
        false => "Ok",
    };
    let disabled = |msg: &str| Status { state: "Disabled".to_owned(), msg: msg.to_owned() };
    StatusDetails {
        attach_mode: facts.attach_mode.name().to_owned(),
        bpf_maps: features::map_sizes(facts),
        clock_source: Mode::new("ktime"),
        cluster_mesh: views.mesh.map(|clusters| ClusterMeshStatus { clusters }),
        cni_chaining: Mode::new(&facts.features.cni_chaining),
        cni_file: features::cni_file(&facts.features),
        container_runtime: views.runtime,
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
        kvstore: match &views.sharing {
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

/// Addresses and who has them; a brief answer needs none.
async fn leases(api: &Api, brief: bool) -> Result<BTreeMap<IpAddr, AddressLease>, GatewayError> {
    match brief {
        true => Ok(BTreeMap::new()),
        false => api.gateway.ask("GET /healthz", |node| &node.ipam, IpamMsg::Dump).await,
    }
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
