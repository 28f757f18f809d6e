//! Who reads metrics, by what an API server says, or said before it was away.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use axum::{Router, body::Body, routing::get};
use serde_json::{Value, json};
use tower::ServiceExt;
use volvox_cluster::Access;

use super::*;
use crate::api::for_reviewed;

/// An API server that knows two tokens, of whose owners one may get `/metrics`.
struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    away: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, gone) = (Arc::clone(&asked), Arc::clone(&away));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (count, gone) = (Arc::clone(&count), Arc::clone(&gone));
                thread::spawn(move || serve(&stream, &count, &gone));
            }
        });
        Self { address, asked, away }
    }

    fn router(&self) -> (Router, Arc<Reviewer>) {
        let servers = format!("http://{}", self.address).parse().unwrap();
        let reviewer = Reviewer::new(Connection::new(Access { kubeconfig: None, servers }));
        let router = Router::new().route("/metrics", get(async || "up 1"));
        (for_reviewed(router, Arc::clone(&reviewer)), reviewer)
    }
}

fn serve(stream: &TcpStream, asked: &AtomicUsize, away: &AtomicBool) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 || away.load(Ordering::Relaxed) {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.to_ascii_lowercase());
        }
        let length = head.iter().find_map(|line| line.strip_prefix("content-length:"));
        let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        asked.fetch_add(1, Ordering::Relaxed);
        let said = answer(serde_json::from_slice(&body).unwrap()).to_string();
        let head = format!("HTTP/1.1 201 Created\r\ncontent-length: {}\r\n\r\n", said.len());
        let mut stream = stream;
        stream.write_all((head + &said).as_bytes()).unwrap();
    }
}

fn answer(mut review: Value) -> Value {
    let spec = &review["spec"];
    review["status"] = match spec["token"].as_str() {
        Some(token @ ("scraper" | "stranger")) => {
            json!({ "authenticated": true, "user": { "username": token, "groups": ["all"] } })
        }
        Some(_) => json!({ "error": "unknown" }),
        None => {
            assert_eq!(spec["groups"], json!(["all"]));
            let wanted = json!({ "path": "/metrics", "verb": "get" });
            assert_eq!(spec["nonResourceAttributes"], wanted);
            json!({ "allowed": spec["user"] == "scraper" })
        }
    };
    review
}

async fn ask(router: &Router, authorization: &str) -> (u16, String) {
    let mut request = Request::builder().uri("/metrics");
    if !authorization.is_empty() {
        request = request.header("authorization", authorization);
    }
    let request = request.body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// As if that much time had gone by.
fn later(reviewer: &Reviewer, by: Duration) {
    reviewer.known().values_mut().for_each(|(_, at)| *at = at.checked_sub(by).unwrap());
}

#[tokio::test]
async fn whoever_may_get_the_path_reads_and_others_hear_why_not() {
    let server = Server::start();
    let (router, _) = server.router();
    assert_eq!(ask(&router, "Bearer scraper").await, (200, "up 1".to_owned()));
    for (shown, status, words) in [
        ("Bearer stranger", 403, "nonResourceURLs [/metrics]"),
        ("Bearer somebody", 401, "does not know this token"),
        ("Basic scraper", 401, "Authorization: Bearer TOKEN"),
        ("Bearer ", 401, "Authorization: Bearer TOKEN"),
        ("", 401, "Authorization: Bearer TOKEN"),
    ] {
        let (said, text) = ask(&router, shown).await;
        assert!(said == status && text.contains(words), "{shown:?}: {said} {text}");
    }
    let long = format!("Bearer {}", "a".repeat(TOKEN_MAX + 1));
    assert_eq!(ask(&router, &long).await.0, 401);
}

#[tokio::test]
async fn an_answer_holds_a_while_and_the_servers_absence_longer() {
    let server = Server::start();
    let (router, reviewer) = server.router();
    for _ in 0..3 {
        assert_eq!(ask(&router, "Bearer scraper").await.0, 200);
        assert_eq!(ask(&router, "Bearer stranger").await.0, 403);
    }
    // Whose it is, and whether they may, once for each.
    assert_eq!(server.asked.load(Ordering::Relaxed), 4);
    later(&reviewer, ALLOWED_LASTS);
    assert_eq!(ask(&router, "Bearer scraper").await.0, 200);
    assert_eq!(server.asked.load(Ordering::Relaxed), 6);
    server.away.store(true, Ordering::Relaxed);
    later(&reviewer, ALLOWED_LASTS);
    assert_eq!(ask(&router, "Bearer scraper").await.0, 200);
    let (status, text) = ask(&router, "Bearer stranger").await;
    assert!(status == 503 && text.contains("cannot be asked"), "{status} {text}");
    later(&reviewer, UNASKED_LASTS);
    assert_eq!(ask(&router, "Bearer scraper").await.0, 503);
}

#[tokio::test]
async fn whoever_makes_tokens_up_has_none_forgotten_who_may() {
    let server = Server::start();
    let (router, _) = server.router();
    assert_eq!(ask(&router, "Bearer scraper").await.0, 200);
    for number in 0..KNOWN_MAX + 10 {
        assert_eq!(ask(&router, &format!("Bearer made-up-{number}")).await.0, 401);
    }
    let before = server.asked.load(Ordering::Relaxed);
    assert_eq!(ask(&router, "Bearer scraper").await.0, 200);
    assert_eq!(server.asked.load(Ordering::Relaxed), before);
}
