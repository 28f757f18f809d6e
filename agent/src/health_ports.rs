//! Ports of the node at which load balancers outside ask for a service (`healthCheckNodePort`), by
//! HTTP, as kube-proxy answers them. On a thread of its own: whoever asks never holds up an actor.
//!
//! The world may connect. So a connection has one request, with a small head that comes soon; there
//! are so many at a time for all ports together, and whoever has waited longest for a request makes
//! room for one more.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, io, net::Ipv4Addr, net::Ipv6Addr, net::SocketAddr};

use axum::{
    Json, Router,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt},
};
use serde::Serialize;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, spawn_local},
};
use volvox_actors::{
    host::Reply,
    model::Families,
    ports::{HealthAnswer, HealthListeners, ListenError},
};
use volvox_inspect::http::{HEAD_PATIENCE, Places, Terms, serve};

/// Connections at a time, of all ports together.
const CONNECTIONS_MAX: u32 = 256;
/// Largest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 8192;
/// Connections that wait to be accepted, of each port.
const BACKLOG: i32 = 128;
/// How much of the traffic a node is to get, compared to others.
const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// Why nobody can be answered.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread that answers health checks: {0}; raise the limit of threads")]
pub struct HealthPortsError(#[from] io::Error);

/// The ports. All are closed when this is dropped.
pub struct HealthPorts(mpsc::UnboundedSender<Asked>);

/// A port that is to answer so from now on.
struct Asked {
    port: u16,
    answer: Option<HealthAnswer>,
    done: oneshot::Sender<Result<(), ListenError>>,
}

impl HealthPorts {
    /// Starts the thread. It listens on all addresses of these families.
    pub fn start(families: Families) -> Result<Self, HealthPortsError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // The actors ask for one thing at a time of each port: it holds no more than there are ports.
        let (asks, mut asked) = mpsc::unbounded_channel::<Asked>();
        volvox_system::threads::spawn("health-checks", move || {
            runtime.block_on(async {
                let mut open = Open::new(families);
                while let Some(Asked { port, answer, done }) = asked.recv().await {
                    // Whoever asked may not wait any more.
                    drop(done.send(open.set(port, answer).await));
                }
            });
        })?;
        Ok(Self(asks))
    }

    fn ask(
        &self,
        port: u16,
        answer: Option<HealthAnswer>,
    ) -> oneshot::Receiver<Result<(), ListenError>> {
        let (done, outcome) = oneshot::channel();
        // Where the thread has ended the outcome is that there is none.
        drop(self.0.send(Asked { port, answer, done }));
        outcome
    }
}

impl HealthListeners for HealthPorts {
    fn answer(
        &self,
        port: u16,
        answer: Option<HealthAnswer>,
        reply: Reply<Result<(), ListenError>>,
    ) {
        let outcome = self.ask(port, answer);
        spawn_local(async move {
            if let Ok(outcome) = outcome.await {
                reply.send(outcome);
            }
        });
    }
}

/// What is listened on.
struct Open {
    families: Families,
    terms: Terms,
    ports: BTreeMap<u16, Listening>,
}

struct Listening {
    answer: watch::Sender<HealthAnswer>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Open {
    fn new(families: Families) -> Self {
        let terms = Terms {
            places: Places::new(CONNECTIONS_MAX),
            head: HEAD_PATIENCE,
            head_bytes: Some(HEAD_BYTES_MAX),
            // Who sends requests without reading an answer would keep his place.
            keep_alive: false,
        };
        Self { families, terms, ports: BTreeMap::new() }
    }

    async fn set(&mut self, port: u16, answer: Option<HealthAnswer>) -> Result<(), ListenError> {
        match (self.ports.get(&port), answer) {
            (Some(listening), Some(answer)) => drop(listening.answer.send_replace(answer)),
            (None, Some(answer)) => {
                let listening = self.listen(port, answer).map_err(|error| refusal(&error))?;
                self.ports.insert(port, listening);
            }
            (_, None) => {
                if let Some(listening) = self.ports.remove(&port) {
                    listening.close().await;
                }
            }
        }
        Ok(())
    }

    fn listen(&self, port: u16, answer: HealthAnswer) -> io::Result<Listening> {
        let listener = TcpListener::from_std(open(port, self.families)?)?;
        let (answer, answers) = watch::channel(answer);
        let (stop, stopped) = watch::channel(false);
        let serving = serve(listener, router(answers), stopped, self.terms.clone());
        Ok(Listening { answer, stop, serving: tokio::spawn(serving) })
    }
}

impl Listening {
    /// Nobody listens any more once this has ended.
    async fn close(self) {
        self.stop.send_replace(true);
        self.serving.abort();
        // It is cancelled, which is meant.
        drop(self.serving.await);
    }
}

/// Listens on all addresses of the node.
fn open(port: u16, families: Families) -> Result<std::net::TcpListener, Errno> {
    let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match (families.ipv4, families.ipv6) {
        (only_four, false) => listen_on(four, only_four),
        (with_four, true) => match listen_on(six, with_four) {
            // A kernel may be without.
            Err(Errno::AFNOSUPPORT) if with_four => listen_on(four, true),
            other => other,
        },
    }
}

/// Listens on an address; `with_ipv4` has one of IPv6 stand for those of IPv4 as well.
pub(crate) fn listen_on(
    address: SocketAddr,
    with_ipv4: bool,
) -> Result<std::net::TcpListener, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of a life before may not have ended everywhere.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !with_ipv4)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn refusal(error: &io::Error) -> ListenError {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program of this node listens there, perhaps kube-proxy: end that one, or give \
             the service another port; it is tried again"
        }
        _ => {
            "see how many files the agent may open, and whether it may bind to ports; it is tried again"
        }
    };
    ListenError(format!("{error}; {remedy}"))
}

fn router(answers: watch::Receiver<HealthAnswer>) -> Router {
    Router::new().fallback(move || {
        // Who asks on a connection from before the port was closed asks for nothing that is here.
        let is_open = answers.has_changed().is_ok();
        let response = match is_open {
            true => response(&answers.borrow()),
            false => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        };
        async { response }
    })
}

/// The body, by the names that kube-proxy gives.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    service: ServiceName<'a>,
    local_endpoints: usize,
    service_proxy_healthy: bool,
}

#[derive(Serialize)]
struct ServiceName<'a> {
    namespace: &'a str,
    name: &'a str,
}

fn response(HealthAnswer { service, local_endpoints }: &HealthAnswer) -> Response {
    let (namespace, name) = service.split_once('/').unwrap_or(("", service));
    let body = Answer {
        service: ServiceName { namespace, name },
        local_endpoints: *local_endpoints,
        service_proxy_healthy: true,
    };
    let status = match local_endpoints {
        0 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let headers = [
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (WEIGHT, HeaderValue::from(*local_endpoints)),
    ];
    (status, headers, Json(body)).into_response()
}
