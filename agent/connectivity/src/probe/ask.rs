//! Asks targets, each by its protocol, and says how it went.

use std::{
    mem,
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use rustix::net::sockopt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpStream, UdpSocket, lookup_host},
    task::JoinSet,
    time::timeout,
};
use volvox_system::tcp::lost_segments;

use super::{
    answer::{Answer, Fault, Said, Trouble},
    ping,
    serve::{GREETING, WHO, line},
    target::{Protocol, Size, Target},
};

/// A target that was silent so often is asked no more.
pub(crate) const ENOUGH: usize = 2;

/// Asks all targets at once, and those that are asked several times one after the other. Each answer
/// is told as it comes.
pub async fn ask(targets: Vec<Target>, mut tell: impl FnMut(&Answer)) {
    let mut asked = JoinSet::new();
    for (number, target) in targets.into_iter().enumerate() {
        asked.spawn(async move {
            let (mut answers, mut silent) = (Vec::new(), 0);
            for _ in 0..target.times {
                let mut answer = once(&target).await;
                answer.number = number;
                silent += usize::from(answer.fault == Some(Fault::TimedOut));
                answers.push(answer);
                if silent == ENOUGH {
                    break;
                }
            }
            answers
        });
    }
    while let Some(answers) = asked.join_next().await {
        // Who did not come back has no line, which is told by the reader.
        answers.into_iter().flatten().for_each(|it| tell(&it));
    }
}

/// Asks a target once.
pub(super) async fn once(target: &Target) -> Answer {
    let began = Instant::now();
    let mut answer = Answer::default();
    let outcome = match timeout(target.wait, tried(target, &mut answer)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Trouble::timed_out(target.wait)),
    };
    answer.micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    if let Err(trouble) = outcome {
        answer.fault = Some(trouble.fault);
        answer.detail = trouble.detail;
    }
    answer
}

async fn tried(target: &Target, answer: &mut Answer) -> Result<(), Trouble> {
    if target.protocol == Protocol::Name {
        answer.addresses = resolved(&target.host, 0).await?.iter().map(SocketAddr::ip).collect();
        return Ok(());
    }
    let at = match target.address() {
        Some(at) => at,
        None => *resolved(&target.host, target.port)
            .await?
            .first()
            .ok_or_else(|| Trouble::new(Fault::NoName, "it has no address"))?,
    };
    match target.protocol {
        Protocol::Tcp | Protocol::Stream => {
            let mut connection = Connection::open(at).await?;
            connection.exchange(target.size, answer).await
        }
        Protocol::Connect => {
            let stream = TcpStream::connect(at).await?;
            answer.from = Some(stream.local_addr()?.ip());
            Ok(())
        }
        Protocol::Udp => datagram(at, target.size, answer).await,
        Protocol::Http => http(at, answer).await,
        Protocol::Icmp => ping::echo(at.ip(), target.size, answer).await,
        Protocol::Name => Ok(()),
    }
}

async fn resolved(host: &str, port: u16) -> Result<Vec<SocketAddr>, Trouble> {
    let found = lookup_host((host, port)).await;
    let mut all: Vec<_> =
        found.map_err(|error| Trouble::new(Fault::NoName, error.to_string()))?.collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// A connection to a server of the test, and how many of its segments were lost until now.
pub(super) struct Connection(BufReader<TcpStream>, u32);

impl Connection {
    pub(super) async fn open(at: SocketAddr) -> Result<Self, Trouble> {
        let stream = TcpStream::connect(at).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream), 0))
    }

    /// Sends that much and gets it back.
    pub(super) async fn exchange(
        &mut self,
        size: Size,
        answer: &mut Answer,
    ) -> Result<(), Trouble> {
        let own = self.0.get_ref().local_addr()?.ip();
        let outcome = self.echo(size, answer).await;
        let lost = lost_segments(self.0.get_ref()).unwrap_or_default();
        answer.resent = lost.saturating_sub(mem::replace(&mut self.1, lost));
        answer.from = Some(own);
        outcome
    }

    async fn echo(&mut self, size: Size, answer: &mut Answer) -> Result<(), Trouble> {
        let Size::Bytes(length) = size else {
            return Err(Trouble::new(Fault::Failed, "a connection has no packets to size"));
        };
        let sent = pattern(length);
        let head = format!("{GREETING}{length}\n");
        self.0.get_mut().write_all(&[head.as_bytes(), &sent].concat()).await?;
        let said =
            line(&mut self.0).await?.ok_or_else(|| Trouble::new(Fault::Reset, "it was closed"))?;
        let mut got = vec![0; length];
        self.0.read_exact(&mut got).await?;
        answer.bytes = length;
        told(&said, answer)?;
        same(&sent, &got)
    }
}

