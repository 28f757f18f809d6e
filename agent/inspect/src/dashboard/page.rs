//! The files of the page, embedded in the binary, and how they are served.

use axum::{
    extract::Request,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use crate::http::ApiError;

/// A file of the page, with its type.
type Asset = (&'static str, &'static str, &'static str);

macro_rules! assets {
    ($($kind:literal: [$($name:literal),+ $(,)?]),+ $(,)?) => {
        &[$($((concat!("/", $name), $kind, include_str!(concat!("page/", $name)))),+),+]
    };
}

/// Everything that the page consists of.
pub(super) const ASSETS: &[Asset] = assets! {
    "text/html; charset=utf-8": ["index.html"],
    "text/css; charset=utf-8": ["page.css", "theme.css", "views.css"],
    "image/svg+xml": ["volvox.svg"],
    "text/javascript; charset=utf-8": [
        "actors.js",
        "app.js",
        "badges.js",
        "bars.js",
        "causes.js",
        "chain.js",
        "compare.js",
        "dom.js",
        "endpoints.js",
        "events.js",
        "find.js",
        "flight.js",
        "flowfilter.js",
        "flows.js",
        "flowview.js",
        "graph.js",
        "link.js",
        "lives.js",
        "map.js",
        "phases.js",
        "questions.js",
        "restore.js",
        "rows.js",
        "source.js",
        "theme.js",
        "timebar.js",
        "waits.js",
        "who.js",
        "words.js",
    ],
};

/// A file of the page.
pub(super) async fn get(request: Request) -> Response {
    let path = match request.uri().path() {
        "/" => "/index.html",
        path => path,
    };
    match ASSETS.iter().find(|(name, _, _)| *name == path) {
        Some((_, kind, text)) => {
            ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], *text).into_response()
        }
        None => ApiError::not_found(format!("path {path} was not found")).into_response(),
    }
}
