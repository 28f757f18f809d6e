//! Tests: health ports answer as kube-proxy does, and nobody who asks too much holds up others.

use std::{
    io::{Read, Write},
    net::{IpAddr, TcpListener, TcpStream},
    time::Duration,
};

use volvox_system::{netlink::Socket, netns::Netns};

use super::*;

/// Who gets no answer within this gets none.
const NEVER: Duration = Duration::from_secs(60);
const PORT: u16 = 31000;
const FOUR: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
const WHOLE: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// Runs a test in a namespace of its own that has a loopback, which goes with the test.
fn in_netns(families: Families, test: impl FnOnce(&HealthPorts) + Send) {
    let test = || {
        let mut socket = Socket::open().unwrap();
        let loopback = socket.link_by_name("lo").unwrap().unwrap().ifindex;
        socket.set_link_up(loopback).unwrap();
        test(&HealthPorts::start(families).unwrap());
    };
    Netns::create().unwrap().run(test).unwrap();
}

fn set(ports: &HealthPorts, port: u16, answer: Option<(&str, usize)>) -> Result<(), String> {
    let answer = answer.map(|(service, local_endpoints)| HealthAnswer {
        service: service.into(),
        local_endpoints,
    });
    ports.ask(port, answer).blocking_recv().unwrap().map_err(|error| error.to_string())
}

fn connect(to: IpAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((to, PORT))?;
    stream.set_read_timeout(Some(NEVER))?;
    Ok(stream)
}

/// What is answered; nothing if nobody listens.
fn ask(to: IpAddr, request: &str) -> Option<String> {
    let mut stream = connect(to).ok()?;
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Some(answer)
}

fn code(to: IpAddr) -> Option<String> {
    ask(to, WHOLE).map(|answer| answer.split(' ').nth(1).unwrap_or_default().to_owned())
}

#[test]
fn a_service_is_answered_for_as_kube_proxy_does() {
    in_netns(Families::DUAL, |ports| {
        assert_eq!(ask(FOUR, WHOLE), None);
        set(ports, PORT, Some(("shop/web", 2))).unwrap();
        for request in [WHOLE, "GET /any/path?x=y HTTP/1.0\r\n\r\n"] {
            let answer = ask(FOUR, request).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let head = head.to_ascii_lowercase();
            assert!(head.contains(" 200 ok"), "{head}");
            assert!(head.contains("\ncontent-type: application/json\r"), "{head}");
            assert!(head.contains("\nx-load-balancing-endpoint-weight: 2\r"), "{head}");
            let expected = r#"{"service":{"namespace":"shop","name":"web"},"localEndpoints":2,"serviceProxyHealthy":true}"#;
            assert_eq!(body, expected);
        }
        set(ports, PORT, Some(("shop/web", 0))).unwrap();
        let answer = ask(SIX, WHOLE).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("\"localEndpoints\":0,"), "{answer}");
        assert!(answer.contains("x-load-balancing-endpoint-weight: 0\r"), "{answer}");
        set(ports, PORT, None).unwrap();
        assert_eq!((code(FOUR), code(SIX)), (None, None));
        set(ports, PORT, None).unwrap();
        set(ports, PORT, Some(("shop/web", 1))).unwrap();
        assert_eq!(code(FOUR).as_deref(), Some("200"), "it is had again at once");
    });
}

#[test]
fn only_families_that_are_enabled_are_listened_on() {
    for (families, expected) in [
        (Families { ipv4: true, ipv6: false }, [true, false]),
        (Families { ipv4: false, ipv6: true }, [false, true]),
        (Families::DUAL, [true, true]),
    ] {
        in_netns(families, |ports| {
            set(ports, PORT, Some(("shop/web", 1))).unwrap();
            assert_eq!([FOUR, SIX].map(|to| code(to).is_some()), expected, "{families:?}");
        });
    }
}

#[test]
fn a_port_that_somebody_has_is_refused_with_a_remedy_and_others_are_not() {
    in_netns(Families::DUAL, |ports| {
        let other = TcpListener::bind((FOUR, PORT)).unwrap();
        let error = set(ports, PORT, Some(("shop/web", 1))).unwrap_err();
        assert!(error.contains("in use") && error.contains("end that one, or give"), "{error}");
        set(ports, PORT + 1, Some(("shop/db", 1))).unwrap();
        drop(other);
        set(ports, PORT, Some(("shop/web", 1))).unwrap();
        assert_eq!(code(FOUR).as_deref(), Some("200"));
    });
}

#[test]
fn who_asks_too_much_holds_nobody_up() {
    in_netns(Families::DUAL, |ports| {
        set(ports, PORT, Some(("shop/web", 1))).unwrap();
        set(ports, PORT + 1, Some(("shop/db", 1))).unwrap();
        // As many as there are places, and more: half requests, and answers that nobody reads.
        let half = |_| {
            let mut stream = connect(FOUR).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x").unwrap();
            stream
        };
        let half: Vec<_> = (0..CONNECTIONS_MAX).map(half).collect();
        let unread = |_| {
            let mut stream = connect(SIX).unwrap();
            // It may be closed already.
            drop(stream.write_all(WHOLE.repeat(1000).as_bytes()));
            stream
        };
        let unread: Vec<_> = (0..CONNECTIONS_MAX).map(unread).collect();
        assert_eq!(code(FOUR).as_deref(), Some("200"));
        drop((half, unread));
        let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
        let mut stream = connect(FOUR).unwrap();
        // Who sends too much is not heard out.
        drop(stream.write_all(head.as_bytes()));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));
        // A port is closed whoever is connected.
        let mut waiting = connect(FOUR).unwrap();
        waiting.write_all(b"GET / HTTP/1.1\r\nHost: x").unwrap();
        set(ports, PORT, None).unwrap();
        assert_eq!(code(FOUR), None);
    });
}
