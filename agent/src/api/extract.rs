//! How handlers get a request's JSON body and the variable part of its path; an error says where
//! the request is wrong.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::request::Parts,
};
use serde::de::DeserializeOwned;
use volvox_inspect::http::ApiError;

/// A request's body as JSON of some shape; whatever its content type says.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = Bytes::from_request(request, state).await.map_err(|error| {
            ApiError::bad_request(format!("the request's body cannot be read: {error}"))
        })?;
        read_json(&body).map(Json)
    }
}

/// The one part of a request's path that varies, decoded.
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(error) => Err(ApiError::bad_request(format!("path: {error}"))),
        }
    }
}

/// Reads JSON; an error names the member that is wrong.
pub(super) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Err(ApiError::bad_request("the request has no body: a JSON body is expected"));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (at, error) = (place(error.path()), error.into_inner());
        let what = if error.is_data() { "" } else { "this is no JSON: " };
        ApiError::bad_request(format!("{at}: {what}{error}"))
    })?;
    reader
        .end()
        .map_err(|error| ApiError::bad_request(format!("after the body's JSON: {error}")))?;
    Ok(value)
}

/// Where in a body something is wrong: a member, as far as the way to it is known, or the body.
fn place(path: &serde_path_to_error::Path) -> String {
    let mut text = path.to_string();
    // Something is wrong with a member's name, or between two members.
    if matches!(path.iter().next_back(), Some(serde_path_to_error::Segment::Unknown)) {
        text.truncate(text.len() - "?".len());
        text.truncate(text.trim_end_matches('.').len());
    }
    if text.is_empty() || text == "." { "body".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn refuses_what_is_no_json() {
        for body in ["", "{", "nope", "{} {}", "\u{0}", "[1,]"] {
            let error = read_json::<Value>(body.as_bytes()).unwrap_err();
            assert_eq!(error.status.as_u16(), 400, "{body:?}");
        }
    }

    #[test]
    fn an_error_names_the_member_or_the_body() {
        #[derive(Debug, serde::Deserialize)]
        struct Inner {
            #[serde(rename = "number")]
            _number: Option<u8>,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Outer {
            #[serde(rename = "inner")]
            _inner: Option<Vec<Inner>>,
        }
        for (body, begins) in [
            ("{", "body: this is no JSON: EOF"),
            ("{7}", "body: this is no JSON: key must be a string"),
            ("rubbish", "body: this is no JSON: expected value"),
            ("7", "body: invalid type: integer `7`"),
            (r#"{"inner":[{"number":1},{"#, "inner[1]: this is no JSON: EOF"),
            (r#"{"inner":[{"number":"one"}]}"#, "inner[0].number: invalid type: string"),
            (r#"{"inner":[7]}"#, "inner[0]: invalid type: integer"),
        ] {
            let text = read_json::<Outer>(body.as_bytes()).unwrap_err().text;
            assert!(text.starts_with(begins), "{body}: {text}");
        }
    }

    #[test]
    fn refuses_deep_nesting_before_it_overflows_the_stack() {
        let deep = "[".repeat(1 << 19) + &"]".repeat(1 << 19);
        let error = read_json::<Value>(deep.as_bytes()).unwrap_err();
        assert!(error.text.contains("recursion limit"), "{}", error.text);
    }
}
