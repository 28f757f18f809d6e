//! Tests: the client reads answers, names refusals, waits for an agent that starts, and says
//! whether a request may have been done.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use axum::{Json, Router, http::StatusCode, routing::get};
use hyper::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixListener,
};

use super::{CONNECT_PATIENCE, RestClient, RestError, escape};

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn serve(socket: &Path, router: Router) {
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
}

fn client(socket: &Path) -> RestClient {
    RestClient::new(socket).patience(Duration::ZERO)
}

#[test]
fn an_answer_is_read_and_a_body_is_sent() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let echo = get(|| async { Json(json!({"state": "Ok"})) })
            .put(|body: String| async move { (StatusCode::CREATED, body) });
        serve(&socket, Router::new().route("/v1/echo", echo));
        let value: Value = client(&socket).get("/echo").await.unwrap();
        assert_eq!(value["state"], "Ok");
        let answer =
            client(&socket).send(Method::PUT, "/echo", &[], Some(&json!([1]))).await.unwrap();
        assert_eq!((answer.status, answer.body.as_ref()), (201, &b"[1]"[..]));
    });
}

#[test]
fn a_refusal_carries_the_code_and_the_agents_words() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let text = get(|| async { (StatusCode::BAD_REQUEST, Json("endpoint ID 70000 too large")) });
        let object = get(|| async {
            (StatusCode::METHOD_NOT_ALLOWED, Json(json!({"code": 405, "message": "not here"})))
        });
        let bare = get(|| async { StatusCode::NOT_FOUND });
        let router = Router::new()
            .route("/v1/text", text)
            .route("/v1/object", object)
            .route("/v1/bare", bare);
        serve(&socket, router);
        for (path, status, words) in [
            ("/text", 400, "endpoint ID 70000 too large"),
            ("/object", 405, "not here"),
            ("/bare", 404, "Not Found"),
        ] {
            let error = client(&socket).get::<Value>(path).await.unwrap_err();
            assert_eq!(error.status(), Some(status));
            assert_eq!(error.to_string(), format!("GET /v1{path}: {status}: {words}"));
        }
    });
}

#[test]
fn an_agent_that_comes_later_is_waited_for() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let patient = RestClient::new(&socket);
        let asking = tokio::spawn(async move { patient.get::<Value>("/here").await });
        // The first attempt fails before this listens: both share one thread.
        tokio::task::yield_now().await;
        serve(&socket, Router::new().route("/v1/here", get(|| async { Json(true) })));
        assert_eq!(asking.await.unwrap().unwrap(), Value::Bool(true));
    });
}

#[test]
fn a_dead_agent_is_unreachable_and_the_socket_named() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        // A socket file that a killed agent left behind.
        drop(UnixListener::bind(&socket).unwrap());
        let error = client(&socket).get::<Value>("/healthz").await.unwrap_err();
        assert!(matches!(error, RestError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("agent.sock"), "{error}");
        assert!(!error.is_ambiguous());
    });
}

/// Agents that end one after the other.
const AGENTS: usize = 500;

/// An agent that starts itself again closes its socket while clients wait in its queue.
#[test]
fn who_waits_in_the_queue_of_a_socket_that_closes_connects_to_the_next() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let (path, last) = (socket.clone(), std::sync::Arc::new(AtomicBool::new(false)));
        let is_last = last.clone();
        // None of them accepts anybody, and all but the last close soon.
        let agents = std::thread::spawn(move || {
            let bind = || std::os::unix::net::UnixListener::bind(&path).unwrap();
            for _ in 0..AGENTS {
                let listener = bind();
                std::thread::sleep(Duration::from_micros(500));
                drop(listener);
                std::fs::remove_file(&path).unwrap();
            }
            let listener = bind();
            is_last.store(true, Ordering::Relaxed);
            listener
        });
        let client = client(&socket).patience(CONNECT_PATIENCE);
        let mut outcomes = Vec::new();
        while !last.load(Ordering::Relaxed) {
            outcomes.push(client.reach().await);
        }
        drop(agents.join().unwrap());
        for outcome in outcomes {
            outcome.unwrap();
        }
    });
}

