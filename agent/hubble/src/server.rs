//! Hubble's server: its thread, its listeners, the limits of who connects, and what it does beside: names
//! are looked up, and kept for after a restart.

use std::{
    io, net::TcpListener as StdTcpListener, os::unix::net::UnixListener as StdUnixListener,
    path::PathBuf, sync::Arc, thread, time::Duration,
};

use axum::serve::{Listener, ListenerExt};
use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use volvox_inspect::http::{Tls, TlsFiles, TlsListener};

use crate::{names::Names, observer::Observer, service::call};

/// How many connections are served at a time, of each listener.
const CONNECTIONS_MAX: usize = 256;
/// Calls of one connection at a time.
const CALLS_MAX: u32 = 64;
/// How often it is asked whether a client is still there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_PATIENCE: Duration = Duration::from_secs(20);
/// What may wait of one answer, bytes.
const SEND_MAX: usize = 256 << 10;
/// The largest head of a request, bytes.
const HEAD_MAX: u32 = 16 << 10;
/// What is spoken over TLS.
const HTTP2: &[u8] = b"h2";
/// How often names are looked up that nobody asks for,
const NAMES_EVERY: Duration = Duration::from_secs(60);
/// how soon after they changed,
const NAMES_SOON: Duration = Duration::from_millis(500);
/// and how often at most, while flows come of endpoints that have none.
const NAMES_AT_MOST: Duration = Duration::from_millis(20);
/// How often nodes are.
const PEERS_EVERY: Duration = Duration::from_secs(5);

/// Where it listens.
pub struct Listeners {
    /// The unix socket.
    pub unix: StdUnixListener,
    /// Its place beside, and TLS.
    pub tcp: Option<(StdTcpListener, Option<TlsFiles>)>,
    /// Where names are kept for after a restart.
    pub names: PathBuf,
}

/// Serves until it is dropped, on a thread of its own.
#[derive(Debug)]
pub struct HubbleServer {
    stop: watch::Sender<bool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl HubbleServer {
    /// Begins to serve, and does beside what else there is to do on that thread.
    pub fn start(
        observer: Arc<Observer>,
        listeners: Listeners,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = volvox_system::threads::spawn("hubble", move || {
            runtime.block_on(run(observer, listeners, beside, stopped));
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for HubbleServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of Hubble's server panicked");
        }
    }
}

async fn run(
    observer: Arc<Observer>,
    listeners: Listeners,
    beside: impl Future<Output = ()> + Send + 'static,
    mut stopped: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    let Listeners { unix, tcp, names } = listeners;
    tasks.spawn(beside);
    tasks.spawn(keep_names(Arc::clone(&observer), names));
    tasks.spawn(keep_peers(Arc::clone(&observer)));
    match UnixListener::from_std(unix) {
        Ok(unix) => drop(tasks.spawn(serve_listener(unix, Arc::clone(&observer)))),
        Err(error) => tracing::error!(%error, "flows are not served on Hubble's unix socket"),
    }
    match tcp.map(|(tcp, tls)| (TcpListener::from_std(tcp), tls)) {
        Some((Ok(tcp), tls)) => drop(tasks.spawn(serve_tcp(tcp, tls, observer))),
        Some((Err(error), _)) => tracing::error!(%error, "flows are not served on TCP"),
        None => {}
    }
    // An error means that nobody is left who could say so.
    let _ = stopped.wait_for(|stop| *stop).await;
    tasks.abort_all();
}

/// Looks names up when they change and when flows come of endpoints without one, and keeps them.
async fn keep_names(observer: Arc<Observer>, path: PathBuf) {
    let mut failed = false;
    loop {
        observer.refresh().await;
        let bytes = observer.names().to_keep();
        if let Some(bytes) = bytes {
            let path = path.clone();
            let written = tokio::task::spawn_blocking(move || Names::write(&path, &bytes)).await;
            if let Ok(Err(error)) = written
                && !std::mem::replace(&mut failed, true)
            {
                tracing::warn!(%error, "flows lose names with the agent");
            }
        }
        sleep(NAMES_AT_MOST).await;
        let _ = timeout(NAMES_EVERY, observer.names_wanted(NAMES_SOON)).await;
    }
}

async fn keep_peers(observer: Arc<Observer>) {
    loop {
        observer.refresh_peers().await;
        sleep(PEERS_EVERY).await;
    }
}

async fn serve_tcp(listener: TcpListener, tls: Option<TlsFiles>, observer: Arc<Observer>) {
    match tls {
        Some(files) => {
            let listener = TlsListener::new(listener, Tls::new(files, HTTP2)).await;
            serve_listener(listener, observer).await;
        }
        // Without it an answer may wait for the next one.
        None => serve_listener(listener.tap_io(|it| drop(it.set_nodelay(true))), observer).await,
    }
}

async fn serve_listener<L: Listener>(mut listener: L, observer: Arc<Observer>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, _) = listener.accept().await;
        let observer = Arc::clone(&observer);
        tokio::spawn(async move {
            serve(stream, observer).await;
            drop(place);
        });
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    observer: Arc<Observer>,
) {
    let service = service_fn(move |request| call(Arc::clone(&observer), request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(CALLS_MAX)
        .max_send_buf_size(SEND_MAX)
        .max_header_list_size(HEAD_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    // Whoever breaks off is no news.
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to Hubble's server ended");
    }
}
