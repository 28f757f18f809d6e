use std::{
    io,
    net::{SocketAddr, TcpListener as StdTcpListener},
    os::unix::net::UnixListener as StdUnixListener,
    pin::pin,
    sync::Arc,
    thread,
    time::Duration,
};

use axum::{Router, serve::Listener};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{Semaphore, watch},
    time::timeout,
};

/// How many connections one listener serves at a time; more wait in the kernel.
const CONNECTIONS_MAX: usize = 512;
/// How long a request's head may take to arrive.
const HEAD_PATIENCE: Duration = Duration::from_secs(15);
/// How long requests that are being answered may take once the server is told to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Serves HTTP on a thread of its own: a big answer or a slow client never holds up an actor.
#[derive(Debug)]
pub struct Server {
    stop: watch::Sender<bool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Something that is listened on.
#[derive(Debug)]
pub enum Socket {
    /// A unix socket.
    Unix(StdUnixListener),
    /// A TCP socket.
    Tcp(StdTcpListener),
}

impl Server {
    /// Starts serving each router on its socket, on a thread of that name.
    pub fn start(name: &str, sockets: Vec<(Socket, Router)>) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                let mut serving = tokio::task::JoinSet::new();
                for (socket, router) in sockets {
                    serving.spawn(serve_socket(socket, router, stopped.clone()));
                }
                serving.join_all().await;
            });
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops: what is being answered is finished if that is soon.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread that serves HTTP panicked");
        }
    }
}

/// Listens on TCP.
pub fn listen(address: SocketAddr) -> io::Result<Socket> {
    let listener = StdTcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(Socket::Tcp(listener))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn serve_socket(socket: Socket, router: Router, stopped: watch::Receiver<bool>) {
    let listened = match socket {
        Socket::Unix(socket) => UnixListener::from_std(socket).map(Listened::Unix),
        Socket::Tcp(socket) => TcpListener::from_std(socket).map(Listened::Tcp),
    };
    match listened {
        Ok(Listened::Unix(listener)) => serve(listener, router, stopped).await,
        Ok(Listened::Tcp(listener)) => serve(listener, router, stopped).await,
        Err(error) => tracing::error!(%error, "a socket cannot be served"),
    }
}

enum Listened {
    Unix(UnixListener),
    Tcp(TcpListener),
}

async fn serve<L: Listener>(mut listener: L, router: Router, stopped: watch::Receiver<bool>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(stopped.clone()) => break,
        };
        let (router, stopped) = (router.clone(), stopped.clone());
        tokio::spawn(async move {
            let _slot = slot;
            if let Err(error) = serve_connection(stream, router, stopped).await {
                tracing::debug!(%error, "a connection to the API broke");
            }
        });
    }
    drop(listener);
    // Every slot is free again once the last connection has ended.
    let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    let _ = timeout(STOP_PATIENCE, slots.acquire_many(all)).await;
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    stopped: watch::Receiver<bool>,
) -> Result<(), hyper::Error> {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = told(stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// Ends when the server is to stop.
async fn told(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = stopped.wait_for(|stop| *stop).await;
}
