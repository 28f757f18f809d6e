//! A node supervisor of fake actors on a thread of its own, and the API in front of it.

mod fakes;

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::{Arc, mpsc},
    task::Poll,
    thread,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{Method, Request, StatusCode},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use volvox_actors::{
    endpoints::{
        endpoint::{
            BuildCounts, CreateError, EndpointSpec, EndpointState, EndpointView, Log, LogEntry,
            PatchError, Realised,
        },
        supervisor::{
            DeleteError, EndpointReference, EndpointsMsg, Lengths, NotFound, Regenerations,
        },
        workloads::WorkloadsMsg,
    },
    host::{ActixDriver, Beat, Behaviour, Cx, Host, Message, NoAnswer, NoRecorder, Ref, Time},
    model::{ClusterId, Direction, EndpointId, IdentityId, PolicyEntry, PolicyKey, precedence},
    node::routes::RoutingMode,
    node_supervisor::NodeSupervisor,
    policy::rules::Enforcement,
};

use fakes::{
    fake_auditor, fake_build_queue, fake_conntrack, fake_devices, fake_health_checks,
    fake_identities, fake_ipam, fake_ipcache, fake_node, fake_nodes, fake_policy, fake_restore,
    fake_routes, fake_services,
};
use volvox_inspect::flight::Recording;
use volvox_system::SystemClock;

use crate::{
    api::{
        Api, Facts, Features, Limiter, Opening, RuntimeOptions, StatusCollector, opening, router,
    },
    datapath::{AttachMode, Writes},
    gateway::{Errands, Gateway, gateway},
    ports::DiskTrouble,
    spans::Spans,
};

/// The actor that handles one kind of message with a closure.
struct Fake<M: Message>(Box<dyn FnMut(M)>, std::marker::PhantomData<M>);

impl<M: Message> Behaviour for Fake<M> {
    type Msg = M;
    type Answer = NoAnswer;
    type Observed = &'static str;

    fn handle(&mut self, msg: M, _: &mut Cx<'_, Self>) {
        (self.0)(msg);
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) -> &'static str {
        "fake"
    }
}

fn spawn<M: Message, F: FnMut(M) + 'static>(
    host: &Host,
    name: &str,
    mut make: impl FnMut() -> F + 'static,
) -> Ref<M> {
    host.spawn(name, 25, move || Fake(Box::new(make()), std::marker::PhantomData))
}

/// The API in front of fake actors; the actors' thread ends with it.
pub(crate) struct Fixture {
    pub(crate) router: Router,
    api: Api,
    runtime: tokio::runtime::Runtime,
}

/// An answer taken apart.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
    pub(crate) allow: Option<String>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_limits("")
    }

    pub(crate) fn with_limits(limits: &str) -> Self {
        let (gateway, errands) = gateway();
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || live(errands, &ready));
        let beat = is_ready.recv().unwrap();
        Self::over(router, api(gateway, limits, beat))
    }

    /// A router in front of actors that have ended.
    pub(crate) fn over_dead_actors(router: fn(Api) -> Router) -> Self {
        let (gateway, errands) = gateway();
        drop(errands);
        Self::over(router, api(gateway, "", Arc::default()))
    }

    /// Another router in front of the same actors.
    pub(crate) fn behind(&self, router: fn(Api) -> Router) -> Self {
        Self::over(router, self.api.clone())
    }

    fn over(router: fn(Api) -> Router, api: Api) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { router: router(api.clone()), api, runtime }
    }

    pub(crate) fn call(&self, method: Method, uri: &str, body: impl Into<Body>) -> Answered {
        self.call_with(method, uri, &[], body)
    }

    pub(crate) fn call_with(
        &self,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answered {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            let status = response.status();
            let allow = response.headers().get("allow").map(|v| v.to_str().unwrap().to_owned());
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let body = if body.is_empty() {
                Value::Null
            } else {
                serde_json::from_slice(&body).expect("every body is JSON")
            };
            Answered { status, body, allow }
        })
    }

    /// Begins a request and goes away before there is an answer.
    pub(crate) fn call_and_leave(&self, method: Method, uri: &str, body: impl Into<Body>) {
        let request = Request::builder().method(method).uri(uri).body(body.into()).unwrap();
        self.runtime.block_on(async {
            let mut call = pin!(self.router.clone().oneshot(request));
            let begun = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
            assert!(begun.is_pending(), "it was answered at once: {begun:?}");
        });
    }

    /// Only how it is answered.
    pub(crate) fn status(&self, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.router.clone().oneshot(request.body(Body::empty()).unwrap());
        self.runtime.block_on(answer).unwrap().status().as_u16()
    }

    /// An answer of 200 that is text.
    pub(crate) fn text(&self, uri: &str) -> String {
        self.text_accepted(uri, None).1
    }

    /// Such an answer to who accepts only certain types: its own, and the text.
    pub(crate) fn text_accepted(&self, uri: &str, accept: Option<&str>) -> (String, String) {
        let mut request = Request::builder().uri(uri);
        if let Some(accept) = accept {
            request = request.header("accept", accept);
        }
        let request = request.body(Body::empty()).unwrap();
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 200);
            let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (kind, String::from_utf8(body.to_vec()).unwrap())
        })
    }

    pub(crate) fn get(&self, uri: &str) -> Answered {
        self.call(Method::GET, uri, Body::empty())
    }
}

