//! The HTTP server: its thread, its listeners, the limits of each connection, and how it stops. The
//! routers say what is answered.

use std::{
    future::ready,
    io,
    net::{SocketAddr, TcpListener as StdTcpListener},
    os::unix::net::UnixListener as StdUnixListener,
    pin::pin,
    sync::Arc,
    thread,
    time::Duration,
};

use axum::{Router, serve::Listener};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::watch,
    task::yield_now,
    time::{Instant, timeout_at},
};

use super::{
    places::{Place, Places},
    tls::{Tls, TlsListener},
};

/// What each listener allows.
const LIMITS: Limits = Limits { connections: 512, head: HEAD_PATIENCE };
/// How long a request's head may take to arrive.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(15);
/// How long requests that are being answered may take once the server is told to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked, once the server is told to stop, who has connected and is not served yet,
const TURNS: u32 = 2;
/// and how many of them are served: as many as may wait.
const WAITING_MAX: u32 = 4096;

/// What a listener allows.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How many connections it serves at a time; for one more, an idle one is closed.
    connections: u32,
    /// How long a request's head may take to arrive.
    head: Duration,
}

/// What is allowed to those who connect.
#[derive(Clone)]
pub struct Terms {
    /// How many at a time, at one listener or several.
    pub places: Arc<Places>,
    /// How long a request's head may take to arrive,
    pub head: Duration,
    /// and how large it may be, bytes; as large as HTTP libraries usually take if not given.
    pub head_bytes: Option<usize>,
    /// Whether another request may follow by the same connection.
    pub keep_alive: bool,
}

impl Terms {
    /// For those of this machine whom the socket's owner lets connect.
    fn of_users(limits: Limits) -> Self {
        let places = Places::new(limits.connections);
        Self { places, head: limits.head, head_bytes: None, keep_alive: true }
    }
}

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
    /// The same, with TLS.
    Tls(StdTcpListener, Tls),
}

impl Server {
    /// Starts serving each router on its socket, on a thread of that name.
    pub fn start(name: &str, sockets: Vec<(Socket, Router)>) -> io::Result<Self> {
        Self::limited(name, sockets, LIMITS)
    }

