//! A proxy in front of a server of the lab. It does to connections what networks and busy servers do, while the
//! server itself is well.

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Builder,
    sync::{oneshot, watch},
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

/// What a server that is slow takes for each part of what it says or is told.
const SLOW: Duration = Duration::from_millis(250);
/// How much of a connection is passed on at once, bytes.
const PART: usize = 16 << 10;
/// What no client understands.
const RUBBISH: &[u8] = b"\x00\xff{\"kind\": rubbish \x1b[2J\r\n\r\n";

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// They are passed on.
    Open,
    /// They are passed on, each part late.
    Slow,
    /// Nothing gets through any more, in either direction, and nobody says so; new ones hang, too.
    CutOff,
    /// Whoever is connected at that moment never hears anything again; new ones are passed on.
    HalfOpen,
    /// Every request is answered with this status of HTTP.
    Answers(u16),
    /// Every request is answered with bytes that mean nothing.
    Rubbish,
}

impl Passage {
    /// Whether the server gets to hear of requests.
    fn reaches_server(self) -> bool {
        !matches!(self, Self::Answers(_) | Self::Rubbish)
    }
}

/// What connections are told.
#[derive(Clone, Copy, Debug)]
struct State {
    passage: Passage,
    /// How often all that were connected were lost: a moment that is over at once.
    losses: u64,
}

/// What the proxy has to speak where it answers in the server's place.
#[derive(Clone, Debug)]
pub enum Speaks {
    /// HTTP/2 without encryption, as etcd.
    Grpc,
    /// HTTP/1.1 with this certificate and its key, as an API server.
    Https {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of its key.
        key: PathBuf,
    },
}

/// A running proxy. Dropped, it ends.
pub struct Proxy {
    state: watch::Sender<State>,
    address: SocketAddr,
    /// Its thread ends with this.
    _end: oneshot::Sender<()>,
}

impl Proxy {
    /// Starts one at that address, in front of `server`.
    pub fn start(address: SocketAddr, server: SocketAddr, speaks: Speaks) -> Result<Self> {
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("a proxy cannot listen at {address}"))?;
        listener.set_nonblocking(true)?;
        let (state, seen) = watch::channel(State { passage: Passage::Open, losses: 0 });
        let (end, ended) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    served = serve(listener, server, Arc::new(speaks), seen) => {
                        if let Err(error) = served {
                            volvox_system::complain!("the proxy at {address}: {error:#}");
                        }
                    }
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self { state, address, _end: end })
    }

    /// Where clients reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What becomes of connections from now on.
    pub fn set(&self, passage: Passage) {
        self.state.send_modify(|state| match passage {
            Passage::HalfOpen => {
                *state = State { passage: Passage::Open, losses: state.losses + 1 };
            }
            passage => state.passage = passage,
        });
    }
}

async fn serve(
    listener: std::net::TcpListener,
    server: SocketAddr,
    speaks: Arc<Speaks>,
    mut state: watch::Receiver<State>,
) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        // Who is not taken hangs.
        state.wait_for(|it| it.passage != Passage::CutOff).await?;
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            changed = state.changed() => {
                changed?;
                continue;
            }
        };
        let Ok((client, _)) = accepted else { continue };
        let (speaks, state) = (Arc::clone(&speaks), state.clone());
        tokio::spawn(async move {
            // Whatever becomes of one connection: its client sees it.
            let _ = connection(client, server, &speaks, state).await;
        });
    }
}

async fn connection(
    mut client: TcpStream,
    server: SocketAddr,
    speaks: &Speaks,
    mut state: watch::Receiver<State>,
) -> Result<()> {
    let begun = *state.borrow_and_update();
    if !begun.passage.reaches_server() {
        let over = async { drop(state.changed().await) };
        tokio::select! {
            answered = answer(client, speaks, begun.passage) => return answered,
            () = over => return Ok(()),
        }
    }
    let mut upstream = TcpStream::connect(server).await?;
    let is_lost = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = upstream.split();
        let (here, there) = (state.clone(), state.clone());
        tokio::select! {
            passed = pass(&mut from_client, &mut to_server, here) => return passed,
            passed = pass(&mut from_server, &mut to_client, there) => return passed,
            lost = until_it_ends(&mut state, begun.losses) => lost?,
        }
    };
    drop(upstream);
    if is_lost {
        // Read, and never answered: the client's kernel calls the connection well.
        let mut swallowed = [0; 1024];
        while client.read(&mut swallowed).await? > 0 {}
    }
    Ok(())
}