fn api(gateway: Gateway, limits: &str, beat: Arc<Beat>) -> Api {
    Api {
        gateway,
        facts: Arc::new(facts()),
        limiter: Arc::new(Limiter::new(&limits.parse().unwrap())),
        options: Arc::new(RuntimeOptions::new(facts().options, Enforcement::Default)),
        writes: Writes::default(),
        flight: Recording::off(std::path::Path::new("/nonexistent")).view(),
        beat,
        disk: DiskTrouble::default(),
        opening: open(),
        ears: Default::default(),
        kube_proxy: Default::default(),
        spans: Spans::of(Time::default()),
        collector: StatusCollector::default(),
    }
}

fn open() -> Opening {
    let (opener, opening) = opening();
    opener.open();
    opening
}

pub(crate) fn facts() -> Facts {
    Facts {
        cluster: "default".to_owned(),
        cluster_id: ClusterId(0),
        follows_cluster: false,
        began: 0,
        version: "0.1.0".into(),
        node_name: "node-a".into(),
        ipv4_range: Some("10.1.0.0/16".parse().unwrap()),
        ipv6_range: None,
        attach_mode: AttachMode::Tcx,
        routing: RoutingMode::Tunnel { port: 8472 },
        ipam_mode: "kubernetes".into(),
        host_firewall: false,
        hubble: Ok(false),
        features: Features { kube_proxy_replacement: true, ..Features::default() },
        options: BTreeMap::from([("DropNotification".to_owned(), 1)]),
        bpf_root: "/nowhere".into(),
        procfs: "/nowhere".into(),
        socket_path: "/var/run/cilium/cilium.sock".into(),
        settings: json!({"ClusterName": "default"}).as_object().unwrap().clone(),
    }
}

fn live(errands: Errands, ready: &mpsc::Sender<Arc<Beat>>) {
    actix::System::new().block_on(async {
        let host =
            Host::new(Rc::new(SystemClock), Rc::new(ActixDriver::default()), Box::new(NoRecorder));
        let node_supervisor = NodeSupervisor {
            endpoints: spawn(&host, "endpoints", fake_endpoints),
            ipam: spawn(&host, "ipam", fake_ipam),
            identities: spawn(&host, "identities", || fake_identities),
            ipcache: spawn(&host, "ipcache", || fake_ipcache),
            policy: spawn(&host, "policy", || fake_policy),
            restore: spawn(&host, "restore", || fake_restore),
            build_queue: spawn(&host, "build-queue", || fake_build_queue),
            cluster: None,
            definitions: None,
            publisher: None,
            workloads: spawn(&host, "workloads", || |msg: WorkloadsMsg| drop(msg)),
            conntrack: spawn(&host, "conntrack", || fake_conntrack),
            devices: spawn(&host, "devices", || fake_devices),
            node: spawn(&host, "node", || fake_node),
            routes: spawn(&host, "routes", || fake_routes),
            nodes: Some(spawn(&host, "nodes", || fake_nodes)),
            own_prefixes: None,
            services: spawn(&host, "services", || fake_services),
            health_checks: Some(spawn(&host, "health-checks", || fake_health_checks)),
            auditor: spawn(&host, "auditor", || fake_auditor),
            host,
            kvstore: None,
            crd: None,
            mesh: None,
            container_runtime: None,
            health_endpoint: None,
            reachability: None,
        };
        ready.send(node_supervisor.host.beat()).unwrap();
        errands.run(node_supervisor).await;
    });
}

