//! Who may ask: this machine's own browser, from the page itself.
//!
//! A page of another origin can make a browser send requests here, and with a name of its own that
//! it points at loopback (DNS rebinding) it could read the answers. So the host must be a loopback
//! address or `localhost`, whoever else is named as origin is refused, and nothing but reading is
//! done.

use axum::{
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::http::{
    ApiError,
    host_header::{is_loopback, text},
};

/// Headers of every answer. Nothing is fetched from elsewhere, nothing runs that is not embedded.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

pub(super) async fn guard(request: Request, next: Next) -> Response {
    let mut response = match refusal(&request) {
        Some(error) => error.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn refusal(request: &Request) -> Option<ApiError> {
    let forbidden = |text: &str| Some(ApiError::new(StatusCode::FORBIDDEN, text));
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = "the dashboard only reads: ask with GET";
        return Some(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let headers = request.headers();
    let Some(host) = text(headers, "host").filter(|host| is_loopback(host)) else {
        return forbidden("the dashboard answers to localhost, 127.0.0.1 and [::1] only");
    };
    if text(headers, "origin").is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
        return forbidden("the dashboard answers to its own page only");
    }
    // A link on another page may lead here; its scripts may not.
    let own = matches!(text(headers, "sec-fetch-site"), None | Some("same-origin" | "none"));
    let opened = text(headers, "sec-fetch-mode") == Some("navigate") && request.uri().path() == "/";
    if !own && !opened {
        return forbidden("the dashboard answers to its own page only");
    }
    None
}
