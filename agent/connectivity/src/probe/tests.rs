//! Probes and servers over loopback sockets.

use std::{
    cell::RefCell,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
    sync::oneshot,
    time::sleep,
};

use super::{
    ask::once,
    serve::{accept, echo},
    *,
};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind((HERE, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A server for TCP, UDP and HTTP, and its ports.
async fn server() -> [u16; 3] {
    let ((tcp, tcp_port), (http, http_port)) = (listener().await, listener().await);
    let udp = UdpSocket::bind((HERE, 0)).await.unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    tokio::spawn(accept(tcp, "me".to_owned(), false));
    tokio::spawn(accept(http, "me".to_owned(), true));
    tokio::spawn(echo(udp, "me".to_owned()));
    [tcp_port, udp_port, http_port]
}

fn target(protocol: Protocol, port: u16) -> Target {
    let mut target = Target::at(protocol, HERE, port);
    target.wait = Duration::from_millis(500);
    target
}

#[tokio::test]
async fn a_server_says_who_it_is_and_who_asked() {
    let [tcp, udp, http] = server().await;
    for (protocol, port) in [(Protocol::Tcp, tcp), (Protocol::Udp, udp), (Protocol::Http, http)] {
        let answer = once(&target(protocol, port)).await;
        assert_eq!((answer.reason(), answer.by.as_str()), (None, "me"), "{protocol:?}");
        assert_eq!((answer.from, answer.seen), (Some(HERE), Some(HERE)), "{protocol:?}");
        assert!(answer.micros > 0);
    }
    let answer = once(&target(Protocol::Connect, tcp)).await;
    assert_eq!((answer.reason(), answer.by.as_str()), (None, ""));
}

#[tokio::test]
async fn what_is_sent_comes_back_whole() {
    let [tcp, udp, _] = server().await;
    for bytes in [0, 1, 512, 1 << 20] {
        let mut target = target(Protocol::Tcp, tcp);
        (target.size, target.wait) = (Size::Bytes(bytes), Duration::from_secs(10));
        let answer = once(&target).await;
        assert_eq!((answer.reason(), answer.bytes), (None, bytes));
    }
    for bytes in [0, 1, 4, 1300] {
        let mut target = target(Protocol::Udp, udp);
        target.size = Size::Bytes(bytes);
        assert_eq!(once(&target).await.reason(), None, "{bytes}");
    }
    let mut target = target(Protocol::Udp, udp);
    target.size = Size::Mtu;
    let answer = once(&target).await;
    // The loopback device takes as much as a datagram can have.
    assert_eq!((answer.reason(), answer.bytes), (None, 65_507));
    target.size = Size::Bytes(65_508);
    assert_eq!(once(&target).await.fault, Some(Fault::TooLarge));
}

#[tokio::test]
async fn each_fault_has_its_reason() {
    // Nobody listens there any more.
    let (gone, closed) = listener().await;
    drop(gone);
    assert_eq!(once(&target(Protocol::Tcp, closed)).await.fault, Some(Fault::Refused));
    let gone = UdpSocket::bind((HERE, 0)).await.unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    assert_eq!(once(&target(Protocol::Udp, port)).await.fault, Some(Fault::Refused));
    // Somebody who says nothing.
    let silent = UdpSocket::bind((HERE, 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let answer = once(&target(Protocol::Udp, port)).await;
    assert_eq!(answer.reason().unwrap(), "timed out (after 500 ms)");
    let (_silent, port) = listener().await;
    assert_eq!(once(&target(Protocol::Tcp, port)).await.fault, Some(Fault::TimedOut));
    // Somebody who breaks off, and somebody who says something else.
    for (said, fault) in [
        (&b""[..], Fault::Reset),
        (b"{\"by\":\"x\"}\nother bytes than those", Fault::WrongAnswer),
        (b"SSH-2.0\n", Fault::Reset),
    ] {
        let (listener, port) = listener().await;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Read, so that it is closed and not broken off.
            let _ = stream.read(&mut [0; 64]).await;
            stream.write_all(said).await.unwrap();
        });
        let mut target = target(Protocol::Tcp, port);
        target.size = Size::Bytes(22);
        let found = once(&target).await;
        assert_eq!(found.fault, Some(fault), "{said:?}: {found:?}");
    }
    let nobody = Target::named(Protocol::Name, "nobody.invalid", 0);
    assert!(matches!(once(&nobody).await.fault, Some(Fault::NoName | Fault::TimedOut)));
}

#[tokio::test]
async fn an_echo_request_is_answered_or_not_allowed() {
    let mut target = target(Protocol::Icmp, 0);
    for size in [Size::Bytes(0), Size::Bytes(56), Size::Bytes(4000)] {
        target.size = size;
        let answer = once(&target).await;
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ping_group_range").unwrap();
        let lowest: u32 = range.split_whitespace().next().unwrap().parse().unwrap();
        // Of this process's group; what the range is on this machine is not ours to change.
        if lowest == 0 && rustix::process::getegid().as_raw() == 0 {
            assert_eq!(answer.reason(), None);
            assert_eq!(Size::Bytes(answer.bytes), size);
        } else {
            assert!(matches!(answer.fault, None | Some(Fault::NotAllowed)), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn targets_are_asked_at_once_and_told_by_number() {
    let [tcp, udp, _] = server().await;
    let silent = UdpSocket::bind((HERE, 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut often = target(Protocol::Tcp, tcp);
    often.times = 3;
    let targets = vec![target(Protocol::Udp, port), often, target(Protocol::Udp, udp)];
    let (mut told, began) = (Vec::new(), std::time::Instant::now());
    ask(targets, |it| told.push((it.number, it.fault))).await;
    told.sort_unstable();
    let expected = [(0, Some(Fault::TimedOut)), (1, None), (1, None), (1, None), (2, None)];
    assert_eq!(told, expected);
    assert!(began.elapsed() < Duration::from_millis(950), "one after the other");
}

#[tokio::test]
async fn a_watch_counts_what_is_lost() {
    let [tcp, udp, _] = server().await;
    let (gone, closed) = listener().await;
    drop(gone);
    let targets = vec![
        target(Protocol::Stream, tcp),
        target(Protocol::Udp, udp),
        target(Protocol::Tcp, closed),
    ];
    let (end, ended) = oneshot::channel();
    let told = RefCell::new(Vec::new());
    let both = async {
        tokio::join!(watch(targets, 50, ended, |it| told.borrow_mut().push(it.clone())), async {
            sleep(Duration::from_millis(1300)).await;
            end.send(()).unwrap();
        })
    };
    both.await;
    let told = told.into_inner();
    let last = told.last().unwrap();
    assert!(last.ended && !told[0].ended && told.len() >= 3, "{told:?}");
    for tally in &last.tallies {
        assert!(tally.sent >= 20 && tally.sent == tally.answered + tally.lost, "{tally:?}");
    }
    assert_eq!((last.tallies[0].lost, last.tallies[1].lost, last.tallies[2].answered), (0, 0, 0));
    assert!(last.tallies[2].losses.len() == 5 && last.tallies[2].losses[0].1.contains("refused"));
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_loss_and_is_opened_anew() {
    let (listener, port) = listener().await;
    // The first connection is closed after one request; those after it stay.
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = [0; 64];
        let length = stream.read(&mut got).await.unwrap();
        let body = &got[10..length];
        stream.write_all(&[b"{\"by\":\"first\"}\n", body].concat()).await.unwrap();
        drop(stream);
        accept(listener, "second".to_owned(), false).await;
    });
    let (end, ended) = oneshot::channel();
    let mut last = Watched::default();
    tokio::join!(
        watch(vec![target(Protocol::Stream, port)], 50, ended, |it| last = it.clone()),
        async {
            sleep(Duration::from_millis(500)).await;
            end.send(()).unwrap();
        }
    );
    let tally = &last.tallies[0];
    assert_eq!(tally.lost, 1, "{tally:?}");
    assert!(tally.answered > 5, "{tally:?}");
}

/// What becomes of one probe of a server that accepts after so many milliseconds.
async fn watched_once(listener: TcpListener, accepts_after: u64) -> Tally {
    let mut target = target(Protocol::Tcp, listener.local_addr().unwrap().port());
    target.wait = Duration::from_secs(60);
    tokio::spawn(async move {
        sleep(Duration::from_millis(accepts_after)).await;
        accept(listener, "me".to_owned(), false).await;
    });
    let (end, ended) = oneshot::channel();
    let mut last = Watched::default();
    // The next probe would be due long after.
    tokio::join!(watch(vec![target], 1, ended, |it| last = it.clone()), async {
        sleep(Duration::from_millis(100)).await;
        end.send(()).unwrap();
    });
    last.tallies.remove(0)
}

#[tokio::test]
async fn a_late_answer_is_a_loss_only_if_a_packet_was_lost() {
    let (busy, _) = listener().await;
    let tally = watched_once(busy, 1200).await;
    assert_eq!((tally.answered, tally.lost), (1, 0), "{tally:?}");
    assert!(tally.longest_micros > 1_000_000, "{tally:?}");

    // Whose queue is full does not take a SYN; the kernel sends it again a second later.
    let full = TcpSocket::new_v4().unwrap();
    full.bind((HERE, 0).into()).unwrap();
    let full = full.listen(0).unwrap();
    let _first = TcpStream::connect(full.local_addr().unwrap()).await.unwrap();
    let tally = watched_once(full, 300).await;
    assert_eq!((tally.answered, tally.lost), (0, 1), "{tally:?}");
    let (asked, reason) = &tally.losses[0];
    assert!(*asked < 900 && reason.contains("lost and sent again"), "{tally:?}");
}

#[tokio::test]
async fn a_server_that_cannot_listen_names_the_port() {
    let (_held, port) = listener().await;
    let ports = Ports { tcp: vec![port], ..Ports::default() };
    let error = serve("me", &[HERE], &ports).await.unwrap_err().to_string();
    assert!(error.contains(&format!("127.0.0.1 port {port}")), "{error}");
}

#[tokio::test]
async fn a_server_takes_no_more_than_it_says() {
    let [tcp, ..] = server().await;
    for head in ["volvox 99999999\n", "volvox -1\n", "GET / HTTP/1.1\r\n\r\n", "\n"] {
        let mut stream = TcpStream::connect(SocketAddr::new(HERE, tcp)).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let read =
            tokio::time::timeout(Duration::from_secs(2), stream.read(&mut [0; 8])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{head:?}: {read:?}");
    }
}
