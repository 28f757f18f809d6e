//! Tests: requests of other hosts and origins are refused, and so is every method but reading.

use axum::{Router, body::Body, http::Request};
use tower::ServiceExt;

use crate::dashboard::{Lives, router};

/// Asks the page's server; the status and the answer's headers.
async fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, axum::http::HeaderMap) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let page = router(Lives::Opened(Vec::new()), Router::new());
    let answer = page.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    (answer.status().as_u16(), answer.headers().clone())
}

#[tokio::test]
async fn only_this_machine_by_its_own_names() {
    for host in ["localhost:9880", "127.0.0.1:9880", "[::1]:9880", "localhost", "127.0.0.1"] {
        assert_eq!(ask("GET", "/", &[("host", host)]).await.0, 200, "{host}");
    }
    // A name that its owner points at loopback; other addresses; and none at all.
    for host in ["rebound.example:9880", "10.0.0.1:9880", "localhost.example", "127.0.0.1.example"]
    {
        assert_eq!(ask("GET", "/api/lives", &[("host", host)]).await.0, 403, "{host}");
    }
    assert_eq!(ask("GET", "/", &[]).await.0, 403);
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let host = ("host", "localhost:9880");
    let own = ("origin", "http://localhost:9880");
    assert_eq!(ask("GET", "/api/lives", &[host, own]).await.0, 200);
    for origin in ["http://evil.example", "http://localhost:1", "https://localhost:9880", "null"] {
        let status = ask("GET", "/api/lives", &[host, ("origin", origin)]).await.0;
        assert_eq!(status, 403, "{origin}");
    }
    let site = |site| ("sec-fetch-site", site);
    let opened = ("sec-fetch-mode", "navigate");
    assert_eq!(ask("GET", "/api/lives", &[host, site("same-origin")]).await.0, 200);
    assert_eq!(ask("GET", "/api/lives", &[host, site("cross-site")]).await.0, 403);
    assert_eq!(ask("GET", "/api/lives", &[host, site("cross-site"), opened]).await.0, 403);
    // Whoever follows a link to the page sees the page.
    assert_eq!(ask("GET", "/", &[host, site("cross-site"), opened]).await.0, 200);
}

#[tokio::test]
async fn nothing_but_reading() {
    let host = ("host", "localhost:9880");
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["/", "/api/lives", "/api/endpoint/1"] {
            let (status, headers) = ask(method, path, &[host]).await;
            assert_eq!((status, &headers["allow"]), (405, &"GET, HEAD".parse().unwrap()), "{path}");
        }
    }
}

#[tokio::test]
async fn nothing_runs_that_is_not_embedded() {
    for path in ["/", "/app.js", "/api/lives", "/nope"] {
        let (_, headers) = ask("GET", path, &[("host", "localhost")]).await;
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert!(!headers.contains_key("access-control-allow-origin"), "{path}");
    }
}
