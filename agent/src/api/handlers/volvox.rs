//! Most of `/volvox`, which Cilium does not have: actors, waits, sources, restore, builds and more.
//! It also explains why an endpoint is not ready, and regenerates it.

use std::collections::BTreeMap;

use axum::{extract::State, http::Uri};
use volvox_actors::{
    endpoints::{
        build_queue::BuildQueueMsg, endpoint::Level, endpoint_called, ipam::IpamMsg,
        supervisor::EndpointsMsg,
    },
    host::{CellId, Wait, Waits, Whom},
    model::{EndpointId, Labels, drift::Drift},
    node::{conntrack::ConntrackMsg, devices::DevicesMsg, local_node::NodeMsg},
    node_supervisor::NodeSupervisor,
    policy::{ipcache::IpcacheMsg, rules::PolicyMsg},
    restore::RestoreMsg,
    services::service_cache::ServicesMsg,
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{
    Actor, Collecting, Endpoint, IpamLease, PruningWait, Recorder, Regenerated, Repaired,
    WaitEntry, WaitList, Why,
};

use super::{
    endpoint::{not_changed, view},
    query::{first, query},
};
use crate::api::{
    Api, causes::causes, endpoint_name::target, extract::Segment, node_health, pools,
    sharing::Sharing, verify::verify_devices,
};

/// Every actor.
pub(crate) async fn actors(State(api): State<Api>) -> Answer {
    let cells = api.gateway.look(|node| node.host.cells()).await?;
    ok(&cells.iter().map(Actor::from).collect::<Vec<_>>())
}

/// What one actor shows of itself.
pub(crate) async fn actor(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let number = id
        .parse()
        .map_err(|_| ApiError::bad_request(format!("id: {id:?} is no actor's number")))?;
    match api.gateway.look(move |node| node.host.observe(CellId(number))).await? {
        Some(observed) => ok(&observed),
        None => Err(ApiError::not_found(format!("there is no actor {number}"))),
    }
}

/// Every source of news, and how it was heard.
pub(crate) async fn sources(State(api): State<Api>) -> Answer {
    ok(&crate::api::sources::gather(&api, "GET /volvox/sources").await?)
}

/// Every wait, and the ring if some wait for each other.
pub(crate) async fn waits(State(api): State<Api>) -> Answer {
    let look = |node_supervisor: &NodeSupervisor| {
        let names = names(node_supervisor);
        let now = node_supervisor.host.now();
        node_supervisor.host.with_waits(|waits| {
            let cycle = waits.cycle();
            let entry = |wait| WaitEntry::new(wait, &names, now);
            WaitList {
                waits: waits.iter().map(entry).collect(),
                cycle: cycle.iter().flat_map(|cycle| &cycle.0).map(entry).collect(),
                ..WaitList::default()
            }
        })
    };
    let waits = api.gateway.look(look).await?;
    let what = "GET /volvox/waits";
    let services = api.gateway.ask(what, |node| &node.services, ServicesMsg::Show).await?;
    let pruning = services.awaited.iter().map(|source| PruningWait {
        what: "services and backends of an earlier life".to_owned(),
        whom: source.name().to_owned(),
    });
    let sources = crate::api::sources::gather(&api, what).await?;
    let causes = causes(&waits.waits, &sources);
    let unreached = node_health::gather(&api, what).await?.unreached();
    ok(&WaitList { pruning: pruning.collect(), causes, unreached, ..waits })
}

/// Why an endpoint is not further than it is.
pub(crate) async fn why(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let view = view(&api, &id).await?;
    let id = view.id;
    let (what, subject) = (format!("GET /volvox/endpoint/{}/why", view.id), view.subject());
    let remarks = |reply| PolicyMsg::Remarks { subject, reply };
    let policies = api.gateway.ask(what, |node| &node.policy, remarks).await?;
    let sharing = Sharing::gather(&api, "GET /volvox/endpoint/why").await?;
    let numbering = sharing.and_then(|sharing| sharing.numbering(view.identity));
    let look = move |node_supervisor: &NodeSupervisor| {
        let (names, now) = (names(node_supervisor), node_supervisor.host.now());
        let entry = |wait: &Wait| WaitEntry::new(wait, &names, now);
        let chain = chain(node_supervisor, &names, id);
        let queues =
            chain.iter().any(|wait| wait.whom == Whom::Cell(node_supervisor.build_queue.id()));
        let cycle = node_supervisor.host.with_waits(Waits::cycle);
        let why = Why {
            id: view.id.0,
            state: view.api_state().to_owned(),
            since_seconds: now.since(view.since).as_secs_f64(),
            last_error: view.last_error.as_ref().map(ToString::to_string),
            not_served: view.lost.as_ref().map(|lost| lost.why.to_string()),
            policies,
            numbering,
            chain: chain.iter().map(entry).collect(),
            cycle: cycle.iter().flat_map(|cycle| &cycle.0).map(entry).collect(),
            ..Why::default()
        };
        (why, queues)
    };
    let (mut why, queues) = api.gateway.look(look).await?;
    if queues {
        (why.building, why.building_waits) = building(&api).await?;
    }
    why.causes = causes(&why.chain, &[]);
    ok(&why)
}

/// Who has permits to build, and what those wait for.
async fn building(api: &Api) -> Result<(Vec<String>, Vec<WaitEntry>), ApiError> {
    let what = "GET /volvox/endpoint/why";
    let queue = api.gateway.ask(what, |node| &node.build_queue, BuildQueueMsg::Show).await?;
    let ids = queue.building.to_vec();
    let look = move |node_supervisor: &NodeSupervisor| {
        let (names, now) = (names(node_supervisor), node_supervisor.host.now());
        let waits = ids.iter().flat_map(|id| chain(node_supervisor, &names, *id));
        let waits = waits.map(|wait| WaitEntry::new(&wait, &names, now)).collect();
        let called = |id: &EndpointId| {
            let found = names.values().find(|name| endpoint_called(name) == Some(id.0));
            found.cloned().unwrap_or_else(|| format!("endpoint {id}"))
        };
        (ids.iter().map(called).collect(), waits)
    };
    Ok(api.gateway.look(look).await?)
}

/// The chain of waits that begins at the actor of an endpoint.
fn chain(
    node_supervisor: &NodeSupervisor,
    names: &BTreeMap<CellId, String>,
    id: EndpointId,
) -> Vec<Wait> {
    let found = names.iter().find(|(_, known)| endpoint_called(known) == Some(id.0));
    let cell = found.map(|(cell, _)| *cell);
    cell.map_or_else(Vec::new, |cell| node_supervisor.host.with_waits(|waits| waits.chain(cell)))
}

fn names(node_supervisor: &NodeSupervisor) -> BTreeMap<CellId, String> {
    node_supervisor.host.cells().into_iter().map(|cell| (cell.id, cell.name)).collect()
}

/// How the last restart went.
pub(crate) async fn restore(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/restore";
    ok(&*api.gateway.ask(what, |node| &node.restore, RestoreMsg::Report).await?)
}

/// Who builds and who waits for a permit.
pub(crate) async fn build_queue(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/build-queue";
    ok(&api.gateway.ask(what, |node| &node.build_queue, BuildQueueMsg::Show).await?)
}

/// How collecting dead connections goes.
pub(crate) async fn conntrack(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/conntrack";
    let status = api.gateway.ask(what, |node| &node.conntrack, ConntrackMsg::Show).await?;
    ok(&Collecting::from(status))
}

/// The node's devices.
pub(crate) async fn devices(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/devices";
    verify_devices(&api).await;
    ok(&api.gateway.ask(what, |node| &node.devices, DevicesMsg::Show).await?)
}

/// Where what the actors do is recorded.
pub(crate) async fn flight(State(api): State<Api>) -> Answer {
    let flight = &api.flight;
    ok(&Recorder {
        file: flight.path().map(|path| path.display().to_string()),
        records: flight.records(),
        troubles: flight.troubles(),
    })
}

/// Addresses that are handed out, and to whom.
pub(crate) async fn ipam(State(api): State<Api>) -> Answer {
    let leases = api.gateway.ask("GET /volvox/ipam", |node| &node.ipam, IpamMsg::Dump).await?;
    ok(&leases.iter().map(|(ip, lease)| IpamLease::new(*ip, lease)).collect::<Vec<_>>())
}

/// Pools of addresses and this node's prefixes of them; null where there is one pool.
pub(crate) async fn pools(State(api): State<Api>) -> Answer {
    ok(&pools::gather(&api, "GET /volvox/pools").await?)
}

/// How many endpoints are in each state: a short answer for somebody who waits.
pub(crate) async fn endpoint_states(State(api): State<Api>) -> Answer {
    let what = "GET /volvox/endpoint-states";
    let list = |reply| EndpointsMsg::List { labels: Labels::default(), reply };
    let mut states = BTreeMap::<_, u64>::new();
    for endpoint in api.gateway.ask(what, |node| &node.endpoints, list).await? {
        *states.entry(endpoint.api_state()).or_default() += 1;
    }
    ok(&states)
}

/// Builds an endpoint again; comes back once it is built.
pub(crate) async fn regenerate(State(api): State<Api>, Segment(id): Segment, uri: Uri) -> Answer {
    let target = target(&api, &id).await?;
    let level = level(first(&query(&uri)?, "level"))?;
    let reason = "asked for by its user".into();
    let what = format!("POST /volvox/endpoint/{id}/regenerate");
    let build = async {
        let ask = move |reply| EndpointsMsg::Regenerate { target, level, reason, reply };
        let built = api.gateway.ask(&what, |node| &node.endpoints, ask).await?;
        built.map_err(not_changed)
    };
    // Others' rows decide about its packets, too. It does not wait for them.
    let around = async { Ok(repair(&api, &what).await) };
    let (built, around) = tokio::try_join!(build, around)?;
    let repaired = built.drift.iter().chain(&around).map(Repaired::from).collect();
    ok(&Regenerated { endpoint: Endpoint::new(&built, &api.facts.options), repaired })
}

/// Has all rows compared that are not an endpoint's; what was put right. What cannot be compared
/// now is at the next sweep.
async fn repair(api: &Api, what: &str) -> Vec<Drift> {
    let gateway = &api.gateway;
    let (ipcache, services, devices, node) = tokio::join!(
        gateway.ask(what, |it| &it.ipcache, IpcacheMsg::Compare),
        gateway.ask(what, |it| &it.services, ServicesMsg::Compare),
        gateway.ask(what, |it| &it.devices, DevicesMsg::Compare),
        gateway.ask(what, |it| &it.node, NodeMsg::Compare),
    );
    [ipcache, services, devices, node].into_iter().flat_map(Result::unwrap_or_default).collect()
}

fn level(text: Option<&str>) -> Result<Level, ApiError> {
    match text {
        None | Some("rewrite") => Ok(Level::Rewrite),
        Some("load") => Ok(Level::Load),
        Some("rebuild") => Ok(Level::Rebuild),
        Some(other) => Err(ApiError::bad_request(format!(
            "level: {other:?} is none of load, rewrite, rebuild"
        ))),
    }
}
