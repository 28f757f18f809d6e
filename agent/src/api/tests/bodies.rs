//! Tests: bodies that are broken, too large or not UTF-8 are refused with the reason; a stopped
//! server listens no more.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use axum::http::Method;
use volvox_inspect::http::{Server, Socket, bind};

use super::node_supervisor::Fixture;

#[test]
fn rubbish_is_refused_with_its_reason() {
    let api = Fixture::new();
    let deep = format!("{{\"labels\":{}", "[".repeat(500_000));
    let long_label = format!("{{\"labels\":[\"{}\"]}}", "x".repeat(1_000_000));
    for (body, says) in [
        ("", "no body"),
        ("\u{1}\u{2}", "expected value"),
        ("{\"id\":", "EOF"),
        ("7", "expected struct"),
        ("{\"id\":\"seven\"}", "id: "),
        ("{\"id\":1}trailing", "after the body's JSON"),
        (&deep, "labels"),
        (&long_label, "a label of 1000000 bytes"),
        ("{\"mac\":7}", "mac: "),
    ] {
        let refused = api.call(Method::PUT, "/v1/endpoint/0", body.to_owned());
        assert_eq!(refused.status, 400, "{says}");
        let text = refused.body.as_str().unwrap();
        assert!(text.contains(says), "{text:?} lacks {says:?}");
    }
    assert_eq!(api.get("/v1/endpoint").body, serde_json::json!([]), "nothing was made");
}

#[test]
fn a_backend_is_quarantined_by_its_place_and_nothing_else() {
    let api = Fixture::new();
    let patch = |text: &str| api.call(Method::PATCH, "/v1/volvox/backends", text.to_owned());
    let good = r#"{"ip": "10.96.0.201", "port": 8080, "protocol": "tcp", "state": "quarantined"}"#;
    let done = patch(good);
    assert_eq!((done.status.as_u16(), &done.body["id"]), (200, &serde_json::json!(1)));
    for (from, to, status, says) in [
        ("quarantined", "gone", 400, "state: \"gone\" is neither"),
        ("quarantined", "terminating", 400, "state: "),
        ("tcp", "icmp", 400, "protocol: \"icmp\""),
        ("10.96.0.201", "web", 400, "ip: \"web\" is no address"),
        ("8080", "70000", 400, "port: "),
        ("8080", "8081", 404, "no service has a backend 10.96.0.201:8081/TCP"),
    ] {
        let refused = patch(&good.replacen(from, to, 1));
        assert_eq!(refused.status, status, "{to}: {refused:?}");
        assert!(refused.body.as_str().unwrap().contains(says), "{refused:?} lacks {says}");
    }
}

#[test]
fn what_is_no_utf8_is_refused() {
    let api = Fixture::new();
    let refused = api.call(Method::PUT, "/v1/endpoint/0", vec![b'"', 0xff, 0xfe, b'"']);
    assert_eq!(refused.status, 400);
    assert_eq!(api.get("/v1/endpoint/%ff").status, 400);
}

fn exchange(socket: &Path, head: &str, chunk: &[u8], times: usize) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..times {
        // The server may refuse before it has heard all.
        if stream.write_all(chunk).is_err() {
            break;
        }
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn a_huge_body_is_refused_and_the_refusal_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.sock");
    let api = Fixture::new();
    let listener = bind(&path).unwrap();
    let server = Server::start("api", vec![(Socket::Unix(listener), api.router.clone())]).unwrap();
    let chunk = vec![b'x'; 1 << 20];
    let head = |length: u64, more: &str| {
        format!(
            "PUT /v1/endpoint/0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{more}\r\n"
        )
    };
    let answer = exchange(&path, &head(100 << 20, ""), &chunk, 100);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("larger than the 1048576 bytes"), "{answer}");
    let answer = exchange(&path, &head(1 << 40, ""), &chunk, 0);
    assert!(answer.starts_with("HTTP/1.1 413"), "not waited for: {answer}");
    let answer = exchange(&path, &head(2 << 20, "Expect: 100-continue\r\n"), &chunk, 0);
    assert!(answer.starts_with("HTTP/1.1 413"), "not asked for: {answer}");
    let answer = exchange(
        &path,
        "GET /v1/endpoint HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        &chunk,
        0,
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "still well: {answer}");
    let answer = exchange(&path, "\u{0}\u{1} nonsense\r\n\r\n", &chunk, 0);
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    server.stop();
}

#[test]
fn a_stopped_server_listens_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.sock");
    let api = Fixture::new();
    let listener = bind(&path).unwrap();
    let server = Server::start("api", vec![(Socket::Unix(listener), api.router.clone())]).unwrap();
    // A connection that says nothing does not hold the server up.
    let _idle = UnixStream::connect(&path).unwrap();
    server.stop();
    assert!(UnixStream::connect(&path).is_err());
}
