//! Who answers other nodes' probes by HTTP: `GET /hello` is 200, everything else 404.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdTcpListener},
};

use axum::{Router, routing::get};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use volvox_actors::model::{Addresses, Families};
use volvox_inspect::http::{HEAD_PATIENCE, Places, Terms, serve};

use crate::health_ports::listen_on;

/// Connections at a time: of five thousand nodes some ten ask in a second.
const CONNECTIONS_MAX: u32 = 256;
/// Largest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 8192;

/// Answers at one port until it is dropped.
pub(super) struct Responder {
    _stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    /// Cookie of its namespace.
    cookie: u64,
}

impl Responder {
    pub(super) fn start(listener: StdTcpListener, cookie: u64) -> io::Result<Self> {
        let listener = TcpListener::from_std(listener)?;
        let (stop, stopped) = watch::channel(false);
        let terms = Terms {
            places: Places::new(CONNECTIONS_MAX),
            head: HEAD_PATIENCE,
            head_bytes: Some(HEAD_BYTES_MAX),
            keep_alive: false,
        };
        let serving = tokio::spawn(serve(listener, router(), stopped, terms));
        Ok(Self { _stop: stop, serving, cookie })
    }

    /// Whether it answers in that namespace.
    pub(super) fn is_of(&self, cookie: u64) -> bool {
        self.cookie == cookie && !self.serving.is_finished()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn router() -> Router {
    Router::new().route("/hello", get(async || ()))
}

/// Answers at the node's addresses, or at all of them if none is known. Where another one answers already, that
/// is said, and others see this node's failure.
pub(super) fn on_node(own: Addresses, families: Families, port: u16) -> Vec<Responder> {
    let mut addresses: Vec<IpAddr> = own.iter().collect();
    let any = [
        (families.ipv4, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        (families.ipv6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    ];
    if addresses.is_empty() {
        addresses.extend(any.into_iter().filter(|(on, _)| *on).map(|(_, any)| any));
    }
    let open = |address: IpAddr| {
        let address = SocketAddr::new(address, port);
        let listener = listen_on(address, false).map_err(io::Error::from);
        listener.and_then(|listener| Responder::start(listener, 0)).inspect_err(|error| {
            tracing::error!(
                %address, %error,
                "other nodes are not answered: end whoever listens there, or choose another \
                 --cluster-health-port on every node"
            );
        })
    };
    addresses.into_iter().filter_map(|address| open(address).ok()).collect()
}