async fn http(at: SocketAddr, answer: &mut Answer) -> Result<(), Trouble> {
    let mut stream = TcpStream::connect(at).await?;
    answer.from = Some(stream.local_addr()?.ip());
    let request = format!("GET / HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut got = Vec::new();
    stream.take(1 << 16).read_to_end(&mut got).await?;
    let text = String::from_utf8_lossy(&got);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        return Err(Trouble::new(Fault::WrongAnswer, format!("it says {status:?}")));
    }
    told(body, answer)
}

async fn datagram(at: SocketAddr, size: Size, answer: &mut Answer) -> Result<(), Trouble> {
    let any: IpAddr = if at.is_ipv6() { [0; 16].into() } else { [0; 4].into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(at).await?;
    answer.from = Some(socket.local_addr()?.ip());
    let sent = pattern(length(&socket, at.ip(), size)?);
    answer.bytes = sent.len();
    socket.send(&sent).await?;
    let mut got = vec![0; usize::from(u16::MAX)];
    let length = socket.recv(&mut got).await?;
    same(&sent, &got[..length])?;
    socket.send(WHO).await?;
    let length = socket.recv(&mut got).await?;
    told(&String::from_utf8_lossy(&got[..length]), answer)
}

/// How many bytes are sent by a socket that is connected. Its packets must not be cut up.
pub(super) fn length(socket: &UdpSocket, to: IpAddr, size: Size) -> Result<usize, Trouble> {
    let failed = |error: rustix::io::Errno| Trouble::from(std::io::Error::from(error));
    // The heads of IP, and of UDP or of an echo request.
    let (mtu, heads) = if to.is_ipv6() {
        sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::DO)
            .map_err(failed)?;
        (sockopt::ipv6_mtu(socket), 40 + 8)
    } else {
        sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::DO).map_err(failed)?;
        (sockopt::ip_mtu(socket), 20 + 8)
    };
    let most = (mtu.map_err(failed)? as usize).saturating_sub(heads);
    match size {
        // Of the loopback device it would be more than a datagram can have.
        Size::Mtu => Ok(most.min(usize::from(u16::MAX) - heads)),
        Size::Bytes(length) if length > most => {
            let more = format!("{length} bytes, and the route takes {most}");
            Err(Trouble::new(Fault::TooLarge, more))
        }
        Size::Bytes(length) => Ok(length),
    }
}

/// What is sent: no two neighbours are alike, so that what is shifted is noticed.
pub(super) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

pub(super) fn same(sent: &[u8], got: &[u8]) -> Result<(), Trouble> {
    if sent == got {
        return Ok(());
    }
    let at = sent.iter().zip(got).position(|(sent, got)| sent != got);
    let at = at.unwrap_or_else(|| sent.len().min(got.len()));
    let words =
        format!("{} bytes came back for {}, other ones from byte {at} on", got.len(), sent.len());
    Err(Trouble::new(Fault::WrongAnswer, words))
}

fn told(said: &str, answer: &mut Answer) -> Result<(), Trouble> {
    let Ok(Said { by, seen }) = serde_json::from_str(said) else {
        let start: String = said.chars().take(60).collect();
        return Err(Trouble::new(Fault::WrongAnswer, format!("it says {start:?}")));
    };
    answer.by = by;
    answer.seen = seen;
    Ok(())
}