/// Whether a connection that was kept closed before the next request or behind it, nobody can tell: who only
/// asks asks again, who changes something does not.
#[test]
fn a_kept_connection_that_closes_costs_a_question_nothing() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        // It answers the first request of a connection, and closes behind the second.
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                if stream.read(&mut request).await.unwrap() > 0 {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue";
                    stream.write_all(answer).await.unwrap();
                    let _ = stream.read(&mut request).await;
                }
            }
        });
        let client = client(&socket).keep_connections();
        assert_eq!(client.get::<Value>("/one").await.unwrap(), Value::Bool(true));
        assert_eq!(client.get::<Value>("/two").await.unwrap(), Value::Bool(true));
        let changed = client.send(Method::PUT, "/three", &[], Some(&json!(1))).await;
        assert!(matches!(changed.unwrap_err(), RestError::Broken { .. }));
    });
}

#[test]
fn an_agent_that_dies_or_sleeps_leaves_the_outcome_open() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let client = client(&socket);
        let (error, _) = tokio::join!(client.get::<Value>("/x"), async {
            drop(listener.accept().await.unwrap());
        });
        assert!(matches!(error.unwrap_err(), RestError::Broken { .. }));
        let hasty = client.deadline(Duration::from_millis(20));
        let error = hasty.get::<Value>("/x").await.unwrap_err();
        assert!(matches!(error, RestError::TimedOut { .. }) && error.is_ambiguous(), "{error}");
    });
}

#[test]
fn what_would_break_a_path_is_escaped() {
    assert_eq!(escape("cni-attachment-id:ab:eth0"), "cni-attachment-id:ab:eth0");
    assert_eq!(escape("a/b?c d%é"), "a%2Fb%3Fc%20d%25%C3%A9");
}

#[test]
fn a_kept_connection_serves_again_and_an_agent_that_was_restarted_is_the_next_to_answer() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        // Who answers so many requests of a connection says which one it was, and closes it then.
        let serve = |listener: UnixListener, requests: usize| {
            tokio::spawn(async move {
                for connection in 1_usize.. {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    for request in 1..=requests {
                        let mut bytes = [0; 1024];
                        if stream.read(&mut bytes).await.unwrap_or(0) == 0 {
                            break;
                        }
                        let body = format!("[{connection},{request}]");
                        let length = body.len();
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
                    }
                }
            })
        };
        let server = serve(UnixListener::bind(&socket).unwrap(), 2);
        let keeping = client(&socket).keep_connections();
        keeping.reach().await.unwrap();
        let ask = || async { keeping.get::<[usize; 2]>("/which").await };
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push(ask().await.unwrap());
            // What the server closed meanwhile is seen.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(answers, [[1, 1], [1, 2], [2, 1]]);
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        assert!(matches!(
            ask().await,
            Err(RestError::Unreachable { .. } | RestError::Broken { .. })
        ));
        std::fs::remove_file(&socket).unwrap();
        let _server = serve(UnixListener::bind(&socket).unwrap(), 9);
        assert_eq!(ask().await.unwrap(), [1, 1]);
        assert_eq!(ask().await.unwrap(), [1, 2]);
    });
}

#[test]
fn requests_at_once_have_connections_of_their_own() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(2));
        let meet = get(move || {
            let barrier = barrier.clone();
            async move {
                barrier.wait().await;
                Json(true)
            }
        });
        serve(&socket, Router::new().route("/v1/meet", meet));
        let keeping = client(&socket).keep_connections();
        keeping.reach().await.unwrap();
        for _ in 0..2 {
            let (one, other) = tokio::join!(keeping.get("/meet"), keeping.get("/meet"));
            let met: (bool, bool) = (one.unwrap(), other.unwrap());
            assert_eq!(met, (true, true));
        }
    });
}