/// Waits for what ends a connection that there is; whether it is lost without a word.
async fn until_it_ends(state: &mut watch::Receiver<State>, losses: u64) -> Result<bool> {
    loop {
        state.changed().await?;
        let now = *state.borrow_and_update();
        if now.losses != losses || !now.passage.reaches_server() {
            return Ok(now.losses != losses);
        }
    }
}

/// Passes on what comes, until one side ends.
async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut state: watch::Receiver<State>,
) -> Result<()> {
    let mut part = vec![0; PART];
    loop {
        let count = from.read(&mut part).await?;
        // Who is cut off does not hear of an end, either.
        let now = *state.wait_for(|it| it.passage != Passage::CutOff).await?;
        if count == 0 {
            return Ok(to.shutdown().await?);
        }
        if now.passage == Passage::Slow {
            sleep(SLOW).await;
        }
        to.write_all(&part[..count]).await?;
    }
}

/// Answers every request of a connection in the server's place.
async fn answer(client: TcpStream, speaks: &Speaks, passage: Passage) -> Result<()> {
    let respond =
        service_fn(
            move |_: Request<Incoming>| async move { Ok::<_, Infallible>(response(passage)) },
        );
    match speaks {
        Speaks::Grpc => {
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            server.serve_connection(TokioIo::new(client), respond).await?;
        }
        Speaks::Https { certificate, key } => {
            let client = acceptor(certificate, key)?.accept(client).await?;
            let server = hyper::server::conn::http1::Builder::new();
            server.serve_connection(TokioIo::new(client), respond).await?;
        }
    }
    Ok(())
}

fn response(passage: Passage) -> Response<Full<Bytes>> {
    let status = match passage {
        Passage::Answers(status) => status,
        _ => 200,
    };
    let response = Response::builder().status(status).header("content-type", "application/json");
    let response = if status == 429 { response.header("retry-after", "1") } else { response };
    let body = Full::new(Bytes::from_static(RUBBISH));
    response.body(body).expect("all of it is right")
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// Whether somebody echoes within a while.
    fn echoes(stream: &mut TcpStream, patience: Duration) -> bool {
        stream.set_read_timeout(Some(patience)).expect("it is possible");
        let mut byte = [0];
        stream.write_all(b"?").is_ok() && matches!(stream.read(&mut byte), Ok(1))
    }

    /// A server that echoes, and a proxy in front of it.
    fn echo() -> Proxy {
        let server = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = server.local_addr().expect("it is bound");
        thread::spawn(move || {
            for mut stream in server.incoming().flatten() {
                thread::spawn(move || {
                    let mut byte = [0];
                    while matches!(stream.read(&mut byte), Ok(1)) {
                        let _ = stream.write_all(&byte);
                    }
                });
            }
        });
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        Proxy::start(free.expect("there is a port"), address, Speaks::Grpc).expect("it starts")
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn who_is_cut_off_hears_nothing_until_it_is_over() {
        let proxy = echo();
        let connect = || TcpStream::connect(proxy.address()).expect("somebody listens");
        let mut there = connect();
        assert!(echoes(&mut there, LONG));
        proxy.set(Passage::CutOff);
        let mut new = connect();
        assert!(!echoes(&mut there, SHORT) && !echoes(&mut new, SHORT));
        proxy.set(Passage::Open);
        assert!(echoes(&mut there, LONG) && echoes(&mut new, LONG));
    }

    #[test]
    fn who_was_connected_to_half_of_it_never_hears_again() {
        let proxy = echo();
        let connect = || TcpStream::connect(proxy.address()).expect("somebody listens");
        let mut there = connect();
        assert!(echoes(&mut there, LONG));
        proxy.set(Passage::HalfOpen);
        proxy.set(Passage::Open);
        assert!(!echoes(&mut there, SHORT));
        assert!(echoes(&mut connect(), LONG));
    }

    #[test]
    fn whatever_is_asked_is_answered_in_the_servers_place() {
        let proxy = echo();
        for (passage, status) in [(Passage::Answers(429), 429), (Passage::Rubbish, 200)] {
            proxy.set(passage);
            let runtime = Builder::new_current_thread().enable_all().build().expect("it is made");
            let answer = runtime.block_on(async {
                let stream = tokio::net::TcpStream::connect(proxy.address()).await?;
                let (mut sender, connection) = hyper::client::conn::http2::handshake(
                    TokioExecutor::new(),
                    TokioIo::new(stream),
                )
                .await?;
                tokio::spawn(connection);
                let request = Request::get("http://etcd/").body(Full::new(Bytes::new()))?;
                anyhow::Ok(sender.send_request(request).await?)
            });
            assert_eq!(answer.expect("there is an answer").status(), status);
        }
    }
}
