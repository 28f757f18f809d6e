//! What Cilium's API has and this agent has not: answered in the form that Cilium's clients expect, so that they
//! say what is not there.

use axum::{http::StatusCode, response::IntoResponse};
use serde_json::json;
use volvox_inspect::http::{Answer, ApiError, ok};

use crate::api::extract::Segment;

/// `GET /lrp`: no policy redirects to pods of the node.
pub(crate) async fn redirect_policies() -> Answer {
    ok(&json!([]))
}

/// `GET /fqdn/names`: no policy selects by name.
pub(crate) async fn names() -> Answer {
    ok(&json!({ "DNSPollNames": [], "FQDNPolicySelectors": [] }))
}

/// `GET /fqdn/cache`: no answer of DNS is known.
pub(crate) async fn name_cache() -> Answer {
    Err(ApiError::not_found("no answer of DNS is known: policies by name are not enforced here"))
}

/// `DELETE /fqdn/cache`: nothing was there.
pub(crate) async fn forget_names() -> Answer {
    Ok(StatusCode::OK.into_response())
}

/// `GET /cgroup-dump-metadata`: pods are not told by their control groups.
pub(crate) async fn control_groups() -> Answer {
    ok(&json!({ "pod-metadatas": [] }))
}

/// `/prefilter`: there is none.
pub(crate) async fn prefilter() -> Answer {
    let text = "there is no prefilter: prefixes are denied by policy";
    Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, text))
}

/// `GET /bgp/...`: no routes are told to others.
pub(crate) async fn bgp() -> Answer {
    Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, "BGP is not spoken here"))
}

/// `GET /map/{name}/events`: nobody keeps them.
pub(crate) async fn map_events(Segment(name): Segment) -> Answer {
    Err(ApiError::not_found(format!(
        "events of {name} are not kept: `volvox trace` shows what was written, and why"
    )))
}
