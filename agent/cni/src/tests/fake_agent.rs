//! An agent for the tests: it serves the API on a socket, records requests, and fails as it is
//! told.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    path::Path as FilePath,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::{Method, StatusCode},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{delete, get, post, put},
};
use serde_json::{Value, json};
use tokio::{net::UnixListener, sync::watch, task::JoinHandle};
use volvox_rest::models::{EndpointBatchDeleteRequest, EndpointChangeRequest};
use volvox_system::netlink::Socket;

use crate::invocation::attachment_id;

/// How the agent fails one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It refuses with this code.
    Refuse(u16),
    /// It answers what is no JSON.
    Garble,
    /// It does it, and dies before it answers.
    DieAfter,
    /// The same, the first time.
    DieOnceAfter,
    /// It does not answer, and the runtime gives up meanwhile.
    HangUntilCancelled,
}

/// What the agent has and does.
#[derive(Debug)]
pub(super) struct World {
    /// Addresses that are not free.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Endpoints by attachment.
    pub(super) endpoints: BTreeMap<String, EndpointChangeRequest>,
    /// Method and beginning of the path of requests that fail, and how.
    pub(super) fault: Option<(Method, &'static str, Fault)>,
    /// Each request as `METHOD PATH`, in order.
    pub(super) requests: Vec<String>,
    /// `deviceMTU` of its configuration.
    pub(super) mtu: u32,
    /// Whether endpoints have IPv6 addresses too.
    pub(super) ipv6: bool,
    /// `overallHealth` of every endpoint.
    pub(super) health: &'static str,
    /// Its own state.
    pub(super) state: &'static str,
    /// Ethernet address it wants an endpoint to have.
    pub(super) mac: &'static str,
}

/// An agent of the test's.
#[derive(Clone)]
pub(super) struct FakeAgent {
    world: Arc<Mutex<World>>,
    cancel: Arc<watch::Sender<bool>>,
}

impl FakeAgent {
    pub(super) fn new() -> Self {
        let world = World {
            addresses: BTreeSet::new(),
            endpoints: BTreeMap::new(),
            fault: None,
            requests: Vec::new(),
            mtu: 1450,
            ipv6: true,
            health: "OK",
            state: "Ok",
            mac: "",
        };
        Self { world: Arc::new(Mutex::new(world)), cancel: Arc::new(watch::Sender::new(false)) }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Told when the runtime gives up.
    pub(super) fn cancelled(&self) -> watch::Receiver<bool> {
        self.cancel.subscribe()
    }

    /// Answers on a socket until aborted.
    pub(super) fn serve(&self, socket: &FilePath) -> JoinHandle<()> {
        drop(std::fs::remove_file(socket));
        let listener = UnixListener::bind(socket).unwrap();
        let endpoint = put(put_endpoint).delete(delete_endpoint).get(get_endpoint);
        let router = Router::new()
            .route("/v1/config", get(config))
            .route("/v1/healthz", get(healthz))
            .route("/v1/ipam", post(allocate))
            .route("/v1/ipam/{ip}", delete(release))
            .route("/v1/endpoint", get(list).delete(delete_container))
            .route("/v1/endpoint/{id}", endpoint)
            .route("/v1/endpoint/{id}/healthz", get(health))
            .layer(from_fn_with_state(self.clone(), fail))
            .with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
    }
}

async fn fail(State(agent): State<FakeAgent>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().to_string());
    let fault = {
        let mut world = agent.world();
        world.requests.push(format!("{method} {path}"));
        world.fault.as_ref().filter(|(m, p, _)| *m == method && path.starts_with(p)).map(|f| f.2)
    };
    match fault {
        None => next.run(request).await,
        Some(Fault::Refuse(code)) => {
            (StatusCode::from_u16(code).unwrap(), Json("not today")).into_response()
        }
        Some(Fault::Garble) => {
            next.run(request).await;
            "{".into_response()
        }
        Some(fault @ (Fault::DieAfter | Fault::DieOnceAfter)) => {
            next.run(request).await;
            if fault == Fault::DieOnceAfter {
                agent.world().fault = None;
            }
            // Ends the connection's task without a word, as a kill would.
            std::panic::resume_unwind(Box::new("dead"))
        }
        Some(Fault::HangUntilCancelled) => {
            agent.cancel.send_replace(true);
            std::future::pending().await
        }
    }
}

fn addressing(ipv6: bool) -> Value {
    let ipv4 = json!({"enabled": true, "ip": "10.7.0.1", "alloc-range": "10.7.0.0/24"});
    if ipv6 {
        json!({"ipv4": ipv4, "ipv6": {"enabled": true, "ip": "fd07::1", "alloc-range": "fd07::/96"}})
    } else {
        json!({"ipv4": ipv4})
    }
}

async fn config(State(agent): State<FakeAgent>) -> Json<Value> {
    let world = agent.world();
    Json(json!({"status": {
        "addressing": addressing(world.ipv6), "deviceMTU": world.mtu,
        "datapathMode": "veth", "ipam-mode": "cluster-pool",
    }}))
}

async fn healthz(State(agent): State<FakeAgent>) -> Json<Value> {
    let world = agent.world();
    Json(json!({"cilium": {"state": world.state, "msg": "why not"}}))
}

async fn allocate(State(agent): State<FakeAgent>) -> (StatusCode, Json<Value>) {
    let mut world = agent.world();
    let free = (2..255)
        .map(|host| IpAddr::from(Ipv4Addr::new(10, 7, 0, host)))
        .find(|address| !world.addresses.contains(address))
        .unwrap();
    world.addresses.insert(free);
    let mut address = json!({"ipv4": free, "ipv4-pool-name": "default"});
    if world.ipv6 {
        let IpAddr::V4(v4) = free else { unreachable!("the pool is IPv4") };
        let v6: IpAddr = format!("fd07::{}", v4.octets()[3]).parse().unwrap();
        world.addresses.insert(v6);
        address["ipv6"] = json!(v6);
    }
    let answer = json!({"address": address, "host-addressing": addressing(world.ipv6)});
    (StatusCode::CREATED, Json(answer))
}

async fn release(State(agent): State<FakeAgent>, Path(ip): Path<IpAddr>) -> StatusCode {
    if agent.world().addresses.remove(&ip) { StatusCode::OK } else { StatusCode::NOT_FOUND }
}

async fn put_endpoint(
    State(agent): State<FakeAgent>,
    Path(id): Path<String>,
    Json(request): Json<EndpointChangeRequest>,
) -> (StatusCode, Json<Value>) {
    assert_eq!(id, "cilium-local:0");
    Socket::open().unwrap().set_link_up(request.interface_index).unwrap();
    let mut world = agent.world();
    let attachment = attachment_id(&request.container_id, &request.container_interface_name);
    let answer = endpoint(&attachment, &request, world.mac);
    world.endpoints.insert(attachment, request);
    (StatusCode::CREATED, Json(answer))
}

fn endpoint(attachment: &str, request: &EndpointChangeRequest, mac: &str) -> Value {
    json!({"id": 7, "status": {
        "external-identifiers": {"cni-attachment-id": attachment, "container-id": request.container_id},
        "networking": {"interface-name": request.interface_name, "mac": mac,
            "interface-index": request.interface_index},
        "state": "ready",
    }})
}

async fn get_endpoint(State(agent): State<FakeAgent>, Path(id): Path<String>) -> Response {
    let id = id.trim_start_matches("cni-attachment-id:");
    match agent.world().endpoints.get(id) {
        Some(request) => Json(endpoint(id, request, &request.mac.to_string())).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn list(State(agent): State<FakeAgent>) -> Json<Value> {
    let world = agent.world();
    Json(world.endpoints.iter().map(|(id, request)| endpoint(id, request, "")).collect())
}

async fn health(State(agent): State<FakeAgent>, Path(id): Path<String>) -> Response {
    let world = agent.world();
    match world.endpoints.get(id.trim_start_matches("cni-attachment-id:")) {
        Some(_) => Json(json!({"overallHealth": world.health, "bpf": "OK"})).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn delete_endpoint(State(agent): State<FakeAgent>, Path(id): Path<String>) -> StatusCode {
    let id = id.trim_start_matches("cni-attachment-id:").to_owned();
    drop_endpoints(&agent, |attachment, _| *attachment == id)
}

async fn delete_container(
    State(agent): State<FakeAgent>,
    Json(body): Json<EndpointBatchDeleteRequest>,
) -> StatusCode {
    drop_endpoints(&agent, |_, request| request.container_id == body.container_id)
}

/// Deletes endpoints, and with each its addresses.
fn drop_endpoints(
    agent: &FakeAgent,
    doomed: impl Fn(&String, &EndpointChangeRequest) -> bool,
) -> StatusCode {
    let mut world = agent.world();
    let before = world.endpoints.len();
    let mut released = Vec::new();
    world.endpoints.retain(|attachment, request| {
        let doomed = doomed(attachment, request);
        if doomed {
            released.extend(request.addressing.addresses().iter());
        }
        !doomed
    });
    for address in released {
        world.addresses.remove(&address);
    }
    if world.endpoints.len() < before { StatusCode::OK } else { StatusCode::NOT_FOUND }
}
