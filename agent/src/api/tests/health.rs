//! Tests: what the agent's health says of failed endpoints and hung actors, and to whom the TCP
//! ports answer.

use std::{
    fs::OpenOptions,
    thread,
    time::{Duration, Instant},
};

use axum::{body::Body, http::Method};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::node_supervisor::Fixture;
use crate::api::{health_router, metrics_router, router};

fn create(api: &Fixture, id: u16, container_name: &str) {
    let body = json!({
        "container-id": "ab01", "container-name": container_name,
        "addressing": {"ipv4": "10.1.0.9"},
    });
    let made = api.call(Method::PUT, &format!("/v1/endpoint/{id}"), body.to_string());
    assert_eq!(made.status, 201, "{made:?}");
}

fn brief(api: &Fixture) -> Value {
    let answer = api.call_with(Method::GET, "/v1/healthz", &[("brief", "true")], Body::empty());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["cilium"].clone()
}

#[test]
fn an_endpoint_that_cannot_be_built_is_a_warning_and_no_reason_to_restart_the_agent() {
    let api = Fixture::new();
    assert_eq!(brief(&api), json!({"state": "Ok", "msg": "0.1.0"}));
    // Number 96 is never built.
    create(&api, 96, "");
    let text = "endpoint 96: no room; what it had before serves on";
    assert_eq!(brief(&api), json!({"state": "Warning", "msg": format!("0.1.0; {text}")}));
    let whole = api.get("/v1/healthz").body;
    let controller = json!({
        "name": "endpoint-96-regeneration-recovery",
        "status": {"consecutive-failure-count": 3, "last-failure-msg": text},
    });
    assert_eq!(whole["controllers"], json!([controller]));
    assert_eq!(api.behind(health_router).get("/healthz").status, 200);
}

#[test]
fn a_handler_that_hangs_is_named_while_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let api = Fixture::new();
    let probe = api.behind(health_router);
    let await_state = |expected: &str| {
        let since = Instant::now();
        while brief(&api)["state"] != expected {
            assert!(since.elapsed() < Duration::from_secs(60), "{}", brief(&api));
        }
    };
    // Number 97 is built as long as nobody writes there.
    create(&api, 97, fifo.to_str().unwrap());
    let regenerate = "/v1/volvox/endpoint/97/regenerate";
    thread::scope(|scope| {
        let built =
            scope.spawn(|| api.behind(router).call(Method::POST, regenerate, Body::empty()));
        await_state("Failure");
        let named = probe.get("/healthz");
        assert_eq!(named.status, 503, "{named:?}");
        let text = named.body.as_str().unwrap();
        assert!(text.starts_with("actor endpoints has handled message \"Regenerate\""), "{text}");
        drop(OpenOptions::new().write(true).open(&fifo).unwrap());
        assert_eq!(built.join().unwrap().status, 200);
    });
    // The answer is there before its handler has returned.
    await_state("Ok");
    assert_eq!(probe.get("/healthz").status, 200);
}

/// Both are on TCP, where a page of anybody can have a browser ask.
#[test]
fn ports_answer_to_addresses_and_to_no_other_name() {
    let ports = [(health_router as fn(_) -> _, "/healthz"), (metrics_router, "/metrics")];
    for (router, path) in ports {
        let api = Fixture::new().behind(router);
        let ask = |headers: &[(&str, &str)]| api.status(path, headers);
        for host in ["127.0.0.1:9879", "10.0.0.7", "[fd00::7]:9962", "localhost", "node-a:9962"] {
            assert_eq!(ask(&[("host", host)]), 200, "{host}");
            let own = format!("http://{host}");
            assert_eq!(ask(&[("host", host), ("origin", &own)]), 200, "{host}");
            assert_eq!(ask(&[("host", host), ("origin", "http://evil.example")]), 403, "{host}");
        }
        assert_eq!(ask(&[]), 200);
        for host in ["rebound.example:9962", "node-a.example", "10.0.0.7.example"] {
            assert_eq!(ask(&[("host", host)]), 403, "{host}");
        }
    }
}
