//! What the agent serves: REST and the datapath's records on unix sockets, metrics and health on
//! loopback.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use anyhow::Context;
use serde_json::Value;
use volvox_actors::{
    host::{Beat, Clock},
    model::{ClusterId, Families},
    node::local_node::IpamMode,
};
use volvox_cni::Composition;
use volvox_hubble::dashboard::{flows_router, no_flows_router};
use volvox_inspect::{
    dashboard::{self, Lives},
    http::{self, Server, Socket, bind, inode, unbind},
    monitor::{Monitor, Notified, RecordTap, socket_beside},
};
use volvox_system::SystemClock;

use crate::{
    api::{
        Api, Facts, Features, KubeProxyLook, Limiter, Opening, RuntimeOptions, StatusCollector,
        dashboard_router, health_router, health_socket_beside, health_socket_router,
        kube_proxy_healthz_router, router,
    },
    boot::Boot,
    config::Config,
    gateway::Gateway,
    hubble::{Hubble, HubbleError},
    metrics_ports,
    node_name::node_name,
    ports::Ears,
    settings,
};

/// Hubble as it started, with who keeps its flows.
type StartedHubble = Result<(Hubble, Box<dyn RecordTap>), HubbleError>;

/// What the dashboard says where there are no flows.
const FLOWS_OFF: &str = "no flows are kept: start the agent with --enable-hubble=true";
const FLOWS_FAILED: &str = "no flows are kept: the agent's log says why Hubble did not start";

/// Everything that is being served, each part until it is dropped.
pub struct Servers {
    /// REST, metrics and health.
    pub api: ApiServer,
    /// The page, if it has an address.
    pub dashboard: Option<Server>,
    /// The datapath's records.
    pub monitor: Option<Monitor>,
    /// Flows, if they are kept.
    pub hubble: Option<Hubble>,
}

/// The API's thread, and the places of its sockets.
pub struct ApiServer {
    server: Option<Server>,
    /// Each with the number of its inode.
    sockets: Vec<(PathBuf, u64)>,
}

impl Servers {
    /// Begins to serve, on threads of their own.
    pub fn start(
        config: &Config,
        boot: &Boot,
        gateway: Gateway,
        beat: Arc<Beat>,
        opening: Opening,
        ears: Ears,
        notified: Notified,
    ) -> anyhow::Result<Self> {
        let mut facts = facts(config, boot)?;
        // Who shows no flows still does its work.
        let hubble = config.hubble.enabled.then(|| Hubble::start(config, gateway.clone()));
        facts.hubble = match &hubble {
            Some(Err(error)) => Err(error.to_string()),
            started => Ok(started.is_some()),
        };
        let api = Api {
            gateway,
            options: Arc::new(RuntimeOptions::new(
                facts.options.clone(),
                settings::enforcement(config),
            )),
            facts: Arc::new(facts),
            limiter: Arc::new(Limiter::new(&config.api_rate_limit)),
            writes: boot.datapath.writes().clone(),
            flight: boot.recording.view(),
            beat,
            disk: boot.directories.steps.trouble().clone(),
            opening,
            ears,
            kube_proxy: KubeProxyLook::default(),
            spans: boot.spans.clone(),
            collector: StatusCollector::default(),
        };
        let listener = bind(&config.socket_path)?;
        let mut places = vec![config.socket_path.clone()];
        let mut sockets = vec![(Socket::Unix(listener), router(api.clone()))];
        if config.health.enable_health_checking {
            let path = health_socket_beside(&config.socket_path);
            sockets.push((Socket::Unix(bind(&path)?), health_socket_router(api.clone())));
            places.push(path);
        }
        if config.agent_health_port > 0 {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, config.agent_health_port));
            let socket = listen(address, "--agent-health-port");
            sockets.extend(socket.map(|it| (Socket::Tcp(it), health_router(api.clone()))));
        }
        let flows = match &hubble {
            Some(Ok((hubble, _))) => Some(hubble.metrics().clone()),
            _ => None,
        };
        sockets.extend(metrics_ports::sockets(config, &api, flows));
        if config.kube_proxy.replacement
            && let Some(address) = config.kube_proxy.healthz.0
        {
            let socket = listen(address, "--kube-proxy-replacement-healthz-bind-address");
            let router = kube_proxy_healthz_router(api.clone());
            sockets.extend(socket.map(|socket| (Socket::Tcp(socket), router)));
        }
        let server = Server::start("api", sockets).context("start the thread of the API")?;
        let places = places.into_iter().map(|place| (place.clone(), inode(&place))).collect();
        let served = ApiServer { server: Some(server), sockets: places };
        let dashboard = page(config, api, &hubble).context("start the dashboard's thread")?;
        // Who shows no records still does its work, as with the sockets above.
        let hubble = hubble.transpose().unwrap_or_else(|error| {
            tracing::error!(%error, "flows are neither kept nor served");
            None
        });
        let (hubble, tap) = hubble.unzip();
        let socket = socket_beside(&config.socket_path);
        let monitor = Monitor::start(&socket, &config.bpf_root, Some(notified), tap)
            .inspect_err(|error| tracing::error!(%error, "nobody can listen to records"))
            .ok();
        Ok(Self { api: served, dashboard, monitor, hubble })
    }
}

