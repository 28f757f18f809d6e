//! Probes of addresses: ICMP echo requests by a socket of each family, and requests by HTTP.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr, UdpSocket as StdUdpSocket},
    os::fd::AsFd,
    process,
    rc::Rc,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::{TcpStream, UdpSocket},
    sync::Notify,
    task::spawn_local,
    time::{sleep, timeout},
};
use volvox_actors::{model::Families, ports::Echo};
use volvox_system::icmp::EchoSocket;

/// Between two requests to one address, as Cilium has it.
const REQUEST_EVERY: Duration = Duration::from_millis(100);
/// Requests that are sent without a pause, so that no queue on the way overflows.
const BURST: usize = 25;
const BURST_PAUSE: Duration = Duration::from_millis(5);
/// What Cilium says where nobody answered.
const TIMED_OUT: &str = "Connection timed out";
/// How much of an answer by HTTP is read.
const ANSWER_MAX: usize = 1024;
const EXPECTED: &str = "HTTP/1.1 200";

/// Sends probes.
pub(super) struct Prober {
    sockets: [Result<Rc<EchoSocket>, String>; 2],
    sent: Rc<RefCell<Sent>>,
    port: u16,
}

/// Requests that are not answered yet.
#[derive(Default)]
struct Sent {
    last: u16,
    open: BTreeMap<(bool, u16), Request>,
}

struct Request {
    to: IpAddr,
    at: Instant,
    batch: Rc<Batch>,
}

/// Addresses that are asked together.
#[derive(Default)]
struct Batch {
    answers: RefCell<BTreeMap<IpAddr, Echo>>,
    answered: Notify,
}

impl Prober {
    pub(super) fn start(families: Families, port: u16) -> Self {
        let sent = Rc::<RefCell<Sent>>::default();
        let identifier = process::id() as u16;
        let open = |is_ipv4, on: bool| {
            if !on {
                return Err("the family is switched off".to_owned());
            }
            let opened = EchoSocket::open(is_ipv4, identifier).and_then(|socket| {
                // The same socket once more, for the runtime to wait at.
                let ears = StdUdpSocket::from(socket.as_fd().try_clone_to_owned()?);
                Ok((Rc::new(socket), UdpSocket::from_std(ears)?))
            });
            let (socket, ears) = opened.map_err(|error: io::Error| {
                let text = format!("no ICMP here: {error}; give the agent CAP_NET_RAW");
                tracing::error!(text, "nodes are probed by HTTP alone");
                text
            })?;
            spawn_local(read(Rc::clone(&socket), ears, is_ipv4, Rc::clone(&sent)));
            Ok(socket)
        };
        Self { sockets: [open(true, families.ipv4), open(false, families.ipv6)], sent, port }
    }

    /// Sends each address up to so many requests, and says after how long each answered.
    pub(super) async fn echo(
        &self,
        addresses: Vec<IpAddr>,
        requests: u32,
        patience: Duration,
    ) -> BTreeMap<IpAddr, Echo> {
        let batch = Rc::<Batch>::default();
        for round in 0..requests.max(1) {
            if round > 0 && self.wait(&batch, &addresses, REQUEST_EVERY).await {
                break;
            }
            for (place, address) in addresses.iter().enumerate() {
                let is_answered = batch.answers.borrow().get(address).is_some_and(Result::is_ok);
                if is_answered {
                    continue;
                }
                if place % BURST == BURST - 1 {
                    sleep(BURST_PAUSE).await;
                }
                self.send(*address, &batch);
            }
        }
        self.wait(&batch, &addresses, patience).await;
        self.sent.borrow_mut().open.retain(|_, request| !Rc::ptr_eq(&request.batch, &batch));
        let mut answers = batch.answers.take();
        for address in addresses {
            answers.entry(address).or_insert_with(|| Err(TIMED_OUT.to_owned()));
        }
        answers
    }

    /// Waits until all have answered: whether they have.
    async fn wait(&self, batch: &Batch, addresses: &[IpAddr], span: Duration) -> bool {
        let all = async {
            loop {
                let answered = batch.answered.notified();
                let is_answered =
                    |it: &IpAddr| batch.answers.borrow().get(it).is_some_and(Result::is_ok);
                if addresses.iter().all(is_answered) {
                    return;
                }
                answered.await;
            }
        };
        timeout(span, all).await.is_ok()
    }

    fn send(&self, to: IpAddr, batch: &Rc<Batch>) {
        let socket = match &self.sockets[usize::from(!to.is_ipv4())] {
            Ok(socket) => socket,
            Err(error) => {
                batch.answers.borrow_mut().insert(to, Err(error.clone()));
                return;
            }
        };
        let sequence = {
            let sent = &mut *self.sent.borrow_mut();
            sent.last = sent.last.wrapping_add(1);
            let request = Request { to, at: Instant::now(), batch: Rc::clone(batch) };
            sent.open.insert((to.is_ipv4(), sent.last), request);
            sent.last
        };
        match socket.send(to, sequence) {
            Ok(()) => {}
            // The queue is full: it counts as one that was lost on the way.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => drop(batch.answers.borrow_mut().insert(to, Err(error.to_string()))),
        }
    }

    /// Asks by HTTP, and says after how long who answers for health said that it is well.
    pub(super) async fn hello(&self, address: IpAddr, patience: Duration) -> Echo {
        let to = SocketAddr::new(address, self.port);
        let began = Instant::now();
        let failed = |error: &str| Err(format!("Get \"http://{to}/hello\": {error}"));
        match timeout(patience, ask(to)).await {
            Ok(Ok(line)) if line.starts_with(EXPECTED) => Ok(began.elapsed()),
            Ok(Ok(line)) => failed(&format!("{line:?} is no answer of an agent")),
            Ok(Err(error)) => {
                let refused = Errno::from_io_error(&error) == Some(Errno::CONNREFUSED);
                let text =
                    if refused { "connection refused".to_owned() } else { error.to_string() };
                failed(&text)
            }
            Err(_) => failed("context deadline exceeded"),
        }
    }
}

/// The first line of what answers there.
async fn ask(to: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(to).await?;
    let request = format!("GET /hello HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    while answer.len() < ANSWER_MAX && !answer.contains(&b'\n') {
        if stream.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

/// Reads answers as they come.
async fn read(socket: Rc<EchoSocket>, ears: UdpSocket, is_ipv4: bool, sent: Rc<RefCell<Sent>>) {
    let next = || socket.receive()?.ok_or(io::ErrorKind::WouldBlock.into());
    while ears.readable().await.is_ok() {
        let answer = match ears.try_io(Interest::READABLE, next) {
            Ok(answer) => answer,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => {
                tracing::debug!(%error, "an answer could not be read");
                sleep(REQUEST_EVERY).await;
                continue;
            }
        };
        let key = (is_ipv4, answer.sequence);
        let sent = &mut *sent.borrow_mut();
        if sent.open.get(&key).is_some_and(|request| request.to == answer.from)
            && let Some(Request { to, at, batch }) = sent.open.remove(&key)
        {
            let mut answers = batch.answers.borrow_mut();
            if !answers.get(&to).is_some_and(Result::is_ok) {
                answers.insert(to, Ok(at.elapsed()));
            }
            batch.answered.notify_waiters();
        }
    }
}
