//! `/volvox/traffic`: what becomes of packets from one end to another, by the policies of both ends as far
//! as they are on this node. The rows that the kernel has decide; the owner of the policy says why.

use std::{net::IpAddr, sync::Arc};

use axum::{extract::State, http::Uri};
use volvox_actors::{
    endpoints::endpoint::EndpointView,
    model::{Direction, Families, IdentityId, IdentityScope, Labels, Transport},
    policy::{
        identity::IdentityMsg,
        ipcache::{IpcacheEntry, IpcacheMsg},
        rules::{
            PacketExplained, PacketFate, PacketQuestion, PolicyMsg,
            protocol::{ICMP, ICMPV6},
        },
    },
    ports::BackendState,
    services::service_cache::{ServiceView, ServicesMsg},
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{
    Traffic, TrafficEnd, TrafficPath, TrafficService, TrafficSide, backend_state, frontend_kind,
    protocol_name,
};

use super::{
    endpoint,
    endpoint_list::views,
    query::{first, query},
};
use crate::api::{
    Api,
    destination::{Destination, Place, Port, protocol_number},
};

const WHAT: &str = "GET /volvox/traffic";
/// Of more backends than these the rest is not looked at: each costs several questions.
const PATHS_MAX: usize = 64;

/// One end, as it is known here.
#[derive(Clone, Debug)]
struct End {
    shown: TrafficEnd,
    view: Option<Arc<EndpointView>>,
    address: Option<IpAddr>,
    /// What its packets are taken for.
    identity: IdentityId,
    /// What packets to it are taken for.
    mapped: IdentityId,
}

impl End {
    fn is_node(&self) -> bool {
        self.shown.kind == "node"
    }
}

/// Where packets of a question end.
struct Receiver {
    end: End,
    port: u16,
    protocol: u8,
}

/// What becomes of packets between two ends.
pub(crate) async fn get(State(api): State<Api>, uri: Uri) -> Answer {
    let query = query(&uri)?;
    let need = |name: &str| {
        first(&query, name).ok_or_else(|| ApiError::bad_request(format!("{name}: it must be said")))
    };
    let (from, to) = (need("from")?, need("to")?);
    let destination =
        Destination::parse(to).map_err(|error| ApiError::bad_request(format!("to: {error}")))?;
    let said = first(&query, "protocol").map(protocol_number).transpose();
    let said = said.map_err(|error| ApiError::bad_request(format!("protocol: {error}")))?;
    if let (Some(one), Some(other)) = (said, destination.protocol)
        && one != other
    {
        let text = format!("to: {to:?} names another protocol than protocol: say one of them");
        return Err(ApiError::bad_request(text));
    }
    let protocol = destination.protocol.or(said).unwrap_or(Transport::TCP.0);
    let all = views(&api, WHAT, Labels::default()).await?;
    let from = match from.parse() {
        Ok(address) => of_address(&api, &all, address).await?,
        Err(_) => of_endpoint(&api, endpoint::view(&api, from).await?).await?,
    };
    let mut traffic = Traffic { from: from.shown.clone(), to: to.to_owned(), ..Traffic::default() };
    let receivers = receivers(&api, &all, &destination, protocol, &mut traffic).await?;
    if from.view.is_none() && receivers.iter().all(|it| it.end.view.is_none()) {
        let nodes = [Some(&from), receivers.first().map(|it| &it.end)];
        let nodes: Vec<_> =
            nodes.into_iter().flatten().filter_map(|end| end.shown.node.clone()).collect();
        let whom = match nodes.is_empty() {
            true => "neither end is on this node".to_owned(),
            false => format!("neither end is on this node: ask on node {}", nodes.join(" or ")),
        };
        return Err(ApiError::not_found(whom));
    }
    for receiver in receivers {
        traffic.paths.push(path(&api, &from, receiver).await?);
    }
    let passing = traffic.paths.iter().filter(|path| path.verdict == "allowed").count();
    traffic.verdict = match (passing, traffic.paths.len()) {
        (0, 0) => "no-backend",
        (0, _) => "denied",
        (some, all) if some == all => "allowed",
        _ => "mixed",
    }
    .to_owned();
    ok(&traffic)
}

async fn path(api: &Api, from: &End, receiver: Receiver) -> Result<TrafficPath, ApiError> {
    let Receiver { end: to, port, protocol } = receiver;
    let packet = (protocol, port);
    let egress = judge(api, (from, &to, to.mapped), Direction::Egress, packet).await?;
    let ingress = judge(api, (&to, from, from.identity), Direction::Ingress, packet).await?;
    let passes = |side: &TrafficSide| match side {
        TrafficSide::Judged(explained) => explained.fate == PacketFate::Allowed,
        TrafficSide::NotHere(_) => true,
    };
    let verdict = if passes(&egress) && passes(&ingress) { "allowed" } else { "denied" };
    Ok(TrafficPath { verdict: verdict.to_owned(), to: to.shown, port, protocol, egress, ingress })
}

/// What an end's policy says of a packet from or to somebody.
async fn judge(
    api: &Api,
    (own, other, peer): (&End, &End, IdentityId),
    direction: Direction,
    (protocol, port): (u8, u16),
) -> Result<TrafficSide, ApiError> {
    let not_here = |text: String| Ok(TrafficSide::NotHere(text));
    if own.is_node() && !api.facts.host_firewall {
        return not_here(
            "the node itself is not held to policy: its agent runs without --enable-host-firewall"
                .to_owned(),
        );
    }
    let Some(view) = &own.view else {
        return match (&own.shown.node, own.shown.kind.as_str()) {
            (_, "outside") => {
                not_here("it is outside of the cluster: no policy is asked".to_owned())
            }
            (Some(node), _) => not_here(format!("node {node} decides: ask there, too")),
            (None, _) => not_here("another node decides: ask there, too".to_owned()),
        };
    };
    if view.realised.policy_revision == 0 && view.realised.policy.is_empty() {
        let explained = PacketExplained { fate: PacketFate::NotProgrammed, ..Default::default() };
        return Ok(TrafficSide::Judged(Box::new(explained)));
    }
    let address = other.address.unwrap_or(IpAddr::from([0, 0, 0, 0]));
    let question = PacketQuestion {
        subject: view.subject(),
        rows: Arc::clone(&view.realised.policy),
        direction,
        peer,
        address,
        protocol,
        port,
    };
    let explain = move |reply| PolicyMsg::Explain { question, reply };
    let explained = api.gateway.ask(WHAT, |node| &node.policy, explain).await?;
    Ok(TrafficSide::Judged(Box::new(explained)))
}

/// An endpoint of this node.
async fn of_endpoint(api: &Api, view: Arc<EndpointView>) -> Result<End, ApiError> {
    let is_node = view.spec.is_host();
    let address = view.spec.addresses.iter().next();
    let mapped = match address {
        Some(address) => find(api, address).await?.map(|(_, entry)| entry.identity),
        None => None,
    };
    let name = match (is_node, view.spec.pod()) {
        (true, _) => "the node".to_owned(),
        (false, Some(pod)) => pod,
        (false, None) => format!("endpoint {}", view.id),
    };
    Ok(End {
        shown: TrafficEnd {
            name,
            kind: if is_node { "node" } else { "pod" }.to_owned(),
            endpoint: Some(view.id.0),
            address: address.map(|it| it.to_string()),
            identity: view.identity.0,
            labels: view.identity_labels.to_texts(),
            ..TrafficEnd::default()
        },
        address,
        identity: view.identity,
        mapped: mapped.unwrap_or(view.identity),
        view: Some(view),
    })
}

/// Whoever has an address.
async fn of_address(
    api: &Api,
    all: &[Arc<EndpointView>],
    address: IpAddr,
) -> Result<End, ApiError> {
    let has = |view: &&Arc<EndpointView>| {
        !view.spec.is_host() && view.spec.addresses.iter().any(|own| own == address)
    };
    if let Some(view) = all.iter().find(has) {
        let end = of_endpoint(api, Arc::clone(view)).await?;
        let shown = TrafficEnd { address: Some(address.to_string()), ..end.shown };
        return Ok(End { shown, address: Some(address), ..end });
    }
    let found = find(api, address).await?;
    let families =
        Families { ipv4: api.facts.ipv4_range.is_some(), ipv6: api.facts.ipv6_range.is_some() };
    let world = families.world(address.is_ipv4()).unwrap_or(IdentityId::WORLD);
    let identity = found.map_or(world, |(_, entry)| entry.identity);
    let kind = match identity {
        IdentityId::HOST => "node",
        _ if identity.is_outside() => "outside",
        IdentityId::REMOTE_NODE | IdentityId::KUBE_APISERVER => "remote-node",
        _ if identity.scope() == IdentityScope::RemoteNode => "remote-node",
        _ => "remote-pod",
    };
    let get = move |reply| IdentityMsg::Get { id: identity, reply };
    let known = api.gateway.ask(WHAT, |node| &node.identities, get).await?;
    let host = all.iter().find(|view| kind == "node" && view.spec.is_host());
    Ok(End {
        shown: TrafficEnd {
            name: address.to_string(),
            kind: kind.to_owned(),
            endpoint: host.map(|view| view.id.0),
            address: Some(address.to_string()),
            prefix: found.map(|(prefix, _)| prefix.to_string()),
            identity: identity.0,
            labels: known.map(|it| it.labels.to_texts()).unwrap_or_default(),
            node: found.and_then(|(_, entry)| entry.tunnel.node()).map(|node| node.to_string()),
        },
        view: host.cloned(),
        address: Some(address),
        identity,
        mapped: identity,
    })
}

async fn find(
    api: &Api,
    address: IpAddr,
) -> Result<Option<(ipnet::IpNet, IpcacheEntry)>, ApiError> {
    let find = move |reply| IpcacheMsg::Find { address, reply };
    Ok(api.gateway.ask(WHAT, |node| &node.ipcache, find).await?)
}

/// Who may receive what is sent to a destination.
async fn receivers(
    api: &Api,
    all: &[Arc<EndpointView>],
    destination: &Destination,
    protocol: u8,
    traffic: &mut Traffic,
) -> Result<Vec<Receiver>, ApiError> {
    let port = destination.port.as_ref();
    match &destination.place {
        Place::Address(address) => {
            let services = services(api).await?;
            let at = |view: &&ServiceView| {
                view.frontend.at.address == *address && is_served(view, port, protocol)
            };
            let found: Vec<_> = services.iter().filter(at).collect();
            if !found.is_empty() {
                return of_service(api, all, &found, traffic).await;
            }
            let end = of_address(api, all, *address).await?;
            Ok(vec![receiver(end, port, protocol)?])
        }
        Place::Service { namespace, name } => {
            let found = named(&services(api).await?, namespace.as_deref(), name);
            if found.is_empty() {
                return Err(ApiError::not_found(format!(
                    "no service is called {name:?}: `volvox service list` has them all"
                )));
            }
            of_frontends(api, all, &found, port, protocol, traffic).await
        }
        Place::Named(name) => match endpoint::view(api, name).await {
            Ok(view) => Ok(vec![receiver(of_endpoint(api, view).await?, port, protocol)?]),
            Err(error) if error.status.as_u16() == 404 => {
                let (namespace, bare) = match name.split_once('/') {
                    Some((namespace, bare)) => (Some(namespace), bare),
                    None => (None, name.as_str()),
                };
                let found = named(&services(api).await?, namespace, bare);
                if found.is_empty() {
                    return Err(ApiError::not_found(format!(
                        "{name:?} is no endpoint of this node and no service: of a pod on another node say \
                         the address"
                    )));
                }
                of_frontends(api, all, &found, port, protocol, traffic).await
            }
            Err(error) => Err(error),
        },
    }
}

async fn services(api: &Api) -> Result<Vec<ServiceView>, ApiError> {
    let mut all = api.gateway.ask(WHAT, |node| &node.services, ServicesMsg::List).await?;
    all.sort_by_key(|view| view.id);
    Ok(all)
}

/// Frontends of services of that name.
fn named(all: &[ServiceView], namespace: Option<&str>, name: &str) -> Vec<ServiceView> {
    let is_it = |view: &&ServiceView| {
        let of = view.service.as_deref().and_then(|it| it.split_once('/'));
        of.is_some_and(|(at, bare)| bare == name && namespace.is_none_or(|it| it == at))
    };
    all.iter().filter(is_it).cloned().collect()
}

fn is_served(view: &ServiceView, port: Option<&Port>, protocol: u8) -> bool {
    let at = view.frontend.at;
    port == Some(&Port::Number(at.port)) && [0, protocol].contains(&at.transport.0)
}

/// Those of the frontends of a name that are meant.
async fn of_frontends(
    api: &Api,
    all: &[Arc<EndpointView>],
    found: &[ServiceView],
    port: Option<&Port>,
    protocol: u8,
    traffic: &mut Traffic,
) -> Result<Vec<Receiver>, ApiError> {
    let mut names: Vec<_> = found.iter().filter_map(|view| view.service.clone()).collect();
    names.sort();
    names.dedup();
    if names.len() > 1 {
        let text = format!("several services are called so: {}; name one", names.join(", "));
        return Err(ApiError::bad_request(text));
    }
    let mut places: Vec<_> =
        found.iter().map(|it| (it.frontend.at.port, it.frontend.at.transport)).collect();
    places.sort();
    places.dedup();
    let text = || {
        let texts = places.iter().map(|(port, transport)| format!("{port}/{transport}"));
        texts.collect::<Vec<_>>().join(", ")
    };
    let served: Vec<_> = match (port, places.as_slice()) {
        (None, [_]) => found.iter().collect(),
        (None, _) => {
            let text = format!("to: say which port of the service: it has {}", text());
            return Err(ApiError::bad_request(text));
        }
        (Some(_), _) => found.iter().filter(|it| is_served(it, port, protocol)).collect(),
    };
    if served.is_empty() {
        let text = format!(
            "to: the service has no such port of {}: it has {}, by number",
            protocol_name(protocol),
            text()
        );
        return Err(ApiError::not_found(text));
    }
    of_service(api, all, &served, traffic).await
}

/// Backends of a service, by the frontend that pods use.
async fn of_service(
    api: &Api,
    all: &[Arc<EndpointView>],
    frontends: &[&ServiceView],
    traffic: &mut Traffic,
) -> Result<Vec<Receiver>, ApiError> {
    let rank = |view: &&&ServiceView| (frontend_kind(view.flags) != "ClusterIP", view.id);
    let Some(frontend) = frontends.iter().min_by_key(rank) else { return Ok(Vec::new()) };
    let is_used = |state: BackendState| state == BackendState::Active;
    let unused = frontend.backends.iter().filter(|(.., state)| !is_used(*state));
    let mut service = TrafficService {
        name: frontend.service.clone().unwrap_or_default(),
        frontend: frontend.frontend.to_string(),
        unused: unused
            .filter_map(|(_, at, state)| Some(format!("{} ({})", (*at)?, backend_state(*state))))
            .collect(),
    };
    let used = frontend.backends.iter().filter(|(.., state)| is_used(*state));
    let used: Vec<_> = used.filter_map(|(_, at, _)| *at).collect();
    let mut receivers = Vec::new();
    for at in used.iter().take(PATHS_MAX) {
        let end = of_address(api, all, at.address).await?;
        receivers.push(Receiver { end, port: at.port, protocol: at.transport.0 });
    }
    if let Some(more) = used.len().checked_sub(PATHS_MAX).filter(|more| *more > 0) {
        service.unused.push(format!("{more} more backends, which were not looked at"));
    }
    traffic.service = Some(service);
    Ok(receivers)
}

/// An end with the port that is meant there.
fn receiver(end: End, port: Option<&Port>, protocol: u8) -> Result<Receiver, ApiError> {
    let port = match port {
        Some(Port::Number(number)) => *number,
        Some(Port::Name(name)) => {
            let ports = end.view.as_ref().and_then(|view| view.spec.named_ports.get(name));
            let mut numbers = ports.into_iter().flatten();
            let found = numbers.find(|(of, _)| *of == protocol).map(|(_, port)| *port);
            found.ok_or_else(|| {
                ApiError::bad_request(format!(
                    "to: {} has no port of {} that is called {name:?}: say its number",
                    end.shown.name,
                    protocol_name(protocol)
                ))
            })?
        }
        // A ping.
        None if protocol == ICMP => 8,
        None if protocol == ICMPV6 => 128,
        None => {
            let text = format!("to: say which port, as {}:80", end.shown.name);
            return Err(ApiError::bad_request(text));
        }
    };
    Ok(Receiver { end, port, protocol })
}