pub(crate) fn view(id: u16, spec: EndpointSpec) -> EndpointView {
    let labels = Arc::new(spec.labels.clone());
    let row = |deny| PolicyEntry {
        deny,
        precedence: if deny { precedence::DENY } else { precedence::ALLOW },
        cookie: 7,
    };
    let key = |direction, identity, protocol, port, bits| PolicyKey {
        direction,
        identity: IdentityId(identity),
        protocol,
        port,
        bits,
    };
    EndpointView {
        id: EndpointId(id),
        drift: Arc::from([]),
        state: EndpointState::Ready,
        failing: false,
        refused: false,
        lost: None,
        short: false,
        spec: Arc::new(spec),
        identity: IdentityId(300),
        identity_labels: labels,
        info_labels: Arc::default(),
        user_labels: (Arc::default(), Arc::default()),
        options: Arc::default(),
        realised: Arc::new(Realised {
            policy_revision: 3,
            whole_revision: 3,
            labels: Arc::default(),
            policy: Arc::new(BTreeMap::from([
                (key(Direction::Ingress, 1, 0, 0, 0), row(false)),
                (key(Direction::Ingress, 400, 6, 80, 24), row(false)),
                (key(Direction::Ingress, 401, 6, 80, 24), row(false)),
                (key(Direction::Egress, 2, 0, 0, 0), row(true)),
            ])),
            ingress_enforced: true,
            ..Realised::default()
        }),
        log: Log::from_iter([LogEntry {
            wall: 1_700_000_000_000_000_000,
            code: "OK",
            message: "built".into(),
            state: EndpointState::Ready,
        }]),
        counts: BuildCounts {
            builds: 1,
            last_build: Duration::from_millis(7),
            ..BuildCounts::default()
        },
        last_error: None,
        since: Time::default(),
    }
}

fn fake_endpoints() -> impl FnMut(EndpointsMsg) {
    let mut all: BTreeMap<u16, Arc<EndpointView>> = BTreeMap::new();
    move |msg| match msg {
        EndpointsMsg::Create { spec, reply, .. } => {
            let id =
                spec.id.map_or_else(|| (1..).find(|id| !all.contains_key(id)), |id| Some(id.0));
            let id = id.unwrap();
            if all.contains_key(&id) {
                let text = format!("endpoint id {id} is already in use");
                return reply.send(Err(CreateError::InUse(text)));
            }
            let mut made = view(id, *spec);
            if id == 96 {
                (made.failing, made.counts.failures_in_a_row) = (true, 3);
                made.last_error = Some("no room".into());
            }
            let made = Arc::new(made);
            all.insert(id, Arc::clone(&made));
            reply.send(Ok(made));
        }
        EndpointsMsg::Get { target, reply } => {
            reply.send(find(&all, &target).cloned().ok_or(NotFound));
        }
        EndpointsMsg::List { labels, reply } => reply.send(
            all.values()
                .filter(|view| labels.iter().all(|l| view.spec.labels.get(&l.key) == Some(l)))
                .cloned()
                .collect(),
        ),
        EndpointsMsg::Regenerations(reply) => {
            let buckets = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            let succeeded = Lengths { count: 4, total: Duration::from_secs(6), buckets };
            let regenerations = Regenerations { succeeded, ..Regenerations::default() };
            reply.send(regenerations);
        }
        EndpointsMsg::Patch { target, patch, reply } => {
            let Some(found) = find(&all, &target) else {
                return reply.send(Err(PatchError::NotFound));
            };
            let mut changed = (**found).clone();
            changed.options = Arc::new(patch.options.or(patch.shared_options).unwrap_or_default());
            changed.user_labels.0 = Arc::new(patch.custom.unwrap_or_default());
            let changed = Arc::new(changed);
            all.insert(changed.id.0, Arc::clone(&changed));
            reply.send(Ok(changed));
        }
        EndpointsMsg::Delete { target, reply } => match find(&all, &target).map(|view| view.id.0) {
            None => reply.send(Err(DeleteError::NotFound)),
            Some(id) => {
                all.remove(&id);
                // Number 99 leaves two things behind.
                reply.send(Ok(if id == 99 { 2 } else { 0 }));
            }
        },
        EndpointsMsg::Regenerate { target, reply, .. } => match find(&all, &target) {
            None => reply.send(Err(PatchError::NotFound)),
            Some(view) if view.id.0 == 98 => panic!("number 98 crashes its builder"),
            Some(view) if view.id.0 == 97 => {
                // As long as somebody reads the other end of the pipe that its container names.
                let _ = std::fs::read(&view.spec.container_name);
                reply.send(Ok(Arc::clone(view)));
            }
            Some(view) => reply.send(Ok(Arc::clone(view))),
        },
        _ => {}
    }
}

fn find<'a>(
    all: &'a BTreeMap<u16, Arc<EndpointView>>,
    target: &EndpointReference,
) -> Option<&'a Arc<EndpointView>> {
    all.values().find(|view| match target {
        EndpointReference::Id(id) => view.id == *id,
        EndpointReference::ContainerId(id) => view.spec.container_id == *id,
        EndpointReference::ContainerName(name) => view.spec.container_name == *name,
        EndpointReference::AttachmentId(id) => view.spec.attachment_id() == *id,
        EndpointReference::Pod(pod) => view.spec.pod().as_ref() == Some(pod),
        EndpointReference::Address(address) => view.spec.addresses.iter().any(|a| a == *address),
    })
}
