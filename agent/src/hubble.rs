//! Hubble in the agent: the ring of flows, who knows their names, and the server. Names are the actors';
//! they are asked for them as REST asks.

mod events;
mod informant;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use volvox_actors::ports::AgentNews;
use volvox_hubble::{
    agent_events::AgentEvents,
    export::export,
    messages::now,
    metrics::{FlowMetrics, count},
    names::{Names, Node},
    observer::Observer,
    peers::PeerTerms,
    ring,
    server::{HubbleServer, Listeners},
    tap::Tap,
};
use volvox_inspect::{
    http::{SocketError, TlsFiles, bind, inode, listen, unbind},
    monitor::RecordTap,
};
use volvox_maps::Event;

use self::{events::agent_event, informant::ActorsInformant};
use crate::{
    config::{Config, HubbleOptions},
    gateway::Gateway,
    node_name::node_name,
};

/// Files in the run directory: the ring,
pub const RING: &str = "hubble-flows";
/// and the names of its flows.
pub const NAMES: &str = "hubble-names";
/// Flags that name the certificate, its key, and who vouches for clients.
const TLS_FLAGS: [&str; 3] =
    ["--hubble-tls-cert-file", "--hubble-tls-key-file", "--hubble-tls-client-ca-files"];
/// The port that peers are said to have where this node listens on none, Hubble's own.
const PEER_PORT: u16 = 4244;

/// Why flows are not served.
#[derive(Debug, thiserror::Error)]
pub enum HubbleError {
    /// The unix socket cannot be had.
    #[error("--hubble-socket-path: {0}")]
    Socket(#[from] SocketError),
    /// The system refused something.
    #[error("{0}: {1}; see the limits of memory and of threads")]
    System(&'static str, io::Error),
}

/// Hubble, until it is dropped.
pub struct Hubble {
    /// Dropped first, so that nobody is served by the socket that is removed.
    server: Option<HubbleServer>,
    observer: Arc<Observer>,
    metrics: FlowMetrics,
    socket: PathBuf,
    inode: u64,
}

impl Hubble {
    /// Begins to keep and to serve flows. The tap is for whoever reads the datapath's records.
    pub fn start(
        config: &Config,
        gateway: Gateway,
    ) -> Result<(Self, Box<dyn RecordTap>), HubbleError> {
        let options = &config.hubble;
        let path = config.run_dir.join(RING);
        let (writer, trouble) = ring::open(&path, options.event_buffer_capacity)
            .map_err(|error| HubbleError::System("memory for flows", error))?;
        if let Some(trouble) = trouble {
            tracing::warn!(%trouble, "the ring of flows has no file");
        }
        let ring = Arc::clone(writer.ring());
        let room = usize::try_from(options.event_buffer_capacity).unwrap_or(usize::MAX);
        let agent_events = Arc::new(Mutex::new(AgentEvents::new(room)));
        let interval = options.lost_event_send_interval;
        let (tap, news) = Tap::new(writer, options.kinds(), interval, Arc::clone(&agent_events));
        let kept = config.run_dir.join(NAMES);
        let mut names = Names::new(node(config));
        names.restore(&kept);
        let informant = Box::new(ActorsInformant::new(config, gateway));
        let terms = (peer_terms(options), interval);
        let observer = Observer::new(ring, names, agent_events, news, informant, terms);
        let observer = Arc::new(observer);
        let unix = bind(&options.socket_path)?;
        let listeners = Listeners { unix, tcp: tcp(options), names: kept };
        let (writing, to) = (Arc::clone(&observer), options.export());
        let (counting, metrics) = (Arc::clone(&observer), flow_metrics(config));
        let counts = metrics.clone();
        let beside = async move {
            let exported = async {
                if let Some(to) = to {
                    export(writing, to).await;
                }
            };
            let counted = async {
                if !counts.is_empty() {
                    count(counting, counts).await;
                }
            };
            tokio::join!(exported, counted);
        };
        let server = HubbleServer::start(Arc::clone(&observer), listeners, beside)
            .map_err(|error| HubbleError::System("the thread of Hubble's server", error))?;
        let (socket, inode) = (options.socket_path.clone(), inode(&options.socket_path));
        let looked_at = Arc::clone(&observer);
        let hubble = Self { server: Some(server), observer: looked_at, metrics, socket, inode };
        Ok((hubble, Box::new(FlowTap { tap, observer })))
    }

    /// What is known of flows, for who looks on.
    pub fn observer(&self) -> &Arc<Observer> {
        &self.observer
    }

    /// What is counted of flows.
    pub fn metrics(&self) -> &FlowMetrics {
        &self.metrics
    }
}

impl Drop for Hubble {
    fn drop(&mut self) {
        drop(self.server.take());
        unbind(&self.socket, self.inode);
    }
}

/// Listens on TCP, if that is asked for. Who cannot still serves the unix socket.
fn tcp(options: &HubbleOptions) -> Option<(std::net::TcpListener, Option<TlsFiles>)> {
    let address = options.served_address()?;
    let listener = listen(address)
        .inspect_err(|error| {
            let flag = "--hubble-listen-address";
            tracing::warn!(%address, %error, "flows are not served there; choose another {flag}");
        })
        .ok()?;
    let (certificate, key) = (options.tls_cert_file.as_ref(), options.tls_key_file.as_ref());
    let files = TlsFiles::named(TLS_FLAGS, certificate, key, &options.tls_client_ca_files);
    let tls = files.filter(|_| !options.disable_tls);
    Some((listener, tls))
}

/// What is to be counted. It was read when the flags were.
fn flow_metrics(config: &Config) -> FlowMetrics {
    let metrics = FlowMetrics::new(&config.metrics.hubble_metrics).unwrap_or_default();
    let idle = metrics.without_flows();
    if !idle.is_empty() {
        let metrics = idle.join(" ");
        tracing::warn!(%metrics, "requests of layer 7 are not seen here: these metrics stay empty");
    }
    metrics
}

fn node(config: &Config) -> Node {
    Node {
        name: node_name(),
        cluster: config.cluster_name.clone(),
        labels: Vec::new(),
        version: format!("volvox {}", env!("VOLVOX_VERSION")),
    }
}

fn peer_terms(options: &HubbleOptions) -> PeerTerms {
    PeerTerms {
        port: options.listen_address.0.map_or(PEER_PORT, |address| address.port()),
        tls: !options.disable_tls,
        prefer_ipv6: options.prefer_ipv6,
    }
}

/// Keeps what is read, and has names looked up when the agent says that they changed.
struct FlowTap {
    tap: Tap,
    observer: Arc<Observer>,
}

impl RecordTap for FlowTap {
    fn take(&mut self, event: &Event) {
        self.tap.take(event, now());
    }

    fn hear(&mut self, news: &AgentNews) {
        self.tap.agent(agent_event(news), now());
        self.observer.names_changed();
    }

    fn flush(&mut self) -> bool {
        self.tap.flush(now());
        self.tap.owes()
    }
}