    fn limited(name: &str, sockets: Vec<(Socket, Router)>, limits: Limits) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = volvox_system::threads::spawn(name, move || {
            runtime.block_on(async {
                let mut serving = tokio::task::JoinSet::new();
                for (socket, router) in sockets {
                    serving.spawn(serve_socket(socket, router, stopped.clone(), limits));
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

    /// Stops, and waits for nobody: whoever is being answered loses that with the process.
    pub fn leave(mut self) {
        self.stop.send_replace(true);
        drop(self.thread.take());
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
pub fn listen(address: SocketAddr) -> io::Result<StdTcpListener> {
    let listener = StdTcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn serve_socket(
    socket: Socket,
    router: Router,
    stopped: watch::Receiver<bool>,
    limits: Limits,
) {
    let listened = match socket {
        Socket::Unix(socket) => UnixListener::from_std(socket).map(Listened::Unix),
        Socket::Tcp(socket) => TcpListener::from_std(socket).map(Listened::Tcp),
        Socket::Tls(socket, tls) => TcpListener::from_std(socket).map(|it| Listened::Tls(it, tls)),
    };
    match listened {
        Ok(Listened::Unix(it)) => serve(it, router, stopped, Terms::of_users(limits)).await,
        Ok(Listened::Tcp(it)) => serve(it, router, stopped, Terms::of_users(limits)).await,
        Ok(Listened::Tls(it, tls)) => {
            let listener = tokio::select! {
                listener = TlsListener::new(it, tls) => listener,
                () = reported(stopped.clone()) => return,
            };
            serve(listener, router, stopped, Terms::of_users(limits)).await;
        }
        Err(error) => tracing::error!(%error, "a socket cannot be served"),
    }
}

enum Listened {
    Unix(UnixListener),
    Tcp(TcpListener),
    Tls(TcpListener, Tls),
}

/// Serves a router at a listener until it is stopped, or this is dropped: connections end by
/// themselves.
pub async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    stopped: watch::Receiver<bool>,
    terms: Terms,
) {
    let begin = |(stream, place)| {
        let (router, stopped, terms) = (router.clone(), stopped.clone(), terms.clone());
        tokio::spawn(async move {
            if let Err(error) = serve_connection(stream, router, stopped, place, terms).await {
                tracing::debug!(%error, "a connection broke");
            }
        });
    };
    loop {
        tokio::select! {
            Some(next) = next(&mut listener, &terms) => begin(next),
            () = reported(stopped.clone()) => break,
        }
    }
    // Those who connected before are answered as well. What the kernel has to tell of them is heard
    // between two turns.
    let mut turns = 0..TURNS;
    let deadline = Instant::now() + STOP_PATIENCE;
    for _ in 0..WAITING_MAX {
        let stream = tokio::select! {
            biased;
            (stream, _) = listener.accept() => stream,
            () = ready(()) => match turns.next() {
                Some(_) => {
                    yield_now().await;
                    continue;
                }
                None => break,
            },
        };
        // Who was accepted keeps waiting for a place.
        let Ok(Some(place)) = timeout_at(deadline, terms.places.take()).await else { break };
        begin((stream, place));
    }
    drop(listener);
    let _ = timeout_at(deadline, terms.places.all_free()).await;
}

/// The next one who connects, and his place.
async fn next<L: Listener>(listener: &mut L, terms: &Terms) -> Option<(L::Io, Arc<Place>)> {
    let (stream, _) = listener.accept().await;
    Some((stream, terms.places.take().await?))
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    router: Router,
    stopped: watch::Receiver<bool>,
    place: Arc<Place>,
    terms: Terms,
) -> Result<(), hyper::Error> {
    let router = TowerToHyperService::new(router);
    let answers = Arc::clone(&place);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(terms.head).keep_alive(terms.keep_alive);
    if let Some(bytes) = terms.head_bytes {
        http.max_buf_size(bytes);
    }
    let connection = http.serve_connection(
        TokioIo::new(stream),
        service_fn(move |request: Request<Incoming>| {
            let (answering, answer) = (answers.answer(), router.call(request));
            async { answer.await.map(|answer| answer.map(|body| answering.until_sent(body))) }
        }),
    );
    let mut connection = pin!(connection);
    tokio::select! {
        // First of all: a request that is there already is answered.
        biased;
        ended = connection.as_mut() => return ended,
        () = reported(stopped) => {}
        () = place.told_to_leave() => return Ok(()),
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// Ends when the server is to stop.
async fn reported(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = stopped.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
        path::Path,
    };

    use axum::routing::get;
    use tokio::sync::Notify;

    use super::*;
    use crate::http::bind;

    /// Who gets no answer within this gets none.
    const NEVER: Duration = Duration::from_secs(60);
    const HALF: &str = "GET /here HTTP/1.1\r\nHost: x";

    fn begin(socket: &Path, text: &str) -> UnixStream {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(NEVER)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn answer(mut stream: UnixStream) -> String {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text.lines().last().unwrap_or("closed").to_owned()
    }

    fn whole(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    }

    #[test]
    fn requests_that_are_never_sent_whole_keep_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("api.sock");
        let (came, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (here, gone) = (Arc::clone(&came), Arc::clone(&go));
        let slow = || async move {
            here.notify_one();
            gone.notified().await;
            "late"
        };
        let router = Router::new().route("/here", get(async || "here")).route("/slow", get(slow));
        let limits = Limits { connections: 4, head: 2 * NEVER };
        let sockets = vec![(Socket::Unix(bind(&socket).unwrap()), router)];
        let server = Server::limited("api", sockets, limits).unwrap();
        let late = begin(&socket, &whole("/slow"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(came.notified());
        let half: Vec<_> = (0..20).map(|_| begin(&socket, HALF)).collect();
        assert_eq!(answer(begin(&socket, &whole("/here"))), "here");
        // The first ones made room, and the last can still be finished.
        let mut half = half.into_iter();
        assert_eq!(half.next().map(answer).as_deref(), Some("closed"));
        let mut last = half.next_back().unwrap();
        last.write_all(b"\r\nConnection: close\r\n\r\n").unwrap();
        assert_eq!(answer(last), "here");
        // Who is being answered keeps its place, however many come.
        go.notify_one();
        assert_eq!(answer(late), "late");
        drop(server);
    }

    #[test]
    fn who_connected_before_the_stop_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("api.sock");
        let (held, holds) = std::sync::mpsc::channel::<()>();
        let (tell, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        // The server's thread looks at nobody meanwhile.
        let hold = || async move {
            held.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
            "held"
        };
        let router = Router::new().route("/here", get(async || "here")).route("/hold", get(hold));
        let sockets = vec![(Socket::Unix(bind(&socket).unwrap()), router)];
        let server = Server::start("api", sockets).unwrap();
        let first = begin(&socket, &whole("/hold"));
        holds.recv().unwrap();
        let others: Vec<_> = (0..100).map(|_| begin(&socket, &whole("/here"))).collect();
        server.stop.send_replace(true);
        tell.send(()).unwrap();
        server.stop();
        assert_eq!(answer(first), "held");
        for other in others {
            assert_eq!(answer(other), "here");
        }
    }
}
