//! `/identity`: the identities that the agent knows, and those that the node's endpoints use.

use std::collections::BTreeMap;

use axum::{body::Bytes, extract::State, http::Uri};
use volvox_actors::{
    model::{IdentityId, Labels},
    policy::identity::IdentityMsg,
};
use volvox_inspect::http::{Answer, ApiError, ok};
use volvox_rest::models::{Identity, IdentityEndpoints};

use super::{endpoint_list::views, query::expected_labels};
use crate::api::{Api, endpoint_spec::parse_labels, extract::Segment};

/// All identities, or the one of exactly these labels.
pub(crate) async fn list(State(api): State<Api>, uri: Uri, body: Bytes) -> Answer {
    let expected = parse_labels("labels", &expected_labels(&uri, &body)?)?;
    let all = api.gateway.ask("GET /identity", |node| &node.identities, IdentityMsg::List).await?;
    let found: Vec<Identity> = all
        .iter()
        .filter(|identity| expected.is_empty() || *identity.labels == expected)
        .map(Identity::from)
        .collect();
    if found.is_empty() && !expected.is_empty() {
        return Err(ApiError::not_found(format!("no identity has exactly the labels {expected}")));
    }
    ok(&found)
}

pub(crate) async fn get(State(api): State<Api>, Segment(id): Segment) -> Answer {
    let number = id.parse().map(IdentityId).map_err(|_| {
        ApiError::bad_request(format!("id: {id:?} is no identity's number: 0 to 4294967295"))
    })?;
    let found = api
        .gateway
        .ask(
            format!("GET /identity/{number}"),
            |node| &node.identities,
            move |reply| IdentityMsg::Get { id: number, reply },
        )
        .await?;
    match found {
        Some(identity) => ok(&Identity::from(&identity)),
        None => Err(ApiError::not_found(format!("identity {number} is not known"))),
    }
}

/// Identities that endpoints of this node have.
pub(crate) async fn endpoints(State(api): State<Api>) -> Answer {
    let mut identities: BTreeMap<IdentityId, IdentityEndpoints> = BTreeMap::new();
    for view in views(&api, "GET /identity/endpoints", Labels::default()).await? {
        identities
            .entry(view.identity)
            .or_insert_with(|| IdentityEndpoints { identity: Identity::of(&view), ref_count: 0 })
            .ref_count += 1;
    }
    ok(&identities.into_values().collect::<Vec<_>>())
}
