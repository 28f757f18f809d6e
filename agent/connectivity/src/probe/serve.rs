//! Servers of a pod of the test: they echo, and say who they are and who asked.
//!
//! TCP: a line `volvox N` and N bytes are answered by a line of JSON and the same bytes, as often as
//! one likes. UDP: a datagram comes back as it is; `who?` is answered by a line of JSON. HTTP: every
//! request is answered by JSON.

use std::{io, net::IpAddr, time::Duration};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream, UdpSocket},
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{answer::Said, target::MOST};

/// The datagram that asks for a name.
pub(super) const WHO: &[u8] = b"who?";
/// What a line begins with.
pub(super) const GREETING: &str = "volvox ";
/// The longest line or head of a request.
const LONGEST: u64 = 8192;
/// How long a connection may say nothing.
const IDLE: Duration = Duration::from_secs(120);
/// How long nobody is let in after there was no room.
const PAUSE: Duration = Duration::from_millis(100);

/// Where is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// TCP.
    pub tcp: Vec<u16>,
    /// UDP.
    pub udp: Vec<u16>,
    /// HTTP.
    pub http: Vec<u16>,
}

/// Serves at all those addresses until SIGTERM.
pub async fn serve(name: &str, addresses: &[IpAddr], ports: &Ports) -> io::Result<()> {
    let mut servers = JoinSet::new();
    for address in addresses {
        let named = |port: u16, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot serve at {address} port {port}: {error}"))
        };
        for (list, http) in [(&ports.tcp, false), (&ports.http, true)] {
            for port in list {
                let bound = TcpListener::bind((*address, *port)).await;
                servers.spawn(accept(bound.map_err(|it| named(*port, it))?, name.to_owned(), http));
            }
        }
        for port in &ports.udp {
            let bound = UdpSocket::bind((*address, *port)).await;
            servers.spawn(echo(bound.map_err(|it| named(*port, it))?, name.to_owned()));
        }
    }
    // Who is the first process of a container is not ended by a signal that it does not take.
    let mut ended = signal(SignalKind::terminate())?;
    ended.recv().await;
    Ok(())
}

pub(super) async fn accept(listener: TcpListener, name: String, http: bool) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let said = Said { by: name.clone(), seen: Some(from.ip().to_canonical()) };
                connections.spawn(async move {
                    // How it ended is known to who asked.
                    let _ =
                        if http { answer(stream, said).await } else { talk(stream, said).await };
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn talk(stream: TcpStream, said: Said) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let said = serde_json::to_string(&said)? + "\n";
    while let Some(line) = timeout(IDLE, line(&mut stream)).await?? {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let length = line.strip_prefix(GREETING).and_then(|it| it.parse().ok());
        let length: usize = length.filter(|it| *it <= MOST).ok_or_else(wrong)?;
        let mut bytes = vec![0; length];
        timeout(IDLE, stream.read_exact(&mut bytes)).await??;
        let answer = [said.as_bytes(), &bytes].concat();
        timeout(IDLE, stream.get_mut().write_all(&answer)).await??;
    }
    Ok(())
}

async fn answer(stream: TcpStream, said: Said) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(line) = timeout(IDLE, line(&mut stream)).await?? {
        if line.trim().is_empty() {
            break;
        }
    }
    let body = serde_json::to_string(&said)? + "\n";
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.get_mut().write_all(text.as_bytes()).await?;
    stream.get_mut().shutdown().await
}

/// The next line without its end; `None` if there is no more.
pub(super) async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut text = String::new();
    let read = stream.take(LONGEST).read_line(&mut text).await?;
    match text.strip_suffix('\n') {
        Some(line) => Ok(Some(line.to_owned())),
        None if read == 0 => Ok(None),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

pub(super) async fn echo(socket: UdpSocket, name: String) {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        // An error is one of a datagram that was sent before: its receiver has gone.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            sleep(PAUSE).await;
            continue;
        };
        let got = &buffer[..length];
        let said = Said { by: name.clone(), seen: Some(from.ip().to_canonical()) };
        let said = serde_json::to_string(&said).unwrap_or_default();
        let sent = if got == WHO { said.as_bytes() } else { got };
        let _ = socket.send_to(sent, from).await;
    }
}
