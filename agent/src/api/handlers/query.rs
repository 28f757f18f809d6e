//! Reads the parameters of a request's query, for the handlers that take some.

use axum::{extract::Query, http::Uri};
use volvox_inspect::http::ApiError;

use crate::api::extract::read_json;

/// The parameters of a request's query, decoded, in their order.
pub(super) fn query(uri: &Uri) -> Result<Vec<(String, String)>, ApiError> {
    Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map(|query| query.0)
        .map_err(|error| ApiError::bad_request(format!("query: {error}")))
}

/// The first value of a parameter; an empty one counts as absent.
pub(super) fn first<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
        .filter(|value| !value.is_empty())
}

/// Labels that a list is narrowed to: `labels` in the query, repeated or with commas between, or
/// a JSON list as the body, which is how Cilium's own clients say it.
pub(super) fn expected_labels(uri: &Uri, body: &[u8]) -> Result<Vec<String>, ApiError> {
    let mut labels: Vec<String> = query(uri)?
        .iter()
        .filter(|(key, _)| key == "labels")
        .flat_map(|(_, value)| value.split(','))
        .filter(|label| !label.is_empty())
        .map(str::to_owned)
        .collect();
    if !body.is_empty() {
        let listed: Option<Vec<String>> = read_json(body)?;
        labels.extend(listed.into_iter().flatten());
    }
    Ok(labels)
}