/// Begins to serve the dashboard, if it has an address.
fn page(config: &Config, api: Api, hubble: &Option<StartedHubble>) -> io::Result<Option<Server>> {
    let Some(address) = config.dashboard_addr.0 else { return Ok(None) };
    let Some(socket) = listen(address, "--dashboard-addr") else { return Ok(None) };
    let flows = match hubble {
        Some(Ok((hubble, _))) => flows_router(Arc::clone(hubble.observer())),
        Some(Err(_)) => no_flows_router(FLOWS_FAILED),
        None => no_flows_router(FLOWS_OFF),
    };
    let lives = Lives::Agent(api.flight.clone());
    let page = dashboard::router(lives, dashboard_router(api).merge(flows));
    Server::start("dashboard", vec![(Socket::Tcp(socket), page)]).map(Some)
}

/// Listens on TCP. Who cannot be asked how it is still does its work: a failure is no reason to
/// end.
pub(crate) fn listen(address: SocketAddr, flag: &str) -> Option<TcpListener> {
    http::listen(address)
        .inspect_err(
            |error| tracing::warn!(%address, %error, "not listening; choose another {flag}"),
        )
        .ok()
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        // Nobody connects any more, and those who have are answered.
        self.sockets.iter().for_each(|(socket, inode)| unbind(socket, *inode));
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }
}

fn facts(config: &Config, boot: &Boot) -> anyhow::Result<Facts> {
    let node = &boot.node;
    let settings = serde_json::to_value(config).context("settings as JSON")?;
    Ok(Facts {
        began: SystemClock.wall(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        node_name: node_name(),
        ipv4_range: node.ipv4_range,
        ipv6_range: node.ipv6_range,
        attach_mode: boot.datapath.attach_mode(),
        routing: settings::routing(config),
        ipam_mode: config.ipam.map_or(IpamMode::ClusterPool, IpamMode::from).to_string(),
        host_firewall: config.enable_host_firewall,
        hubble: Ok(false),
        cluster: config.cluster_name.clone(),
        cluster_id: ClusterId(config.cluster_id),
        features: features(config)?,
        follows_cluster: config.api_server().is_some(),
        options: settings::options(config),
        bpf_root: config.bpf_root.clone(),
        procfs: config.procfs.clone(),
        socket_path: config.socket_path.clone(),
        settings: match settings {
            Value::Object(map) => map,
            _ => Default::default(),
        },
    })
}

fn features(config: &Config) -> anyhow::Result<Features> {
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let kvstore = config.kvstore.map(|kind| -> anyhow::Result<_> {
        let options = serde_json::to_value(&config.kvstore_opt).context("--kvstore-opt as JSON")?;
        let kind = serde_json::to_value(kind).context("--kvstore as JSON")?;
        Ok((word(kind), options.as_object().cloned().unwrap_or_default()))
    });
    Ok(Features {
        masquerade: Families {
            ipv4: config.enable_ipv4 && config.enable_ipv4_masquerade,
            ipv6: config.enable_ipv6 && config.enable_ipv6_masquerade,
        },
        kube_proxy_replacement: config.kube_proxy.replacement,
        socket_lb: config.attaching.bpf_lb_sock,
        algorithm: word(serde_json::to_value(config.bpf_lb_algorithm)?),
        mode: word(serde_json::to_value(config.bpf_lb_mode)?),
        maglev_table: config.bpf_lb_maglev_table_size,
        size_ratio: config.bpf_map_dynamic_size_ratio,
        policy_rows: config.bpf_policy_map_max,
        cni_file: config.cni.write_cni_conf_when_ready.clone(),
        cni_target: match config.cni.composition() {
            Composition::Into { network, .. } => Some(network),
            _ => None,
        },
        cni_chaining: config.cni.mode_name(),
        kvstore: kvstore.transpose()?,
    })
}
